# SPDX-License-Identifier: Apache-2.0

"""The front door: how the programs of a host reach the pool.

``doorway``
    Unix sockets, clients, and the bytes on their connections.
``frontdoor``
    The dispatch of clients' requests.
``slots``
    Connections to the workers and desks of this host.
``sessions``
    The operations that open and end sessions.
``opens``
    Sessions that clients have opened and still wait for; pure.
``questions``
    The operations that the conductor answers.
``profiles``
    The accelerators, as the conductor last reported them.
``requests``
    Checks of what clients send; pure.

A client acts for the project whose socket it has opened. Sessions and groups
are handled alike: the door checks a request, other threads query the
conductor, and the client gets the answer, with a connection to the worker or
desk if there is one. Clients' data never passes through here.
"""
