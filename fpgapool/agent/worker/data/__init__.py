# SPDX-License-Identifier: Apache-2.0

"""The data plane of a session: from frames to the core and back.

``session``
    The session: its threads, its connections, and its end.
``receiving``
    Receives what a client sends on one of its connections.
``outgoing``, ``sending``
    The frames for the client, and the thread that sends long ones.
``memory``
    Private memory, or buffers that the client maps.
``processing``
    Runs the core.
``links``, ``feeding``
    Send output to, and receive input from, other stages of a chain.
``blocks``
    A cache of blocks, so that clients need not send them again.

The worker opens a session for an admitted client and handles its events.
Nothing here depends on the agent. :mod:`fpgapool.protocol.stream`, which the
client also uses, decides the order of frames.
"""
