# SPDX-License-Identifier: Apache-2.0

"""Waiting jobs, in the orders that passes need.

The rules add and remove jobs, and strategies read them through the view.
Nothing here knows slots, or decides who gets one.

``queued``
    A job's record. Jobs that fit the same slots form a group, and the groups
    of a project a lane.
``waiting``
    All lanes, and the times at which waiting ends.
``applications``
    The same with the applications of jobs, for affinity.
``columns``
    The same as vectors, for strategies that compare all pairs.
``sharing``
    Rounds between projects, and their limits.
``thresholds``
    Bounds of the priority queues of workload-aware strategies.
"""
