# SPDX-License-Identifier: Apache-2.0

"""What workers and desks, the processes that an agent starts, have in common.

``settings``
    A JSON document from the agent, checked against a dataclass's fields.
``process``
    The entry point, log, lock and signals of a process.
``sockets``
    The sockets of a process, and the thread that accepts connections.
``control``
    The connection to the agent.
``port``, ``certificate``, ``goodbye``
    Accept clients' connections, and close them without losing data.
``crew``
    Threads that are reused.

Both :mod:`fpgapool.agent.worker` and :mod:`fpgapool.agent.groupdesk` use this
package; it uses neither. It imports neither oslo nor the rest of the agent, so
that processes start fast.
"""
