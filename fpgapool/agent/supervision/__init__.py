# SPDX-License-Identifier: Apache-2.0

"""The processes that an agent starts, monitors and communicates with.

``children``
    What all of them share: start, adoption, control connection and end.
``workers``
    One worker for each slot.
``desks``
    One desk for each group with members on this host.
``forks``
    Has a fork server start them.
``processes``
    Functions that start, recognize and reap a process; they keep no state.
``unread``
    Shared buffers that clients may still read after their session.

:mod:`fpgapool.agent.service` passes orders to them; they pass events to the
slot table. The code that runs inside the processes is in
:mod:`fpgapool.agent.child`, :mod:`fpgapool.agent.worker` and
:mod:`fpgapool.agent.groupdesk`.
"""
