# SPDX-License-Identifier: Apache-2.0

"""Where projects and jobs stand: numbers worked out by hand."""

import dataclasses
import math

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import standing
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from tests.unit.core import pools

MB = 1e6
#: Of each of the two slots of the board.
RATE = 1.05e9
QUANTUM = 1000 * MB


def make_pool(
    *,
    strategy: str = "fifo",
    fair: bool = True,
    max_wait_s: float | None = None,
    slots: int = 2,
) -> pools.Pool:
    """A board with two slots; b has weight 2, and c has weight 1/2."""
    options = sharing.ShareOptions(fair, QUANTUM, {"b": 2.0, "c": 0.5})
    inner = getattr(strategies, strategy)({}, 0)
    return pools.make_pool_of(
        shared.SharedStrategy(inner, options, max_wait_s),
        pools.make_host(1, slot_count=slots),
    )


def submit(
    pool: pools.Pool, job_id: int, project: str, size: float, **more: float
) -> None:
    pool.submit(
        pools.make_job(
            job_id,
            project=project,
            claimed_bytes=size * MB,
            arrival_s=pool.now,
            **more,
        )
    )


def stands(pool: pools.Pool, project: str) -> standing.Standing:
    found = standing.of_project(pool.state.view, project)
    assert found is not None
    return found


def before(pool: pools.Pool, job_id: int) -> standing.Before:
    found = standing.of_job(pool.state.view, job_id)
    assert found is not None
    return found


def example() -> pools.Pool:
    """Projects a and b have the slots; all three wait.

    a's job claims 2,300 MB of its 1,000 MB for each round: it owes two rounds
    and has 700 MB left in the third. b's claims 500 MB of its 2,000 MB.
    """
    pool = make_pool()
    submit(pool, 1, "a", 2300)
    submit(pool, 2, "b", 500)
    for job_id, project in enumerate("aabbcc", start=3):
        submit(pool, job_id, project, 100)
    return pool


def test_scores() -> None:
    pool = example()
    a, b, c = (stands(pool, project) for project in "abc")
    assert (a.weight, b.weight, c.weight) == (1.0, 2.0, 0.5)
    assert a.weights == b.weights == c.weights == 3.5
    assert (a.round_bytes, b.round_bytes) == (1000 * MB, 2000 * MB)
    assert a.score == pytest.approx(0.7 - 2)
    # Whoever begins to wait after its round has everything again; b began
    # to wait when it had used a quarter.
    assert b.score == pytest.approx(1.0)
    assert c.score == pytest.approx(1.0)


def test_places_and_turns() -> None:
    pool = example()
    a, b, c = (stands(pool, project) for project in "abc")
    assert (a.projects, a.before, a.beside) == (3, 2, 0)
    assert (b.before, b.beside, c.before, c.beside) == (0, 1, 0, 1)
    # Two rounds of b and c: 2 * 2,000 MB + 2 * 500 MB, if they hold the slot
    # that a does not have.
    assert a.turn_bytes == 5000 * MB
    assert a.turn_s == pytest.approx(5000 * MB / RATE)
    assert (b.turn_bytes, b.turn_s) == (0, 0)


def test_held_slots_cost_before_they_are_charged() -> None:
    """Between two passes, what is said follows the time."""
    pool = example()
    pool.state.apply((), 4.0)
    # The claim of 2,300 MB pays for 2.19 s; the rest is 1,900 MB.
    assert stands(pool, "a").score == pytest.approx(0.7 - 2 - 1.9)
    # b's 500 MB are paid: 3,700 MB are due of 2,000 MB for each round.
    assert stands(pool, "b").score == pytest.approx(1 - 3.7 / 2)
    told = stands(pool, "a")
    pool.step(now=4.0)
    assert stands(pool, "a") == told


def test_who_does_not_wait_would_come_to_the_end_of_the_round() -> None:
    pool = example()
    new = stands(pool, "new")
    assert (new.score, new.weights) == (1.0, 4.5)
    assert (new.projects, new.before, new.beside) == (3, 0, 2)


def test_who_owes_and_does_not_wait() -> None:
    pool = make_pool()
    submit(pool, 1, "a", 2300)
    assert stands(pool, "a").score == pytest.approx(0.7)
    submit(pool, 2, "b", 100)
    submit(pool, 3, "b", 100)
    found = stands(pool, "a")
    assert found.score == pytest.approx(0.7 - 2)
    assert (found.before, found.turn_bytes) == (1, 4000 * MB)


