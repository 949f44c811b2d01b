# SPDX-License-Identifier: Apache-2.0

"""The processes that an agent starts, keeps alive and talks to.

``children``
    What all of them need: start, adoption, control connection, end.
``workers``
    One worker for each slot.
``desks``
    One desk for each group with members on this host.
``processes``
    Starts, recognizes and reaps a process; nothing here outlives a call.
``unread``
    Shared buffers that clients may still read after their session.

:mod:`fpgapool.agent.service` passes orders on to them; they pass events to the
slot table. What runs inside these processes is in :mod:`fpgapool.agent.child`,
:mod:`fpgapool.agent.worker` and :mod:`fpgapool.agent.groupdesk`.
"""
