# SPDX-License-Identifier: Apache-2.0

"""Each group gets the slots that its goal needs at its measured rate.

This is the rule of *Quality of Service Driven Runtime Resource Allocation in
Reconfigurable HPC Architectures*.
"""

import dataclasses
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.strategies.elasticity import edf


@dataclasses.dataclass(frozen=True, slots=True)
class ThroughputOptions(edf.EdfOptions):
    """Options of :class:`ThroughputPolicy`.

    :param decay: factor for the offer of each further slot of a group, when
        there are too few slots for all.
    :param try_fewer: whether a group that meets its goal tries one slot fewer.
        On a shared link it may need fewer than it requests.
    """

    PARTS: typing.ClassVar[tuple[str, ...]] = ("decay",)

    stay_programmings: float = 10.0
    decay: float = 0.75
    try_fewer: bool = False


class ThroughputPolicy(elasticity.Policy):
    """Gives each group with a goal the slots that it requests.

    Groups with deadlines get the remaining slots in turn, those furthest
    behind first. If there are too few slots, those go to the groups furthest
    behind. Groups without a goal keep their sizes.
    """

    period_s = 1.0
    serves_goals = True
    sizes_all = False

    def __init__(self, options: ThroughputOptions) -> None:
        self.options = options
        self.stay_programmings = options.stay_programmings

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        groups = view.pursuing()
        slots = view.slots_for(groups)
        asked = requests(groups, slots, now, self.options.try_fewer)
        if sum(asked.values()) > slots:
            return broker(groups, asked, slots, now, self.options.decay)
        return with_slack(groups, asked, slots, now)

    def admit(
        self, view: elasticity.View, group_id: elasticity.GroupId, now: float
    ) -> elasticity.Sizes:
        """Give a new group free slots, or else slots that others can spare.

        If there are enough free slots for its minimum, it gets as many as it
        may have. Otherwise it gets just its minimum, from groups that have
        more than they request.

        :raises goals.Infeasible: if they cannot spare enough.
        """
        newcomer = view.group(group_id)
        least = max(newcomer.min_size, 1)
        free = view.slots_for([newcomer])
        if free >= least:
            return {group_id: min(free, newcomer.max_size)}
        groups = [g for g in view.pursuing() if g.id != group_id]
        # Slots that must stay in their groups for now are moved later.
        movable = [dataclasses.replace(group, staying=0) for group in groups]
        asked = requests(movable, view.slots, now, self.options.try_fewer)
        sizes = {group.id: group.wanted for group in groups}
        for _ in range(least - free):
            able = [one for one in sizes if sizes[one] > asked[one]]
            if not able:
                raise goals.Infeasible(
                    f"the goal needs {least} slots, but groups with other "
                    "goals cannot give up enough of theirs"
                )
            sizes[max(able, key=lambda i: (sizes[i] - asked[i], -i))] -= 1
        return {**sizes, group_id: least}


def requests(
    groups: Sequence[elasticity.GroupView],
    slots: int,
    now: float,
    try_fewer: bool,
) -> dict[elasticity.GroupId, int]:
    """Return the number of slots that each group requests."""
    asked = {}
    for group in groups:
        goal = _goal(group)
        most = min(group.max_size, slots)
        asked[group.id] = goal.request(now, group.floor, most)
        if try_fewer and goal.progress(now) >= 1:
            fewer = max(group.size - 1, (goal.short_size or 0) + 1)
            asked[group.id] = max(min(asked[group.id], fewer), group.floor, 1)
    return asked


def with_slack(
    groups: Sequence[elasticity.GroupView],
    asked: Mapping[elasticity.GroupId, int],
    slots: int,
    now: float,
) -> dict[elasticity.GroupId, int]:
    """Add the remaining slots to the requested ones.

    They go to groups with deadlines, those furthest behind first: one to each
    group without a slot, then one by one in turn.
    """
    sizes = dict(asked)
    left = slots - sum(sizes.values())
    turn = sorted(
        (group for group in groups if _goal(group).is_deadline),
        key=lambda group: (_goal(group).progress(now), group.id),
    )
    without = [group for group in turn if not sizes[group.id]]
    while left > 0:
        able = [g for g in without or turn if sizes[g.id] < g.max_size]
        without = []
        if not able:
            break
        for group in able[:left]:
            sizes[group.id] += 1
        left -= len(able)
    return sizes


def broker(
    groups: Sequence[elasticity.GroupView],
    asked: Mapping[elasticity.GroupId, int],
    slots: int,
    now: float,
    decay: float,
) -> dict[elasticity.GroupId, int]:
    """Divide too few slots, preferring the groups that are furthest behind.

    Each group keeps its floor and makes an offer for each further slot that it
    requests. The lowest offers get a slot. An offer is lower the further the
    group is behind, and the more slots it requests.
    """
    sizes = {group.id: group.floor for group in groups}
    offers = sorted(
        (_goal(group).progress(now) * decay**i, group.id, i)
        for group in groups
        for i in range(group.floor, asked[group.id])
    )
    for _, group_id, _ in offers[: max(slots - sum(sizes.values()), 0)]:
        sizes[group_id] += 1
    return sizes


def _goal(group: elasticity.GroupView) -> goals.GoalState:
    if group.goal is None:
        raise ValueError(f"group {group.id} has no goal")
    return group.goal
