# SPDX-License-Identifier: Apache-2.0

"""Slots of groups: how groups get them, and give them away.

:class:`fpgapool.core.sizing.groups.Groups` says how many slots should move. This
module knows the slots. A group waits for a slot as an ordinary job does. A
slot that moves to another group of its scaling set goes there as soon as it
is free, without the queue.
"""

import collections
import dataclasses
import math
from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as group_sizes
from fpgapool.core.topology import slots
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

_PREPARING = model.Phase.PREPARING

# So many slots of a group may fail one after the other before it rests, and so
# long it rests then; twice as long each time, up to the longest rest.
_FREE_FAILURES = 2
_FIRST_REST_S = 1.0
_LONGEST_REST_S = 64.0


class Fixed(elasticity.Policy):
    """Leaves all groups as they are."""

    sizes_all = False

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        """Change nothing."""
        return {}


@dataclasses.dataclass(slots=True)
class _Group:
    """A group's slots.

    :ivar holds: by slot.
    :ivar waiting: the jobs for further slots, the oldest first.
    :ivar busy: by host, its members that run a task.
    :ivar projects: of its clients from other projects.
    :ivar told: the size and state in the last :class:`.instructions.Resize`.
    :ivar failures: how often in a row slots could not be prepared for it.
    :ivar avoided: the slots that could not.
    :ivar asks_s: it asks for no more slots before.
    """

    group: model.Group
    holds: dict[model.SlotId, slots.Hold] = dataclasses.field(
        default_factory=dict
    )
    waiting: list[queued.JobRecord] = dataclasses.field(default_factory=list)
    busy: dict[model.HostId, int] = dataclasses.field(default_factory=dict)
    projects: dict[str, str] = dataclasses.field(default_factory=dict)
    told: tuple[int, str] = (-1, "")
    failures: int = 0
    avoided: frozenset[model.SlotId] = frozenset()
    asks_s: float = -math.inf

    def serving(self) -> abc.Iterator[tuple[slots.Slot, slots.Hold]]:
        """The members on hosts that are up."""
        for hold in self.holds.values():
            slot = hold.slot
            if slot and slot.host.up and hold.phase is not _PREPARING:
                yield slot, hold

    def able_to_leave(self) -> list[slots.Hold]:
        """The members that are not leaving yet.

        As many of each host as have no task come first; among equals, those
        with lower positions.
        """
        able = [one for one in self.serving() if not one[1].revoked]
        able.sort(key=lambda one: one[0].position)
        idle = collections.Counter(slot.host.id for slot, _ in able)
        idle.subtract(self.busy)
        first: list[slots.Hold] = []
        later: list[slots.Hold] = []
        for slot, hold in able:
            (first if idle[slot.host.id] > 0 else later).append(hold)
            idle[slot.host.id] -= 1
        return first + later

    def unready(self) -> list[slots.Hold]:
        """The slots that are being programmed on hosts that are up."""
        return [
            hold
            for hold in self.holds.values()
            if hold.phase is _PREPARING
            and not hold.revoked
            and hold.slot
            and hold.slot.host.up
        ]


