# SPDX-License-Identifier: Apache-2.0

"""Groups: their slots, statistics, goals and moves."""

from __future__ import annotations

import math
import typing

import pytest

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as core_groups
from fpgapool.strategies import elasticity as policies
from fpgapool.vocabulary import states

Move = core_groups.Move


class Scripted(elasticity.Policy):
    """Gives the sizes that a test wants, and keeps the views that it saw."""

    def __init__(self, **traits: typing.Any) -> None:
        self.sizes: dict[int, int] = {}
        self.views: list[elasticity.View] = []
        for name, value in traits.items():
            setattr(self, name, value)

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        self.views.append(view)
        return self.sizes


def make_spec(group_id: int, size: int, **more: typing.Any) -> model.Group:
    return model.Group(
        id=group_id,
        accelerator="aes",
        size=size,
        **{"min_size": 1, "max_size": 8, "elastic": True, **more},
    )


def make_groups(
    *sizes: int, policy: elasticity.Policy | None = None, **options: typing.Any
) -> core_groups.Groups:
    """Groups 1, 2, … with so many members."""
    groups = core_groups.Groups(
        policy or Scripted(), core_groups.SizingOptions(**options)
    )
    for group_id, size in enumerate(sizes, 1):
        groups.create(make_spec(group_id, size), 0.0)
    fill(groups, 0.0)
    return groups


def fill(groups: core_groups.Groups, now: float) -> None:
    """Make all moves at once."""
    while moves := groups.moves():
        groups.begin(moves[0], now)
        if moves[0].receiver is not None:
            groups.joined(moves[0].receiver, now)


def report(
    groups: core_groups.Groups,
    group_id: int,
    now: float,
    *,
    ended: int = 0,
    arrived: int = 0,
    waiting: int = 0,
    busy_s: float = 0.0,
    client: str = "c",
    host_id: int = 0,
) -> bool:
    return groups.observe(
        events.TaskStats(
            group_id=group_id,
            host_id=host_id,
            clients=(
                events.ClientStats(client, ended, arrived, waiting, busy_s),
            ),
            busy_s=busy_s,
            busy_members=1,
        ),
        now,
    )


def numbers_of(
    groups: core_groups.Groups, group_id: int
) -> tuple[object, ...]:
    """Its state, members, slots under way, wanted size and waiting work."""
    found = groups.get(group_id)
    assert found is not None
    return (
        found.state,
        found.members,
        found.under_way,
        found.wanted,
        found.waiting_s,
    )


def state_of(groups: core_groups.Groups, group_id: int) -> str:
    status = groups.get(group_id)
    assert status is not None
    return status.state


def members_of(groups: core_groups.Groups, *group_ids: int) -> list[int]:
    found = [groups.get(group_id) for group_id in group_ids]
    return [each.members for each in found if each is not None]


def want(
    groups: core_groups.Groups, sizes: dict[int, int], now: float
) -> None:
    """Let the policy want these sizes."""
    policy = groups.policy
    assert isinstance(policy, Scripted)
    policy.sizes = sizes
    groups.resize(now)


# -- what owners ask for ---------------------------------------------------


@pytest.mark.parametrize(
    ("size", "min_size", "max_size"),
    [(0, 0, 4), (-1, -1, 4), (2, 3, 4), (5, 1, 4), (2, -1, 4), (2, 4, 3)],
)
def test_bad_sizes_are_refused(
    size: int, min_size: int, max_size: int
) -> None:
    with pytest.raises(ValueError, match="size"):
        make_spec(1, size, min_size=min_size, max_size=max_size).check_sizes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period_s": 0.0}, "period_s must be positive"),
        ({"period_s": math.nan}, "period_s must be positive"),
        ({"periods": 0}, "periods must be at least 1"),
        ({"estimate": "guess"}, "estimate must be one of measured"),
        ({"smoothing": 0.0}, "smoothing must be above 0"),
        ({"smoothing": 1.5}, "smoothing must be above 0"),
        ({"arrival_smoothing": 0.0}, "arrival_smoothing must be above 0"),
        ({"programming_time_s": -1.0}, "must not be negative"),
        ({"programming_time_s": math.nan}, "must not be negative"),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, typing.Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        core_groups.SizingOptions(**options)


