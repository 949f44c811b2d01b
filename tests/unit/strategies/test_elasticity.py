# SPDX-License-Identifier: Apache-2.0

"""Elasticity policies by name, their options and their sizes."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import tomllib
import typing

import pytest

from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.strategies import elasticity as policies
from fpgapool.strategies.elasticity import ahead
from fpgapool.strategies.elasticity import hybrid
from fpgapool.strategies.elasticity import throughput
from tests.unit.strategies import scaling_sets as sets

ROOT = pathlib.Path(__file__).parents[3]
NAMES = ("none", "nnls", "ahead", "edf", "throughput", "hybrid")


def make(name: str, **options: object) -> elasticity.Policy:
    policy = getattr(policies, f"make_{name}")(options)
    assert isinstance(policy, elasticity.Policy)
    return policy


def sizes(
    policy: elasticity.Policy, view: elasticity.View, now: float = 0.0
) -> tuple[int, ...]:
    """The sizes after a resize, with those that stay."""
    found = policy.resize(view, now)
    return tuple(found.get(group.id, group.wanted) for group in view.groups)


# -- names and options -----------------------------------------------------


def test_all_policies_are_entry_points() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    declared = tomllib.loads(text)["project"]["entry-points"]
    assert declared["fpgapool.elasticity"] == {
        name: f"fpgapool.strategies.elasticity:make_{name}" for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
def test_unknown_options_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown options remote_limit;"):
        make(name, remote_limit=1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ahead", {"adopt": 0.0}, "above 0 and at most 1"),
        ("ahead", {"adopt": 1.1}, "above 0 and at most 1"),
        ("ahead", {"adopt": math.nan}, "above 0 and at most 1"),
        ("ahead", {"adopt": "1"}, "must be a number"),
        ("ahead", {"calm_periods": -1.0}, "finite and not negative"),
        ("ahead", {"calm_periods": math.inf}, "finite and not negative"),
        ("edf", {"stay_programmings": -1.0}, "not negative"),
        ("edf", {"stay_programmings": math.inf}, "finite"),
        ("throughput", {"stay_programmings": math.nan}, "finite"),
        ("throughput", {"decay": 0.0}, "above 0 and at most 1"),
        ("throughput", {"try_fewer": 1}, "true or false"),
        ("hybrid", {"usable": 0.0}, "above 0 and at most 1"),
        ("hybrid", {"usable": 1.5}, "above 0 and at most 1"),
        ("hybrid", {"decay": 2.0}, "above 0 and at most 1"),
        ("hybrid", {"stay_programmings": -0.1}, "not negative"),
        ("hybrid", {"admission": "no"}, "true or false"),
    ],
)
def test_bad_options_are_refused(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(name, **options)


def test_options_reach_their_policy() -> None:
    made = make("ahead", adopt=0.5)
    assert typing.cast(ahead.AheadPolicy, made).options.adopt == 0.5
    assert make("throughput", stay_programmings=3.0).stay_programmings == 3
    assert make("hybrid").stay_programmings == 10
    assert make("edf").stay_programmings == 0


@pytest.mark.parametrize("name", ["nnls", "ahead"])
def test_period_is_compared_with_programming(name: str) -> None:
    policy = make(name)
    assert policy.check_period(10.0, 1.0) is None
    warning = policy.check_period(10.0, 3.78)
    assert warning is not None
    assert "shorter than 10 times the programming time" in warning
    assert "3.78 s" in warning
    assert policy.check_period(7.56, 3.78) is not None
    with pytest.raises(ValueError, match=r"least 2 times .* 3\.78 s"):
        policy.check_period(7.5, 3.78)


@pytest.mark.parametrize("name", ["none", "edf", "throughput", "hybrid"])
def test_other_policies_take_any_period(name: str) -> None:
    assert make(name).check_period(1.0, 3.78) is None


# -- none, nnls ------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_sizes_stay_without_work_and_goals(name: str) -> None:
    view = sets.make_view(
        sets.make_working(1, 2, 0.0), sets.make_working(2, 4, 0.0)
    )
    assert sizes(make(name), view) == (2, 4)


@pytest.mark.parametrize("name", NAMES)
def test_no_groups(name: str) -> None:
    assert dict(make(name).resize(sets.make_view(slots=8), 0.0)) == {}


@pytest.mark.parametrize("name", ["nnls", "ahead"])
def test_sizes_stay_while_a_group_is_unknown(name: str) -> None:
    view = sets.make_view(
        sets.make_working(1, 2, 500.0), sets.make_group(2, 6)
    )
    assert sizes(make(name), view) == (2, 6)


def make_three(*waiting_s: float, **more: typing.Any) -> elasticity.View:
    return sets.make_view(
        *(
            sets.make_working(number, size, each)
            for number, size, each in zip(
                (1, 2, 3), (2, 4, 2), waiting_s, strict=True
            )
        ),
        **more,
    )


@pytest.mark.parametrize(
    ("waiting_s", "expected"),
    [
        ((45_000 * 0.33e-3, 3_000 * 1e-3, 6 * 0.1), (6, 1, 1)),
        ((30.0, 30.0, 0.0), (4, 3, 1)),
        ((1.0, 1.0, 1.0), (3, 3, 2)),
        ((0.0, 0.0, 0.0), (2, 4, 2)),
    ],
)
def test_nnls(waiting_s: tuple[float, ...], expected: tuple[int, ...]) -> None:
    assert sizes(make("nnls"), make_three(*waiting_s)) == expected


def test_nnls_gives_a_group_without_a_minimum_one_slot() -> None:
    view = sets.make_view(
        sets.make_working(1, 3, 9.0), sets.make_working(2, 1, 0.0, min_size=0)
    )
    assert sizes(make("nnls"), view) == (3, 1)


# -- ahead -----------------------------------------------------------------


def test_ahead_makes_the_longest_time_short() -> None:
    view = make_three(14.85, 3.0, 0.6, period_s=5.0)
    assert sizes(make("ahead"), view) == (5, 2, 1)


def test_ahead_keeps_sizes_that_suffice_for_a_period() -> None:
    # 14.85 s on 2 slots.
    assert sizes(make("ahead"), make_three(14.85, 3.0, 0.6)) == (2, 4, 2)
    view = make_three(14.85, 3.0, 0.6, period_s=7.425)
    assert sizes(make("ahead"), view) == (2, 4, 2)


def test_ahead_may_keep_sizes_for_longer_or_shorter() -> None:
    view = make_three(14.85, 3.0, 0.6, period_s=5.0)
    assert sizes(make("ahead", calm_periods=1.5), view) == (2, 4, 2)
    view = make_three(14.85, 3.0, 0.6)
    assert sizes(make("ahead", calm_periods=0.5), view) == (5, 2, 1)


@pytest.mark.parametrize(
    ("second_s", "expected"), [(47.9, (3, 3)), (48.1, (2, 4))]
)
def test_ahead_adopts_only_what_is_clearly_better(
    second_s: float, expected: tuple[int, int]
) -> None:
    # With 3 slots each, the longest time falls from 20 s to second_s / 3.
    view = sets.make_view(
        sets.make_working(1, 2, 40.0), sets.make_working(2, 4, second_s)
    )
    assert sizes(make("ahead"), view) == expected


@pytest.mark.parametrize(
    ("arrived_s", "expected_s"), [(60.0, 0.0), (0.0, 60.0), (60.0, 30.0)]
)
def test_ahead_looks_at_the_larger_of_last_and_smoothed_arrivals(
    arrived_s: float, expected_s: float
) -> None:
    view = sets.make_view(
        sets.make_working(
            1, 2, 0.0, arrived_s=arrived_s, expected_s=expected_s
        ),
        sets.make_working(2, 6, 0.0, arrived_s=5.0),
    )
    assert sizes(make("ahead"), view) == (7, 1)


def test_ahead_serves_a_group_that_has_no_slot() -> None:
    view = sets.make_view(
        sets.make_working(1, 0, 1.0, min_size=0),
        sets.make_working(2, 4, 1.0),
    )
    assert sizes(make("ahead"), view) == (2, 2)


def test_ahead_keeps_a_slot_in_a_group_without_a_minimum() -> None:
    view = sets.make_view(
        sets.make_working(1, 2, 90.0), sets.make_working(2, 4, 0.0, min_size=0)
    )
    assert sizes(make("ahead"), view) == (5, 1)


# -- edf -------------------------------------------------------------------


def test_edf_serves_the_earliest_deadline() -> None:
    view = sets.make_view(
        sets.make_due(1, 2, due_s=30.0, max_size=3),
        sets.make_due(2, 2, due_s=10.0, max_size=5),
        sets.make_due(3, 4, due_s=20.0),
    )
    assert sizes(make("edf"), view) == (1, 5, 2)


def test_edf_serves_the_next_deadline_above_a_maximum() -> None:
    view = sets.make_view(
        sets.make_due(1, 1, due_s=10.0, max_size=2),
        sets.make_due(2, 1, due_s=20.0, max_size=3),
        slots=9,
    )
    # Four slots are left.
    assert sizes(make("edf"), view) == (2, 3)


def test_edf_breaks_ties_by_arrival_and_id() -> None:
    view = sets.make_view(
        sets.make_due(1, 2, registered_s=2.0),
        sets.make_due(2, 2, registered_s=1.0),
        sets.make_due(3, 2, registered_s=1.0),
    )
    assert sizes(make("edf"), view) == (1, 4, 1)


def test_edf_leaves_other_groups_alone() -> None:
    view = sets.make_view(
        sets.make_group(1, 3),
        sets.make_rate(2, 2, progress=0.1, asked=8),
        sets.make_due(3, 1, started=False, wanted=2),
        sets.make_due(4, 1),
        slots=10,
    )
    assert sizes(make("edf"), view) == (3, 2, 2, 3)


def test_edf_keeps_minima_if_slots_do_not_suffice() -> None:
    view = sets.make_view(
        sets.make_due(1, 1, min_size=2), sets.make_due(2, 2, min_size=2)
    )
    assert sizes(make("edf"), view) == (2, 2)


def test_edf_admits_deadlines_while_the_minima_fit() -> None:
    first = sets.make_due(1, 4)
    new = sets.make_due(2, 0, min_size=3, wanted=3, started=False)
    view = sets.make_view(first, new)
    assert make("edf").admit(view, 2, 0.0) == {2: 3}
    large = sets.make_due(2, 0, min_size=4, wanted=4, started=False)
    with pytest.raises(goals.Infeasible, match="need 5 slots"):
        make("edf").admit(sets.make_view(first, large), 2, 0.0)


def test_edf_refuses_rates() -> None:
    view = sets.make_view(sets.make_rate(1, 4, progress=1.0, asked=1))
    with pytest.raises(goals.Infeasible, match="only deadlines"):
        make("edf").admit(view, 1, 0.0)


# -- throughput ------------------------------------------------------------


def test_broker_favours_those_behind() -> None:
    view = sets.make_view(
        sets.make_rate(1, 4, progress=0.5, asked=6, min_size=0),
        sets.make_rate(2, 4, progress=0.9, asked=6, min_size=0),
    )
    assert sizes(make("throughput"), view) == (5, 3)


@pytest.mark.parametrize(
    ("slots", "expected"), [(5, (1, 4)), (6, (1, 5)), (7, (2, 5))]
)
def test_offers_count_the_slots_of_a_group_from_its_first(
    slots: int, expected: tuple[int, int]
) -> None:
    # 1, 0.75, 0.56; and above the minimum 0.56, 0.42, 0.32.
    view = sets.make_view(
        sets.make_rate(1, 1, progress=1.0, asked=3, min_size=0),
        sets.make_rate(2, 2, progress=1.0, asked=5, min_size=2),
        slots=slots,
    )
    assert sizes(make("throughput"), view) == expected


@pytest.mark.parametrize(
    ("is_rate", "expected"), [(False, (3, 5)), (True, (2, 6))]
)
def test_slack_goes_to_deadlines(
    is_rate: bool, expected: tuple[int, int]
) -> None:
    kind = sets.make_rate if is_rate else sets.make_due
    view = sets.make_view(
        kind(1, 4, progress=1.2, asked=2),
        sets.make_due(2, 4, progress=0.8, asked=3),
    )
    assert sizes(make("throughput"), view) == expected


def test_three_deadlines_that_ask_for_too_much() -> None:
    view = sets.make_view(
        *(
            sets.make_group(
                number,
                size,
                goal=goals.GoalState(
                    goal=goals.Goal(deadline_s=due_s, actions=3000),
                    registered_s=0.0,
                    started=True,
                    done=done,
                    rate_per_s=float(done),
                    slots_per_rate=size / done,
                ),
            )
            for number, size, done, due_s in [
                (1, 6, 72, 50.0),
                (2, 1, 12, 109.0),
                (3, 1, 12, 195.0),
            ]
        )
    )
    assert throughput.requests(view.groups, 8, 1.0, False) == {
        1: 5,
        2: 3,
        3: 2,
    }
    assert sizes(make("throughput"), view, 1.0) == (3, 3, 2)


def test_slack_ends_at_the_maxima() -> None:
    view = sets.make_view(
        sets.make_due(1, 1, max_size=2),
        sets.make_due(2, 1, max_size=3),
        slots=50,
    )
    assert sizes(make("throughput"), view) == (2, 3)


def test_slack_comes_first_to_those_without_a_slot() -> None:
    groups = [
        sets.make_due(1, 0, progress=0.1, asked=1),
        sets.make_due(2, 0, progress=0.9, asked=1),
    ]
    found = throughput.with_slack(groups, {1: 1, 2: 0}, 3, 0.0)
    assert found == {1: 2, 2: 1}
    assert throughput.with_slack(groups, {1: 1, 2: 0}, 2, 0.0) == {1: 1, 2: 1}


def test_minima_are_kept_if_requests_do_not_fit() -> None:
    view = sets.make_view(
        sets.make_rate(1, 4, progress=0.01, asked=8, min_size=1),
        sets.make_rate(2, 4, progress=5.0, asked=4, min_size=3),
    )
    assert sizes(make("throughput"), view) == (5, 3)
    # Not even the minima fit.
    small = sets.make_view(*view.groups, slots=2)
    assert sizes(make("throughput"), small) == (1, 3)


def test_slots_that_have_to_stay_count_like_a_minimum() -> None:
    view = sets.make_view(
        sets.make_rate(1, 6, progress=9.0, asked=1, staying=5),
        sets.make_due(2, 2, progress=0.1, asked=8),
    )
    assert sizes(make("throughput"), view) == (5, 3)


def test_deadline_that_has_passed_asks_for_all() -> None:
    view = sets.make_view(
        sets.make_due(1, 4, due_s=10.0, max_size=6),
        sets.make_due(2, 4, due_s=40.0, progress=0.5, asked=4),
    )
    assert sizes(make("throughput"), view, 10.0) == (6, 2)


def test_one_fewer_is_tried_while_it_is_good_enough() -> None:
    def asked(progress: float, short_size: int | None, size: int = 5) -> int:
        group = sets.make_rate(
            1, size, progress=progress, asked=5, short_size=short_size
        )
        return throughput.requests([group], 8, 0.0, True)[1]

    assert asked(1.1, None) == 4
    assert asked(1.0, 3) == 4
    # Four were too few a while ago.
    assert asked(1.1, 4) == 5
    assert asked(0.99, None) == 5
    assert asked(1.5, None, size=1) == 1


def test_new_group_gets_all_free_slots() -> None:
    view = sets.make_view(
        sets.make_rate(1, 2, progress=1.0, asked=2),
        sets.make_rate(2, 0, progress=0, asked=1, started=False, max_size=5),
        slots=8,
    )
    assert make("throughput").admit(view, 2, 0.0) == {2: 5}


def test_new_group_gets_what_others_can_spare() -> None:
    view = sets.make_view(
        sets.make_due(1, 3, asked=2),
        sets.make_due(2, 5, asked=2),
        sets.make_rate(
            3, 0, progress=0, asked=1, started=False, min_size=3, wanted=3
        ),
    )
    # One at a time from the largest surplus; of equals the lower id.
    assert make("throughput").admit(view, 3, 0.0) == {1: 2, 2: 3, 3: 3}


def test_slots_that_have_to_stay_are_promised_to_a_new_group() -> None:
    view = sets.make_view(
        sets.make_due(1, 4, asked=2, staying=4),
        sets.make_rate(2, 0, progress=0, asked=1, started=False),
    )
    assert make("throughput").admit(view, 2, 0.0) == {1: 3, 2: 1}


def test_new_group_is_refused_if_others_need_their_slots() -> None:
    view = sets.make_view(
        sets.make_due(1, 4, asked=4),
        sets.make_due(2, 4, asked=3),
        sets.make_rate(
            3, 0, progress=0, asked=1, started=False, min_size=2, wanted=2
        ),
    )
    with pytest.raises(goals.Infeasible, match="the goal needs 2 slots"):
        make("throughput").admit(view, 3, 0.0)


# -- hybrid ----------------------------------------------------------------


def test_hybrid_gives_rates_what_they_ask_for_and_deadlines_the_rest() -> None:
    view = sets.make_view(
        sets.make_rate(1, 2, progress=0.5, asked=3),
        sets.make_due(2, 3, due_s=20.0, progress=0.1),
        sets.make_due(3, 3, due_s=10.0, progress=2.0, max_size=3),
    )
    assert sizes(make("hybrid"), view) == (3, 2, 3)


def test_hybrid_keeps_the_minima_of_deadlines_from_rates() -> None:
    view = sets.make_view(
        sets.make_rate(1, 2, progress=0.5, asked=6, min_size=0),
        sets.make_rate(2, 3, progress=0.9, asked=6, min_size=0),
        sets.make_due(3, 3, min_size=2),
        slots=10,
    )
    assert sizes(make("hybrid"), view) == (5, 3, 2)


def test_hybrid_lets_a_rate_show_what_its_slots_can_do() -> None:
    new = sets.make_group(
        1,
        0,
        goal=goals.GoalState(
            goal=goals.Goal(rate_per_s=5.0), registered_s=0.0
        ),
    )
    view = sets.make_view(new, slots=8)
    assert make("hybrid").admit(view, 1, 0.0) == {1: 8}
    started = sets.make_group(
        1,
        8,
        goal=goals.GoalState(
            goal=goals.Goal(rate_per_s=5.0), registered_s=0.0, started=True
        ),
    )
    assert sizes(make("hybrid"), sets.make_view(started)) == (8,)


def test_hybrid_divides_free_slots_between_new_rates() -> None:
    first, second = (
        sets.make_group(
            number,
            0,
            wanted=wanted,
            min_size=0,
            goal=goals.GoalState(
                goal=goals.Goal(rate_per_s=5.0), registered_s=0.0, started=True
            ),
        )
        for number, wanted in ((1, 8), (2, 0))
    )
    # The first one was given all slots when it was registered.
    view = sets.make_view(first, second, slots=8)
    assert sizes(make("hybrid"), view) == (4, 4)
    # What others need is not for them.
    due = sets.make_due(3, 3, min_size=3)
    view = sets.make_view(first, second, due, slots=8)
    assert sizes(make("hybrid"), view) == (3, 2, 3)


def make_slower_rate(size: int) -> elasticity.GroupView:
    """One that asks for 2 slots, and for 3 while all slots are busy."""
    rate = sets.make_rate(1, size, progress=1.2, asked=2)
    assert rate.goal is not None
    return dataclasses.replace(
        rate, goal=dataclasses.replace(rate.goal, full_slots_per_rate=0.3)
    )


def test_hybrid_gives_rates_what_they_need_while_all_slots_are_busy() -> None:
    rate = make_slower_rate(2)
    view = sets.make_view(rate, sets.make_due(2, 6))
    assert sizes(make("hybrid"), view) == (3, 5)
    # The published rule looks at the last periods only.
    assert sizes(make("throughput"), view) == (2, 6)


def test_hybrid_tries_one_slot_fewer_only_if_there_are_too_few() -> None:
    rates = [sets.make_rate(n, 3, progress=1.1, asked=3) for n in (1, 2)]
    due = sets.make_due(3, 2)
    assert sizes(make("hybrid"), sets.make_view(*rates, due)) == (3, 3, 2)
    view = sets.make_view(*rates, due, slots=5)
    assert sizes(make("hybrid"), view) == (2, 2, 1)
    view = sets.make_view(*rates, due, slots=6)
    # Fewer would do, so that no offers are compared.
    assert sizes(make("hybrid"), view) == (2, 2, 2)
    assert sizes(make("hybrid", try_fewer=False), view) == (3, 2, 1)


def due(due_s: float, work_s: float) -> hybrid.Need:
    return hybrid.Need(due_s=due_s, work_s=work_s)


def rate(slots: int) -> hybrid.Need:
    return hybrid.Need(slots)


def test_admission_of_deadlines() -> None:
    others = [due(10.0, 50.0), rate(2), rate(3)]
    # 15 slots, 5 of them for rates: 100 slot-seconds in 10 s.
    hybrid.check_fits(due(10.0, 50.0), others, 15, 1.0, 0.0)
    with pytest.raises(goals.Infeasible) as refused:
        hybrid.check_fits(due(10.0, 51.0), others, 15, 1.0, 0.0)
    assert refused.value.earliest_s == pytest.approx(10.1)
    earliest_s = refused.value.earliest_s
    hybrid.check_fits(due(earliest_s, 51.0), others, 15, 1.0, 0.0)


def test_admission_counts_on_a_part_of_what_rates_leave() -> None:
    others = [rate(5)]
    hybrid.check_fits(due(10.0, 90.0), others, 15, 0.9, 0.0)
    with pytest.raises(goals.Infeasible) as refused:
        hybrid.check_fits(due(10.0, 91.0), others, 15, 0.9, 0.0)
    assert refused.value.earliest_s == pytest.approx(91 / 9)


def test_admission_protects_later_deadlines() -> None:
    others = [due(10.0, 100.0)]
    with pytest.raises(goals.Infeasible) as refused:
        hybrid.check_fits(due(5.0, 1.0), others, 10, 1.0, 0.0)
    # Only after the other one.
    assert refused.value.earliest_s == pytest.approx(10.1)


def test_admission_without_slots_for_deadlines() -> None:
    with pytest.raises(goals.Infeasible) as refused:
        hybrid.check_fits(due(5.0, 1.0), [rate(10)], 10, 1.0, 0.0)
    assert refused.value.earliest_s is None


def test_admission_of_rates() -> None:
    others = [due(10.0, 50.0), rate(2)]
    hybrid.check_fits(rate(3), others, 10, 1.0, 0.0)
    with pytest.raises(goals.Infeasible) as refused:
        hybrid.check_fits(rate(4), others, 10, 1.0, 0.0)
    assert refused.value.earliest_s is None
    hybrid.check_fits(rate(8), [rate(2)], 10, 1.0, 0.0)
    with pytest.raises(goals.Infeasible):
        hybrid.check_fits(rate(9), [rate(2)], 10, 1.0, 0.0)


def test_deadline_that_is_lost_anyway_refuses_no_rate() -> None:
    others = [due(10.0, 50.0), due(11.0, 400.0)]
    hybrid.check_fits(rate(5), others, 10, 1.0, 0.0)
    with pytest.raises(goals.Infeasible):
        hybrid.check_fits(rate(6), others, 10, 1.0, 0.0)


def test_admission_takes_rates_at_the_slots_that_they_need() -> None:
    # It does not need the 6 slots that it has.
    rate = make_slower_rate(6)
    for due_s, fits in ((1.01, True), (0.99, False)):
        # 5 slot-seconds, and five slots are left.
        goal = goals.GoalState(
            goal=goals.Goal(deadline_s=due_s, actions=50),
            registered_s=0.0,
            slots_per_rate=0.1,
        )
        new = sets.make_group(2, 0, wanted=1, goal=goal)
        view = sets.make_view(rate, new, slots=8, capacity_per_s=8.0)
        policy = make("hybrid", usable=1.0)
        if fits:
            assert policy.admit(view, 2, 0.0) == {2: 1}
        else:
            with pytest.raises(goals.Infeasible):
                policy.admit(view, 2, 0.0)


def test_admission_counts_on_a_part_of_the_measured_capacity() -> None:
    goal = goals.Goal(deadline_s=10.0, actions=99)
    new = sets.make_group(
        2, 0, wanted=1, goal=goals.GoalState(goal=goal, registered_s=0.0)
    )
    view = sets.make_view(
        sets.make_due(1, 8, due_s=100.0), new, capacity_per_s=10.0
    )
    with pytest.raises(goals.Infeasible):
        make("hybrid").admit(view, 2, 0.0)
    assert make("hybrid", usable=1.0).admit(view, 2, 0.0) == {2: 1}
    assert make("hybrid", admission=False).admit(view, 2, 0.0) == {2: 1}


def test_admission_knows_no_capacity_at_first() -> None:
    view = sets.make_view(
        sets.make_due(1, 0, actions=10**9, started=False), slots=8
    )
    assert make("hybrid").admit(view, 1, 0.0) == {1: 1}
