# SPDX-License-Identifier: Apache-2.0

"""What the judge of budgets finds."""

from __future__ import annotations

import pytest

from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from tests.chaos import budgets
from tests.chaos import clients
from tests.chaos import judge
from tests.chaos import measure
from tests.chaos import report


def row(
    day: str = "2026-06-02", project_id: str = "p1", **more: object
) -> dict[str, object]:
    return {
        "project_id": project_id,
        "day": day,
        "slot_s": 1000.0,
        "input_bytes": 600,
        "output_bytes": 400,
        "energy_j": None,
        **more,
    }


def shown(**more: object) -> dict[str, object]:
    """Return a budget of 2000 of each unit, with half of it used."""
    found: dict[str, object] = {
        "project_id": "p1",
        "begins": "2026-06-01",
        "period": "month",
        "action": budget.REFUSE,
        "state": budget.WITHIN,
        "slot_s": amounts(),
        "bytes": amounts(),
        "energy_j": amounts(used=0.0),
    }
    return found | more


def amounts(used: float = 1000.0, open: float = 0.0) -> dict[str, float]:
    return {"limit": 2000, "carried": 0.0, "used": used, "open": open}


def look(
    *of_projects: dict[str, object],
    before: list[dict[str, object]] | None = None,
    after: list[dict[str, object]] | None = None,
) -> budgets.Look:
    before = [row()] if before is None else before
    return budgets.Look(
        1, of_projects or [shown()], before, before if after is None else after
    )


def test_what_is_charged_is_what_was_used():
    rows = [row(day="2026-05-31"), row(), row(project_id="p2")]
    others = shown(project_id="p2")
    assert budgets.wrong(look(shown(), others, before=rows)) == []


@pytest.mark.parametrize("unit", [*budget.RESOURCES])
@pytest.mark.parametrize("factor", [0.998, 1.002])
def test_a_thousandth_may_be_charged_wrongly_and_no_more(unit, factor):
    rows = [row(energy_j=1000.0)]
    right = shown(energy_j=amounts())
    nearly = right | {unit: amounts(1000.0 * (1 + (factor - 1) / 4))}
    wrong = right | {unit: amounts(1000.0 * factor)}
    assert budgets.wrong(look(right, before=rows)) == []
    assert budgets.wrong(look(nearly, before=rows)) == []
    (problem,) = budgets.wrong(look(wrong, before=rows))
    assert unit in problem


def test_the_usage_may_grow_while_it_is_asked_for():
    before, after = [row()], [row(slot_s=1010.0)]
    for used, right in (
        (998, False),
        (1000, True),
        (1005, True),
        (1012, False),
    ):
        one = shown(slot_s=amounts(used))
        found = budgets.wrong(look(one, before=before, after=after))
        assert (found == []) is right


def test_something_charged_for_nothing_is_wrong():
    (problem,) = budgets.wrong(look(shown(energy_j=amounts(1.0))))
    assert "inf" in problem


def test_a_project_with_usage_has_a_budget():
    rows = [row(), row(project_id="p2")]
    (problem,) = budgets.wrong(look(before=rows))
    assert "p2" in problem


@pytest.mark.parametrize(
    ("state", "open_s", "right"),
    [
        (budget.WITHIN, 0.0, True),
        (budget.NEAR, 900.0, True),
        (budget.EXHAUSTED, 900.0, False),
        (budget.EXHAUSTED, 1000.0, True),
        (budget.NEAR, 1000.0, False),
    ],
)
def test_a_budget_is_exhausted_when_it_is_used_up(state, open_s, right):
    one = shown(state=state, slot_s=amounts(open=open_s))
    assert (budgets.wrong(look(one)) == []) is right


def test_a_takeover_loses_nothing():
    former = look()
    more = look(shown(slot_s=amounts(1001.0)))
    again = look(shown(slot_s=amounts(1000.0 * (1 - 1e-12))))
    less = look(shown(bytes=amounts(999.0)))
    assert budgets.lost(former, more) == []
    assert budgets.lost(former, again) == []
    (problem,) = budgets.lost(former, less)
    assert "bytes" in problem


