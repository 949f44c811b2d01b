# SPDX-License-Identifier: Apache-2.0

"""What the judge of big pools finds."""

from __future__ import annotations

import pytest

from tests.scale import judge
from tests.scale import visits
from tests.scale import workers


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (visits.Told("QUEUED", 1), None),
        (visits.Told("QUEUED", 1), "CANCELLED"),
        (visits.Told("EXPIRED", 1), "QUEUED"),
        (visits.Told("ACTIVE", 1, is_closed=True), "EXPIRED"),
    ],
)
def test_a_session_is_lost_if_its_client_knows_otherwise(told, state):
    recorded = {} if state is None else {"s1": state}
    (problem,) = judge.lost({"s1": told}, recorded)
    assert "s1" in problem


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (visits.Told("QUEUED", 1), "READY"),
        (visits.Told("ACTIVE", 1, is_closed=True), "CLOSED"),
        (visits.Told("EXPIRED", 1), "EXPIRED"),
    ],
)
def test_a_client_may_hear_late(told, state):
    assert judge.lost({"s1": told}, {"s1": state}) == []


def use(
    began_s: float,
    ended_s: float,
    session_id: str = "s1",
    generation: int = 1,
    slot: str = "a",
) -> workers.Use:
    return workers.Use(session_id, generation, slot, began_s, ended_s)


def test_a_slot_must_not_have_two_clients():
    first, second = use(0, 2), use(1, 3, "s2", 2)
    assert judge.shared([first, second])
    assert judge.shared([first, use(2, 3, "s2", 2)]) == []


def test_a_session_may_leave_a_slot_only_for_a_later_one():
    first = use(0, 2, generation=2)
    assert judge.shared([first, use(1, 3, generation=1, slot="b")])
    assert judge.shared([first, use(1, 3, generation=3, slot="b")]) == []
