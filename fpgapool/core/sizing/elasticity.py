# SPDX-License-Identifier: Apache-2.0

"""The interface of an elasticity policy, which sizes groups of slots.

A *scaling set* consists of all elastic groups whose accelerators fit the same
shapes, so that each can use the others' slots. A policy divides the slots of
one set between its groups. It sees a :class:`View` of the set, which
:class:`fpgapool.core.sizing.groups.Groups` creates every period.

*Slot-seconds* measure work: a task that occupies a slot for 0.5 s is 0.5
slot-seconds.
"""

import abc
import dataclasses
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.core.sizing import goals

GroupId: typing.TypeAlias = int
#: New sizes by group. Missing groups keep their wanted size.
Sizes: typing.TypeAlias = Mapping[GroupId, int]

# A period shorter than this many programming times is refused.
_LEAST_PROGRAMMINGS = 2
# A period shorter than this many programming times causes a warning.
_GOOD_PROGRAMMINGS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group as a policy sees it.

    :param id: also breaks ties: the lowest goes first.
    :param size: S, its members and the slots under way to it.
    :param wanted: the size that was last decided for it.
    :param staying: number of slots that recently came from other groups and
        must stay for a while.
    :param waiting_s: R, slot-seconds of the tasks that wait in its queues;
        None: unknown, because no task has ended yet.
    :param arrived_s: N, slot-seconds of the tasks that arrived in the last
        period; None: unknown.
    :param expected_s: f, arrived slot-seconds smoothed over the periods; None:
        unknown.
    :param goal: its goal; None: it has none, or has reached it.
    """

    id: GroupId
    size: int
    wanted: int
    min_size: int
    max_size: int
    staying: int = 0
    waiting_s: float | None = None
    arrived_s: float | None = None
    expected_s: float | None = None
    goal: goals.GoalState | None = None

    @property
    def floor(self) -> int:
        """The minimum number of slots that it may get now."""
        return max(self.min_size, self.staying)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A scaling set as a policy sees it, at the end of a period.

    :param groups: in the order of their ids; groups that are being deleted
        are not among them.
    :param slots: F, the slots available to the set: usually the sum of the
        sizes; more if the pool has free slots for it or slots under way to it.
    :param period_s: I, the length of the periods.
    :param capacity_per_s: the tasks/s that all slots of the set could complete
        together, as measured; None: unknown.
    """

    groups: tuple[GroupView, ...]
    slots: int
    period_s: float
    capacity_per_s: float | None = None

    def group(self, group_id: GroupId) -> GroupView:
        """Return a group of the set.

        :raises KeyError: if it has no such group.
        """
        for group in self.groups:
            if group.id == group_id:
                return group
        raise KeyError(group_id)

    def pursuing(self) -> list[GroupView]:
        """Return the groups whose programs pursue a goal now."""
        return [
            group
            for group in self.groups
            if group.goal is not None and group.goal.started
        ]

    def slots_for(self, groups: Sequence[GroupView]) -> int:
        """Return how many slots the other groups leave to these groups."""
        chosen = {group.id for group in groups}
        kept = sum(g.wanted for g in self.groups if g.id not in chosen)
        return max(self.slots - kept, 0)


class Policy(abc.ABC):
    """Sizes the groups of a scaling set.

    A policy has no side effects: the same view and time give the same sizes.
    It keeps no state about groups, because a conductor that takes over starts
    with a new object.

    :cvar period_s: how often :meth:`resize` should be called, unless the
        operator sets another period.
    :cvar serves_goals: whether sizes follow goals. A group that reaches its
        goal then shrinks to its minimum.
    :cvar sizes_all: whether :meth:`resize` also sizes groups without a goal.
        Otherwise those keep the sizes that their owners set.
    :cvar stay_programmings: a slot that came from another group stays for
        this many programming times, unless its new group is deleted or
        reaches its goal; 0: it may leave at once.
    """

    period_s: float = 10.0
    serves_goals: bool = False
    sizes_all: bool = True
    follows_goals: bool = False
    stay_programmings: float = 0.0

    @abc.abstractmethod
    def resize(self, view: View, now: float) -> Sizes:
        """Return the new sizes of the groups.

        They must lie between each group's ``floor`` and ``max_size``, and
        their sum must not exceed ``view.slots``, unless the floors alone do.
        The caller corrects sizes that a group may not have.
        """

    def admit(self, view: View, group_id: GroupId, now: float) -> Sizes:
        """Return the sizes after a goal has been registered.

        The view includes the group with its new goal. The default reserves
        nothing and refuses no goal.

        :raises goals.Infeasible: if the goal must be refused.
        """
        return {}

    def check_period(
        self, period_s: float, programming_time_s: float
    ) -> str | None:
        """Compare a period with the time that programming a slot takes.

        Policies that serve goals accept any period.

        :returns: a warning for the operator; None: the period is long enough.
        :raises ValueError: if slots would do little but change groups.
        """
        if self.serves_goals:
            return None
        if period_s < _LEAST_PROGRAMMINGS * programming_time_s:
            raise ValueError(
                f"a period of {period_s:g} s is too short: it must be at "
                f"least {_LEAST_PROGRAMMINGS} times the programming time of a "
                f"slot, which is {programming_time_s:g} s"
            )
        if period_s < _GOOD_PROGRAMMINGS * programming_time_s:
            return (
                f"a period of {period_s:g} s is shorter than "
                f"{_GOOD_PROGRAMMINGS} times the programming time of a slot, "
                f"{programming_time_s:g} s: slots spend much of their time "
                "being programmed"
            )
        return None


class Fixed(Policy):
    """Leaves all sizes as their owners set them."""

    sizes_all = False

    def resize(self, view: View, now: float) -> Sizes:
        return {}

    def check_period(
        self, period_s: float, programming_time_s: float
    ) -> str | None:
        """Accept any period: no slot changes its group."""
        return None