def test_a_new_period_begins_at_nothing_and_no_old_one_comes_again():
    none = dict.fromkeys(budget.RESOURCES, amounts(0.0))
    fresh = look(shown(begins="2026-07-01", **none))
    assert budgets.lost(look(), fresh) == []
    # A clock that was ahead for a moment is no loss.
    assert budgets.lost(fresh, look()) == []
    used = dict.fromkeys(budget.RESOURCES, amounts(1.0))
    used_up = look(shown(begins="2026-07-01", **used))
    assert len(budgets.lost(used_up, look())) == len(budget.RESOURCES)


def test_a_budget_does_not_go():
    other = look(shown(project_id="p2"))
    assert len(budgets.lost(look(), other)) == len(budget.RESOURCES)


def test_all_that_clients_got_is_charged():
    assert budgets.unpaid(look(), 1000) == []
    assert budgets.unpaid(look(), 900) == []
    assert budgets.unpaid(look(), 1002)


def test_who_got_nothing_says_nothing():
    assert budgets.unpaid(look(), 0)


def test_slots_that_nobody_has_count_for_nobody():
    assert budgets.still_open(look()) == []
    assert budgets.still_open(look(shown(slot_s=amounts(open=1.0))))


def test_the_table_has_the_least_and_the_most():
    of_seconds = [
        look(shown(slot_s=amounts(used))) for used in (1000.0, 990.0, 1020.0)
    ]
    found = {one.unit: one for one in budgets.rows(of_seconds)}
    slots = found["slot_s"]
    assert (slots.looks, slots.charged) == (3, 1020.0)
    assert (slots.least, slots.most) == (0.99, 1.02)
    assert (found["bytes"].least, found["bytes"].most) == (1.0, 1.0)
    text = report.of_budgets(found.values())
    assert "0.990000" in text
    assert "1.020000" in text


def outcome(code: str, **more: object) -> clients.Outcome:
    return clients.Outcome(
        **{
            "conduct": "stream",
            "accelerator": "copy",
            "stateless": True,
            "door": "api",
            "started_s": 0.0,
            "code": code,
            **more,
        }
    )


def test_a_worker_that_dies_takes_along_what_it_has_not_reported():
    stayed = outcome("", got_bytes=16, reconnects=1)
    moved = outcome("", got_bytes=16, reopens=1)
    assert budgets.due_bytes([stayed, moved]) == 16


def test_only_neighbours_may_be_refused():
    found = [
        outcome(codes.BUDGET_EXHAUSTED),
        outcome(codes.BUDGET_EXHAUSTED, neighbour=True),
        outcome(codes.WORKER_DIED),
    ]
    (problem,) = budgets.refused(found)
    assert "neighbour=False" in problem


@pytest.mark.parametrize("state", ["", "QUEUED", "REJECTED"])
def test_who_has_used_up_its_budget_is_not_lost(state):
    mine = outcome(codes.BUDGET_EXHAUSTED, state=state, neighbour=True)
    others = outcome(codes.BUDGET_EXHAUSTED, state=state)
    assert not measure.was_refused(mine)
    assert judge.lost([mine]) == []
    assert measure.was_refused(others) == (not state)
    assert bool(judge.lost([others])) == bool(state)


@pytest.mark.parametrize("seed", range(6))
def test_the_seed_decides_the_budgets(seed):
    first = budget.checked(budgets.first(seed))
    assert first["action"] == budget.checked(budgets.DEFAULT)["action"]
    assert first["slot_s"] == budgets.DEFAULT["slot_s"]
    little = budgets.neighbours(seed, 100.5)
    assert (little is None) == (seed % 2 == 0)
    if little is not None:
        assert 100 < budget.checked(little)["slot_s"] < first["slot_s"]
        assert little["action"] == budget.FINISH


def test_seeds_have_all_periods():
    periods = {budgets.first(seed)["period"] for seed in range(3)}
    assert periods == set(budget.PERIODS)
