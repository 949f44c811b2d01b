# SPDX-License-Identifier: Apache-2.0

"""Groups: slots with one accelerator that several programs use as one device.

:class:`Groups` keeps the sizes, statistics and goals of all groups of a pool,
and asks an elasticity policy for new sizes. It knows numbers of slots only:
its caller knows the slots themselves, chooses which slot leaves a group, and
moves it. Both the pool's state and the simulator are such callers::

    groups.observe(stats, now)           # whenever a desk reports
    if now >= groups.wake_s():           # each period
        groups.resize(now)
    for move in groups.moves():          # after each change of any kind
        # move.donor: a group with an idle member, else the pool (None)
        groups.begin(move, now)          # its slot leaves and is programmed
    groups.joined(receiver, now)         # later: the slot serves its group

A group's *size* counts its members and the slots that are under way to it.
Its *wanted* size is the size that it should have: the owner's, or for an
elastic group the policy's. The moves follow from the difference, so each new
wanted size makes older moves void that have not begun.

A move with a donor takes a slot of a group at the end of its task. The caller
takes idle members first, the lowest number first, and otherwise the next one
whose task ends. A move without a donor takes a slot from the pool: an
ordinary job in the queue, or a slot that the caller keeps for groups. A move
without a receiver gives a slot back to the pool.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterable

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import group as one_group
from fpgapool.vocabulary import states

Options = one_group.Options
Spec = one_group.Spec

# Tasks/s of slots that are busy for this part of a period show what the set
# can do.
_FULLY_BUSY = 0.95
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
class Progress:
    """How a goal goes, for the group's owner.

    :param progress: p, the measured rate over the needed one.
    :param asked: r, the slots that the goal asks for.
    :param expected_finish_s: None: unknown, or the goal has no end.
    """

    goal: goals.Goal
    done: int
    rate_per_s: float
    progress: float
    asked: int
    expected_finish_s: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The numbers of a group.

    :param state: one of :data:`fpgapool.vocabulary.states.GROUP_MOVES`.
    :param members: slots that serve it.
    :param under_way: slots that are being programmed for it.
    :param wanted: the size that it should have.
    :param waiting_s: slot-seconds of the tasks that waited at the end of the
        last period; None: unknown.
    """

    state: str
    members: int
    under_way: int
    wanted: int
    waiting_s: float | None


