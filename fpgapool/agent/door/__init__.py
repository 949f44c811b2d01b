# SPDX-License-Identifier: Apache-2.0

"""The front door: how the programs of a host reach the pool.

``doorway``
    Unix sockets, clients, and the bytes on their connections.
``frontdoor``
    Dispatches clients' requests.
``slots``
    Connections to the workers and desks of this host.
``sessions``
    The operations that open and end sessions.
``opens``
    Sessions that clients have opened and wait for; does no I/O.
``questions``
    The operations that the conductor answers.
``profiles``
    The accelerators, as the conductor last reported them.
``requests``
    Checks requests from clients; does no I/O.

A client acts for the project whose socket it uses. Sessions and groups are
handled alike: the door checks a request, other threads query the conductor,
and the client receives the answer and, if there is one, a connection to the
worker or desk. Clients' data never passes through here.
"""
