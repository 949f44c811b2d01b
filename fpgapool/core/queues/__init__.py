# SPDX-License-Identifier: Apache-2.0

"""Waiting jobs, in the orders that passes need.

The rules add and remove jobs, and strategies read them through the view.
Nothing here deals with slots, or decides which job gets one.

``queued``
    A job's record. Jobs that fit the same slots form a group, and the groups
    of a project form a lane.
``waiting``
    All lanes, and the times at which waiting ends.
``applications``
    The same jobs with their applications, for affinity.
``columns``
    The same jobs as vectors, for strategies that compare all pairs.
``limits``
    Which projects may get slots at all.
``overruns``
    How far jobs exceeded their claims lately.
``share_tree``
    What projects get in a round if domains and projects form a tree.
``sharing``
    Rounds between projects.
``thresholds``
    Bounds of the priority queues of workload-aware strategies.
"""
