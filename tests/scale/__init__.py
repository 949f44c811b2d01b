# SPDX-License-Identifier: Apache-2.0

"""Big pools: real services, and agents that have no workers.

``host``
    An agent without processes of its own: the product's slot table, reports
    and front door, with :mod:`.workers` in place of workers.
``visits``
    Clients, which come, wait, use a slot and leave.
``crowd``
    Many hosts and their clients in one process, which :mod:`.run` commands.
``run``, ``judge``, ``report``
    What happens to the pool, what must hold, and what is printed.
"""
