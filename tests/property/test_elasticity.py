# SPDX-License-Identifier: Apache-2.0

"""Sizes of groups, whatever their tasks, bounds and goals are."""

from __future__ import annotations

import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.optimize

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import nnls
from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as core_groups
from fpgapool.strategies import elasticity as policies
from fpgapool.strategies.elasticity import hybrid

NAMES = ("none", "nnls", "ahead", "edf", "throughput", "hybrid")
NOW = 100.0

work = st.sampled_from([0.0, 1e-9, 0.5, 1.0, 3.0, 7.0, 1e6]) | st.floats(
    0.0, 1e4
)
counts = st.integers(0, 6)
rates = st.sampled_from([0.0, 1e-6, 0.9, 1.0, 50.0]) | st.floats(0.0, 100.0)


@st.composite
def matrices(
    draw: st.DrawFn,
) -> tuple[list[list[float]], list[float]]:
    """Counts of tasks and busy times, often with dependent columns."""
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    cells = st.integers(0, draw(st.sampled_from([2, 20, 10_000])))
    A = [[float(draw(cells)) for _ in range(columns)] for _ in range(rows)]
    b = [float(draw(st.integers(-5, 100))) for _ in range(rows)]
    return A, b


@hypothesis.given(matrices())
def test_nnls_is_as_good_as_scipy(
    problem: tuple[list[list[float]], list[float]],
) -> None:
    A, b = problem
    found, residual = nnls.solve(A, b)
    _, best = scipy.optimize.nnls(np.array(A), np.array(b))
    assert (found >= 0).all()
    assert residual == pytest.approx(best, rel=1e-6, abs=1e-6)


@st.composite
def goal_states(draw: st.DrawFn) -> goals.GoalState:
    actions = draw(st.integers(1, 500))
    if draw(st.booleans()):
        # Deadlines before, at and just after the present.
        due_s = draw(
            st.sampled_from([NOW, NOW - 1, math.nextafter(NOW, math.inf)])
            | st.floats(0.0, 300.0)
        )
        goal = goals.Goal(deadline_s=due_s, actions=actions)
    else:
        goal = goals.Goal(rate_per_s=draw(st.floats(0.01, 100.0)))
    return goals.GoalState(
        goal=goal,
        registered_s=draw(st.floats(0.0, NOW)),
        started=draw(st.booleans()),
        done=draw(st.integers(0, actions + 3)),
        rate_per_s=draw(rates),
        slots_per_rate=draw(st.none() | st.floats(1e-6, 1e6)),
        full_slots_per_rate=draw(st.none() | st.floats(1e-6, 1e6)),
        short_size=draw(st.none() | counts),
    )


@st.composite
def group_views(draw: st.DrawFn, group_id: int) -> elasticity.GroupView:
    size, min_size = draw(counts), draw(counts)
    max_size = draw(st.integers(max(min_size, 1), 10))
    return elasticity.GroupView(
        id=group_id,
        size=size,
        wanted=draw(st.integers(min_size, max_size)),
        min_size=min_size,
        max_size=max_size,
        staying=min(draw(counts), size),
        waiting_s=draw(st.none() | work if draw(st.booleans()) else work),
        arrived_s=draw(work),
        expected_s=draw(work),
        goal=draw(st.none() | goal_states()),
    )


@st.composite
def views(draw: st.DrawFn) -> elasticity.View:
    number = draw(st.integers(0, 5))
    groups = tuple(draw(group_views(group_id)) for group_id in range(number))
    return elasticity.View(
        groups=groups,
        slots=draw(st.integers(0, 20)),
        period_s=10.0,
        capacity_per_s=draw(st.none() | st.floats(0.1, 1e3)),
    )


def check_sizes(view: elasticity.View, sizes: elasticity.Sizes) -> None:
    """Check the contract of a policy's sizes."""
    chosen = [group for group in view.groups if group.id in sizes]
    assert len(chosen) == len(sizes)
    for group in chosen:
        size = sizes[group.id]
        assert isinstance(size, int)
        # nnls and ahead keep a slot in each group.
        most = max(group.max_size, group.floor)
        assert group.floor <= size <= most
    floors = sum(max(group.floor, 1) for group in chosen)
    assert sum(sizes.values()) <= max(view.slots_for(chosen), floors)


