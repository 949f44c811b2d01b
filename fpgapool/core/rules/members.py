# SPDX-License-Identifier: Apache-2.0

"""Slots of groups: how groups obtain and release them.

This module chooses the slots that move; :class:`.groups.Groups` decides how
many. A group queues for a slot like an ordinary job. A slot that moves to
another group of its scaling set goes there directly, without the queue.

The first slots of a group with ``all_or_none`` are a set
(:mod:`fpgapool.core.rules.session_sets`): the group has all of them at the
same time, or none. Until all are ready, it has no member and asks for no other
slot. If the set is rejected, so is the group.
"""

import collections
import dataclasses
import math
import typing
from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.rules import session_sets
from fpgapool.core.sizing import groups as group_sizes
from fpgapool.core.topology import slots
from fpgapool.vocabulary import states

_PREPARING = model.Phase.PREPARING

# A group pauses after more than this many consecutive failures. Each pause is
# twice as long as the one before, up to a limit.
_FREE_FAILURES = 2
_FIRST_REST_S = 1.0
_LONGEST_REST_S = 64.0


class Hindered(typing.Protocol):
    """What lacks slots."""

    def fits(self, slot_id: model.SlotId, shape: str) -> bool:
        """Return whether a slot is of use."""


@dataclasses.dataclass(slots=True)
class GroupSlots:
    """A group's slots.

    :ivar waiting: the jobs for further slots, the oldest first.
    :ivar busy: number of members that run a task, by host.
    :ivar projects: the project of each client, if it is not the owner's.
    :ivar reported: size and state in the last :class:`.instructions.Resize`.
    :ivar failures: consecutive failures to prepare slots for it.
    :ivar retry_s: when it requests slots again after failures.
    :ivar since_s: since when it waits for its first slots.
    """

    group: model.Group
    since_s: float
    holds: dict[model.SlotId, slots.Hold] = dataclasses.field(
        default_factory=dict
    )
    waiting: list[queued.JobRecord] = dataclasses.field(default_factory=list)
    busy: dict[model.HostId, int] = dataclasses.field(default_factory=dict)
    projects: dict[str, str] = dataclasses.field(default_factory=dict)
    reported: tuple[int, str] = (-1, "")
    failures: int = 0
    avoided: frozenset[model.SlotId] = frozenset()
    retry_s: float = -math.inf

    def serving(self) -> abc.Iterator[tuple[slots.Slot, slots.Hold]]:
        """Yield the members on hosts that are up."""
        for hold in self.holds.values():
            slot = hold.slot
            if slot and slot.host.up and hold.phase is not _PREPARING:
                yield slot, hold

    def able_to_leave(self) -> list[slots.Hold]:
        """Return the members that are not leaving yet.

        On each host, as many members as are idle come first. Otherwise,
        members are sorted by position.
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

    def kept(self) -> abc.Iterator[model.SlotId]:
        """Yield its slots without which it would be below its minimum.

        Those that would leave first are not among them.
        """
        able = [hold.slot_id for hold in self.able_to_leave()]
        spare = len(self.holds) - self.group.min_size
        going = able[: max(spare, 0)]
        for slot_id, hold in self.holds.items():
            if not hold.revoked and slot_id not in going:
                yield slot_id

    def unready(self) -> list[slots.Hold]:
        """Return the slots that are being programmed on hosts that are up."""
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

    :ivar changed: whether sizes must be compared again.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        outcome: instructions.Outcome,
        sizes: group_sizes.Groups,
        sets: session_sets.SessionSets,
    ) -> None:
        self._view = view
        self._sets = sets
        sets.refuse_group = self._refuse
        sets.places.kept = self.kept
        self._queue = queue
        self._outcome = outcome
        self._sizes = sizes
        self.groups: dict[model.GroupId, GroupSlots] = {}
        # Members of unknown groups, by slot.
        self._orphans: dict[model.SlotId, slots.Hold] = {}
        # Assignments that ended since sizes were last compared.
        self._ended: list[slots.Hold] = []
        self.changed = False
        # When the first paused group requests slots again.
        self._rests_until_s = math.inf

    @property
    def is_idle(self) -> bool:
        """Whether there are no groups, and nothing to do."""
        return not (self.groups or self.changed or self._orphans)

    @property
    def wake_s(self) -> float:
        """When sizes must be checked again; infinite: never."""
        return min(self._sizes.wake_s(), self._rests_until_s)

    def is_due(self) -> bool:
        """Return whether :meth:`settle` has something to do."""
        return self.changed or self.wake_s <= self._view.now

    def add(self, group: model.Group, since_s: float | None = None) -> None:
        """Add a group that has no slots yet.

        :param since_s: since when it waits for its first slots; None: now.
        """
        since_s = self._view.now if since_s is None else since_s
        self.groups[group.id] = GroupSlots(group, since_s)
        self.changed = True

    def gather(self, group_id: model.GroupId, *, is_known: bool) -> None:
        """Let a group wait for its first slots as a set, or reject it.

        :param is_known: see :class:`fpgapool.core.events.JobSubmitted`.
        """
        known = self.groups[group_id]
        if known.group.accelerator not in self._view.accelerators:
            return
        for _ in range(known.group.min_size):
            record = self._submit(
                known, known.group.together, is_known=is_known
            )
            if record is not None and known.avoided:
                self._queue.avoid(record, known.avoided | record.avoided)

    def _refuse(
        self, group_id: model.GroupId, code: str, message: str
    ) -> None:
        """End a group whose set was rejected; it has no slots."""
        self._sizes.refuse(group_id, self._view.now)
        del self.groups[group_id]
        self._outcome.output.append(
            instructions.RejectGroup(group_id, code, message, ends=True)
        )

    def touch(self) -> None:
        """Make :meth:`settle` compare the sizes after hosts have changed."""
        self.changed = bool(self.groups or self._orphans)

    # -- assignments -------------------------------------------------------

    def take_over(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Restore a member from before a restart."""
        known = self.groups.get(group_id)
        self.changed = True
        if known is None:
            self._orphans[hold.slot_id] = hold
            return
        known.holds[hold.slot_id] = hold
        now = self._view.now
        self._sizes.begin(group_sizes.Move(None, group_id), now)
        if hold.phase is not _PREPARING:
            self._sizes.joined(group_id, now)

    def begun(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Record that a job got a slot for its group."""
        known = self.groups[group_id]
        known.holds[hold.slot_id] = hold
        known.waiting = [r for r in known.waiting if r is not hold.record]
        move = group_sizes.Move(None, group_id)
        self._sizes.begin(move, self._view.now)
        self.changed = True

    def ready(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Record that a slot now serves its group."""
        if hold.slot_id not in self._orphans:
            known = self.groups[group_id]
            known.failures, known.avoided = 0, frozenset()
            self._sizes.joined(group_id, self._view.now)
            self.changed = True
            self._outcome.is_quiet = False

    def ended(self, hold: slots.Hold, group_id: model.GroupId) -> None:
        """Record that a group lost a slot."""
        self.changed = True
        if self._orphans.pop(hold.slot_id, None) is not None:
            return
        # The leader of a set has a slot only until its turn is taken.
        if self.groups[group_id].holds.pop(hold.slot_id, None) is not None:
            self._ended.append(hold)

    def waits_again(
        self, record: queued.JobRecord, group_id: model.GroupId
    ) -> None:
        """Record that a job lost its slot and is queued again."""
        known = self.groups.get(group_id)
        if known is None:
            self._withdraw(record)
        else:
            known.waiting.insert(0, record)

    def failed(
        self, record: queued.JobRecord, group_id: model.GroupId
    ) -> None:
        """Record that a slot could not be prepared for a group.

        The group requests another one. After several consecutive failures, it
        pauses first, longer each time. Failures during a pause do not count.
        """
        known, now = self.groups.get(group_id), self._view.now
        if known is None:
            return
        known.avoided |= record.avoided
        if now < known.retry_s:
            return
        known.failures += 1
        rests = known.failures - _FREE_FAILURES
        if rests > 0:
            known.retry_s = now + min(
                _FIRST_REST_S * 2.0 ** (rests - 1), _LONGEST_REST_S
            )

    # -- sizes -------------------------------------------------------------

    def settle(self) -> list[slots.Hold]:
        """Adjust the groups' sizes; return the slots that must be released."""
        self.changed = False
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
        for group_id, known in list(self.groups.items()):
            if known.group.all_or_none:
                self._keep_set(known)
            lacks = lacking[group_id]
            if lacks and known.retry_s > now:
                self._rests_until_s = min(self._rests_until_s, known.retry_s)
                lacks = min(lacks, len(known.waiting))
            self._wait_for(known, lacks)
            found += self._to_leave(known, leaving[group_id])
            self._report(known)
        return found

    def _keep_set(self, known: GroupSlots) -> None:
        """Keep the set of a group's first slots as long as it waits for them.

        It is new if a former leader had it, the accelerator was unknown, or
        the group has paused.
        """
        group = known.group
        status = self._sizes.get(group.id)
        one = self._sets.find(group.project, group.together.set_id)
        pauses = known.retry_s > self._view.now
        if (
            status is None
            or status.state == states.GROUP_DRAINING
            or (pauses and status.gathers)
        ):
            if one is not None and not one.is_starting:
                self._sets.withdraw(one)
            if status is not None and pauses:
                self._rests_until_s = min(self._rests_until_s, known.retry_s)
        elif status.gathers and one is None:
            self.gather(group.id, is_known=True)

    def _pass_on(self, hold: slots.Hold) -> None:
        """Hand a slot that a group lost to the next group, if possible."""
        group_id, now = hold.group_id, self._view.now
        if group_id is None or group_id not in self.groups:
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
        known = self.groups[move.receiver or 0]
        view = self._view
        if not view.slots.is_idle(slot_id) or view.is_held(
            known.group.project
        ):
            return False
        record = self._submit(known)
        if record is None or record.group is None:
            return False
        slot = view.slots.slots[slot_id]
        if not record.group.fits(slot_id, slot.shape):
            self._withdraw(record)
            return False
        # The next pass must not treat it as a new job.
        record.group.lane.arrived.pop(record.job.id, None)
        view.give(record, slot, in_turn=False)
        hold = view.slots.assignments[slot_id]
        known.holds[slot_id] = hold
        self._sizes.begin(move, view.now)
        self._outcome.output.append(
            instructions.Program(slot_id, record.job.id, hold.generation)
        )
        return True

    def _wait_for(self, known: GroupSlots, count: int) -> None:
        """Keep one waiting job for each slot that the group lacks."""
        records = self._view.jobs.records
        known.waiting = [r for r in known.waiting if r.job.id in records]
        while len(known.waiting) > count:
            self._withdraw(known.waiting.pop())
        while len(known.waiting) < count:
            record = self._submit(known)
            if record is None:
                return
            if known.avoided:
                self._queue.avoid(record, known.avoided | record.avoided)
            known.waiting.append(record)

    def _submit(
        self,
        known: GroupSlots,
        together: model.Together | None = None,
        *,
        is_known: bool = False,
    ) -> queued.JobRecord | None:
        """Queue a job for a slot; None: the accelerator no longer exists.

        :param together: the set of the group's first slots.
        """
        group = known.group
        accelerator = self._view.accelerators.get(group.accelerator)
        if accelerator is None:
            return None
        # Negative, because sessions have positive ids.
        job = model.Job(
            id=-self._view.take_generation(),
            host_id=None,
            accelerator=group.accelerator,
            claimed_bytes=max(
                accelerator.peak_bytes_per_s * self._sizes.period_s, 1.0
            ),
            arrival_s=known.since_s if together else self._view.now,
            priority=group.priority,
            project=group.project,
            group_id=group.id,
            wait_timeout_s=group.wait_timeout_s if together else None,
            together=together,
        )
        # The claim only orders the queue: groups pay by time.
        self._queue.on_submitted(
            events.JobSubmitted(job, paid_bytes=0.0, is_known=is_known)
        )
        return self._view.jobs.records.get(job.id)

    def _withdraw(self, record: queued.JobRecord) -> None:
        self._queue.withdraw(record)
        del self._view.jobs.records[record.job.id]

    def _to_leave(self, known: GroupSlots, count: int) -> list[slots.Hold]:
        status = self._sizes.get(known.group.id)
        if status is not None and status.state == states.GROUP_DRAINING:
            return known.able_to_leave() + known.unready()
        count -= sum(bool(hold.revoked) for _, hold in known.serving())
        return known.able_to_leave()[: max(count, 0)]

    def _report(self, known: GroupSlots) -> None:
        """Report a size or state that has changed."""
        group_id = known.group.id
        status = self._sizes.get(group_id)
        current = (0, states.GROUP_DELETED)
        if status is not None:
            current = status.wanted, status.state
        if current != known.reported:
            known.reported = current
            self._outcome.output.append(
                instructions.Resize(group_id, *current)
            )
        if status is None:
            del self.groups[group_id]

    def call_back(
        self, others: abc.Sequence[Hindered] = ()
    ) -> slots.Hold | None:
        """Choose a member to release for a session that finds no idle slot.

        :param others: what else lacks slots, apart from the queues.
        :returns: the member; None if no session waits for one, or no group can
            spare one.
        """
        if not self.groups:
            return None
        waiting: list[Hindered] = [*self._hindered(), *others]
        if not waiting:
            return None
        able: dict[model.GroupId, slots.Hold] = {}
        for group_id, known in self.groups.items():
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
        self.changed = True
        return able[chosen]

    def _hindered(self) -> abc.Iterator[queued.JobGroup]:
        """Yield the queues of sessions that fit no idle slot."""
        view = self._view
        for lane in view.jobs.all_lanes():
            if view.is_lane_held(lane):
                continue
            for group in lane.groups():
                if not view.has_idle(group) and any(
                    view.record(key[-1]).job.group_id is None
                    for key in group.jobs
                ):
                    yield group

    def kept(self) -> frozenset[model.SlotId]:
        """Return the slots that groups give to nobody until they end or get
        smaller sizes.
        """
        return frozenset(
            slot_id
            for group_id, known in self.groups.items()
            if known.holds and not self._is_draining(group_id)
            for slot_id in known.kept()
        )

    def _is_draining(self, group_id: model.GroupId) -> bool:
        status = self._sizes.get(group_id)
        return status is None or status.state == states.GROUP_DRAINING

    # -- accounts ----------------------------------------------------------

    def _charge_owners(self) -> None:
        """Charge the owners for their groups' slots up to now."""
        accounts = self._view.accounts
        if accounts is not None:
            for project in {one.group.project for one in self.groups.values()}:
                accounts.charge(project)