def test_short_period_is_refused_or_warned_of() -> None:
    policy = policies.make_ahead({})
    options = core_groups.SizingOptions(programming_time_s=5.1)
    with pytest.raises(ValueError, match="at least 2 times"):
        core_groups.Groups(policy, options)
    options = core_groups.SizingOptions(programming_time_s=5.0)
    warning = core_groups.Groups(policy, options).warning
    assert warning is not None
    assert "shorter than 10 times" in warning
    options = core_groups.SizingOptions(programming_time_s=1.0)
    assert core_groups.Groups(policy, options).warning is None
    options = core_groups.SizingOptions(programming_time_s=1.0, period_s=1.5)
    with pytest.raises(ValueError, match="at least 2 times"):
        core_groups.Groups(policy, options)


def test_second_group_with_an_id_is_refused() -> None:
    groups = make_groups(2)
    with pytest.raises(ValueError, match="group 1 already exists"):
        groups.create(make_spec(1, 3), 0.0)
    assert members_of(groups, 1) == [2]


def test_unknown_groups() -> None:
    groups = make_groups(2)
    assert groups.get(9) is None
    assert groups.progress(9, 0.0) is None
    assert groups.next_move(9) is None
    assert not report(groups, 9, 0.0, ended=5)
    for call in (groups.delete, groups.joined, groups.left, groups.start):
        with pytest.raises(KeyError):
            call(9, 0.0)
    with pytest.raises(KeyError):
        groups.begin(Move(1, 9), 0.0)
    with pytest.raises(KeyError):
        groups.begin(Move(9, 1), 0.0)
    assert members_of(groups, 1) == [2]
    assert groups.moves() == ()


# -- states ----------------------------------------------------------------


def test_all_states_can_be_reached_and_left() -> None:
    known = set(states.GROUP_MOVES) | {states.GROUP_DELETED}
    reached = {
        state
        for moves in states.GROUP_MOVES.values()
        for state in moves.values()
    }
    assert reached | {states.GROUP_CREATING} == known


def test_life_of_a_group() -> None:
    groups = core_groups.Groups(Scripted())
    groups.create(make_spec(1, 3, min_size=2), 0.0)
    assert state_of(groups, 1) == "CREATING"
    assert groups.moves() == (Move(None, 1),) * 3
    for _ in range(3):
        groups.begin(Move(None, 1), 0.0)
    assert groups.moves() == ()
    groups.joined(1, 4.0)
    assert state_of(groups, 1) == "CREATING"
    groups.joined(1, 4.0)
    assert state_of(groups, 1) == "RESIZING"
    groups.joined(1, 4.0)
    assert state_of(groups, 1) == "ACTIVE"
    want(groups, {1: 2}, 10.0)
    assert state_of(groups, 1) == "RESIZING"
    want(groups, {1: 4}, 20.0)
    groups.set_slots(frozenset(), 4)
    fill(groups, 20.0)
    assert state_of(groups, 1) == "ACTIVE"
    groups.left(1, 21.0)
    assert state_of(groups, 1) == "RESIZING"
    groups.left(1, 21.0)
    groups.left(1, 21.0)
    assert state_of(groups, 1) == "DEGRADED"
    fill(groups, 22.0)
    assert state_of(groups, 1) == "ACTIVE"
    groups.delete(1, 23.0)
    assert state_of(groups, 1) == "DRAINING"
    assert groups.moves() == (Move(1, None),) * 4
    fill(groups, 24.0)
    assert groups.get(1) is None
    assert groups.wake_s() == math.inf


def test_group_that_never_had_a_slot_is_gone_at_once() -> None:
    groups = core_groups.Groups(Scripted())
    groups.create(make_spec(1, 3), 0.0)
    groups.delete(1, 1.0)
    assert groups.get(1) is None


def test_deleted_group_awaits_the_slots_under_way_to_it() -> None:
    groups = core_groups.Groups(Scripted())
    groups.create(make_spec(1, 2), 0.0)
    groups.begin(Move(None, 1), 0.0)
    groups.begin(Move(None, 1), 0.0)
    groups.delete(1, 1.0)
    groups.delete(1, 1.0)
    assert groups.moves() == ()
    groups.failed(1, 2.0)
    groups.joined(1, 3.0)
    assert groups.next_move(1) == Move(1, None)
    groups.begin(Move(1, None), 3.0)
    assert groups.get(1) is None