@pytest.mark.parametrize("name", NAMES)
@hypothesis.given(views())
def test_sizes_keep_their_bounds(name: str, view: elasticity.View) -> None:
    policy = getattr(policies, f"make_{name}")({})
    sizes = policy.resize(view, NOW)
    check_sizes(view, sizes)
    # A policy is pure.
    assert policy.resize(view, NOW) == sizes


@pytest.mark.parametrize("name", ["edf", "throughput", "hybrid"])
@hypothesis.given(views())
def test_slots_are_left_only_if_deadlines_have_their_most(
    name: str, view: elasticity.View
) -> None:
    sizes = getattr(policies, f"make_{name}")({}).resize(view, NOW)
    pursuing = [group for group in view.pursuing() if group.id in sizes]
    if sum(sizes.values()) < view.slots_for(pursuing):
        assert all(
            sizes[group.id] >= group.max_size
            for group in pursuing
            if group.goal is not None and group.goal.is_deadline
        )


@pytest.mark.parametrize("name", ["none", "edf", "throughput", "hybrid"])
@hypothesis.given(views())
def test_admission_keeps_the_minima_of_others(
    name: str, view: elasticity.View
) -> None:
    policy = getattr(policies, f"make_{name}")({})
    for newcomer in view.groups:
        if newcomer.goal is None:
            continue
        try:
            sizes = policy.admit(view, newcomer.id, NOW)
        except goals.Infeasible as refusal:
            earliest_s = refusal.earliest_s
            assert earliest_s is None or earliest_s > newcomer.goal.due_s
            continue
        for group in view.groups:
            size = sizes.get(group.id, group.wanted)
            assert size >= group.min_size
            assert size <= max(group.max_size, 1)


bounds = st.lists(
    st.tuples(work, st.integers(0, 5), st.integers(0, 9)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize(
    "divide", [apportion.proportional, apportion.levelled]
)
@hypothesis.given(bounds, st.integers(0, 40))
def test_all_slots_are_divided_if_bounds_allow_it(
    divide: object, groups: list[tuple[float, int, int]], slots: int
) -> None:
    each = [one for one, _, _ in groups]
    hypothesis.assume(sum(each) > 0)
    least = [low for _, low, _ in groups]
    most = [low + more for _, low, more in groups]
    sizes = divide(each, slots, least, most)  # type: ignore[operator]
    for size, low, high in zip(sizes, least, most, strict=True):
        assert low <= size <= high
    assert sum(sizes) == min(max(slots, sum(least)), sum(most))


@hypothesis.given(bounds, st.integers(1, 40))
def test_levelled_sizes_have_the_least_longest_time(
    groups: list[tuple[float, int, int]], slots: int
) -> None:
    each = [one for one, _, _ in groups]
    least = [max(low, 1) for _, low, _ in groups]
    most = [
        low + more for low, (_, _, more) in zip(least, groups, strict=True)
    ]
    sizes = apportion.levelled(each, slots, least, most)
    longest = max(map(apportion.load, each, sizes))
    # No group could be better off with fewer slots for the others: those that
    # each needs to be faster than that are more than there are.
    needed = 0
    for one, low, high in zip(each, least, most, strict=True):
        enough = (s for s in range(low, high + 1) if one / s < longest)
        needed += next(enough, math.inf)  # type: ignore[arg-type]
    assert longest == 0 or needed > slots


deadlines = st.lists(
    st.tuples(st.floats(-5.0, 50.0), st.integers(0, 60)), max_size=6
).map(sorted)


@hypothesis.given(
    st.integers(1, 80),
    st.floats(0.0, 60.0),
    deadlines,
    st.floats(0.5, 20.0),
)
def test_earliest_deadline_fits_and_none_before_it(
    actions: int,
    wanted_s: float,
    due: list[tuple[float, int]],
    per_s: float,
) -> None:
    def fits(new_s: float, ease: float) -> bool:
        """The rule, word by word."""
        for due_s in [new_s, *(d for d, _ in due if d >= new_s)]:
            left = sum(left for d, left in due if d <= due_s)
            if actions + left > per_s * (due_s - 0.0) + ease:
                return False
        return True

    found_s = hybrid.earliest_deadline_s(actions, wanted_s, due, per_s, 0.0)
    assert found_s is not None
    assert fits(found_s, 1e-5)
    if found_s == wanted_s:
        return
    for tried_s in np.linspace(wanted_s, found_s, 50, endpoint=False):
        assert not fits(float(tried_s), -1e-5)


# -- all of it -------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(
            "move move join join fail lose report period period delete"
            " create goal call change".split()
        ),
        st.integers(0, 3),
        st.integers(0, 50),
    ),
    max_size=60,
)


