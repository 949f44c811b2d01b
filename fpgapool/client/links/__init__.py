# SPDX-License-Identifier: Apache-2.0

"""Links: from waiting for a slot to a connection that carries data.

:mod:`.link` connects to a worker or a desk and exchanges greetings.
:mod:`.connection` implements connections to a session's worker, and
:mod:`.wires` connections to a group's desk. :mod:`.waiting` waits at a door
until a session has a slot, and notices when the pool is unreachable.

Sessions and groups use links, which neither inspect nor keep data.
"""
