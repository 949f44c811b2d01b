# SPDX-License-Identifier: Apache-2.0

"""What each event changes in queues and topology.

``PoolState`` passes each event to one method here. These methods append
instructions and set whether a scheduling pass is due. They never choose the
job that gets an idle slot: strategies do.

``admission``
    Jobs enter the queue, move in it, and leave it without a slot.
``holders``
    Assignments, from programming to release.
``members``
    The same for slots of groups, which request slots through ordinary jobs.
``hardware``
    Hosts, boards and slots come, go, fail and drain.
``shunning``
    Jobs avoid slots in which their accelerator fails.
``deadlines``
    Jobs end with their deadlines.
``preemption``
    Slots change hands at a chunk border.
``turns``
    Projects that get slots after all others, or none.
``session_sets``, ``due_sets``, ``set_places``
    Sets of sessions: those that wait, those whose turn has come, their slots.
``returns``
    Sessions that have lost their slots come before due sets.
``settings``
    What operators and the library set for all jobs.
"""
