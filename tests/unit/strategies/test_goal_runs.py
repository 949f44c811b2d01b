# SPDX-License-Identifier: Apache-2.0

"""Groups with goals from their first action to their last."""

from __future__ import annotations

import pytest

from fpgapool.core.sizing import goals
from fpgapool.strategies import elasticity as policies
from tests.unit.strategies import task_pool


def deadline(due_s: float, actions: int = 3000) -> goals.Goal:
    return goals.Goal(deadline_s=due_s, actions=actions)


def run_three(name: str, due_s: tuple[float, ...]) -> list[float]:
    """The ends of three groups of 3000 actions on a link of 96/s."""
    pool = task_pool.TaskPool(
        getattr(policies, f"make_{name}")({}), link_per_s=96.0
    )
    for group_id, each_s in enumerate(due_s):
        pool.add(group_id, deadline(each_s))
    pool.run()
    return [pool.ends[group_id] for group_id in range(len(due_s))]


SPLITS = {
    (41.7, 192.3, 192.3): (42.0, 93.7, 93.7),
    (50.0, 104.2, 194.6): (50.7, 84.0, 94.0),
    (62.5, 77.6, 198.0): (62.8, 75.3, 94.0),
    (62.5, 107.7, 107.7): (62.7, 94.0, 94.0),
    (83.3, 83.3, 113.5): (83.9, 83.5, 94.1),
    (50.0, 109.0, 195.0): (50.7, 84.7, 94.1),
}


@pytest.mark.parametrize("due_s", SPLITS)
def test_throughput_ends_as_published(due_s: tuple[float, ...]) -> None:
    assert run_three("throughput", due_s) == pytest.approx(
        SPLITS[due_s], rel=0.02
    )


@pytest.mark.parametrize("due_s", SPLITS)
@pytest.mark.parametrize("name", ["edf", "hybrid"])
def test_edf_ends_as_published(name: str, due_s: tuple[float, ...]) -> None:
    assert run_three(name, due_s) == pytest.approx(
        (41.7, 71.5, 93.8), rel=0.005
    )


@pytest.mark.parametrize(("min_size", "ends"), [(0, (2, 5)), (1, (3, 6))])
def test_edf_with_whole_actions(min_size: int, ends: tuple[int, int]) -> None:
    pool = task_pool.TaskPool(
        policies.make_edf({}), slots=4, slot_per_s=lambda now: 1.0
    )
    pool.add(1, deadline(3.0, 8), min_size=min_size)
    pool.add(2, deadline(9.0, 12), min_size=min_size)
    pool.run()
    assert (pool.ends[1], pool.ends[2]) == pytest.approx(ends)


def test_actions_are_not_interrupted() -> None:
    pool = task_pool.TaskPool(
        policies.make_edf({}), slots=2, slot_per_s=lambda now: 1.0
    )
    pool.add(1, deadline(50.0, 8), min_size=0)
    pool.run(until_s=1.0)
    pool.now = 1.5
    pool.add(2, deadline(4.0, 4), min_size=0)
    pool.run()
    # Two actions of the first group run until 2; then the second has both
    # slots until 4.
    assert pool.ends[2] == pytest.approx(4.0)
    assert pool.ends[1] == pytest.approx(6.0)


@pytest.mark.parametrize("name", ["throughput", "hybrid"])
@pytest.mark.parametrize("rate_per_s", [30.0, 60.0])
def test_rate_is_kept_with_few_slots(name: str, rate_per_s: float) -> None:
    pool = task_pool.TaskPool(getattr(policies, f"make_{name}")({}))
    pool.add(1, goals.Goal(rate_per_s=rate_per_s), actions=3000)
    pool.run()
    assert 3000 / pool.ends[1] >= 0.97 * rate_per_s
    later = [sizes[1] for sizes in pool.sizes[10:] if 1 in sizes]
    assert sum(later) / len(later) <= rate_per_s / 16.6 + 1


@pytest.mark.parametrize("name", ["throughput", "hybrid"])
def test_goal_is_met_again_when_actions_take_twice_as_long(name: str) -> None:
    pool = task_pool.TaskPool(
        getattr(policies, f"make_{name}")({}),
        slot_per_s=lambda now: 16.0 if now < 20 else 8.0,
    )
    pool.add(1, goals.Goal(rate_per_s=30.0), actions=3000)
    pool.add(2, deadline(200.0))
    pool.run(until_s=60.0)
    rates = [each[1] for each in pool.rates if 1 in each]
    assert len(rates) >= 55
    before, after = rates[10:20], rates[31:]
    assert min(before) >= 29
    assert sum(after) / len(after) >= 30


def test_one_fewer_slot_suffices_on_a_full_link() -> None:
    def mean_size(try_fewer: bool) -> float:
        pool = task_pool.TaskPool(
            policies.make_throughput({"try_fewer": try_fewer}),
            link_per_s=96.0,
        )
        pool.add(1, goals.Goal(rate_per_s=60.0), actions=3000)
        pool.add(2, goals.Goal(rate_per_s=20.0), actions=3000)
        pool.run()
        assert 3000 / pool.ends[1] >= 60
        sizes = [each[1] for each in pool.sizes[5:40]]
        return sum(sizes) / len(sizes)

    assert mean_size(False) > 4.5
    assert mean_size(True) < 4.3


def test_accepted_deadlines_are_met_beside_rates() -> None:
    pool = task_pool.TaskPool(policies.make_hybrid({}), link_per_s=96.0)
    pool.add(1, goals.Goal(rate_per_s=30.0), actions=2400)
    due_s = {}
    refusals = []
    for group_id in range(2, 12):
        pool.run(until_s=5.0 * group_id)
        pool.now = max(pool.now, 5.0 * group_id)
        due_s[group_id] = pool.now + 12.0
        try:
            pool.add(group_id, deadline(due_s[group_id], 400), min_size=0)
        except goals.Infeasible as refusal:
            refusals.append((due_s[group_id], refusal.earliest_s))
            due_s[group_id] = refusal.earliest_s or 0.0
            pool.add(group_id, deadline(due_s[group_id], 400), min_size=0)
    pool.run()
    assert refusals
    for asked_s, earliest_s in refusals:
        assert earliest_s is not None
        assert earliest_s > asked_s
    for group_id, each_s in due_s.items():
        assert pool.ends[group_id] <= each_s
    assert 2400 / pool.ends[1] >= 30
