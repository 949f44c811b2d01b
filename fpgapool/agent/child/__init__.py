# SPDX-License-Identifier: Apache-2.0

"""What the processes that an agent starts, workers and desks, have in common.

``settings``
    One JSON document from the agent, checked by the fields of a dataclass.
``process``
    Entry point, log, lock and signals.
``sockets``
    The sockets of a process, and the thread that accepts connections.
``control``
    The connection of the agent.
``port``, ``certificate``, ``goodbye``
    Clients' connections: accepted, identified, and closed without losing data.
``crew``
    Threads that are reused.

It serves :mod:`fpgapool.agent.worker` and :mod:`fpgapool.agent.groupdesk`, and
knows neither. It imports neither oslo nor the agent, so processes start fast.
"""
