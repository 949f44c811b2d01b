# SPDX-License-Identifier: Apache-2.0

"""The agent: the service on each compute node, and the processes it starts.

``service``
    Creates, starts and stops the parts, and passes effects between them.
``manager``
    The RPC interface, whose handlers pass commands to the loop.
``loop``
    The thread that owns all changing state.
``sender``, ``lanes``, ``reports``
    Messages to the conductor, which other threads send.
``settings``, ``metrics``
    The settings and the metrics of all parts.
``door``
    The front door: sockets for the programs on this host.
``slots``
    The slot table; pure.
``supervision``
    Keeps workers and desks alive, and communicates with them.
``bitstreams``
    Bitstreams' files on this host, and which of them are trusted.
``host``
    Boards, energy and the network device.
``child``, ``worker``, ``groupdesk``
    The code that runs in the processes; it imports nothing else of the agent.

The conductor decides, and an agent obeys the leader with the highest epoch. It
never reads the database, and session data never passes through it.
"""
