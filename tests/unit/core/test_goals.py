# SPDX-License-Identifier: Apache-2.0

"""Deadlines and rates, and the slots that they ask for."""

from __future__ import annotations

import math
import typing

import pytest

from fpgapool.core.sizing import goals


def make_state(
    deadline_s: float | None = None,
    rate_per_s: float | None = None,
    actions: int | None = None,
    **measured: typing.Any,
) -> goals.State:
    goal = goals.Goal(
        deadline_s=deadline_s, rate_per_s=rate_per_s, actions=actions
    )
    return goals.State(goal=goal, registered_s=0.0, started=True, **measured)


def test_slots_per_rate_is_smoothed() -> None:
    found = goals.smoothed_slots_per_rate(0.2, 4, 40.0, 0.5)
    assert found == pytest.approx(0.15)


def test_first_slots_per_rate_is_not_smoothed() -> None:
    assert goals.smoothed_slots_per_rate(None, 4, 40.0, 0.5) == 0.1


@pytest.mark.parametrize(("slots", "rate_per_s"), [(4, 0.0), (0, 40.0)])
def test_idle_period_keeps_slots_per_rate(
    slots: int, rate_per_s: float
) -> None:
    assert goals.smoothed_slots_per_rate(0.2, slots, rate_per_s, 0.5) == 0.2
    assert goals.smoothed_slots_per_rate(None, slots, rate_per_s, 0.5) is None


def test_request_and_progress_of_a_rate() -> None:
    goal = goals.Goal(rate_per_s=30.0)
    state = goals.State(
        goal=goal, registered_s=0.0, rate_per_s=40.0, slots_per_rate=0.15
    )
    assert state.request(5.0, 0, 8) == 5
    assert state.progress(5.0) == pytest.approx(1.33, abs=5e-3)
    assert state.left is None
    assert state.expected_finish_s(5.0) is None
    assert state.due_s == math.inf


@pytest.mark.parametrize(
    ("done", "deadline_s", "slots", "progress", "asked"),
    [(72, 50, 6, 1.205, 5), (12, 109, 1, 0.434, 3), (12, 195, 1, 0.779, 2)],
)
def test_request_and_progress_of_a_deadline(
    done: int, deadline_s: float, slots: int, progress: float, asked: int
) -> None:
    state = goals.State(
        goal=goals.Goal(deadline_s=deadline_s, actions=3000),
        registered_s=0.0,
        started=True,
        done=done,
        rate_per_s=float(done),
        slots_per_rate=slots / done,
    )
    assert state.progress(1.0) == pytest.approx(progress, abs=5e-4)
    assert state.request(1.0, 1, 8) == asked
    assert state.expected_finish_s(1.0) == pytest.approx(
        1 + (3000 - done) / done
    )


def test_rounding_asks_for_no_further_slot() -> None:
    assert goals.rounded_up(3 + 1e-10) == 3
    assert goals.rounded_up(3 + 1e-8) == 4
    state = make_state(rate_per_s=30.0, slots_per_rate=0.1 + 1e-16)
    assert state.request(0.0, 0, 8) == 3


@pytest.mark.parametrize("now", [10.0, 11.0, 1e6])
def test_deadline_that_has_passed(now: float) -> None:
    state = make_state(deadline_s=10.0, actions=5)
    assert state.progress(now) == 0
    assert state.request(now, 1, 6) == 6
    assert state.needed_per_s(now) == math.inf


def test_just_before_the_deadline() -> None:
    state = make_state(deadline_s=10.0, actions=5, slots_per_rate=1e300)
    assert state.request(math.nextafter(10.0, 0), 1, 6) == 6


def test_all_is_done() -> None:
    state = make_state(deadline_s=10.0, actions=5, done=7)
    assert state.left == 0
    assert state.progress(20.0) == math.inf
    assert state.request(20.0, 2, 6) == 2
    assert state.expected_finish_s(20.0) == 20.0


def test_nothing_is_known_yet() -> None:
    state = make_state(deadline_s=10.0, actions=5)
    assert state.request(1.0, 0, 6) == 1
    assert state.request(1.0, 3, 6) == 3
    assert state.progress(1.0) == 0
    assert state.expected_finish_s(1.0) is None


def test_tasks_since_the_last_count_are_expected() -> None:
    state = goals.State(
        goal=goals.Goal(deadline_s=90.0, actions=100),
        registered_s=0.0,
        done=40,
        counted_s=5.0,
        rate_per_s=20.0,
    )
    assert state.expected_left(5.0, 1.0) == 60
    assert state.expected_left(5.5, 1.0) == 50
    # No longer than a period, and not if the clock went back.
    assert state.expected_left(50.0, 1.0) == 40
    assert state.expected_left(50.0, 10.0) == 0
    assert state.expected_left(4.0, 1.0) == 60
    assert make_state(rate_per_s=1.0).expected_left(9.0, 1.0) == math.inf
    fresh = make_state(deadline_s=90.0, actions=100)
    assert fresh.expected_left(9.0, 1.0) == 100


def test_request_stays_within_bounds() -> None:
    state = make_state(rate_per_s=100.0, slots_per_rate=1.0)
    assert state.request(0.0, 1, 6) == 6
    # The minimum counts more than the slots that there are.
    assert state.request(0.0, 7, 6) == 7


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({}, "either a deadline or a rate"),
        ({"deadline_s": 1.0, "rate_per_s": 1.0}, "either"),
        ({"deadline_s": 1.0}, "number of actions"),
        ({"deadline_s": math.nan, "actions": 1}, "must be a time"),
        ({"deadline_s": math.inf, "actions": 1}, "must be a time"),
        ({"rate_per_s": 0.0}, "finite and positive"),
        ({"rate_per_s": -1.0}, "finite and positive"),
        ({"rate_per_s": math.nan}, "finite and positive"),
        ({"rate_per_s": math.inf}, "finite and positive"),
        ({"rate_per_s": 1.0, "actions": 0}, "actions must be positive"),
        ({"deadline_s": 1.0, "actions": -3}, "actions must be positive"),
    ],
)
def test_bad_goals_are_refused(
    goal: dict[str, typing.Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        goals.Goal(**goal)
