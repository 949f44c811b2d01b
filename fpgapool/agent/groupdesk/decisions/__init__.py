# SPDX-License-Identifier: Apache-2.0

"""Decides which of a group's tasks runs next on this host, and where.

``queues``
    Turn events and the time into decisions.
``clients``, ``members``, ``locks``
    The state of clients, members and locks; parts of the queues.
``heads``
    The waiting heads of queues, in the order in which they are served.
``holding``
    Which members hold the blocks of a task.
``model``
    The values that these modules use, and the decisions.

No I/O: :mod:`fpgapool.agent.groupdesk.service` carries out the decisions.
"""