def test_deleted_group_takes_no_orders() -> None:
    groups = make_groups(2)
    groups.delete(1, 1.0)
    with pytest.raises(KeyError):
        groups.change(make_spec(1, 4), 1.0)
    with pytest.raises(KeyError):
        groups.set_goal(1, goals.Goal(rate_per_s=1.0), 1.0)
    with pytest.raises(KeyError):
        groups.start(1, 1.0)
    assert not report(groups, 1, 1.0, ended=5)


def test_members_of_a_former_run_are_restored() -> None:
    groups = core_groups.Groups(policies.make_nnls({}))
    groups.restore(make_spec(1, 2), 5, 100.0)
    groups.restore(make_spec(2, 6), 3, 100.0)
    for _ in range(5):
        groups.joined(1, 100.0)
    for _ in range(3):
        groups.joined(2, 100.0)
    assert groups.moves() == ()
    # Nothing is known of the tasks yet.
    report(groups, 1, 109.0, waiting=5)
    groups.resize(110.0)
    assert groups.moves() == ()


# -- moves -----------------------------------------------------------------


def test_largest_deficit_comes_first_then_the_lower_id() -> None:
    groups = make_groups(6, 1, 1, 1)
    want(groups, {1: 1, 2: 2, 3: 4, 4: 2}, 10.0)
    assert groups.moves() == (
        Move(1, 3),
        Move(1, 3),
        Move(1, 2),
        Move(1, 3),
        Move(1, 4),
    )


def test_slots_under_way_count_for_their_destination() -> None:
    groups = make_groups(4, 4)
    want(groups, {1: 2, 2: 6}, 10.0)
    move = groups.next_move(1)
    assert move == Move(1, 2)
    groups.begin(Move(1, 2), 11.0)
    assert members_of(groups, 1, 2) == [3, 4]
    assert groups.moves() == (Move(1, 2),)
    # The policy sees it there, and does not send it again.
    want(groups, {1: 3, 2: 5}, 20.0)
    view = typing.cast(Scripted, groups.policy).views[-1]
    assert [group.size for group in view.groups] == [3, 5]
    assert groups.moves() == ()
    assert groups.next_move(1) is None


def test_new_sizes_make_older_moves_void() -> None:
    groups = make_groups(4, 4)
    want(groups, {1: 1, 2: 7}, 10.0)
    groups.begin(Move(1, 2), 10.0)
    want(groups, {1: 5, 2: 3}, 20.0)
    # A slot that is being programmed cannot be taken away.
    assert groups.moves() == (Move(2, 1), Move(2, 1))
    groups.joined(2, 21.0)
    assert groups.moves() == (Move(2, 1), Move(2, 1))
    fill(groups, 22.0)
    assert members_of(groups, 1, 2) == [5, 3]


def test_failed_programming_asks_the_pool_for_another_slot() -> None:
    groups = make_groups(4, 4)
    want(groups, {1: 3, 2: 5}, 10.0)
    groups.begin(Move(1, 2), 10.0)
    groups.failed(2, 14.0)
    assert groups.moves() == (Move(None, 2),)
    # The set is entitled to eight slots, whatever the policy divides.
    want(groups, {}, 20.0)
    view = typing.cast(Scripted, groups.policy).views[-1]
    assert view.slots == 8
    assert sum(group.size for group in view.groups) == 7
    assert groups.moves() == (Move(None, 2),)


def test_donor_needs_members() -> None:
    groups = core_groups.Groups(Scripted())
    groups.create(make_spec(1, 1), 0.0)
    groups.create(make_spec(2, 1), 0.0)
    with pytest.raises(ValueError, match="group 1 has no members"):
        groups.begin(Move(1, 2), 0.0)
    assert numbers_of(groups, 2) == ("CREATING", 0, 0, 1, None)


def test_sizes_outside_a_groups_bounds_are_cut_off() -> None:
    groups = make_groups(2, 4)
    want(groups, {1: -3, 2: 99, 7: 5}, 10.0)
    wanted = [groups.get(each) for each in (1, 2)]
    assert [each.wanted for each in wanted if each] == [1, 8]


def test_set_asks_the_pool_for_no_more_than_it_may_have() -> None:
    groups = make_groups(2, 4)
    want(groups, {1: 8, 2: 8}, 10.0)
    assert groups.moves() == ()
    groups.left(1, 11.0)
    assert groups.moves() == (Move(None, 1),)
    groups.set_slots(frozenset(), 7)
    assert groups.moves() == (Move(None, 1),) * 2


