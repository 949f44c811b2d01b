# SPDX-License-Identifier: Apache-2.0

"""Chooses the slots that are reserved for instances.

An instance reserves a number of slots of a device. This module binds each
reservation to a slot, and to another one if that slot becomes unusable.
Reservable slots without a reservation are kept back: only jobs that can move
to another slot may use them.

Slots that are reserved by calendar come chosen; this module marks them, and
gives them to the jobs of their owners, in the same way.
"""

import heapq
import itertools
import typing
from collections import abc

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core.calendar import promises
from fpgapool.core.queues import queued
from fpgapool.core.queues import waiting
from fpgapool.core.topology import power
from fpgapool.core.topology import slot_table
from fpgapool.core.topology import slots

#: A slot and the instance that it is now reserved for; None: not reserved.
Change = tuple[model.SlotId, str | None]

_PREPARING = model.Phase.PREPARING

# When a slot can serve a reservation: at once, once its holder has moved, or
# at an unknown time.
_AT_ONCE, _SOON, _SOMETIME = range(3)

# So many jobs of each queue are tried for a slot that is reserved later.
_SHORT_TRIED = 8


class Pool(typing.Protocol):
    """The members of the pool's view that reservations use."""

    accelerators: dict[str, model.Accelerator]
    now: float
    next_generation: int
    power: power.Power

    def record(self, job_id: model.JobId) -> queued.JobRecord:
        """Return a job that waits or has a slot."""

    def is_stateless(self, name: str) -> bool:
        """Return whether sessions of an accelerator can change slots."""

    def is_held(self, project: str | None) -> bool:
        """Return whether a project has reached its limit of slots."""

    def is_job_held(self, job: model.Job) -> bool:
        """Return whether a job's project or user has reached its limit."""

    def is_lane_held(self, lane: queued.Lane) -> bool:
        """Return whether a lane's project or user has reached its limit."""

    def topology_changed(self, host_id: model.HostId) -> None:
        """Update the queues after a host's slots changed."""

    def give(
        self, record: queued.JobRecord, slot: slots.Slot, *, in_turn: bool
    ) -> preferences.Choice:
        """Give a job a slot."""


