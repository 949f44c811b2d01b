# SPDX-License-Identifier: Apache-2.0

"""Tests of the strategy; run them with pytest."""

import pickle
import types

from skeleton import strategy


def order(*jobs, **options):
    """Return the ids of jobs in the order in which they are served.

    :param jobs: priority and time of arrival of each.
    """
    ordering = strategy.SkeletonOrdering(strategy.SkeletonOptions(**options))
    queue = [
        types.SimpleNamespace(id=number, priority=priority, arrival_s=time_s)
        for number, (priority, time_s) in enumerate(jobs)
    ]
    return [job.id for job in sorted(queue, key=ordering.key)]


def test_the_highest_priority_comes_first():
    assert order((0, 1.0), (5, 3.0), (5, 2.0), (-1, 0.0)) == [2, 1, 0, 3]


def test_its_option():
    assert order((7, 2.0), (9, 3.0), (8, 1.0), highest=7) == [2, 0, 1]


def test_a_dry_run_can_copy_it():
    pickle.loads(pickle.dumps(strategy.skeleton({}, 1)))


def test_unknown_options_are_refused():
    try:
        strategy.skeleton({"nonsense": 1}, 1)
    except ValueError:
        return
    raise AssertionError("it takes an unknown option")