def test_sets_do_not_mix() -> None:
    groups = core_groups.Groups(Scripted())
    large = frozenset({"large"})
    groups.create(make_spec(1, 4), 0.0)
    groups.create(make_spec(2, 4), 0.0, shapes=large)
    groups.create(make_spec(3, 4, elastic=False), 0.0)
    fill(groups, 0.0)
    groups.set_slots(large, 6)
    want(groups, {1: 2, 2: 6, 3: 8}, 10.0)
    views = typing.cast(Scripted, groups.policy).views
    assert [[g.id for g in view.groups] for view in views] == [[1], [2]]
    assert groups.moves() == (Move(1, None),) * 2 + (Move(None, 2),) * 2
    assert members_of(groups, 3) == [4]


def test_owner_changes_sizes() -> None:
    groups = make_groups(4, 4)
    groups.change(make_spec(1, 2, max_size=3), 5.0)
    groups.change(make_spec(2, 7), 5.0)
    assert groups.moves() == (Move(1, 2), Move(1, 2), Move(None, 2))
    fill(groups, 5.0)
    want(groups, {1: 8}, 10.0)
    assert numbers_of(groups, 1) == ("RESIZING", 2, 0, 3, 0.0)


def test_slots_of_a_set_can_be_set() -> None:
    groups = make_groups(2, 2)
    shapes: frozenset[str] = frozenset()
    groups.set_slots(shapes, 9)
    want(groups, {}, 10.0)
    groups.set_slots(shapes, None)
    want(groups, {}, 20.0)
    views = typing.cast(Scripted, groups.policy).views
    assert [view.slots for view in views] == [9, 4]


def test_sessions_get_members_above_the_minimum() -> None:
    groups = make_groups(4, 4, 1)
    for group_id, waiting in ((1, 40), (2, 20), (3, 0)):
        report(groups, group_id, 9.0, ended=10, waiting=waiting, busy_s=10.0)
    groups.resize(10.0)
    # The third has its minimum only.
    assert groups.call_back([1, 2, 3]) == 2
    assert groups.moves() == (Move(2, None),)
    assert groups.next_move(2) == Move(2, None)
    # One slot per period.
    assert groups.call_back([1, 2, 3]) is None
    groups.begin(Move(2, None), 12.0)
    assert groups.moves() == ()
    groups.resize(20.0)
    # The set asks for it again, behind the session in the queue.
    view = typing.cast(Scripted, groups.policy).views[-1]
    assert view.slots == 9
    assert groups.call_back([1, 9]) == 1
    assert groups.call_back([]) is None


@pytest.mark.parametrize(
    ("elastic", "sizes_all", "wanted"),
    [
        (True, True, [2, 1, 1]),
        # The policy would never ask for its slots.
        (True, False, [2, 2, 2]),
        (False, True, [2, 2, 2]),
    ],
)
def test_groups_that_gave_slots_want_some_again(
    elastic: bool, sizes_all: bool, wanted: list[int]
) -> None:
    policy = Scripted()
    policy.sizes_all = sizes_all
    groups = core_groups.Groups(policy, core_groups.SizingOptions())
    spec = make_spec(1, 2, min_size=0, max_size=2, elastic=elastic)
    groups.create(spec, 0.0)
    fill(groups, 0.0)
    found = []
    for now in (10.0, 20.0, 30.0):
        groups.resize(now)
        status = groups.get(1)
        assert status is not None
        found.append(status.wanted)
        if now < 30.0:
            assert groups.call_back([1]) == 1
            groups.begin(Move(1, None), now + 1.0)
    assert found == wanted
    assert groups.moves() == (Move(None, 1),) * wanted[-1]


def test_group_that_has_reached_its_goal_wants_no_given_slot_again() -> None:
    policy = Scripted()
    policy.serves_goals, policy.sizes_all = True, False
    groups = core_groups.Groups(policy, core_groups.SizingOptions())
    spec = make_spec(1, 2, min_size=0, max_size=2)
    groups.create(spec, 0.0, goals.Goal(rate_per_s=1.0, actions=5))
    fill(groups, 0.0)
    assert groups.call_back([1]) == 1
    report(groups, 1, 5.0, ended=5, waiting=0, busy_s=5.0)
    groups.resize(10.0)
    status = groups.get(1)
    assert status is not None
    assert status.wanted == 0


