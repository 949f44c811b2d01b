# SPDX-License-Identifier: Apache-2.0

"""Rates get the slots that they need; the earliest deadlines get the rest.

The policy can refuse goals that the pool could not meet in addition to the
existing ones. It measures needs as if all slots of the set were busy, because
slots that share a link are slower then.
"""

import dataclasses
import math
import typing
from collections.abc import Sequence

from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.strategies.elasticity import edf
from fpgapool.strategies.elasticity import throughput

# Tolerance for rounding errors in slot-seconds.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class HybridOptions(throughput.ThroughputOptions):
    """Options of :class:`HybridPolicy`.

    :param admission: whether goals that do not fit are refused.
    :param usable: the fraction of the slots left by rates that, for admission,
        deadlines can use.
    :param try_fewer: whether groups that meet their goals try one slot fewer
        when there are too few slots for all rates.
    """

    PARTS: typing.ClassVar[tuple[str, ...]] = ("usable", "decay")

    admission: bool = True
    usable: float = 0.98
    try_fewer: bool = True


class HybridPolicy(elasticity.Policy):
    """Serves rates like ``throughput``, and deadlines like ``edf``."""

    period_s = 1.0
    serves_goals = True
    sizes_all = False
    follows_goals = True

    def __init__(self, options: HybridOptions) -> None:
        self.options = options
        self.stay_programmings = options.stay_programmings

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        groups = view.pursuing()
        rates = [_at_full(g, view) for g in groups if not _is_due(g)]
        due = [group for group in groups if _is_due(group)]
        slots = view.slots_for(groups)
        for_rates = max(slots - sum(group.floor for group in due), 0)
        sizes = self._for_rates(rates, for_rates, now)
        left = slots - sum(sizes.values())
        return {**sizes, **edf.earliest_first(due, left)}

    def _for_rates(
        self, rates: Sequence[elasticity.GroupView], slots: int, now: float
    ) -> dict[elasticity.GroupId, int]:
        sizes = throughput.requests(rates, slots, now, try_fewer=False)
        if sum(sizes.values()) > slots and self.options.try_fewer:
            sizes = throughput.requests(rates, slots, now, try_fewer=True)
        if sum(sizes.values()) > slots:
            return throughput.broker(
                rates, sizes, slots, now, self.options.decay
            )
        # New groups share the slots that they got at registration, so that
        # their first tasks can be measured.
        new = [
            group
            for group in rates
            if group.goal is not None and group.goal.slots_per_rate is None
        ]
        least = [sizes[group.id] for group in new]
        given = max(sum(group.wanted for group in new), sum(least))
        spare = max(slots - sum(sizes.values()), 0)
        shares = apportion.levelled(
            [1.0] * len(new),
            min(given, sum(least) + spare),
            least,
            [group.max_size for group in new],
        )
        return {
            **sizes,
            **{g.id: share for g, share in zip(new, shares, strict=True)},
        }

    def admit(
        self, view: elasticity.View, group_id: elasticity.GroupId, now: float
    ) -> elasticity.Sizes:
        """Reserve slots for a new group, if its goal fits.

        A deadline gets its minimum until it starts. A rate also gets the free
        slots, until its first tasks show how many it needs.

        A deadline fits if the slots that rates leave suffice for all tasks
        that are due by then, and for those due by each later deadline. A rate
        fits if every deadline that fits now still fits.

        :raises goals.Infeasible: if it does not fit, with the earliest
            deadline that does; or if the minimums need more slots than there
            are.
        """
        newcomer = view.group(group_id)
        sizes = edf.minimum_of(view, newcomer)
        if self.options.admission and view.capacity_per_s is not None:
            others = [
                group
                for group in view.groups
                if group.goal is not None and group.id != group_id
            ]
            check_fits(
                _need(newcomer, view, now),
                [_need(group, view, now) for group in others],
                view.slots_for([newcomer, *others]),
                self.options.usable,
                now,
            )
        if not _is_due(newcomer):
            free = min(view.slots_for([newcomer]), newcomer.max_size)
            sizes[group_id] = max(sizes[group_id], free)
        return sizes


class Need(typing.NamedTuple):
    """What a goal needs.

    :ivar slots: the number of slots that a rate always needs; 0 for a
        deadline.
    :ivar due_s: the deadline; infinite for a rate.
    """

    slots: int = 0
    due_s: float = math.inf
    work_s: float = 0.0


