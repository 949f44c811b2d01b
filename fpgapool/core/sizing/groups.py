# SPDX-License-Identifier: Apache-2.0

"""Groups: slots with one accelerator that several programs use as one device.

A :class:`Groups` keeps the sizes, statistics and goals of all groups of a
pool, and requests new sizes from an elasticity policy. It knows only numbers
of slots. Its callers, the pool's state and the simulator, choose which slot
leaves a group, and move it::

    groups.observe(stats, now)           # whenever a desk reports
    if now >= groups.wake_s():           # each period
        groups.resize(now)
    for move in groups.moves():          # after each change of any kind
        # move.donor: a group with an idle member, else the pool (None)
        groups.begin(move, now)          # its slot leaves and is programmed
    groups.joined(receiver, now)         # later: the slot serves its group

A group's *size* counts its members and the slots under way to it. Its *wanted*
size is the size that it should have: its owner's or, for an elastic group, the
policy's. Moves follow from the difference, so each new wanted size cancels
older moves that have not begun.

A move with a donor takes a slot from a group at the end of a task: from an
idle member, the lowest number first, or else from the next member whose task
ends. A move without a donor takes a slot from the pool, through an ordinary
job in the queue or from slots that the caller keeps for groups. A move without
a receiver returns a slot to the pool.
"""

import collections
import dataclasses
import math
import operator
import typing
from collections.abc import Iterable

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import group as one_group
from fpgapool.core.sizing import sets
from fpgapool.vocabulary import states

SizingOptions = one_group.SizingOptions

_ID = operator.attrgetter("spec.id")

#: Groups whose slots can serve each other; other groups are sets of their own.
_SetKey: typing.TypeAlias = model.Shapes | elasticity.GroupId


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """One slot that should change hands.

    :param donor: the group that gives the slot; None: the pool.
    :param receiver: the group that gets it; None: the pool.
    """

    donor: elasticity.GroupId | None
    receiver: elasticity.GroupId | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GoalProgress:
    """The progress of a goal, for the group's owner.

    :param asked: r, the number of slots that the goal requests.
    :param expected_finish_s: when the last task should end; None: unknown, or
        the goal has no end.
    """

    goal: goals.Goal
    done: int
    rate_per_s: float
    progress: float
    asked: int
    expected_finish_s: float | None