def test_slot_for_a_session_goes_to_no_other_group() -> None:
    groups = make_groups(4, 2)
    groups.resize(10.0)
    assert groups.call_back([1]) == 1
    groups.left(2, 11.0)
    assert groups.moves() == (Move(1, None), Move(None, 2))
    assert groups.next_move(1) == Move(1, None)


def test_slot_for_a_session_is_promised_for_one_period() -> None:
    groups = make_groups(4, 2)
    groups.resize(10.0)
    assert groups.call_back([1]) == 1
    want(groups, {1: 4, 2: 2}, 20.0)
    assert groups.moves() == ()
    want(groups, {1: 3, 2: 3}, 30.0)
    assert groups.moves() == (Move(1, 2),)
    assert groups.next_move(1) == Move(1, 2)


# -- periods and statistics ------------------------------------------------


def test_periods_keep_their_grid() -> None:
    groups = make_groups(2)
    policy = typing.cast(Scripted, groups.policy)
    assert groups.wake_s() == 10
    groups.resize(9.9)
    assert policy.views == []
    groups.resize(10.5)
    assert groups.wake_s() == 20
    groups.resize(47.0)
    assert groups.wake_s() == 50
    assert len(policy.views) == 2


def test_period_of_the_operator() -> None:
    groups = make_groups(2, period_s=3.0)
    assert groups.wake_s() == 3
    groups.resize(3.0)
    assert groups.wake_s() == 6


def test_work_of_all_clients_and_hosts() -> None:
    groups = make_groups(2)
    report(groups, 1, 4.0, ended=10, arrived=30, waiting=9, busy_s=1.0)
    report(groups, 1, 9.0, ended=10, arrived=10, waiting=5, busy_s=3.0)
    report(
        groups,
        1,
        9.0,
        ended=5,
        arrived=5,
        waiting=2,
        busy_s=5.0,
        client="d",
        host_id=1,
    )
    groups.resize(10.0)
    (group,) = typing.cast(Scripted, groups.policy).views[-1].groups
    # 0.2 s per task of one client, 1 s of the other.
    assert group.waiting_s == pytest.approx(5 * 0.2 + 2 * 1.0)
    assert group.arrived_s == pytest.approx(40 * 0.2 + 5 * 1.0)
    assert group.expected_s == pytest.approx(13.0)
    # Nothing new comes, and the desk of one host goes.
    groups.observe(events.TaskStats(1, 1, (), 0.0, 0), 19.0)
    groups.resize(20.0)
    (group,) = typing.cast(Scripted, groups.policy).views[-1].groups
    assert group.waiting_s == pytest.approx(1.0)
    assert group.arrived_s == 0
    assert group.expected_s == pytest.approx(9.75)


@pytest.mark.parametrize("estimate", ["measured", "nnls"])
def test_runtimes_are_learned_in_six_periods(estimate: str) -> None:
    groups = make_groups(2, estimate=estimate)
    # Tasks of 1 and 4 ms in changing numbers, of which nothing else is said.
    for period in range(1, 7):
        fast, slow = 1000 * period, 4000 - 500 * period
        now = 10.0 * period
        report(groups, 1, now, ended=fast, busy_s=fast * 1e-3, client="f")
        report(groups, 1, now, ended=slow, busy_s=slow * 4e-3, client="s")
        groups.resize(now)
    groups.observe(
        events.TaskStats(
            1, 0, (events.ClientStats("s", 0, 0, 100, 0.0),), 0.0, 0
        ),
        69.0,
    )
    groups.resize(70.0)
    status = groups.get(1)
    assert status is not None
    assert status.waiting_s == pytest.approx(0.4, rel=0.1)


def test_runtimes_forget_what_is_older_than_their_periods() -> None:
    groups = make_groups(2, periods=2)
    for period, task_s in enumerate((1.0, 2.0, 2.0), 1):
        report(groups, 1, 10.0 * period, ended=4, busy_s=4 * task_s, waiting=1)
        groups.resize(10.0 * period)
    status = groups.get(1)
    assert status is not None
    assert status.waiting_s == 2.0


