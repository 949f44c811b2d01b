# SPDX-License-Identifier: Apache-2.0

"""The desk: distributes the tasks of a group's clients to its members.

Each group has one desk process on each host; it may outlive its agent.

``service``
    The main thread, which carries out the decisions of the queues.
``decisions``
    Decides which client is served next; does no I/O.
``loop``
    Polls many rings, and runs calls from other threads.
``ports``
    The desk's ends of the channels to clients and members.
``members``
    Handles slots that connect, join and leave.
``connections``, ``accounts``
    Admit clients, and limit what each project uses.
``orders``, ``settings``
    The agent's requests and settings, checked.

An agent starts it as ``python -m fpgapool.agent.groupdesk``. Tasks never pass
through the agent. The worker's side is :mod:`fpgapool.agent.worker.tasks`.
"""