class Pool:
    """Slots that move as the groups say."""

    def __init__(self, name: str, slots: int) -> None:
        self.groups = core_groups.Groups(
            getattr(policies, f"make_{name}")({}),
            core_groups.SizingOptions(period_s=10.0, programming_time_s=1.0),
        )
        self.groups.set_slots(frozenset(), slots)
        self.slots = slots
        self.free = slots
        self.under_way: list[int] = []
        self.now = 0.0

    def count(self) -> int:
        found = [self.groups.get(each) for each in range(4)]
        return self.free + sum(
            each.members + each.under_way for each in found if each
        )

    def move(self, number: int) -> None:
        moves = self.groups.moves()
        if not moves:
            return
        move = moves[number % len(moves)]
        if move.donor is None:
            if not self.free:
                return
            self.free -= 1
        self.groups.begin(move, self.now)
        if move.receiver is None:
            self.free += 1
        else:
            self.under_way.append(move.receiver)

    def create(self, group_id: int, number: int) -> None:
        spec = model.Group(
            id=group_id,
            accelerator="aes",
            size=1 + number % 4,
            min_size=number % 2,
            max_size=4 + number % 5,
            elastic=True,
        )
        goal = goals.Goal(deadline_s=self.now + number + 1, actions=number + 1)
        try:
            self.groups.create(spec, self.now, goal if number % 3 else None)
        except (ValueError, goals.Infeasible):
            return

    def set_goal(self, group_id: int, number: int) -> None:
        goal = goals.Goal(rate_per_s=float(number + 1))
        try:
            self.groups.set_goal(
                group_id, goal if number % 4 else None, self.now
            )
        except (KeyError, ValueError, goals.Infeasible):
            return

    def report(self, group_id: int, number: int) -> None:
        client = events.ClientStats(
            str(number % 2), number, number, number % 7, number * 0.1
        )
        self.groups.observe(
            events.TaskStats(group_id, 0, (client,), number * 0.1, 1), self.now
        )

    def do(self, step: str, group_id: int, number: int) -> None:
        status = self.groups.get(group_id)
        if step == "move":
            self.move(number)
        elif step in ("join", "fail") and self.under_way:
            receiver = self.under_way.pop(number % len(self.under_way))
            if step == "join":
                self.groups.joined(receiver, self.now)
            else:
                self.groups.failed(receiver, self.now)
                self.free += 1
        elif step == "lose" and status is not None and status.members:
            self.groups.left(group_id, self.now)
            self.free += 1
        elif step == "report":
            self.report(group_id, number)
        elif step == "period":
            self.now += number / 3
            self.groups.resize(self.now)
        elif step == "create":
            self.create(group_id, number)
        elif step == "delete" and status is not None:
            self.groups.delete(group_id, self.now)
        elif step == "goal" and status is not None:
            self.set_goal(group_id, number)
        elif step == "call":
            self.groups.call_back(range(4))


@pytest.mark.parametrize("name", NAMES)
@hypothesis.given(steps)
def test_no_slot_is_lost_and_all_moves_end(
    name: str, script: list[tuple[str, int, int]]
) -> None:
    pool = Pool(name, 8)
    for group_id in range(3):
        pool.create(group_id, group_id)
    for step, group_id, number in script:
        pool.do(step, group_id, number)
        assert pool.count() == pool.slots
        for move in pool.groups.moves():
            if move.donor is not None:
                donor = pool.groups.get(move.donor)
                assert donor is not None
                assert donor.members > 0
                assert move.donor != move.receiver
        for group_id in range(4):
            move_or_none = pool.groups.next_move(group_id)
            assert move_or_none is None or move_or_none.donor == group_id
    # Without further events, all moves can be made, and then none is left
    # but those that wait for a slot of the pool.
    for _ in range(200):
        pool.move(0)
        pool.do("join", 0, 0)
    assert not pool.under_way
    assert all(move.donor is None for move in pool.groups.moves())
    assert not pool.groups.moves() or not pool.free