def test_idle_window_divides_by_nothing() -> None:
    groups = make_groups(2, 2, policy=policies.make_ahead({}))
    for period in range(1, 10):
        groups.resize(10.0 * period)
    assert groups.moves() == ()
    assert members_of(groups, 1, 2) == [2, 2]


# -- goals -----------------------------------------------------------------

GOALS = {"serves_goals": True, "follows_goals": True, "period_s": 1.0}


def test_goal_is_measured() -> None:
    groups = make_groups(4, policy=Scripted(**GOALS))
    groups.set_goal(1, goals.Goal(rate_per_s=30.0), 0.0)
    groups.start(1, 0.0)
    report(groups, 1, 1.0, ended=20, arrived=20, busy_s=4.0)
    groups.resize(1.0)
    report(groups, 1, 2.0, ended=40, busy_s=4.0)
    groups.resize(2.0)
    progress = groups.progress(1, 2.0)
    assert progress is not None
    # First 0.2 slots per task/s, then half of 0.2 and half of 0.1.
    assert progress.asked == 5
    assert progress.progress == pytest.approx(1.33, abs=5e-3)
    assert progress.rate_per_s == 40
    assert progress.done == 60
    assert progress.expected_finish_s is None


def test_idle_members_do_not_raise_what_a_rate_asks_for() -> None:
    groups = make_groups(8, policy=Scripted(**GOALS))
    groups.set_goal(1, goals.Goal(rate_per_s=20.0), 0.0)
    # The program sends fewer tasks than its goal says; they need one slot.
    for now in range(1, 9):
        report(groups, 1, float(now), ended=10, arrived=10, busy_s=1.0)
        groups.resize(float(now))
    progress = groups.progress(1, 8.0)
    assert progress is not None
    assert progress.asked == 2
    assert progress.progress == 0.5


def test_goal_in_an_idle_window() -> None:
    groups = make_groups(4, policy=Scripted(**GOALS))
    groups.set_goal(1, goals.Goal(deadline_s=5.0, actions=100), 0.0)
    report(groups, 1, 1.0, ended=20, arrived=20, busy_s=4.0)
    groups.resize(1.0)
    for now in range(2, 10):
        report(groups, 1, float(now))
        groups.resize(float(now))
        progress = groups.progress(1, float(now))
        assert progress is not None
        assert progress.progress == 0
        assert progress.expected_finish_s is None
    assert progress.asked == 8


def test_rate_is_measured_from_report_to_report() -> None:
    """Periods are shorter than the time between two reports."""
    groups = make_groups(4, policy=Scripted(**GOALS))
    groups.set_goal(1, goals.Goal(rate_per_s=20.0), 0.0)
    report(groups, 1, 1.0, arrived=20)
    groups.resize(1.0)
    for now in range(2, 22):
        if now % 5 == 1:
            report(groups, 1, float(now), ended=100, arrived=100, busy_s=5.0)
        groups.resize(float(now))
        progress = groups.progress(1, float(now))
        assert progress is not None
        assert progress.rate_per_s == (20 if now > 5 else 0)
    # In the end silence says that no task has ended.
    for now in range(22, 52):
        groups.resize(float(now))
    progress = groups.progress(1, 51.0)
    assert progress is not None
    assert progress.rate_per_s == 0


def test_deadline_is_reached() -> None:
    groups = make_groups(4, policy=Scripted(**GOALS))
    groups.set_goal(1, goals.Goal(deadline_s=5.0, actions=30), 0.0)
    groups.resize(0.0)
    assert groups.wake_s() == 1
    assert not report(groups, 1, 0.5, ended=20, arrived=40, busy_s=2.0)
    # It has started.
    assert groups.wake_s() == 0.5
    groups.resize(0.5)
    assert report(groups, 1, 0.7, ended=10, busy_s=1.0)
    assert groups.progress(1, 0.7) is None
    assert groups.wake_s() == 0.7
    assert not report(groups, 1, 0.8, ended=10, busy_s=1.0)
    # It falls to its minimum.
    assert groups.moves() == (Move(1, None),) * 3


def test_reached_goal_changes_no_size_if_the_policy_serves_none() -> None:
    groups = make_groups(4)
    groups.set_goal(1, goals.Goal(deadline_s=5.0, actions=30), 0.0)
    assert report(groups, 1, 0.7, ended=30, busy_s=1.0)
    assert groups.moves() == ()
    assert groups.wake_s() == 10


