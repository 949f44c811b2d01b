# SPDX-License-Identifier: Apache-2.0

"""The agent: the service on each compute node, and the processes it starts.

``service``
    Creates, starts and stops the parts, and passes effects between them.
``manager``
    The RPC interface, whose handlers pass commands to the loop.
``loop``
    The thread that owns all changing state.
``sender``, ``lanes``, ``reports``
    Messages to the conductor, sent by separate threads.
``settings``, ``metrics``
    The settings and metrics of all parts.
``door``
    The front door: sockets for the programs on this host.
``slots``
    The slot table; does no I/O.
``supervision``
    Keeps workers and desks alive, and communicates with them.
``bitstreams``
    The bitstream files on this host, and which of them are trusted.
``host``
    Boards, energy and the network device.
``child``, ``worker``, ``groupdesk``
    The code of these processes; it imports no other part of the agent.

The conductor decides; an agent obeys the leader with the highest epoch. An
agent never accesses the database and never sees session data.
"""