class Groups:
    """All groups of a pool.

    :raises ValueError: if the policy does not accept the period.
    :ivar warning: a warning to the operator about the period; None: none.
    """

    def __init__(
        self, policy: elasticity.Policy, options: SizingOptions | None = None
    ) -> None:
        self.policy = policy
        self.options = options or SizingOptions()
        self.period_s = self.options.period_s or policy.period_s
        self.warning = policy.check_period(
            self.period_s, self.options.programming_time_s
        )
        self._groups: dict[elasticity.GroupId, one_group.Group] = {}
        self._sets: dict[model.Shapes, sets.ScalingSet] = (
            collections.defaultdict(sets.ScalingSet)
        )
        self._due_s = math.inf
        # When a goal last changed, if the policy has not seen that yet.
        self._goal_changed_s = math.inf

    # -- groups and their slots -------------------------------------------

    def create(
        self,
        spec: model.Group,
        now: float,
        goal: goals.Goal | None = None,
        shapes: model.Shapes = frozenset(),
    ) -> None:
        """Add a group without slots; it gets them through moves.

        :param shapes: the shapes that its accelerator fits; empty: any.
        :raises goals.Infeasible: if the policy refuses the goal; the group is
            then not added.
        """
        group = self._add(spec, shapes, now)
        group.gathers = spec.all_or_none
        if goal is not None:
            group.goal = goals.GoalState(goal=goal, registered_s=now)
            try:
                self._admit(group, now)
            except goals.Infeasible:
                self._remove(spec.id)
                raise

    def restore(
        self,
        spec: model.Group,
        wanted: int,
        now: float,
        goal: goals.GoalState | None = None,
        shapes: model.Shapes = frozenset(),
        *,
        gathers: bool = False,
    ) -> None:
        """Add a group as it was before a restart.

        :param wanted: its wanted size then, kept until tasks are measured
            again.
        :param gathers: whether it has not had its first slots, which come all
            at once.
        """
        group = self._add(spec, shapes, now)
        group.gathers = gathers
        group.wanted = wanted
        group.goal = goal

    def _add(
        self, spec: model.Group, shapes: model.Shapes, now: float
    ) -> one_group.Group:
        if spec.id in self._groups:
            raise ValueError(f"group {spec.id} already exists")
        if not self._groups:
            self._due_s = now + self.period_s
        group = one_group.Group(spec, shapes, self.options, now)
        self._groups[spec.id] = group
        return group

    def change(
        self,
        spec: model.Group,
        now: float,
        shapes: model.Shapes = frozenset(),
    ) -> None:
        """Replace a group's request.

        Its wanted size becomes the owner's; the policy may change it again.

        :raises KeyError: if there is no such group, or it is being deleted.
        """
        group = self._live(spec.id)
        group.spec, group.shapes = spec, shapes
        group.wanted = spec.size
        self._note_goal_change(now)
        group.settle()

    def delete(self, group_id: elasticity.GroupId, now: float) -> None:
        """Delete a group: it releases all its slots.

        It is gone when it has none left, and no slot is under way to it.
        """
        group = self._groups[group_id]
        if group.state == states.GROUP_DRAINING:
            return
        group.delete()
        self._note_goal_change(now)
        self._settle(group)

    def refuse(self, group_id: elasticity.GroupId, now: float) -> None:
        """Remove a group that never had a member, and no slot under way."""
        self._note_goal_change(now)
        self._remove(group_id)

    def set_slots(self, shapes: model.Shapes, slots: int | None) -> None:
        """Set how many slots a scaling set may have.

        :param slots: the number of slots; None, the default: as many as its
            groups have, or as their owners requested if that is more.
        """
        self._sets[shapes].slots = slots

    def begin(self, move: Move, now: float) -> None:
        """Record that a slot left its donor and is under way.

        :raises ValueError: if the donor has no members.
        """
        donor = receiver = None
        if move.donor is not None:
            donor = self._groups[move.donor]
            if not donor.members:
                raise ValueError(f"group {move.donor} has no members")
        if move.receiver is not None:
            receiver = self._groups[move.receiver]
            receiver.add(0, 1, now)
            receiver.settle()
        if donor is None:
            return
        donor.add(-1, 0, now)
        if receiver is None:
            donor.owed = max(donor.owed - 1, 0)
        else:
            stay_s = (
                self.policy.stay_programmings * self.options.programming_time_s
            )
            if stay_s:
                receiver.stay(now + stay_s)
        self._settle(donor)

    def joined(self, group_id: elasticity.GroupId, now: float) -> None:
        """Record that a slot under way to a group now serves it.

        After a restart the caller reports members without :meth:`begin`.
        """
        group = self._groups[group_id]
        if group.gathers:
            group.gathers = False
            self._note_goal_change(now)
        group.add(1, -1 if group.under_way else 0, now)
        self._settle(group)

    def failed(self, group_id: elasticity.GroupId, now: float) -> None:
        """Record that a slot under way to a group failed."""
        group = self._groups[group_id]
        group.add(0, -1 if group.under_way else 0, now)
        self._settle(group)

    def left(self, group_id: elasticity.GroupId, now: float) -> None:
        """Record that a group lost a member without a move."""
        group = self._groups[group_id]
        group.add(-1 if group.members else 0, 0, now)
        self._settle(group)

    def call_back(
        self, candidates: Iterable[elasticity.GroupId]
    ) -> elasticity.GroupId | None:
        """Choose the group that gives a member to a waiting session.

        Of the groups above their minimum, it is the one with the least waiting
        work for its size. A scaling set gives at most one slot per period. In
        the next period, a group that the policy does not size wants its former
        slots again, and any other group wants at least one.

        :param candidates: groups with a member that fits the session.
        :returns: the group; its wanted size falls by one, and it has a move to
            the pool. None: no group can give a slot now.
        """
        able = [
            group
            for group in map(self._groups.get, sorted(candidates))
            if group is not None
            and group.state != states.GROUP_DRAINING
            and not self._sets[group.shapes].gave
            and group.members > group.owed
            and min(group.size, group.wanted) > group.spec.min_size
        ]
        if not able:
            return None
        chosen = min(able, key=_load)
        chosen.give()
        self._sets[chosen.shapes].gave = True
        return chosen.spec.id

    def get(self, group_id: elasticity.GroupId) -> one_group.Group | None:
        """Return a group, read only; None: no such group."""
        return self._groups.get(group_id)

    def _live(self, group_id: elasticity.GroupId) -> one_group.Group:
        group = self._groups[group_id]
        if group.state == states.GROUP_DRAINING:
            raise KeyError(group_id)
        return group

    def _settle(self, group: one_group.Group) -> None:
        group.settle()
        if group.state == states.GROUP_DELETED:
            self._remove(group.spec.id)

    def _remove(self, group_id: elasticity.GroupId) -> None:
        del self._groups[group_id]
        if not self._groups:
            self._due_s = self._goal_changed_s = math.inf

    # -- sizes -------------------------------------------------------------

    def wake_s(self) -> float:
        """Return when :meth:`resize` is due; infinite without groups."""
        return min(self._due_s, self._goal_changed_s)

    def observe(self, stats: events.TaskStats, now: float) -> bool:
        """Process a desk's report; unknown groups are ignored.

        :returns: whether this report completes the group's goal. The goal is
            then removed.
        """
        group = self._groups.get(stats.group_id)
        if group is None or group.state == states.GROUP_DRAINING:
            return False
        was_started = group.goal is not None and group.goal.started
        if group.observe(stats, now):
            self._end_goal(group, now)
            return True
        if not was_started and group.goal is not None and group.goal.started:
            self._note_goal_change(now)
        return False

    def resize(self, now: float) -> None:
        """Request wanted sizes from the policy, at the end of a period.

        Before :meth:`wake_s` it does nothing.
        """
        if now < self.wake_s():
            return
        self._goal_changed_s = math.inf
        if now >= self._due_s:
            for group in self._groups.values():
                group.end_period(now)
                is_sized = group.spec.elastic and (
                    self.policy.sizes_all
                    or (self.policy.serves_goals and group.goal is not None)
                )
                group.want_again(is_sized)
            for shapes, groups in self._elastic_sets().items():
                self._sets[shapes].measure(groups)
            for each in self._sets.values():
                each.gave = False
            periods = math.floor((now - self._due_s) / self.period_s) + 1
            self._due_s += periods * self.period_s
        for shapes, groups in self._elastic_sets().items():
            view = self._view(shapes, groups, now)
            self._want(self.policy.resize(view, now), shapes, now)

    def _elastic_sets(self) -> dict[model.Shapes, list[one_group.Group]]:
        return sets.members_of_sets(
            [group for _, group in sorted(self._groups.items())]
        )

    def _view(
        self, shapes: model.Shapes, groups: list[one_group.Group], now: float
    ) -> elasticity.View:
        return self._sets[shapes].view(groups, self.period_s, now)

    def _want(
        self, sizes: elasticity.Sizes, shapes: model.Shapes, now: float
    ) -> None:
        """Apply a policy's sizes within the bounds of each group."""
        for group in self._elastic_sets().get(shapes, ()):
            size = sizes.get(group.spec.id)
            # A request to return a slot is valid for one period.
            group.owed = 0
            if size is not None:
                least = max(group.spec.min_size, group.staying(now))
                most = max(group.spec.max_size, least)
                group.wanted = min(max(size, least), most)
            group.settle()

    def moves(self) -> tuple[Move, ...]:
        """Return the moves that should be made but have not begun.

        Receivers with the largest deficit come first, then those with lower
        ids. A set requests no more slots than it may have.
        """
        found: list[Move] = []
        deficits: dict[_SetKey, dict[elasticity.GroupId, int]] = {}
        for group_id in sorted(self._groups):
            group = self._groups[group_id]
            deficits.setdefault(_set_key(group), {})[group_id] = group.deficit
        for group_id in sorted(self._groups):
            group = self._groups[group_id]
            lacking = deficits[_set_key(group)]
            for number in range(group.surplus):
                receiver = _neediest(lacking) if number >= group.owed else None
                if receiver is not None:
                    lacking[receiver] -= 1
                found.append(Move(group_id, receiver))
        elastic = self._elastic_sets()
        for key, lacking in deficits.items():
            left = sum(lacking.values())
            if not isinstance(key, int) and key in elastic:
                held = sum(group.size for group in elastic[key])
                slots = self._sets[key].slots_of(elastic[key])
                left = min(left, slots - held)
            for _ in range(left):
                receiver = _neediest(lacking)
                if receiver is not None:
                    lacking[receiver] -= 1
                    found.append(Move(None, receiver))
        return tuple(found)

    def next_move(self, donor: elasticity.GroupId) -> Move | None:
        """Return the move that a group should make with its next idle slot.

        :returns: the move; None: the group keeps the slot.
        """
        group = self._groups.get(donor)
        if group is None or not group.surplus:
            return None
        if group.owed:
            return Move(donor, None)
        key = _set_key(group)
        return Move(
            donor,
            _neediest(
                {
                    group_id: other.deficit
                    for group_id, other in sorted(self._groups.items())
                    if _set_key(other) == key
                }
            ),
        )

    # -- goals -------------------------------------------------------------

    def set_goal(
        self, group_id: elasticity.GroupId, goal: goals.Goal | None, now: float
    ) -> None:
        """Replace or remove a group's goal.

        A new goal counts the tasks that have ended for the former one. Without
        a goal, the group gets the size that its owner set.

        :raises KeyError: if there is no such group, or it is being deleted.
        :raises ValueError: if all actions of the goal have already ended.
        :raises goals.Infeasible: if the policy refuses it; then the former
            goal stays.
        """
        group = self._live(group_id)
        former = group.goal
        if goal is None:
            group.goal = None
            if former is not None:
                group.wanted = group.spec.size
                self._note_goal_change(now)
                group.settle()
            return
        if former is None:
            group.goal = goals.GoalState(goal=goal, registered_s=now)
        else:
            group.goal = dataclasses.replace(former, goal=goal)
        try:
            if group.goal.left == 0:
                raise ValueError(
                    f"{group.goal.done} actions have already ended; the goal "
                    "must have more"
                )
            self._admit(group, now)
        except (ValueError, goals.Infeasible):
            group.goal = former
            raise

    def _admit(self, group: one_group.Group, now: float) -> None:
        """Let the policy allocate slots to a newly registered goal.

        A group that waits for its first slots gets others only afterwards.

        :raises goals.Infeasible: if it refuses the goal.
        """
        if group.spec.elastic:
            shapes = group.shapes
            groups = [*self._elastic_sets().get(shapes, ())]
            if group.gathers:
                groups = sorted([*groups, group], key=_ID)
            view = self._view(shapes, groups, now)
            sizes = self.policy.admit(view, group.spec.id, now)
            if not group.gathers:
                self._want(sizes, shapes, now)
        self._note_goal_change(now)

    def start(self, group_id: elasticity.GroupId, now: float) -> None:
        """Record that the program of a goal has started.

        The first task report has the same effect.

        :raises KeyError: if there is no such group, or it is being deleted.
        """
        self._live(group_id).start(now)
        self._note_goal_change(now)

    def _end_goal(self, group: one_group.Group, now: float) -> None:
        group.goal = None
        # Slots that it gave to sessions before are not requested again.
        group.gave = False
        group.release()
        if self.policy.serves_goals and group.spec.elastic:
            group.wanted = group.spec.min_size
            self._note_goal_change(now)
            group.settle()

    def _note_goal_change(self, now: float) -> None:
        if self.policy.follows_goals and self._groups:
            self._goal_changed_s = min(self._goal_changed_s, now)

    def progress(
        self, group_id: elasticity.GroupId, now: float
    ) -> GoalProgress | None:
        """Return the progress of a group's goal; None: it has none."""
        group = self._groups.get(group_id)
        if group is None or group.goal is None:
            return None
        state = group.goal
        return GoalProgress(
            goal=state.goal,
            done=state.done,
            rate_per_s=state.rate_per_s,
            progress=state.progress(now),
            asked=state.request(now, group.spec.min_size, group.spec.max_size),
            expected_finish_s=state.expected_finish_s(now),
        )


def _set_key(group: one_group.Group) -> _SetKey:
    return group.shapes if group.spec.elastic else group.spec.id


def _neediest(
    deficits: dict[elasticity.GroupId, int],
) -> elasticity.GroupId | None:
    """Return the group with the largest deficit; ties go to the lowest id."""
    chosen = max(deficits, key=deficits.__getitem__, default=None)
    return chosen if chosen is not None and deficits[chosen] > 0 else None


def _load(group: one_group.Group) -> float:
    if group.waiting_s is None:
        return math.inf
    return apportion.load(group.waiting_s, group.size)
