# SPDX-License-Identifier: Apache-2.0

"""The data plane of a session: from frames to the core, and back.

``session``
    The session: its threads, its connections, and its end.
``receiving``
    What comes in on one of its connections.
``outgoing``, ``sending``
    What goes to the client, and the thread that sends what is long.
``memory``
    Private memory, or buffers that the client maps.
``processing``
    Runs the core.
``blocks``
    Blocks that clients need not send again.

The worker opens a session for an admitted client and takes its events. Nothing
here knows the agent. The order of frames is decided by
:mod:`fpgapool.protocol.stream`, which the client runs, too.
"""
