# SPDX-License-Identifier: Apache-2.0

"""Rates get what they need, deadlines share the rest, the earliest first.

It can refuse goals that the pool could not keep beside those that it has.
"""

import dataclasses
import math

from fpgapool.core import elasticity
from fpgapool.core import goals
from fpgapool.strategies.elasticity import edf
from fpgapool.strategies.elasticity import throughput

# What rounding errors may add to a number of tasks.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class HybridOptions:
    """Options of :class:`HybridPolicy`.

    :param admission: whether goals that do not fit are refused.
    :param usable: the part of the measured capacity that admission counts on.
    :param stay_programmings: as of
        :class:`~fpgapool.strategies.elasticity.throughput.ThroughputOptions`.
    :param decay: as there.
    :param try_fewer: as there.
    :raises ValueError: if a number is out of its range.
    """

    admission: bool = True
    usable: float = 0.95
    stay_programmings: float = 10.0
    decay: float = 0.75
    try_fewer: bool = True

    def __post_init__(self) -> None:
        edf.check_stay(self.stay_programmings)
        throughput.check_decay(self.decay)
        if not 0 < self.usable <= 1:
            raise ValueError(
                f"usable must be above 0 and at most 1, not {self.usable}"
            )


class HybridPolicy(elasticity.Policy):
    """Serves rates as ``throughput`` does, and deadlines as ``edf`` does."""

    period_s = 1.0
    serves_goals = True
    follows_goals = True

    def __init__(self, options: HybridOptions) -> None:
        self.options = options
        self.stay_programmings = options.stay_programmings

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        """Divide the slots between groups with goals."""
        groups = view.pursuing()
        rates = [group for group in groups if not _is_due(group)]
        due = [group for group in groups if _is_due(group)]
        slots = view.slots_for(groups)
        for_rates = max(slots - sum(group.floor for group in due), 0)
        sizes = throughput.requests(
            rates, for_rates, now, self.options.try_fewer
        )
        for group in rates:
            if group.goal is not None and group.goal.slots_per_rate is None:
                # It shows what its slots can do before it gives some away.
                sizes[group.id] = max(sizes[group.id], group.wanted)
        if sum(sizes.values()) > for_rates:
            sizes = throughput.broker(
                rates, sizes, for_rates, now, self.options.decay
            )
        left = slots - sum(sizes.values())
        return {**sizes, **edf.earliest_first(due, left)}

    def admit(
        self, view: elasticity.View, group_id: elasticity.GroupId, now: float
    ) -> elasticity.Sizes:
        """Reserve slots for a new group, if its goal fits.

        A deadline gets its minimum until it starts. A rate gets the free
        slots, too, until its first tasks show how many it needs.

        A deadline fits if the capacity that rates leave suffices for all
        tasks that are due by it, and by each later deadline. A rate fits if
        no deadline that fits now would fit no longer.

        :raises goals.Infeasible: if it does not fit, with the earliest
            deadline that does; or if the minima need more slots than there
            are.
        """
        newcomer = view.group(group_id)
        sizes = edf.minimum_of(view, newcomer)
        if (
            self.options.admission
            and newcomer.goal is not None
            and view.capacity_per_s is not None
        ):
            others = [
                group.goal
                for group in view.groups
                if group.goal is not None and group.id != group_id
            ]
            check_fits(
                newcomer.goal,
                others,
                self.options.usable * view.capacity_per_s,
                now,
            )
        if not _is_due(newcomer):
            free = min(view.slots_for([newcomer]), newcomer.max_size)
            sizes[group_id] = max(sizes[group_id], free)
        return sizes


def check_fits(
    new: goals.State,
    others: list[goals.State],
    capacity_per_s: float,
    now: float,
) -> None:
    """Check that the capacity suffices for a new goal beside the others.

    :param capacity_per_s: tasks/s that all slots do together.
    :raises goals.Infeasible: if it does not.
    """
    left_per_s = capacity_per_s - sum(
        max(other.goal.rate_per_s or 0.0, other.rate_per_s)
        for other in others
        if not other.is_deadline
    )
    due = sorted(
        (other.due_s, other.left or 0) for other in others if other.is_deadline
    )
    if new.is_deadline:
        earliest_s = earliest_deadline_s(
            new.left or 0, new.due_s, due, left_per_s, now
        )
        if earliest_s is None or earliest_s > new.due_s:
            raise goals.Infeasible(
                "the slots do not suffice for this deadline beside the goals "
                "that they have",
                earliest_s,
            )
        return
    less_per_s = left_per_s - (new.goal.rate_per_s or 0.0)
    actions = 0
    for due_s, left in due:
        actions += left
        if _fits(actions, left_per_s, due_s - now) and not _fits(
            actions, less_per_s, due_s - now
        ):
            less_per_s = -math.inf
    if less_per_s < 0:
        raise goals.Infeasible(
            "the slots do not suffice for this rate beside the goals that "
            "they have"
        )


def _fits(actions: int, per_s: float, time_s: float) -> bool:
    return actions <= per_s * time_s * (1 + _ROUNDING) + _ROUNDING


def earliest_deadline_s(
    actions: int,
    wanted_s: float,
    due: list[tuple[float, int]],
    left_per_s: float,
    now: float,
) -> float | None:
    """Return the first time, from a wanted one on, that fits as a deadline.

    :param actions: tasks that are due by it.
    :param due: the other deadlines, the earliest first, each with the tasks
        that are left.
    :param left_per_s: tasks/s for deadlines.
    :returns: ``wanted_s`` itself if it fits; None: no time fits.
    """
    if left_per_s <= 0:
        return None
    # A deadline that could not be met with the new tasks before it has to
    # come first.
    after_s = -math.inf
    total = actions
    for due_s, left in due:
        total += left
        if not _fits(total, left_per_s, due_s - now):
            after_s = due_s
    total = actions
    first_s = wanted_s
    if after_s >= wanted_s:
        first_s = math.nextafter(after_s, math.inf)
    for due_s, left in due:
        if due_s > first_s:
            found_s = _latest(
                first_s, now + total / left_per_s, total, left_per_s, now
            )
            if found_s < due_s:
                return found_s
            first_s = max(first_s, due_s)
        total += left
    return _latest(first_s, now + total / left_per_s, total, left_per_s, now)


def _latest(
    first_s: float, ends_s: float, total: int, left_per_s: float, now: float
) -> float:
    return (
        first_s
        if _fits(total, left_per_s, first_s - now)
        else max(first_s, ends_s)
    )


def _is_due(group: elasticity.GroupView) -> bool:
    return group.goal is not None and group.goal.is_deadline