def check_fits(
    new: Need, others: Sequence[Need], slots: int, usable: float, now: float
) -> None:
    """Check that the slots suffice for a new goal in addition to the others.

    :param usable: the fraction of the slots left by rates that deadlines may
        use.
    :raises goals.Infeasible: if they do not.
    """
    left = slots - sum(other.slots for other in others)
    due = sorted(
        (other.due_s, other.work_s)
        for other in others
        if other.due_s < math.inf
    )
    if new.due_s < math.inf:
        earliest_s = earliest_deadline_s(
            new.work_s, new.due_s, due, usable * left, now
        )
        if earliest_s is None or earliest_s > new.due_s:
            raise goals.Infeasible(
                "there are not enough slots for this deadline and the "
                "existing goals",
                earliest_s,
            )
        return
    less = left - new.slots
    work_s = 0.0
    fits = less >= 0
    for due_s, each_s in due:
        work_s += each_s
        if _fits(work_s, usable * left, due_s - now):
            fits = fits and _fits(work_s, usable * less, due_s - now)
    if not fits:
        raise goals.Infeasible(
            "there are not enough slots for this rate and the existing goals"
        )


def _fits(work_s: float, slots: float, time_s: float) -> bool:
    return work_s <= slots * time_s * (1 + _ROUNDING) + _ROUNDING


def earliest_deadline_s(
    work_s: float,
    wanted_s: float,
    due: Sequence[tuple[float, float]],
    slots: float,
    now: float,
) -> float | None:
    """Return the earliest deadline that fits and is not before a wanted one.

    :param due: the other deadlines, the earliest first, each with the
        slot-seconds that it still needs.
    :param slots: the number of slots that deadlines may use.
    :returns: ``wanted_s`` itself if it fits; None: no time fits.
    """
    if slots <= 0:
        return None
    # The new tasks come after each deadline that would be missed if they came
    # before it.
    after_s = -math.inf
    total_s = work_s
    for due_s, each_s in due:
        total_s += each_s
        if not _fits(total_s, slots, due_s - now):
            after_s = due_s
    total_s = work_s
    first_s = wanted_s
    if after_s >= wanted_s:
        first_s = math.nextafter(after_s, math.inf)
    for due_s, each_s in due:
        if due_s > first_s:
            found_s = _latest(
                first_s, now + total_s / slots, total_s, slots, now
            )
            if found_s < due_s:
                return found_s
            first_s = max(first_s, due_s)
        total_s += each_s
    return _latest(first_s, now + total_s / slots, total_s, slots, now)


def _latest(
    first_s: float, ends_s: float, work_s: float, slots: float, now: float
) -> float:
    return (
        first_s
        if _fits(work_s, slots, first_s - now)
        else max(first_s, ends_s)
    )


def _is_due(group: elasticity.GroupView) -> bool:
    return group.goal is not None and group.goal.is_deadline


def _at_full(
    group: elasticity.GroupView, view: elasticity.View
) -> elasticity.GroupView:
    """Return a group whose goal is measured as if all slots were busy.

    A group without finished tasks is assumed to be like the average.
    """
    goal = group.goal
    assert goal is not None
    known = [
        each
        for each in (goal.slots_per_rate, goal.full_slots_per_rate)
        if each is not None
    ]
    at_full = max(known) if known else _average(view)
    return dataclasses.replace(
        group, goal=dataclasses.replace(goal, slots_per_rate=at_full)
    )


def _average(view: elasticity.View) -> float | None:
    """Return the slot-seconds of an average task; None: unknown."""
    if not view.capacity_per_s:
        return None
    pursuing = [group for group in view.groups if group.goal is not None]
    return view.slots_for(pursuing) / view.capacity_per_s


def _need(
    group: elasticity.GroupView, view: elasticity.View, now: float
) -> Need:
    goal = group.goal
    assert goal is not None
    if not goal.is_deadline:
        goal = typing.cast(goals.GoalState, _at_full(group, view).goal)
        return Need(goal.request(now, group.min_size, group.max_size))
    task_s = goal.full_slots_per_rate or goal.slots_per_rate or _average(view)
    left = goal.expected_left(now, view.period_s)
    return Need(due_s=goal.due_s, work_s=left * (task_s or 0.0))