def test_infeasible_goal_leaves_no_group() -> None:
    groups = make_groups(3, policy=policies.make_edf({}))
    groups.set_slots(frozenset(), 4)
    before = numbers_of(groups, 1)
    goal = goals.Goal(deadline_s=5.0, actions=30)
    with pytest.raises(goals.Infeasible):
        groups.create(make_spec(2, 2, min_size=2), 0.0, goal)
    assert groups.get(2) is None
    assert numbers_of(groups, 1) == before
    groups.create(make_spec(2, 1), 0.0, goal)
    assert groups.moves() == (Move(None, 2),)


def test_after_an_infeasible_first_goal_there_is_nothing_to_wake_for() -> None:
    groups = make_groups(policy=policies.make_edf({}))
    with pytest.raises(goals.Infeasible):
        groups.create(make_spec(1, 1), 0.0, goals.Goal(rate_per_s=5.0))
    assert groups.wake_s() == math.inf


def test_infeasible_change_keeps_the_former_goal() -> None:
    groups = make_groups(3, policy=policies.make_edf({}))
    goal = goals.Goal(deadline_s=5.0, actions=30)
    groups.set_goal(1, goal, 0.0)
    report(groups, 1, 0.1, ended=10, arrived=10)
    with pytest.raises(goals.Infeasible):
        groups.set_goal(1, goals.Goal(rate_per_s=5.0), 0.2)
    with pytest.raises(ValueError, match="10 actions have already ended"):
        groups.set_goal(1, goals.Goal(deadline_s=5.0, actions=10), 0.2)
    progress = groups.progress(1, 0.2)
    assert progress is not None
    assert (progress.goal, progress.done) == (goal, 10)
    longer = goals.Goal(deadline_s=9.0, actions=50)
    groups.set_goal(1, longer, 0.2)
    progress = groups.progress(1, 0.2)
    assert progress is not None
    assert (progress.goal, progress.done) == (longer, 10)


def test_goal_is_taken_away() -> None:
    groups = make_groups(3, 3, policy=policies.make_edf({}))
    groups.set_goal(1, goals.Goal(deadline_s=5.0, actions=30), 0.0)
    groups.start(1, 0.0)
    groups.resize(0.0)
    fill(groups, 0.0)
    groups.set_goal(1, None, 1.0)
    assert groups.progress(1, 1.0) is None
    groups.resize(1.0)
    wanted = groups.get(1)
    assert wanted is not None
    assert wanted.wanted == 3


def test_slots_wait_for_a_registered_goal_to_start() -> None:
    groups = core_groups.Groups(policies.make_edf({}))
    groups.set_slots(frozenset(), 8)
    first = goals.Goal(deadline_s=50.0, actions=100)
    groups.create(make_spec(1, 1), 0.0, first)
    groups.create(make_spec(2, 2, min_size=2), 0.0, first)
    groups.start(1, 0.0)
    groups.resize(0.0)
    fill(groups, 0.0)
    assert members_of(groups, 1, 2) == [6, 2]
    # It is as early as the first, and starts later.
    groups.start(2, 3.0)
    groups.resize(3.0)
    fill(groups, 3.0)
    assert members_of(groups, 1, 2) == [6, 2]
    groups.delete(1, 4.0)
    groups.resize(4.0)
    fill(groups, 4.0)
    assert members_of(groups, 2) == [8]


def test_slots_from_other_groups_stay_for_a_while() -> None:
    policy = Scripted(**GOALS, stay_programmings=10.0)
    groups = make_groups(4, 4, policy=policy, programming_time_s=2.0)
    want(groups, {1: 2, 2: 6}, 1.0)
    fill(groups, 1.0)
    for now in (2.0, 20.9):
        want(groups, {1: 7, 2: 1}, now)
        # Of six members, two came from the other group.
        assert groups.moves() == (Move(2, 1),) * 4
        assert [group.staying for group in policy.views[-1].groups] == [0, 2]
        assert policy.views[-1].groups[1].floor == 2
    want(groups, {1: 7, 2: 1}, 21.0)
    assert groups.moves() == (Move(2, 1),) * 5