class Groups:
    """All groups of a pool.

    :param policy: sizes elastic groups.
    :raises ValueError: if the policy does not accept the period.
    :ivar warning: about the period, for the operator; None: all is well.
    """

    def __init__(
        self, policy: elasticity.Policy, options: Options | None = None
    ) -> None:
        self.policy = policy
        self.options = options or Options()
        self.period_s = self.options.period_s or policy.period_s
        self.warning = policy.check_period(
            self.period_s, self.options.programming_time_s
        )
        self._groups: dict[elasticity.GroupId, one_group.Group] = {}
        self._slots: dict[model.Shapes, int] = {}
        self._due_s = math.inf
        # When a goal last changed, if the policy has not seen that yet.
        self._stirred_s = math.inf
        # Shapes whose groups gave a slot to a session in this period.
        self._gave: set[model.Shapes] = set()
        # By shapes, tasks/s per slot while all slots were busy.
        self._full_per_slot: dict[model.Shapes, float] = {}
        # By shapes, tasks/s per busy slot in the last period with tasks.
        self._busy_per_slot: dict[model.Shapes, float] = {}

    # -- groups and their slots -------------------------------------------

    def create(
        self, spec: Spec, now: float, goal: goals.Goal | None = None
    ) -> None:
        """Add a group without slots; the moves say how it gets them.

        :raises goals.Infeasible: if the policy refuses the goal; then there
            is no group.
        :raises ValueError: if there is a group with this id.
        """
        group = self._add(spec, now)
        if goal is not None:
            group.goal = goals.State(goal=goal, registered_s=now)
            try:
                self._admit(group, now)
            except goals.Infeasible:
                self._remove(spec.id)
                raise

    def restore(
        self,
        spec: Spec,
        wanted: int,
        now: float,
        goal: goals.State | None = None,
    ) -> None:
        """Add a group as it was before a restart.

        :param wanted: its size then; it stays until tasks are measured again.
        :param goal: what is left of its goal.
        :raises ValueError: if there is a group with this id.
        """
        group = self._add(spec, now)
        group.wanted = wanted
        group.goal = goal

    def _add(self, spec: Spec, now: float) -> one_group.Group:
        if spec.id in self._groups:
            raise ValueError(f"there is a group {spec.id} already")
        if not self._groups:
            self._due_s = now + self.period_s
        group = one_group.Group(spec, self.options, now)
        self._groups[spec.id] = group
        return group

    def change(self, spec: Spec, now: float) -> None:
        """Replace what a group's owner asked for.

        Its size becomes the owner's; the policy may change it again.

        :raises KeyError: if there is no such group, or it is being deleted.
        """
        group = self._live(spec.id)
        group.spec = spec
        group.wanted = spec.size
        self._stir(now)
        group.settle()

    def delete(self, group_id: elasticity.GroupId, now: float) -> None:
        """Let a group end: it gives all its slots away.

        It is gone when it has none left, and no slot is under way to it.

        :raises KeyError: if there is no such group.
        """
        group = self._groups[group_id]
        if group.state == states.GROUP_DRAINING:
            return
        group.delete()
        self._stir(now)
        self._settle(group)

    def set_slots(self, shapes: model.Shapes, slots: int | None) -> None:
        """Say how many slots a scaling set may have.

        :param shapes: of the set's accelerators.
        :param slots: None, the default: those that its groups have, or are
            entitled to if that is more.
        """
        if slots is None:
            self._slots.pop(shapes, None)
        else:
            self._slots[shapes] = slots

    def begin(self, move: Move, now: float) -> None:
        """Note that a slot has left its donor and is under way.

        :raises KeyError: if there is no such group.
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
        elif stay_s := self._stay_s():
            receiver.stay(now + stay_s)
        self._settle(donor)

    def _stay_s(self) -> float:
        return self.policy.stay_programmings * self.options.programming_time_s

    def joined(self, group_id: elasticity.GroupId, now: float) -> None:
        """Note that a slot that was under way to a group serves it now.

        After a restart the caller reports members without :meth:`begin`.
        """
        group = self._groups[group_id]
        group.add(1, -1 if group.under_way else 0, now)
        self._settle(group)

    def failed(self, group_id: elasticity.GroupId, now: float) -> None:
        """Note that a slot that was under way to a group never comes."""
        group = self._groups[group_id]
        group.add(0, -1 if group.under_way else 0, now)
        self._settle(group)

    def left(self, group_id: elasticity.GroupId, now: float) -> None:
        """Note that a group lost a member without a move."""
        group = self._groups[group_id]
        group.add(-1 if group.members else 0, 0, now)
        self._settle(group)

    def call_back(
        self, candidates: Iterable[elasticity.GroupId]
    ) -> elasticity.GroupId | None:
        """Choose the group that gives a member to a waiting session.

        It is the one with the least waiting work for its size among those
        above their minimum; one slot per period and scaling set. In the next
        period a group that the policy does not size wants its slots again,
        and another one at least one.

        :param candidates: groups with a member that the session fits.
        :returns: the group, which then wants one slot less and has a move to
            the pool; None: no group can give one now.
        """
        able = [
            group
            for group in map(self._groups.get, sorted(candidates))
            if group is not None
            and group.state != states.GROUP_DRAINING
            and group.spec.shapes not in self._gave
            and group.members > group.owed
            and min(group.size, group.wanted) > group.spec.min_size
        ]
        if not able:
            return None
        chosen = min(able, key=_load)
        chosen.give()
        self._gave.add(chosen.spec.shapes)
        return chosen.spec.id

    def status(self, group_id: elasticity.GroupId) -> Status | None:
        """Return the numbers of a group; None: there is no such group."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        return Status(
            state=group.state,
            members=group.members,
            under_way=group.under_way,
            wanted=group.wanted,
            waiting_s=group.waiting_s,
        )

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
            self._due_s = self._stirred_s = math.inf

    # -- sizes -------------------------------------------------------------

    def wake_s(self) -> float:
        """Return when :meth:`resize` is due; infinite without groups."""
        return min(self._due_s, self._stirred_s)

    def observe(self, stats: events.TaskStats, now: float) -> bool:
        """Take a desk's report; reports of unknown groups are ignored.

        :returns: whether the group has reached its goal by it. The goal is
            then gone.
        """
        group = self._groups.get(stats.group_id)
        if group is None or group.state == states.GROUP_DRAINING:
            return False
        was_started = group.goal is not None and group.goal.started
        if group.observe(stats, now):
            self._end_goal(group, now)
            return True
        if not was_started and group.goal is not None and group.goal.started:
            self._stir(now)
        return False

    def resize(self, now: float) -> None:
        """Ask the policy for wanted sizes, at the end of a period.

        Before :meth:`wake_s` it does nothing.
        """
        if now < self.wake_s():
            return
        self._stirred_s = math.inf
        if now >= self._due_s:
            for group in self._groups.values():
                group.end_period(now)
                group.want_again(self._is_sized(group))
            for shapes, groups in self._elastic_sets().items():
                self._measure_capacity(shapes, groups)
            self._gave.clear()
            periods = math.floor((now - self._due_s) / self.period_s) + 1
            self._due_s += periods * self.period_s
        for shapes, groups in self._elastic_sets().items():
            view = self._view(shapes, groups, now)
            self._want(self.policy.resize(view, now), shapes, now)

    def _is_sized(self, group: one_group.Group) -> bool:
        """Whether the policy sizes a group."""
        has_goal = group.goal is not None
        return group.spec.elastic and (
            self.policy.sizes_all or (self.policy.serves_goals and has_goal)
        )

    def _elastic_sets(self) -> dict[model.Shapes, list[one_group.Group]]:
        sets: dict[model.Shapes, list[one_group.Group]] = {}
        for group_id in sorted(self._groups):
            group = self._groups[group_id]
            if group.spec.elastic and group.state != states.GROUP_DRAINING:
                sets.setdefault(group.spec.shapes, []).append(group)
        return sets

    def _slots_of(
        self, shapes: model.Shapes, groups: list[one_group.Group]
    ) -> int:
        """Return F, the slots that a set may have."""
        slots = self._slots.get(shapes)
        if slots is not None:
            return slots
        return max(
            sum(group.size for group in groups),
            sum(group.spec.size for group in groups),
        )

    def _view(
        self, shapes: model.Shapes, groups: list[one_group.Group], now: float
    ) -> elasticity.View:
        return elasticity.View(
            groups=tuple(group.view(now) for group in groups),
            slots=self._slots_of(shapes, groups),
            period_s=self.period_s,
            capacity_per_s=self._capacity_per_s(shapes, groups),
        )

    def _want(
        self, sizes: elasticity.Sizes, shapes: model.Shapes, now: float
    ) -> None:
        """Take a policy's sizes, within the bounds of each group."""
        for group in self._elastic_sets().get(shapes, ()):
            size = sizes.get(group.spec.id)
            # An order to give a slot back holds for one period.
            group.owed = 0
            if size is not None:
                least = max(group.spec.min_size, group.staying(now))
                most = max(group.spec.max_size, least)
                group.wanted = min(max(size, least), most)
            group.settle()

    def _measure_capacity(
        self, shapes: model.Shapes, groups: list[one_group.Group]
    ) -> None:
        """Measure the tasks/s that slots do for goals."""
        last = [
            group.last
            for group in groups
            if group.last is not None
            and group.goal is not None
            and group.goal.started
        ]
        tasks = sum(one.tasks for one in last)
        tasks_s = sum(one.tasks_s for one in last)
        if not tasks or not tasks_s > 0:
            return
        per_slot = tasks / tasks_s
        self._busy_per_slot[shapes] = per_slot
        longest_s = max(one.length_s for one in last)
        slots = self._slots_for_goals(shapes, groups)
        busy_s = sum(one.busy_s for one in last)
        if busy_s >= _FULLY_BUSY * slots * longest_s:
            self._full_per_slot[shapes] = per_slot
            for group in groups:
                group.measure_full()

    def _slots_for_goals(
        self, shapes: model.Shapes, groups: list[one_group.Group]
    ) -> int:
        others = sum(group.wanted for group in groups if group.goal is None)
        return max(self._slots_of(shapes, groups) - others, 0)

    def _capacity_per_s(
        self, shapes: model.Shapes, groups: list[one_group.Group]
    ) -> float | None:
        """Return the tasks/s that all slots for goals could do.

        What some of them did says too much if they share a link: then what
        all of them did last counts.
        """
        per_slot = self._busy_per_slot.get(shapes)
        if per_slot is None:
            return None
        per_slot = min(per_slot, self._full_per_slot.get(shapes, per_slot))
        return per_slot * self._slots_for_goals(shapes, groups)

    def moves(self) -> tuple[Move, ...]:
        """Return the slots that should change hands and have not begun.

        Receivers with the largest deficit come first, then those with lower
        ids. A set asks the pool for no more slots than it may have.
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
        sets = self._elastic_sets()
        for key, lacking in deficits.items():
            left = sum(lacking.values())
            if not isinstance(key, int) and key in sets:
                held = sum(group.size for group in sets[key])
                left = min(left, self._slots_of(key, sets[key]) - held)
            for _ in range(left):
                receiver = _neediest(lacking)
                if receiver is not None:
                    lacking[receiver] -= 1
                    found.append(Move(None, receiver))
        return tuple(found)

    def next_move(self, donor: elasticity.GroupId) -> Move | None:
        """Return the move that a group should make with its next idle slot.

        :returns: None: the group keeps the slot.
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
        """Give a group another goal, or none.

        Another goal goes on from the tasks that have ended for the former
        one. Without a goal the group gets the size that its owner gave it.

        :raises KeyError: if there is no such group, or it is being deleted.
        :raises ValueError: if all actions of the goal have ended already.
        :raises goals.Infeasible: if the policy refuses it; then the former
            goal stays.
        """
        group = self._live(group_id)
        former = group.goal
        if goal is None:
            group.goal = None
            if former is not None:
                group.wanted = group.spec.size
                self._stir(now)
                group.settle()
            return
        if former is None:
            group.goal = goals.State(goal=goal, registered_s=now)
        else:
            group.goal = dataclasses.replace(former, goal=goal)
        try:
            if group.goal.left == 0:
                raise ValueError(
                    f"{group.goal.done} actions have ended already; ask for "
                    "more"
                )
            self._admit(group, now)
        except (ValueError, goals.Infeasible):
            group.goal = former
            raise

    def _admit(self, group: one_group.Group, now: float) -> None:
        """Ask the policy for the slots of a goal that was registered.

        :raises goals.Infeasible: if it refuses the goal.
        """
        if group.spec.elastic:
            shapes = group.spec.shapes
            view = self._view(shapes, self._elastic_sets()[shapes], now)
            sizes = self.policy.admit(view, group.spec.id, now)
            self._want(sizes, shapes, now)
        self._stir(now)

    def start(self, group_id: elasticity.GroupId, now: float) -> None:
        """Note that the program of a goal has begun.

        The first report of a task does it, too.

        :raises KeyError: if there is no such group, or it is being deleted.
        """
        self._live(group_id).start(now)
        self._stir(now)

    def _end_goal(self, group: one_group.Group, now: float) -> None:
        group.goal = None
        # It wants no slots again that it gave to sessions before.
        group.gave = False
        group.release()
        if self.policy.serves_goals and group.spec.elastic:
            group.wanted = group.spec.min_size
            self._stir(now)
            group.settle()

    def _stir(self, now: float) -> None:
        if self.policy.follows_goals and self._groups:
            self._stirred_s = min(self._stirred_s, now)

    def progress(
        self, group_id: elasticity.GroupId, now: float
    ) -> Progress | None:
        """Return how a group's goal goes; None: it has none."""
        group = self._groups.get(group_id)
        if group is None or group.goal is None:
            return None
        state = group.goal
        return Progress(
            goal=state.goal,
            done=state.done,
            rate_per_s=state.rate_per_s,
            progress=state.progress(now),
            asked=state.request(now, group.spec.min_size, group.spec.max_size),
            expected_finish_s=state.expected_finish_s(now),
        )


def _set_key(group: one_group.Group) -> _SetKey:
    return group.spec.shapes if group.spec.elastic else group.spec.id


def _neediest(
    deficits: dict[elasticity.GroupId, int],
) -> elasticity.GroupId | None:
    """Return the group with the largest deficit, the lowest id of equals."""
    chosen = max(deficits, key=deficits.__getitem__, default=None)
    return chosen if chosen is not None and deficits[chosen] > 0 else None


def _load(group: one_group.Group) -> float:
    if group.waiting_s is None:
        return math.inf
    return apportion.load(group.waiting_s, group.size)
