# SPDX-License-Identifier: Apache-2.0

"""Links: from waiting for a slot to a connection that carries data.

:mod:`.link` reaches and greets a worker or a desk. :mod:`.connection` is the
connection to the worker of a session, and :mod:`.wires` that to the desk of a
group. :mod:`.waiting` waits at a door until a session has a slot, the first
or another one, and notices when the pool is away.

Sessions and groups call it. It never looks into data, and keeps none.
"""