def test_slots_may_leave_a_group_that_is_deleted_or_done() -> None:
    policy = Scripted(**GOALS, stay_programmings=10.0)
    groups = make_groups(4, 4, policy=policy, programming_time_s=2.0)
    groups.set_goal(2, goals.Goal(deadline_s=99.0, actions=10), 0.0)
    want(groups, {1: 2, 2: 6}, 1.0)
    fill(groups, 1.0)
    assert report(groups, 2, 1.5, ended=10)
    want(groups, {1: 7, 2: 1}, 2.0)
    assert groups.moves() == (Move(2, 1),) * 5
    fill(groups, 2.0)
    groups.delete(1, 2.5)
    assert groups.moves() == (Move(1, None),) * 7


def test_miss_at_a_size_is_remembered_for_a_while() -> None:
    policy = Scripted(**GOALS)
    groups = make_groups(3, policy=policy)
    groups.set_slots(frozenset(), 4)
    groups.set_goal(1, goals.Goal(rate_per_s=10.0), 0.0)

    def short_after(now: float, ended: int) -> int | None:
        report(groups, 1, now, ended=ended, arrived=1, busy_s=3.0)
        groups.resize(now)
        goal = policy.views[-1].groups[0].goal
        assert goal is not None
        return goal.short_size

    assert short_after(1.0, 20) is None
    assert short_after(2.0, 9) == 3
    # It is good with one more, which says nothing about three.
    policy.sizes = {1: 4}
    assert short_after(3.0, 10) is None
    assert short_after(4.0, 9) == 3
    fill(groups, 4.0)
    assert short_after(5.0, 11) == 3
    assert short_after(63.0, 600) == 3
    assert short_after(64.0, 11) is None
    # Of two misses, the one with more members counts.
    assert short_after(65.0, 9) == 4
    policy.sizes = {1: 3}
    assert short_after(66.0, 9) == 4
    fill(groups, 66.0)
    assert short_after(67.0, 9) == 4


def test_capacity_is_measured() -> None:
    policy = Scripted(**GOALS)
    groups = make_groups(4, 3, policy=policy)
    groups.set_slots(frozenset(), 10)
    groups.set_goal(1, goals.Goal(rate_per_s=10.0), 0.0)
    groups.set_goal(2, goals.Goal(rate_per_s=10.0), 0.0)
    groups.resize(0.0)
    assert policy.views[-1].capacity_per_s is None

    def capacity_after(now: float, first: int, busy_s: float) -> float:
        report(groups, 1, now, ended=first, arrived=1, busy_s=busy_s)
        groups.resize(now)
        capacity_per_s = policy.views[-1].capacity_per_s
        assert capacity_per_s is not None
        return capacity_per_s

    # Two busy slots do 16 tasks/s each.
    assert capacity_after(1.0, 32, 2.0) == pytest.approx(160)
    # All of them do 9 each, since they share a link.
    assert capacity_after(2.0, 90, 10.0) == pytest.approx(90)
    assert capacity_after(3.0, 32, 2.0) == pytest.approx(90)
    # Tasks take twice as long now.
    assert capacity_after(4.0, 9, 2.0) == pytest.approx(45)
    # A period without tasks says nothing.
    assert capacity_after(5.0, 0, 0.0) == pytest.approx(45)


def test_tasks_are_measured_while_all_slots_are_busy() -> None:
    policy = Scripted(**GOALS)
    groups = make_groups(4, 3, policy=policy)
    groups.set_slots(frozenset(), 7)
    for group_id in (1, 2):
        groups.set_goal(group_id, goals.Goal(rate_per_s=10.0), 0.0)
        groups.start(group_id, 0.0)

    def full_after(now: float, ended: int, busy_s: float) -> float | None:
        report(groups, 1, now, ended=ended, arrived=1, busy_s=busy_s)
        report(groups, 2, now, ended=30, arrived=1, busy_s=3.0)
        groups.resize(now)
        goal = policy.views[-1].groups[0].goal
        assert goal is not None
        return goal.full_slots_per_rate

    # A slot is idle.
    assert full_after(1.0, 60, 3.0) is None
    assert full_after(2.0, 40, 4.0) == pytest.approx(0.1)
    assert full_after(3.0, 60, 3.0) == pytest.approx(0.1)
    # Then it is smoothed.
    assert full_after(4.0, 20, 4.0) == pytest.approx(0.15)
    assert full_after(5.0, 0, 4.0) == pytest.approx(0.15)