def test_the_way_down_the_tree() -> None:
    pool = example()
    assert stands(pool, "a").path is None
    parents = {"a": "one", "b": "one", "one": "top", "c": "other"}
    pool.step(events.ShareTreeChanged(share_tree.Places(parents)))
    found = stands(pool, "a")
    assert found.path == [
        ("a", 1.0, 3.0),
        ("one", 1.0, 1.0),
        ("top", 1.0, 2.0),
    ]
    assert (found.weights, found.round_bytes) == (2.0, QUANTUM / 3)
    # Beside them, one that does not wait would have a part, too.
    parents["new"] = "top"
    pool.step(events.ShareTreeChanged(share_tree.Places(parents)))
    new = stands(pool, "new")
    assert new.path == [("new", 1.0, 2.0), ("top", 1.0, 2.0)]
    assert (new.round_bytes, new.score) == (QUANTUM / 2, 1.0)
    assert stands(pool, "x").path == [
        ("x", 1.0, 1.0),
        (share_tree.UNKNOWN, 1.0, 3.0),
    ]


def test_others_at_their_limit_are_not_before() -> None:
    pool = example()
    pool.step(events.SessionLimitsChanged(None, (("b", 1),)))
    found = stands(pool, "a")
    assert (found.projects, found.before) == (3, 1)
    assert before(pool, 3).better_share == 2


def test_without_slots_of_others_nobody_can_tell_when() -> None:
    pool = make_pool(slots=1)
    submit(pool, 1, "a", 2300)
    submit(pool, 2, "a", 1)
    submit(pool, 3, "b", 1)
    assert stands(pool, "a").turn_s == math.inf


def test_sessions_before_one() -> None:
    pool = example()
    submit(pool, 9, "a", 100, priority=1)
    assert before(pool, 4) == standing.Before(
        higher_priority=1, better_share=4, own=1, others=0, competing=2
    )
    # b's come earlier, and both are of this round.
    assert before(pool, 8) == standing.Before(own=1, others=2, competing=4)
    assert before(pool, 5) == standing.Before(own=0, others=0, competing=4)


def test_urgent_ones_come_first() -> None:
    pool = make_pool(max_wait_s=10.0)
    for job_id in (1, 2):
        submit(pool, job_id, "x", 1)
    submit(pool, 3, "a", 100)
    submit(pool, 4, "b", 100)
    pool.step(now=11.0)
    submit(pool, 5, "a", 1)
    assert before(pool, 5).urgent == 2
    assert before(pool, 3) == standing.Before(own=0, others=0, competing=2)
    assert before(pool, 4).urgent == 1


def test_without_shares_only_the_order_counts() -> None:
    pool = make_pool(fair=False)
    for job_id, project in enumerate("abaab", start=1):
        submit(pool, job_id, project, 100)
    assert standing.of_project(pool.state.view, "a") is None
    assert before(pool, 5) == standing.Before(own=0, others=2, competing=3)


def test_a_strategy_without_an_order_says_so() -> None:
    pool = make_pool(strategy="era")
    for job_id, project in enumerate("abcab", start=1):
        submit(pool, job_id, project, 100)
    kind = standing.ChosenBy.of(pool.state.view)
    assert kind is standing.ChosenBy.JOINT
    assert before(pool, 4) == standing.Before(competing=3)


def test_what_needs_other_slots_is_not_before() -> None:
    pool = make_pool()
    for job_id in (1, 2):
        submit(pool, job_id, "x", 1)
    pool.step(events.HostUp(pools.make_host(2, 1, shape="large")))
    submit(pool, 3, "x", 1)
    submit(pool, 4, "a", 1, accelerator="fft")
    submit(pool, 5, "b", 1)
    # Either can use the large slot.
    assert before(pool, 5).others == 1
    found = standing.of_job(pool.state.view, 5, shapes=frozenset({"small"}))
    assert found is not None
    assert found.others == 0


def test_only_so_many_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "MAX_COUNTED", 3)
    pool = make_pool()
    for job_id in range(1, 9):
        submit(pool, job_id, "a", 1)
    assert before(pool, 6) == standing.Before(own=3, others=0, competing=6)
    found = before(pool, 7)
    assert (found.own, found.complete) == (3, False)


def test_who_has_a_slot_waits_for_nothing() -> None:
    pool = example()
    assert standing.of_job(pool.state.view, 1) is None
    assert standing.of_job(pool.state.view, 99) is None


def test_only_numbers_are_said() -> None:
    pool = example()
    for found in (stands(pool, "a"), before(pool, 3)):
        values = dataclasses.asdict(found).values()
        assert all(isinstance(one, int | float | None) for one in values)