class Members:
    """The slots of all groups of a pool.

    :param queue: takes the jobs for further slots.
    :param outcome: receives the instructions of the current step.
    :param sizes: how many slots groups should have.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        outcome: instructions.Outcome,
        sizes: group_sizes.Groups,
    ) -> None:
        self._view = view
        self._queue = queue
        self._outcome = outcome
        self._sizes = sizes
        self._groups: dict[model.GroupId, _Group] = {}
        # Members of unknown groups, by slot.
        self._orphans: dict[model.SlotId, slots.Hold] = {}
        # Assignments that have ended since sizes were last compared.
        self._ended: list[slots.Hold] = []
        self._changed = False
        # When the first group that rests asks for slots again.
        self._rests_until_s = math.inf

    @property
    def is_idle(self) -> bool:
        """Whether there are no groups, and nothing to settle."""
        return not (self._groups or self._changed or self._orphans)

    @property
    def wake_s(self) -> float:
        """When the sizes have to be looked at again; infinite: never."""
        return min(self._sizes.wake_s(), self._rests_until_s)

    def goal_progress(
        self, group_id: model.GroupId
    ) -> group_sizes.Progress | None:
        """How the goal of a group goes; None: it has none."""
        return self._sizes.progress(group_id, self._view.now)

    def is_due(self) -> bool:
        """Whether :meth:`settle` has something to do."""
        return self._changed or self.wake_s <= self._view.now

    def touch(self) -> None:
        """Have the sizes compared again, after hosts changed."""
        self._changed = bool(self._groups or self._orphans)

    # -- events ------------------------------------------------------------

    def on_created(self, event: events.GroupCreated) -> None:
        """Add a group, or reject it."""
        group = event.group
        spec = self._spec(group)
        if spec is None or group.id in self._groups:
            return
        try:
            self._sizes.create(spec, self._view.now, event.goal)
        except goals.Infeasible as error:
            self._reject_goal(group.id, error)
            return
        self._add(group)

    def on_restored(self, event: events.GroupRestored) -> None:
        """Take over a group from before a restart."""
        group = event.group
        if group.id not in self._groups:
            self._sizes.restore(
                self._made_spec(group),
                event.wanted,
                self._view.now,
                event.goal,
            )
            self._add(group)

    def _add(self, group: model.Group) -> None:
        self._groups[group.id] = _Group(group)
        self._changed = True

    def on_changed(self, event: events.GroupChanged) -> None:
        """Take over the sizes that an owner wants, or reject them.

        :raises ValueError: if the accelerator is another one.
        """
        group = event.group
        known = self._live(group.id)
        if known is None:
            return
        if known.group.accelerator != group.accelerator:
            raise ValueError(f"group {group.id} has another accelerator")
        spec = self._spec(group)
        if spec is not None:
            known.group = group
            self._sizes.change(spec, self._view.now)
            self._changed = True

    def on_goal(self, event: events.GoalChanged) -> None:
        """Set another goal, or reject it."""
        if self._live(event.group_id) is None:
            return
        try:
            self._sizes.set_goal(event.group_id, event.goal, self._view.now)
        except goals.Infeasible as error:
            self._reject_goal(event.group_id, error)
        except ValueError as error:
            self._reject(event.group_id, codes.INVALID_GOAL, str(error))
        else:
            self._changed = True

    def on_deleted(self, event: events.GroupDeleted) -> None:
        """Let the members of a group leave."""
        if event.group_id in self._groups:
            self._sizes.delete(event.group_id, self._view.now)
            self._changed = True

    def on_clients(self, event: events.GroupClientsChanged) -> None:
        """Note the projects of a group's clients."""
        known = self._groups.get(event.group_id)
        if known is not None:
            known.projects = dict(event.projects)

    def on_stats(self, event: events.TaskStats) -> None:
        """Take a desk's report."""
        known = self._groups.get(event.group_id)
        if known is None:
            return
        known.busy[event.host_id] = event.busy_members
        self._charge_clients(known, event)
        if self._sizes.observe(event, self._view.now):
            self._outcome.output.append(
                instructions.GoalReached(event.group_id)
            )
        self._changed = True

    def _live(self, group_id: model.GroupId) -> _Group | None:
        """A group that is not being deleted; others are rejected."""
        status = self._sizes.status(group_id)
        if status is None or status.state == states.GROUP_DRAINING:
            self._reject(
                group_id,
                codes.GROUP_NOT_FOUND,
                f"there is no group {group_id}",
            )
            return None
        return self._groups[group_id]

    def _spec(self, group: model.Group) -> group_sizes.Spec | None:
        """What an owner asks for; None: it is rejected."""
        if group.accelerator not in self._view.accelerators:
            self._reject(
                group.id,
                codes.UNKNOWN_ACCELERATOR,
                f"there is no accelerator {group.accelerator!r}",
            )
            return None
        try:
            return self._made_spec(group)
        except ValueError as error:
            self._reject(group.id, codes.INVALID_GROUP_SIZE, str(error))
            return None

    def _made_spec(self, group: model.Group) -> group_sizes.Spec:
        accelerator = self._view.accelerators.get(group.accelerator)
        return group_sizes.Spec(
            id=group.id,
            shapes=accelerator.shapes if accelerator else frozenset(),
            size=group.size,
            min_size=group.min_size,
            max_size=group.max_size,
            elastic=group.elastic,
        )

    def _reject_goal(
        self, group_id: model.GroupId, error: goals.Infeasible
    ) -> None:
        self._reject(
            group_id, codes.GOAL_INFEASIBLE, str(error), error.earliest_s
        )

    def _reject(
        self,
        group_id: model.GroupId,
        code: str,
        message: str,
        earliest_s: float | None = None,
    ) -> None:
        self._outcome.output.append(
            instructions.RejectGroup(group_id, code, message, earliest_s)
        )

    # -- assignments -------------------------------------------------------

    def take_over(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Add a member from before a restart."""
        known = self._groups.get(group_id)
        self._changed = True
        if known is None:
            self._orphans[hold.slot_id] = hold
            return
        known.holds[hold.slot_id] = hold
        now = self._view.now
        self._sizes.begin(group_sizes.Move(None, group_id), now)
        if hold.phase is not _PREPARING:
            self._sizes.joined(group_id, now)

    def begun(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Note that a job has got a slot for its group."""
        known = self._groups[group_id]
        known.holds[hold.slot_id] = hold
        known.waiting = [r for r in known.waiting if r is not hold.record]
        move = group_sizes.Move(None, group_id)
        self._sizes.begin(move, self._view.now)
        self._changed = True

    def ready(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Note that a slot serves its group now."""
        if hold.slot_id not in self._orphans:
            known = self._groups[group_id]
            known.failures, known.avoided = 0, frozenset()
            self._sizes.joined(group_id, self._view.now)
            self._changed = True
            self._outcome.is_quiet = False

    def ended(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Note that a group has lost a slot."""
        self._changed = True
        if self._orphans.pop(hold.slot_id, None) is None:
            del self._groups[group_id].holds[hold.slot_id]
            self._ended.append(hold)

    def waits_again(
        self, record: queued.JobRecord, group_id: model.GroupId
    ) -> None:
        """Note that a job has lost its slot and is queued again."""
        known = self._groups.get(group_id)
        if known is None:
            self._withdraw(record)
        else:
            known.waiting.insert(0, record)

    def failed(
        self, record: queued.JobRecord, group_id: model.GroupId
    ) -> None:
        """Note that a slot could not be prepared for a group.

        The group asks for another one: after some failures in a row it waits
        longer and longer before. Failures while it rests do not count.
        """
        known, now = self._groups.get(group_id), self._view.now
        if known is None:
            return
        known.avoided |= record.avoided
        if now < known.asks_s:
            return
        known.failures += 1
        rests = known.failures - _FREE_FAILURES
        if rests > 0:
            known.asks_s = now + min(
                _FIRST_REST_S * 2.0 ** (rests - 1), _LONGEST_REST_S
            )

    # -- sizes -------------------------------------------------------------

    def settle(self) -> list[slots.Hold]:
        """Bring the groups to their sizes.

        :returns: the members that have to leave.
        """
        self._changed = False
        now = self._view.now
        if self._sizes.wake_s() <= now:
            self._charge_owners()
            self._sizes.resize(now)
        ended, self._ended = self._ended, []
        for hold in ended:
            self._pass_on(hold)
        leaving: collections.Counter[model.GroupId] = collections.Counter()
        lacking: collections.Counter[model.GroupId] = collections.Counter()
        for move in self._sizes.moves():
            if move.donor is not None:
                leaving[move.donor] += 1
            elif move.receiver is not None:
                lacking[move.receiver] += 1
        found = [
            hold
            for hold in self._orphans.values()
            if hold.slot and hold.slot.host.up and not hold.revoked
        ]
        self._rests_until_s = math.inf
        for group_id, known in list(self._groups.items()):
            lacks = lacking[group_id]
            if lacks and known.asks_s > now:
                self._rests_until_s = min(self._rests_until_s, known.asks_s)
                lacks = min(lacks, len(known.waiting))
            self._wait_for(known, lacks)
            found += self._to_leave(known, leaving[group_id])
            self._tell(known)
        return found

    def _pass_on(self, hold: slots.Hold) -> None:
        """Give a slot that a group has lost to the next one, if it may."""
        group_id, now = hold.group_id, self._view.now
        if group_id is None or group_id not in self._groups:
            return
        if hold.phase is _PREPARING:
            self._sizes.failed(group_id, now)
            return
        move = self._sizes.next_move(group_id)
        if move is None:
            self._sizes.left(group_id, now)
        elif move.receiver is None:
            self._sizes.begin(move, now)
        elif not self._hand_over(hold.slot_id, move):
            self._sizes.left(group_id, now)

    def _hand_over(
        self, slot_id: model.SlotId, move: group_sizes.Move
    ) -> bool:
        """Program a slot for the receiver of a move.

        :returns: whether the receiver may have the slot.
        """
        known = self._groups[move.receiver or 0]
        view = self._view
        if not view.slots.is_idle(slot_id) or view.is_held(
            known.group.project
        ):
            return False
        record = self._submit(known.group)
        if record is None or record.group is None:
            return False
        slot = view.slots.slots[slot_id]
        if not record.group.fits(slot_id, slot.shape):
            self._withdraw(record)
            return False
        # The next pass must not see it among the new jobs.
        record.group.lane.arrived.pop(record.job.id, None)
        view.give(record, slot, in_turn=False)
        hold = view.slots.assignments[slot_id]
        known.holds[slot_id] = hold
        self._sizes.begin(move, view.now)
        self._outcome.output.append(
            instructions.Program(slot_id, record.job.id, hold.generation)
        )
        return True

    def _wait_for(self, known: _Group, count: int) -> None:
        """Have as many jobs wait as the group lacks slots."""
        records = self._view.jobs.records
        known.waiting = [r for r in known.waiting if r.job.id in records]
        while len(known.waiting) > count:
            self._withdraw(known.waiting.pop())
        while len(known.waiting) < count:
            record = self._submit(known.group)
            if record is None:
                return
            if known.avoided:
                self._queue.avoid(record, known.avoided | record.avoided)
            known.waiting.append(record)

    def _submit(self, group: model.Group) -> queued.JobRecord | None:
        """Queue a job for a slot; None: the accelerator is gone."""
        accelerator = self._view.accelerators.get(group.accelerator)
        if accelerator is None:
            return None
        # Sessions have positive ids.
        job = model.Job(
            id=-self._view.take_generation(),
            host_id=None,
            accelerator=group.accelerator,
            claimed_bytes=max(
                accelerator.peak_bytes_per_s * self._sizes.period_s, 1.0
            ),
            arrival_s=self._view.now,
            priority=group.priority,
            project=group.project,
            group_id=group.id,
        )
        # The claim is for the order only: groups pay for the time.
        self._queue.on_submitted(events.JobSubmitted(job, paid_bytes=0.0))
        return self._view.record(job.id)

    def _withdraw(self, record: queued.JobRecord) -> None:
        self._queue.withdraw(record)
        del self._view.jobs.records[record.job.id]

    def _to_leave(self, known: _Group, count: int) -> list[slots.Hold]:
        """The members that have to leave besides those that do already."""
        status = self._sizes.status(known.group.id)
        if status is not None and status.state == states.GROUP_DRAINING:
            return known.able_to_leave() + known.unready()
        count -= sum(bool(hold.revoked) for _, hold in known.serving())
        return known.able_to_leave()[: max(count, 0)]

    def _tell(self, known: _Group) -> None:
        """Report a size or state that has changed."""
        group_id = known.group.id
        status = self._sizes.status(group_id)
        told = (0, states.GROUP_DELETED)
        if status is not None:
            told = status.wanted, status.state
        if told != known.told:
            known.told = told
            self._outcome.output.append(instructions.Resize(group_id, *told))
        if status is None:
            del self._groups[group_id]

    def call_back(self) -> slots.Hold | None:
        """Choose the member that leaves for a session without an idle slot.

        :returns: None: no session waits for one, or no group can give one.
        """
        if not self._groups:
            return None
        waiting = list(self._hindered())
        if not waiting:
            return None
        able: dict[model.GroupId, slots.Hold] = {}
        for group_id, known in self._groups.items():
            for hold in known.able_to_leave():
                slot = hold.slot
                if slot and any(
                    slot.up and one.fits(slot.id, slot.shape)
                    for one in waiting
                ):
                    able.setdefault(group_id, hold)
        chosen = self._sizes.call_back(able)
        if chosen is None:
            return None
        self._changed = True
        return able[chosen]

    def _hindered(self) -> abc.Iterator[queued.JobGroup]:
        """The queues of sessions that fit no idle slot."""
        view = self._view
        for lane in view.jobs.all_lanes():
            if view.is_held(lane.project):
                continue
            for group in lane.groups():
                if not view.has_idle(group) and any(
                    view.record(key[-1]).job.group_id is None
                    for key in group.jobs
                ):
                    yield group

    # -- accounts ----------------------------------------------------------

    def _charge_owners(self) -> None:
        """Charge the owners for the slots of their groups up to now."""
        accounts = self._view.accounts
        if accounts is not None:
            for project in {
                one.group.project for one in self._groups.values()
            }:
                accounts.charge(project)

    def _charge_clients(self, known: _Group, stats: events.TaskStats) -> None:
        """Charge other projects instead of the owner for their tasks."""
        accounts = self._view.accounts
        members = [
            (slot, hold)
            for slot, hold in known.serving()
            if slot.host.id == stats.host_id
        ]
        if accounts is None or not members:
            return
        for one in stats.clients:
            project = known.projects.get(one.client, known.group.project)
            if project == known.group.project:
                continue
            for slot, hold in members:
                cost_bytes = one.busy_s / len(members) * slot.bytes_per_s
                hold.paid_bytes += cost_bytes
                accounts.charge_other(project, cost_bytes)
