# SPDX-License-Identifier: Apache-2.0

"""Decides which task runs next, and where, for a group on one host.

``queues``
    Takes events and the time, and returns decisions.
``clients``, ``members``, ``locks``
    The state of each; parts of the queues.
``heads``
    The heads of queues, in the order of service.
``holding``
    Which members have the blocks of a task.
``model``
    What these are made of, and the decisions.

Pure: :mod:`fpgapool.agent.groupdesk.service` carries out what is decided.
"""
