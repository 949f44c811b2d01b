# SPDX-License-Identifier: Apache-2.0

"""The earliest deadline first."""

import dataclasses
import math
from collections.abc import Sequence

from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.strategies import options as opts


@dataclasses.dataclass(frozen=True, slots=True)
class EdfOptions(opts.Numbers):
    """Options of :class:`EdfPolicy`.

    :param stay_programmings: a slot that has changed groups stays in the new
        one for this many times its programming time; 0: it may leave at once.
    """

    stay_programmings: float = 0.0


class EdfPolicy(elasticity.Policy):
    """Gives all slots above the minimums to the earliest deadline.

    The group with the earliest deadline gets as many slots as it may have,
    then the next group. If programming took no time, no other policy would
    meet more deadlines. Goals that are rates are refused. Groups without a
    goal keep their sizes.
    """

    period_s = 1.0
    serves_goals = True
    sizes_all = False
    follows_goals = True

    def __init__(self, options: EdfOptions) -> None:
        self.stay_programmings = options.stay_programmings

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        groups = [
            group
            for group in view.pursuing()
            if group.goal is not None and group.goal.is_deadline
        ]
        return earliest_first(groups, view.slots_for(groups))

    def admit(
        self, view: elasticity.View, group_id: elasticity.GroupId, now: float
    ) -> elasticity.Sizes:
        """Reserve the new group's minimum.

        :raises goals.Infeasible: if the goal is a rate, or the minimums need
            more slots than there are.
        """
        newcomer = view.group(group_id)
        if newcomer.goal is not None and not newcomer.goal.is_deadline:
            raise goals.Infeasible("this pool accepts only deadlines as goals")
        return minimum_of(view, newcomer)


def by_deadline(group: elasticity.GroupView) -> tuple[float, float, int]:
    """Return the key that sorts groups by deadline."""
    if group.goal is None:
        return math.inf, math.inf, group.id
    return group.goal.due_s, group.goal.registered_s, group.id


def earliest_first(
    groups: Sequence[elasticity.GroupView], slots: int
) -> dict[elasticity.GroupId, int]:
    """Give each group its floor, and the rest to the earliest deadlines."""
    sizes = {group.id: group.floor for group in groups}
    left = slots - sum(sizes.values())
    for group in sorted(groups, key=by_deadline):
        more = max(min(left, group.max_size - group.floor), 0)
        sizes[group.id] += more
        left -= more
    return sizes


def minimum_of(
    view: elasticity.View, newcomer: elasticity.GroupView
) -> dict[elasticity.GroupId, int]:
    """Return the first size of a group with a new goal: its minimum.

    It is at least one slot, because no task could start without one.

    :raises goals.Infeasible: if the minimums need more slots than there are.
    """
    pursuing = {group.id for group in view.pursuing()}
    least = max(newcomer.min_size, 1)
    needed = least + sum(
        group.min_size if group.id in pursuing else group.wanted
        for group in view.groups
        if group.id != newcomer.id
    )
    if needed > view.slots:
        raise goals.Infeasible(
            f"the minimum sizes of all groups need {needed} slots, but only "
            f"{view.slots} are available"
        )
    return {newcomer.id: least}
