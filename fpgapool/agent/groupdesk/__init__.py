# SPDX-License-Identifier: Apache-2.0

"""The desk: spreads the tasks of a group's clients over its members.

A process for each group and host; it outlives its agent.

``service``
    The main thread: carries out the decisions of the queues.
``decisions``
    Who is served next; pure.
``loop``
    Waits for many rings, and for calls of other threads.
``ports``
    The ends of rings: of clients and of members.
``members``
    Slots that connect, join and leave.
``connections``, ``accounts``
    Admit clients, and limit what each project uses.
``orders``, ``settings``
    From the agent, checked.

``python -m fpgapool.agent.groupdesk`` is started by an agent. Tasks never go
through the agent. The worker's side is :mod:`fpgapool.agent.worker.tasks`.
"""
