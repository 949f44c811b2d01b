# SPDX-License-Identifier: Apache-2.0

"""The front door: how the programs of a host reach the pool.

``doorway``
    Unix sockets, clients, and the bytes on their connections.
``frontdoor``
    The operations: each request of a client, and its answer.
``opens``
    Sessions that clients have opened and still wait for; pure.
``groupdoor``
    What the conductor is asked about groups.
``profiles``
    The accelerators, as the conductor last reported them.
``requests``
    Checks of what clients send; pure.

A client is served for the project whose socket it has opened. Sessions and
groups take one road: a request is checked, other threads ask the conductor, and
a descriptor of a connection to the worker or to the desk goes back. Data never passes through here.
"""