class Reservations:
    """The reservations of all devices, and their slots.

    :ivar wanted: by device, the instances and the number of slots that each
        has reserved.
    :ivar reservable: by device, the number of slots that can be reserved, if
        above 0.
    :ivar short: devices with a reservation that waits for a usable or better
        slot.
    :ivar stirred: instances with a new reserved slot or a new job since the
        last pass.
    :ivar unsettled: devices for which :meth:`settle` has something to do.
    :ivar since: the first generation assigned after the reservation, by
        reserved slot.
    :ivar promises: the slots that are reserved by calendar.
    """

    def __init__(
        self,
        view: Pool,
        table: slot_table.SlotTable,
        jobs: waiting.WaitingJobs,
    ) -> None:
        self._view = view
        self._table = table
        self._jobs = jobs
        self.wanted: dict[model.DeviceId, dict[str, int]] = {}
        self.reservable: dict[model.DeviceId, int] = {}
        self.bound: dict[model.DeviceId, dict[model.SlotId, str]] = {}
        self.short: set[model.DeviceId] = set()
        self.stirred: set[str] = set()
        self.since: dict[model.SlotId, int] = {}
        self.unsettled: set[model.DeviceId] = set()
        self.withheld: dict[tuple[str, str | None, bool], bool] = {}
        self.promises = promises.Promises(view)
        # The slots that are marked as reserved by calendar, by device.
        self._by_calendar: dict[model.DeviceId, set[model.SlotId]] = {}
        # Slots reserved before a restart, until their hosts are up.
        self._former: dict[model.SlotId, str] = {}

    # -- inputs ----------------------------------------------------------

    def set_wanted(self, event: events.ReservationsChanged) -> None:
        wanted = {
            device_id: {name: count for name, count in counts if count > 0}
            for device_id, counts in event.by_device
        }
        for device_id in wanted.keys() | self.wanted.keys():
            if wanted.get(device_id, {}) != self.wanted.get(device_id, {}):
                self.unsettled.add(device_id)
        self.wanted = {id_: counts for id_, counts in wanted.items() if counts}
        self._former.update(event.former_slots)

    def set_reservable(self, device_id: model.DeviceId, count: int) -> None:
        """Set the number of slots of a device that can be reserved."""
        if count > 0:
            self.reservable[device_id] = count
        else:
            self.reservable.pop(device_id, None)
        self.unsettled.add(device_id)

    def set_promised(self, event: events.CalendarChanged) -> None:
        """Set the slots that are reserved by calendar."""
        for slot_id in self.promises.set(event):
            slot = self._table.slots.get(slot_id)
            if slot is not None:
                self.unsettled.add(slot.spec.device_id)
        self._jobs.set_owners(set(self.promises.owners.values()))

    def touch_host(self, host_id: model.HostId) -> None:
        """Settle the devices of a changed host again."""
        host = self._table.hosts.get(host_id)
        if host is None or not (
            self.wanted
            or self.reservable
            or self.bound
            or self.promises
            or self._by_calendar
            or self._former
        ):
            return
        self.unsettled.update(device.id for device in host.spec.devices)
        # And those that the host has no longer.
        self.unsettled.update(
            device_id
            for device_id in self._by_calendar
            if not self._table.slots_of(device_id)
        )

    def touch_short(self, device_id: model.DeviceId) -> None:
        """Settle a device again if a reservation waits for a better slot."""
        if device_id in self.short:
            self.unsettled.add(device_id)

    def library_changed(self) -> None:
        """Settle everything again: other jobs may be able to move now."""
        self.unsettled.update(self.wanted, self.reservable)

    def stir_all(self) -> None:
        """Make the next pass consider the jobs of all instances."""
        for bound in self.bound.values():
            self.stirred.update(bound.values())
        self.stirred.update(self.promises.owners.values())

    def note_restored(self, hold: slots.Hold) -> None:
        """Record that an assignment is older than its slot's reservation."""
        if hold.slot_id in self.since:
            self.since[hold.slot_id] = max(
                self.since[hold.slot_id], hold.generation + 1
            )
        if hold.slot is not None and hold.slot_id in self.promises.owners:
            # Another one may have to leave.
            self.unsettled.add(hold.slot.spec.device_id)

    # -- choosing slots --------------------------------------------------

    def settle(self) -> tuple[list[Change], list[slots.Hold]]:
        """Bind reservations to slots.

        :returns: the changes, and the holders that must leave reserved slots.
        """
        changes: list[Change] = []
        leaving: list[slots.Hold] = []
        while self.unsettled:
            device_id = min(self.unsettled)
            self.unsettled.remove(device_id)
            known = self._table.slots_of(device_id)
            if known:
                changes += self._settle(device_id, known)
                leaving += self._to_leave(device_id)
            elif device_id in self._by_calendar:
                gone = self._by_calendar.pop(device_id)
                self._table.set_reserved(device_id, gone, {}, frozenset())
        return changes, leaving

    def _settle(
        self, device_id: model.DeviceId, known: list[slots.Slot]
    ) -> list[Change]:
        all_known = known
        if self.promises:
            known = [slot for slot in known if not self.promises.has(slot.id)]
        # Reserve the highest numbers first.
        known = sorted(known, key=lambda slot: slot.number, reverse=True)
        old = self.bound.pop(device_id, {})
        former = {
            slot.id: self._former.pop(slot.id)
            for slot in known
            if slot.id in self._former
        }
        old = former | old
        new, poor = self._sticky(device_id, known, old)
        wanted = self.wanted.get(device_id, {})
        count = sum(wanted.values())
        if len(new) < count:
            self._find_more(wanted, known, new, poor)
        if len(new) < count or any(
            self._grade(slot, new[slot.id]) == _SOMETIME
            for slot in known
            if slot.id in new
        ):
            self.short.add(device_id)
        else:
            self.short.discard(device_id)
        if new:
            self.bound[device_id] = new
        kept = self._keep(device_id, known, new)
        self._mark(device_id, all_known, old, new, kept)
        return [
            (slot_id, new.get(slot_id))
            for slot_id in sorted(old.keys() | new.keys())
            if old.get(slot_id) != new.get(slot_id) or slot_id in former
        ]

    def _sticky(
        self,
        device_id: model.DeviceId,
        known: list[slots.Slot],
        old: abc.Mapping[model.SlotId, str],
    ) -> tuple[dict[model.SlotId, str], dict[model.SlotId, str]]:
        """Return the slots that stay reserved, and the poor ones.

        Poor slots stay reserved only if there are no others.
        """
        left = dict(self.wanted.get(device_id, {}))
        new: dict[model.SlotId, str] = {}
        poor: dict[model.SlotId, str] = {}
        graded = [
            (self._grade(slot, old[slot.id]), slot)
            for slot in known
            if slot.id in old
        ]
        graded.sort(key=lambda one: one[0])
        for grade, slot in graded:
            instance_id = old[slot.id]
            if left.get(instance_id, 0) > 0:
                left[instance_id] -= 1
                (poor if grade == _SOMETIME else new)[slot.id] = instance_id
        return new, poor

    def _find_more(
        self,
        wanted: abc.Mapping[str, int],
        known: list[slots.Slot],
        new: dict[model.SlotId, str],
        poor: abc.Mapping[model.SlotId, str],
    ) -> None:
        """Reserve more slots; keep poor ones if no others are left."""
        for instance_id in sorted(wanted):
            missing = wanted[instance_id] - _count(new, instance_id)
            fair = sorted(
                (rank, slot.id)
                for rank, slot in (
                    (self._rank(slot, instance_id), slot)
                    for slot in known
                    if slot.id not in new
                )
                if rank[1] < _SOMETIME
            )
            # A reservation that is bound to a poor slot does not evict a
            # holder.
            urgent = missing - _count(poor, instance_id)
            for n, (rank, slot_id) in enumerate(fair[: max(missing, 0)]):
                if rank[1] == _AT_ONCE or n < urgent:
                    new[slot_id] = instance_id
        for slot_id, instance_id in poor.items():
            if (
                slot_id not in new
                and _count(new, instance_id) < wanted[instance_id]
            ):
                new[slot_id] = instance_id

    def _rank(
        self, slot: slots.Slot, instance_id: str
    ) -> tuple[bool, int, bool, int]:
        is_of_use = any(
            accelerator.fits(slot.spec.shape)
            for accelerator in self._view.accelerators.values()
        )
        return (
            not is_of_use,
            self._grade(slot, instance_id),
            not slot.kept,
            -slot.number,
        )

    def _grade(self, slot: slots.Slot, instance_id: str) -> int:
        if not slot.works:
            return _SOMETIME
        hold = self._table.assignments.get(slot.id)
        if hold is None or _instance_of(hold) == instance_id:
            return _AT_ONCE
        if hold.revoked or self._can_move(hold):
            return _SOON
        return _SOMETIME

    def _can_move(self, hold: slots.Hold) -> bool:
        """Return whether a holder can move to another slot.

        While a slot is being prepared, its client has not received it yet, so
        the job can move. Groups can always move, self-tests never.
        """
        return hold.record is not None and (
            hold.phase is _PREPARING
            or hold.group_id is not None
            or self._view.is_stateless(hold.accelerator)
        )

    def _to_leave(self, device_id: model.DeviceId) -> list[slots.Hold]:
        holds = (
            (self._table.assignments.get(slot_id), instance_id)
            for slot_id, instance_id in self.bound.get(device_id, {}).items()
        )
        leaving = [
            hold
            for hold, instance_id in holds
            if hold is not None
            and not hold.revoked
            and _instance_of(hold) != instance_id
            and self._can_move(hold)
        ]
        for slot in self._table.slots_of(device_id):
            owner = self.promises.owners.get(slot.id)
            hold = self._table.assignments.get(slot.id)
            # Whoever cannot move had this slot until now only.
            if (
                owner is not None
                and hold is not None
                and not hold.revoked
                and not _is_owners(hold, owner)
            ):
                leaving.append(hold)
        return leaving

    def _mark(
        self,
        device_id: model.DeviceId,
        known: list[slots.Slot],
        old: abc.Mapping[model.SlotId, str],
        new: abc.Mapping[model.SlotId, str],
        kept: abc.Set[model.SlotId],
    ) -> None:
        """Mark the slots in the table, and update the queues."""
        for slot_id in old.keys() | new.keys():
            if slot_id not in new:
                self.since.pop(slot_id, None)
            elif new[slot_id] != old.get(slot_id) or slot_id not in self.since:
                self.since[slot_id] = self._view.next_generation
        former: abc.Set[model.SlotId] = old.keys()
        if self.promises or self._by_calendar:
            owners, until_s = self.promises.owners, self.promises.until_s
            ids = {slot.id for slot in known}
            former = former | self._by_calendar.pop(device_id, set())
            kept = kept | (ids & until_s.keys())
            own = ids & owners.keys()
            if own:
                self._by_calendar[device_id] = own
                new = {**new, **{slot_id: owners[slot_id] for slot_id in own}}
        host_id = self._table.set_reserved(device_id, former, new, kept)
        if host_id is not None:
            self._view.topology_changed(host_id)
        self.stirred.update(new.values())

    def _keep(
        self,
        device_id: model.DeviceId,
        known: list[slots.Slot],
        bound: abc.Mapping[model.SlotId, str],
    ) -> set[model.SlotId]:
        count = self.reservable.get(device_id, 0) - sum(
            self.wanted.get(device_id, {}).values()
        )
        free = [
            slot
            for slot in known
            if slot.id not in bound and slot.id not in self._table.faulty_slots
        ]
        free.sort(key=self._is_stuck)
        return {slot.id for slot in free[: max(count, 0)]}

    def _is_stuck(self, slot: slots.Slot) -> bool:
        """Return whether the slot's job can never move."""
        hold = self._table.assignments.get(slot.id)
        return (
            hold is not None
            and hold.record is not None
            and hold.group_id is None
            and not self._view.is_stateless(hold.accelerator)
        )

    # -- serving jobs ----------------------------------------------------

    def serve(self) -> abc.Iterator[preferences.Choice]:
        """Give idle reserved slots to waiting jobs of their instances."""
        stirred, self.stirred = self.stirred, set()
        for instance_id in sorted(stirred):
            choice = self._serve_one(instance_id)
            while choice is not None:
                yield choice
                choice = self._serve_one(instance_id)

    def _serve_one(self, instance_id: str) -> preferences.Choice | None:
        queues = self._jobs.of_instances.get(instance_id, {})
        idle = self._table.reserved_idle.get(instance_id, {})
        if not queues or not idle:
            return None
        first: ordered.Key | None = None
        place: slots.Slot | None = None
        for name, queue in queues.items():
            accelerator = self._view.accelerators[name]
            fitting = [
                slot
                for slot in idle.values()
                if accelerator.fits(slot.spec.shape)
                and self._view.power.allows(slot)
            ]
            key, slot = self._first_of(queue, name, fitting)
            if key is not None and (first is None or key < first):
                first, place = key, slot
        if first is None or place is None:
            return None
        record = self._view.record(first[-1])
        return self._view.give(record, place, in_turn=False)

    def _first_of(
        self,
        queue: ordered.KeyQueue,
        accelerator: str,
        fitting: list[slots.Slot],
    ) -> tuple[ordered.Key | None, slots.Slot | None]:
        """Return the first job that may have a fitting slot, and the slot."""
        if fitting:
            for key in queue:
                record = self._view.record(key[-1])
                avoiding = record.group.avoiding if record.group else ()
                allowed = [
                    slot
                    for slot in fitting
                    if slot.id not in avoiding
                    and self.promises.allows(record.job, slot)
                ]
                if self._view.is_held(record.job.project):
                    # All jobs of an instance belong to one project.
                    break
                if self._view.is_job_held(record.job):
                    continue
                if allowed:
                    avoided = record.avoided
                    return key, min(
                        allowed,
                        key=lambda slot: (
                            slot.id in avoided,
                            not slot.starts_at_once(accelerator),
                            slot.position,
                        ),
                    )
        return None, None

    def serve_short(self) -> abc.Iterator[preferences.Choice]:
        """Give idle slots that are reserved later to jobs that end before.

        The strategy gives them only to jobs that can move.
        """
        view, assignments = self._view, self._table.assignments
        waiting: list[queued.JobRecord] | None = None
        for slot_id, until_s in sorted(self.promises.until_s.items()):
            slot = self._table.slots.get(slot_id)
            if (
                slot is None
                or not slot.up
                or slot_id in assignments
                or until_s <= view.now
                or not view.power.allows(slot)
            ):
                continue
            if waiting is None:
                waiting = self._first_stuck()
            record = self.promises.first_short(
                (one for one in waiting if not view.is_job_held(one.job)),
                slot,
            )
            if record is not None:
                yield view.give(record, slot, in_turn=False)

    def _first_stuck(self) -> list[queued.JobRecord]:
        """Return the first jobs of each queue that cannot move, in order."""
        view = self._view
        queues = [
            itertools.islice(group.jobs, _SHORT_TRIED)
            for lane in self._jobs.all_lanes()
            if not view.is_lane_held(lane)
            for group in lane.groups()
        ]
        records = (view.record(key[-1]) for key in heapq.merge(*queues))
        return [
            record
            for record in records
            if record.job.group_id is None
            and not view.is_stateless(record.job.accelerator)
        ]

    def is_wanted(self, slot: slots.Slot) -> bool:
        """Return whether a waiting job fits a reserved slot."""
        queues = self._jobs.of_instances.get(slot.reserved_for or "", {})
        return any(
            self._view.accelerators[name].fits(slot.spec.shape)
            for name in queues
        )

    def withholds(self, job: model.Job, *, idle: bool) -> bool:
        """Return whether reservations withhold a slot from a job.

        :param idle: whether only idle slots count; otherwise, all usable slots
            do.
        """
        own = job.instance_id
        if self.promises.owners:
            by_calendar = promises.owner_of(job.project, job.accelerator)
            if by_calendar in self._table.reserved.values():
                own = by_calendar
        if own not in self._table.reserved.values():
            own = None
        key = job.accelerator, own, idle
        if key not in self.withheld:
            self.withheld[key] = self._withholds(job, own, idle=idle)
        return self.withheld[key]

    def _withholds(
        self, job: model.Job, own: str | None, *, idle: bool
    ) -> bool:
        accelerator = self._view.accelerators[job.accelerator]
        marked = [*self._table.reserved, *self._table.kept]
        return any(
            slot.is_usable
            and accelerator.fits(slot.spec.shape)
            and not (idle and slot.id in self._table.assignments)
            and (
                not accelerator.stateless
                if slot.reserved_for is None
                else slot.reserved_for != own
            )
            for slot in map(self._table.slots.get, marked)
            if slot is not None
        )

    # -- figures ---------------------------------------------------------

    def pending(self, device_id: model.DeviceId) -> int:
        """Return how many of a device's reserved slots cannot be used now."""
        ready = sum(
            slot is not None
            and slot.is_usable
            and self._grade(slot, instance_id) == _AT_ONCE
            for slot, instance_id in (
                (self._table.slots.get(slot_id), instance_id)
                for slot_id, instance_id in self.bound.get(
                    device_id, {}
                ).items()
            )
        )
        return sum(self.wanted.get(device_id, {}).values()) - ready


def _instance_of(hold: slots.Hold) -> str | None:
    return hold.record.job.instance_id if hold.record else None


def _is_owners(hold: slots.Hold, owner: str) -> bool:
    """Return whether a holder may keep a slot reserved by calendar."""
    job = hold.record.job if hold.record else None
    return job is not None and owner == promises.owner_of(
        job.project, job.accelerator
    )


def _count(bound: abc.Mapping[model.SlotId, str], instance_id: str) -> int:
    return sum(owner == instance_id for owner in bound.values())
