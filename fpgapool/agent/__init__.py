# SPDX-License-Identifier: Apache-2.0

"""The agent: the service on each compute node, and the processes it starts.

``service``
    Builds, starts and stops the parts, and passes effects between them.
``manager``
    The RPC interface: every handler passes a command to the loop.
``loop``
    The thread that owns all changing state.
``sender``, ``lanes``, ``reports``
    Messages to the conductor, sent by other threads.
``settings``, ``metrics``
    Read by all parts; filled by them.
``door``
    The front door: sockets of the programs on this host.
``slots``
    The slot table; pure.
``supervision``
    Keeps workers and desks alive, and talks to them.
``bitstreams``
    Files of bitstreams on this host, and which of them are trusted.
``host``
    Boards, energy, and the network device.
``child``, ``worker``, ``groupdesk``
    What runs in the processes: they import nothing of the agent.

The conductor decides; an agent obeys the leader with the highest epoch. It
never reads the database, and session data never goes through it.
"""
