# SPDX-License-Identifier: Apache-2.0

"""The pool's state: events in, instructions out.

Deterministic: the same events at the same times give the same instructions.
There is no clock, no I/O and no thread in here.
"""

import math
import operator
import typing
from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import invariants
from fpgapool.core import model
from fpgapool.core import queued
from fpgapool.core import slots
from fpgapool.core import strategy as strategy_api
from fpgapool.core import view as pool_view
from fpgapool.vocabulary import codes

InvariantError = invariants.InvariantError

# Looking up a member of an enumeration takes its time.
_PREPARING = model.Phase.PREPARING
_READY = model.Phase.READY

# Where an event comes within its instant.
_BATCH_ORDER = operator.attrgetter("batch_order")


class PoolState:
    """All hosts, slots, jobs and assignments, and the rules that change them.

    To be changed through :meth:`step` only.

    :param strategy: decides who gets which slot; it serves this pool only.
    :param first_generation: the generation of the first assignment; each
        further one has a higher generation.
    :param wakeups: whether a job that has waited for its own host for long
        enough causes a pass by itself, and whether a strategy may look
        again.
    """

    def __init__(
        self,
        strategy: strategy_api.Strategy,
        *,
        first_generation: int = 1,
        wakeups: bool = True,
    ) -> None:
        self._strategy = strategy
        self._wakeups = wakeups
        self._view = pool_view.PoolView(strategy, first_generation)
        self._slots = self._view.slots
        self._jobs = self._view.jobs
        self._reservations = self._view.reservations
        self._overdrawn: set[model.SlotId] = set()
        # Hosts that accelerators are kept off.
        self._shunned: dict[str, set[model.HostId]] = {}
        # The slots of these hosts, as far as they have been asked for. All
        # who avoid them share one set: in large pools it is large.
        self._shunned_sets: dict[str, frozenset[model.SlotId]] = {}
        # Devices that are to be drained, and their deadlines.
        self._drains: dict[model.DeviceId, float] = {}
        # The next of these deadlines.
        self._drain_s = math.inf
        self._last_s = -math.inf
        self._pass_due = False
        # When a wake-up was asked for that has not come yet.
        self._wake_s = math.inf
        # When the strategy wants to look again.
        self._look_s = math.inf
        self._output: list[instructions.Instruction] = []
        # Jobs that wait again only when the others have been looked at.
        self._yielding: dict[model.JobId, events.JobSubmitted] = {}

    # -- reading ---------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    @property
    def idle_count(self) -> int:
        """How many slots are idle."""
        return self._slots.idle_count(frozenset())

    @property
    def wants_rates(self) -> bool:
        """Whether :class:`~fpgapool.core.events.Progress` is of use."""
        return self._view.loads is not None

    @property
    def view(self) -> pool_view.PoolView:
        """The pool as strategies see it; for reading only."""
        return self._view

    def assignments(self) -> abc.Mapping[model.SlotId, model.Assignment]:
        """Who has which slot."""
        return {
            slot_id: hold.assignment()
            for slot_id, hold in self._slots.assignments.items()
        }

    def hold(self, slot_id: model.SlotId) -> slots.Hold | None:
        """Who has a slot; for reading only.

        It stays up to date until the slot is released.
        """
        return self._slots.assignments.get(slot_id)

    def waiting(self) -> list[model.Job]:
        """The waiting jobs, first in the queue first."""
        return list(self._jobs)

    def skips(self, job_id: model.JobId) -> int:
        """How often slots of other hosts passed a job over.

        :raises KeyError: if the job is not known.
        """
        return self._jobs.records[job_id].skips

    def take_skips(self) -> abc.Mapping[model.JobId, int]:
        """Which jobs were passed over since the last call, and how often yet.

        The first call only has it noted from then on, for whoever never asks
        must not pay for it.
        """
        skipped, self._jobs.skipped = self._jobs.skipped, set()
        return {
            job_id: self.skips(job_id)
            for job_id in skipped or ()
            if job_id in self._jobs.records
        }

    def queue_position(self, job_id: model.JobId) -> int:
        """How many waiting jobs come before this one.

        :raises KeyError: if the job does not wait.
        """
        record = self._jobs.records[job_id]
        if record.group is None:
            raise KeyError(job_id)
        return self._jobs.position(record)

    def status(self, job_id: model.JobId) -> model.Status:
        """Where a job stands, and what it waits for."""
        record = self._jobs.records.get(job_id)
        if record is None:
            return model.Status(model.Verdict.NEVER, (codes.UNKNOWN_JOB,))
        if record.group is None:
            return model.Status(model.Verdict.OK)
        return model.Status(
            model.Verdict.NOT_NOW, self._reasons(job_id, record.group)
        )

    def _reasons(
        self, job_id: model.JobId, group: queued.JobGroup
    ) -> tuple[str, ...]:
        job = self._jobs.records[job_id].job
        accelerator = self._view.accelerators[job.accelerator]
        withholds = self._reservations.withholds
        if not any(host.up for host in self._slots.hosts.values()):
            return (codes.NO_HOST_UP,)
        if not any(map(accelerator.fits, self._slots.known_shapes())):
            return (codes.NO_COMPATIBLE_SLOT,)
        if not self._slots.up_count(group.shapes):
            if withholds(job, idle=False):
                return (codes.SLOTS_RESERVED,)
            if self._slots.barred_count(slots.shown_shapes(accelerator)):
                return (codes.NO_ENABLED_SLOT,)
            return (codes.NO_HEALTHY_SLOT,)
        if self._view.is_held(group.lane.project):
            return (codes.PROJECT_SESSION_LIMIT,)
        if not self._view.has_idle(group):
            if withholds(job, idle=True):
                return (codes.SLOTS_RESERVED,)
            return (codes.NO_IDLE_SLOT,)
        return self._strategy.reasons(self._view, job_id)

    def check_invariants(self) -> None:
        """Check everything that always holds.

        :raises InvariantError: if something does not.
        """
        invariants.check(self._view)
        invariants.check_drains(
            self._slots, self._drains, self._drain_s, self._last_s
        )

    def take_generation(self) -> int:
        """Return a generation that no assignment has or will have.

        For what is done to slots on nobody's behalf.
        """
        generation = self._view.next_generation
        self._view.next_generation += 1
        return generation

    # -- stepping --------------------------------------------------------

    def apply(
        self, batch: abc.Sequence[events.Event], now: float
    ) -> list[instructions.Instruction]:
        """Take in some events of an instant of which more are to come.

        Waiting jobs get no slots before :meth:`step` is called.

        :param now: the time in seconds; never below that of an earlier
            step.
        :returns: what follows from these events alone.
        :raises ValueError: as :meth:`step`.
        """
        if not now >= self._last_s:
            raise ValueError(f"time went back from {self._last_s} to {now}")
        self._last_s = self._view.now = now
        if self._view.accounts is not None:
            self._view.accounts.now_s = now
        self._output = []
        self._reservations.withheld.clear()
        if len(batch) > 1:
            batch = sorted(batch, key=_BATCH_ORDER)
        for event in batch:
            self._HANDLERS[type(event)](self, event)
        return self._output

    def step(
        self, batch: abc.Sequence[events.Event], now: float
    ) -> list[instructions.Instruction]:
        """Take in the events of one instant and decide.

        Whatever their order in the batch, topology and completions count
        first, then arrivals, then cancellations. One pass follows if
        anything happened that may let a waiting job have a slot.

        :param now: the time in seconds; never below that of an earlier
            step.
        :raises ValueError: if it is, or if an event contradicts what is
            known of the topology or of the assignments.
        """
        self.apply(batch, now)
        jobs = self._jobs
        if self._drains:
            self._drain(now)
        if not self._reservations.is_settled:
            self._settle_reservations()
        if jobs.quiet_until_s <= now:
            self._reject_overdue()
            released = jobs.release_due(now)
            if (self._hurry(now) or released) and self._wakeups:
                self._pass_due = True
        if self._pass_due or self._look_s <= now:
            self._run_pass()
        if self._yielding:
            self._let_yielding_wait()
        if self._overdrawn:
            self._call_in_overdrawn()
        if (
            self._wake_s <= now
            or jobs.quiet_until_s < self._wake_s
            or self._look_s < self._wake_s
            or self._drain_s < self._wake_s
        ):
            self._set_wake()
        return self._output

    def _run_pass(self) -> None:
        view = self._view
        if self._reservations.stirred:
            self._program(self._reservations.serve())
        if self._jobs.count:
            self._program(self._strategy.assign(view, view.now))
        self._pass_due = False
        self._look_s = self._next_look_s()
        self._jobs.forget_arrivals()
        view.touched.clear()

    def _program(self, choices: abc.Iterable[strategy_api.Choice]) -> None:
        for choice in choices:
            hold = self._slots.assignments[choice.slot_id]
            self._output.append(
                instructions.Program(
                    hold.slot_id,
                    hold.job_id,
                    hold.accelerator,
                    hold.generation,
                )
            )

    def _next_look_s(self) -> float:
        after_s = self._strategy.look_again_s
        if (
            after_s is None
            or not self._wakeups
            or not self._jobs.count
            or not self._slots.idle_total
        ):
            return math.inf
        return self._last_s + after_s

    def _call_in_overdrawn(self) -> None:
        """Take slots from holders beyond their claims, if others wait.

        Once a holder is asked to leave it cannot stay: what it was asked
        for may be on its way.
        """
        for slot_id in sorted(self._overdrawn):
            slot = self._slots.slots.get(slot_id)
            hold = self._slots.assignments[slot_id]
            if slot is None or not self._is_waited_for(slot, hold):
                continue
            self._overdrawn.remove(slot_id)
            self._output.append(self._calling_in(hold))

    def _is_waited_for(self, slot: slots.Slot, hold: slots.Hold) -> bool:
        """Whether a job could have a slot if its holder gave it back."""
        holder = self._jobs.records[hold.job_id].job.project
        if slot.reserved_for is not None:
            return slot.is_usable and self._reservations.is_wanted(slot)
        return slot.up and any(
            group.first() is not None
            and group.fits(slot.id, slot.shape)
            and (
                group.lane.project == holder
                or not self._view.is_held(group.lane.project)
            )
            for lane in self._jobs.all_lanes()
            for group in lane.groups_for(slot.shape)
        )

    def _calling_in(self, hold: slots.Hold) -> instructions.Instruction:
        members = (hold.slot_id, hold.job_id, hold.generation)
        accelerator = self._view.accelerators.get(hold.accelerator)
        if accelerator is not None and accelerator.stateless:
            hold.revoked = codes.YIELDED
            return instructions.Yield(*members)
        hold.revoked = codes.CLAIM_EXCEEDED
        return instructions.Revoke(*members, reason=codes.CLAIM_EXCEEDED)

    def _set_wake(self) -> None:
        """Ask to be woken, if not sooner already."""
        if self._wake_s <= self._last_s:
            self._wake_s = math.inf
        due_s = self._jobs.next_due_s(with_patience=self._wakeups)
        due_s = min(due_s, self._look_s, self._drain_s)
        if due_s < self._wake_s:
            self._wake_s = due_s
            self._output.append(instructions.WakeAt(due_s))

    # -- jobs ------------------------------------------------------------

    def _on_submitted(self, event: events.JobSubmitted) -> None:
        if event.yields:
            self._yielding[event.job.id] = event
        else:
            self._submit(event)

    def _let_yielding_wait(self) -> None:
        """Let jobs that have made room for others wait, and decide again."""
        yielding, self._yielding = self._yielding, {}
        for event in yielding.values():
            self._submit(event)
        if self._pass_due:
            self._run_pass()

    def _submit(self, event: events.JobSubmitted) -> None:
        job = event.job
        if job.id in self._jobs.records:
            return
        if not job.has_valid_size():
            self._reject(
                job.id,
                codes.INVALID_SIZE,
                f"claimed_bytes must be positive, not {job.claimed_bytes}",
            )
            return
        record = self._new_record(job)
        record.paid_bytes = event.paid_bytes
        if self._enqueue(record):
            self._jobs.greet(record)

    def _new_record(self, job: model.Job) -> queued.JobRecord:
        record = queued.JobRecord(job, self._strategy.key(job))
        self._jobs.records[job.id] = record
        return record

    def _enqueue(self, record: queued.JobRecord) -> bool:
        """Let a job wait, or reject it if it never could be served."""
        job = record.job
        if job.accelerator in self._shunned:
            shunned = self._shunned_slots(job.accelerator)
            record.avoided = _joined(record.avoided, shunned)
        if not self._view.enqueue(record):
            self._reject(
                job.id,
                codes.UNKNOWN_ACCELERATOR,
                f"there is no accelerator {job.accelerator!r}",
            )
            return False
        if job.instance_id is not None:
            self._reservations.stirred.add(job.instance_id)
        self._pass_due = True
        return True

    def _reject(self, job_id: model.JobId, code: str, message: str) -> None:
        self._jobs.records.pop(job_id, None)
        self._output.append(instructions.Reject(job_id, code, message))

    def _hurry(self, now: float) -> bool:
        """Let jobs that have waited for very long go first.

        :returns: whether there are any that did not before.
        """
        urgent = self._jobs.take_urgent(now)
        for record in urgent:
            self._jobs.remove(record)
            self._view.enqueue(record)
        return bool(urgent)

    def _reject_overdue(self) -> None:
        for record in self._jobs.take_overdue(self._last_s):
            self._withdraw(record)
            self._reject(
                record.job.id,
                codes.WAIT_TIMEOUT,
                f"no slot within {record.job.wait_timeout_s} s",
            )

    def _withdraw(self, record: queued.JobRecord) -> None:
        """Take a waiting job out of the queue."""
        if record.group is not None:
            record.group.lane.arrived.pop(record.job.id, None)
        self._jobs.remove(record)

    def _on_cancelled(self, event: events.JobCancelled) -> None:
        record = self._jobs.records.get(event.job_id)
        if record is None:
            self._yielding.pop(event.job_id, None)
            return
        if record.slot_id is None:
            self._withdraw(record)
            del self._jobs.records[event.job_id]
            return
        hold = self._slots.assignments[record.slot_id]
        if not hold.revoked:
            self._revoke(hold, event.reason)

    def _revoke(self, hold: slots.Hold, reason: str) -> None:
        """Ask a holder to leave its slot."""
        hold.revoked = reason
        self._overdrawn.discard(hold.slot_id)
        self._output.append(
            instructions.Revoke(
                slot_id=hold.slot_id,
                job_id=hold.job_id,
                generation=hold.generation,
                reason=reason,
            )
        )

    # -- assignments -----------------------------------------------------

    def _current(
        self, slot_id: model.SlotId, generation: int
    ) -> slots.Hold | None:
        """The slot's assignment, unless an event about it is stale."""
        hold = self._slots.assignments.get(slot_id)
        if hold is None or hold.generation != generation:
            return None
        return hold

    def _on_restored(self, event: events.AssignmentRestored) -> None:
        job, slot_id = event.job, event.slot_id
        held = self._slots.assignments.get(slot_id)
        if held is not None and held.job_id == job.id:
            return
        if held is not None or job.id in self._jobs.records:
            raise ValueError(
                f"job {job.id} cannot have slot {slot_id}: one of them is "
                "assigned or waits already"
            )
        slot = self._slots.slots.get(slot_id)
        host_id = slot.host.id if slot is not None else event.host_id
        record = self._new_record(job)
        record.slot_id = slot_id
        hold = slots.Hold(
            slot_id=slot_id,
            job_id=job.id,
            accelerator=job.accelerator,
            generation=event.generation,
            phase=event.phase,
            local=host_id is not None and job.host_id == host_id,
            started_s=self._view.now,
            slot=slot,
            paid_bytes=0.0,
        )
        self._slots.hold(hold, event.host_id, event.device_id)
        self._view.next_generation = max(
            self._view.next_generation, event.generation + 1
        )
        self._reservations.note_restored(hold)
        self._view.charge_claim(record, hold, in_round=False)
        if slot is not None:
            self._view.put_flow(job, slot)

    def _on_moved(
        self,
        event: events.SlotReady
        | events.HolderAttached
        | events.HolderDetached,
    ) -> None:
        hold = self._current(event.slot_id, event.generation)
        if hold is None:
            return
        phase = events.PHASE_MOVES.get((hold.phase, type(event)))
        if phase is None:
            return
        if hold.phase is _PREPARING and hold.slot is not None:
            hold.slot.programmed = hold.accelerator
        hold.phase = phase
        if phase is _READY and not hold.revoked:
            self._output.append(
                instructions.Grant(hold.slot_id, hold.job_id, hold.generation)
            )

    def _on_claim_exceeded(self, event: events.ClaimExceeded) -> None:
        hold = self._current(event.slot_id, event.generation)
        if hold is not None and not hold.revoked:
            self._overdrawn.add(event.slot_id)

    def _on_released(self, event: events.SlotReleased) -> None:
        hold = self._current(event.slot_id, event.generation)
        if hold is not None:
            self._release(hold)
            del self._jobs.records[hold.job_id]

    def _release(self, hold: slots.Hold) -> None:
        """Take a slot from its holder."""
        slot = hold.slot
        if slot is not None:
            if hold.phase is _PREPARING:
                slot.programmed = None
            self._view.touched.add(slot.host.id)
            if slot.reserved_for is not None:
                self._reservations.stirred.add(slot.reserved_for)
            if self._reservations.short:
                self._reservations.touch_short(slot.spec.device_id)
        self._slots.release(hold)
        self._view.drop_flow(hold.slot_id)
        self._view.take_back(self._jobs.records[hold.job_id], hold)
        if self._overdrawn:
            self._overdrawn.discard(hold.slot_id)
        self._pass_due = True

    def _on_prepare_failed(self, event: events.PrepareFailed) -> None:
        hold = self._current(event.slot_id, event.generation)
        if hold is None or hold.phase not in (_PREPARING, _READY):
            return
        if hold.slot is not None:
            hold.slot.programmed = None
        self._release(hold)
        if hold.revoked:
            # Its failure may well come from being revoked.
            del self._jobs.records[hold.job_id]
            return
        record = self._jobs.records[hold.job_id]
        record.avoided |= {event.slot_id}
        self._requeue(hold, event.reason)

    def _requeue(self, hold: slots.Hold, reason: str) -> None:
        record = self._jobs.records[hold.job_id]
        if self._enqueue(record):
            self._output.append(
                instructions.Requeue(
                    job_id=hold.job_id,
                    generation_lost=hold.generation,
                    reason=reason,
                )
            )

    # -- faults ----------------------------------------------------------

    def _on_slot_faulty(self, event: events.SlotFaulty) -> None:
        if event.slot_id not in self._slots.faulty_slots:
            self._slots.faulty_slots.add(event.slot_id)
            self._refresh_host_of_slot(event.slot_id)

    def _on_slot_restored(self, event: events.SlotRestored) -> None:
        if event.slot_id in self._slots.faulty_slots:
            self._slots.faulty_slots.remove(event.slot_id)
            self._refresh_host_of_slot(event.slot_id)

    def _refresh_host_of_slot(self, slot_id: model.SlotId) -> None:
        slot = self._slots.slots.get(slot_id)
        self._refresh_host(slot.host.id if slot is not None else None)

    def _on_device_failed(self, event: events.DeviceFailed) -> None:
        if event.device_id not in self._slots.failed_devices:
            self._slots.failed_devices.add(event.device_id)
            self._refresh_host(self._slots.host_of_device(event.device_id))

    def _on_device_restored(self, event: events.DeviceRestored) -> None:
        if event.device_id in self._slots.failed_devices:
            self._slots.failed_devices.remove(event.device_id)
            self._refresh_host(self._slots.host_of_device(event.device_id))

    def _on_accelerator_faulty(self, event: events.AcceleratorFaulty) -> None:
        hosts = self._shunned.setdefault(event.accelerator, set())
        if event.host_id not in hosts:
            hosts.add(event.host_id)
            self._shunned_sets.pop(event.accelerator, None)
            self._shun(event.accelerator)

    def _on_accelerator_restored(
        self, event: events.AcceleratorRestored
    ) -> None:
        hosts = self._shunned.get(event.accelerator, set())
        if event.host_id not in hosts:
            return
        hosts.remove(event.host_id)
        self._shunned_sets.pop(event.accelerator, None)
        left = self._shunned_slots(event.accelerator)
        if not hosts:
            del self._shunned[event.accelerator]
        restored = self._slots_of([event.host_id])
        self._change_avoided(
            event.accelerator,
            list(self._jobs.records.values()),
            lambda avoided: (
                avoided
                if restored.isdisjoint(avoided)
                else _joined(avoided - restored, left)
            ),
        )

    def _slots_of(
        self, host_ids: abc.Iterable[model.HostId]
    ) -> frozenset[model.SlotId]:
        hosts = map(self._slots.hosts.get, host_ids)
        return frozenset(
            slot.id
            for host in hosts
            if host is not None
            for slot in host.slots
        )

    def _shunned_slots(self, accelerator: str) -> frozenset[model.SlotId]:
        found = self._shunned_sets.get(accelerator)
        if found is None:
            found = self._slots_of(self._shunned[accelerator])
            self._shunned_sets[accelerator] = found
        return found

    def _shun(self, accelerator: str) -> None:
        """Have those that wait for an accelerator avoid what they should."""
        shunned = self._shunned_slots(accelerator)
        records = self._jobs.records
        self._change_avoided(
            accelerator,
            [records[job.id] for job in self.waiting()],
            lambda avoided: _joined(avoided, shunned),
        )

    def _change_avoided(
        self,
        accelerator: str,
        records: abc.Iterable[queued.JobRecord],
        change: abc.Callable[
            [frozenset[model.SlotId]], frozenset[model.SlotId]
        ],
    ) -> None:
        """Change what an accelerator's jobs avoid, equal sets once only."""
        changed: dict[frozenset[model.SlotId], frozenset[model.SlotId]] = {}
        for record in records:
            if record.job.accelerator != accelerator:
                continue
            old = record.avoided
            if old not in changed:
                changed[old] = change(old)
            if changed[old] != old:
                self._avoid(record, changed[old])

    def _avoid(
        self, record: queued.JobRecord, avoided: frozenset[model.SlotId]
    ) -> None:
        """Change what a job avoids, and with whom it waits."""
        waits = record.group is not None
        if waits:
            self._jobs.remove(record)
        record.avoided = avoided
        if waits:
            self._enqueue(record)

    # -- what operators say ----------------------------------------------

    def _on_device_enabled(self, event: events.DeviceEnabled) -> None:
        self._drains.pop(event.device_id, None)
        self._set_next_drain()
        if event.device_id in self._slots.barred_devices:
            self._slots.barred_devices.remove(event.device_id)
            self._refresh_host(self._slots.host_of_device(event.device_id))

    def _on_device_disabled(self, event: events.DeviceDisabled) -> None:
        self._drains.pop(event.device_id, None)
        self._set_next_drain()
        self._bar(event.device_id)

    def _on_drain_requested(self, event: events.DrainRequested) -> None:
        deadline_s = event.deadline_s
        self._drains[event.device_id] = (
            math.inf if deadline_s is None else deadline_s
        )
        self._bar(event.device_id)

    def _bar(self, device_id: model.DeviceId) -> None:
        if device_id not in self._slots.barred_devices:
            self._slots.barred_devices.add(device_id)
            self._refresh_host(self._slots.host_of_device(device_id))

    def _drain(self, now: float) -> None:
        """See who is left on devices that are to be drained."""
        for device_id, deadline_s in sorted(self._drains.items()):
            held = self._slots.held_on(device_id)
            if deadline_s <= now:
                for slot_id in held:
                    self._call_back(
                        self._slots.assignments[slot_id], codes.DRAINED
                    )
                held = self._slots.held_on(device_id)
            if not held:
                del self._drains[device_id]
                self._output.append(instructions.Drained(device_id))
        self._set_next_drain()

    def _set_next_drain(self) -> None:
        self._drain_s = min(
            (due_s for due_s in self._drains.values() if due_s > self._last_s),
            default=math.inf,
        )

    def _on_reservable(self, event: events.ReservableSlotsChanged) -> None:
        self._reservations.set_reservable(event.device_id, event.count)
        if self._view.note_shapes():
            self._regroup()

    def _on_reservations(self, event: events.ReservationsChanged) -> None:
        self._reservations.set_wanted(event)

    def _regroup(self) -> None:
        """Have jobs wait with those that may have the same slots now."""
        for job in self.waiting():
            record = self._jobs.records[job.id]
            shapes = self._view.shapes_for(
                self._view.accelerators[job.accelerator]
            )
            if record.group is not None and record.group.shapes != shapes:
                self._jobs.remove(record)
                self._enqueue(record)

    def _settle_reservations(self) -> None:
        while not self._reservations.is_settled:
            changes, leaving = self._reservations.settle()
            for slot_id, instance_id in changes:
                self._output.append(instructions.Reserve(slot_id, instance_id))
            for hold in leaving:
                self._call_back(hold, codes.RESERVED)
        self._pass_due = True

    def _call_back(self, hold: slots.Hold, reason: str) -> None:
        """Take a slot from a holder whose time is over.

        Of a host that is silent it is not known how far the holder is.
        """
        if hold.revoked or hold.slot is None or not hold.slot.host.up:
            return
        if hold.phase in (_PREPARING, _READY):
            self._release(hold)
            self._requeue(hold, reason)
            return
        self._revoke(hold, reason)

    def _refresh_host(self, host_id: model.HostId | None) -> None:
        if host_id is not None:
            self._slots.refresh_host(host_id)
            self._topology_changed(host_id)

    def _topology_changed(self, host_id: model.HostId) -> None:
        self._view.topology_changed(host_id)
        self._reservations.touch_host(host_id)
        self._pass_due = True

    # -- hosts and the library -------------------------------------------

    def _on_host_up(self, event: events.HostUp) -> None:
        host, view = event.host, self._view
        shunning = [
            name for name, hosts in self._shunned.items() if host.id in hosts
        ]
        known = self._slots_of([host.id]) if shunning else None
        usable_changed = self._slots.put_host(host)
        if view.loads is not None:
            view.loads.set_host(host)
        for slot_id in self._slots.held_slots(host.id):
            slot = self._slots.slots.get(slot_id)
            if slot is None:
                view.drop_flow(slot_id)
                continue
            job_id = self._slots.assignments[slot_id].job_id
            job = self._jobs.records[job_id].job
            self._slots.set_local(slot_id, job.host_id == host.id)
            view.put_flow(job, slot)
        if usable_changed:
            self._topology_changed(host.id)
        if shunning and self._slots_of([host.id]) != known:
            for accelerator in shunning:
                self._shunned_sets.pop(accelerator, None)
                self._shun(accelerator)
        self._reservations.touch_host(host.id)
        if view.note_shapes():
            self._regroup()

    def _on_host_lost(self, event: events.HostLost) -> None:
        host_id = event.host_id
        if self._slots.drop_host(host_id):
            self._topology_changed(host_id)
        for slot_id in self._slots.held_slots(host_id):
            self._lose(self._slots.assignments[slot_id])

    def _lose(self, hold: slots.Hold) -> None:
        """Deal with an assignment whose host is lost."""
        if hold.phase not in (_PREPARING, _READY):
            # Its worker may go on, and its session may move when it ends.
            return
        if hold.revoked:
            self._release(hold)
            del self._jobs.records[hold.job_id]
        else:
            self._release(hold)
            self._requeue(hold, codes.HOST_LOST)

    def _on_accelerators(self, event: events.AcceleratorsChanged) -> None:
        old = self._view.accelerators
        new = {
            accelerator.name: accelerator for accelerator in event.accelerators
        }
        self._view.accelerators = new
        self._view.library_changed()
        self._reservations.library_changed()
        changed = {
            name
            for name, accelerator in old.items()
            if name not in new
            or self._view.shapes_for(new[name])
            != self._view.shapes_for(accelerator)
        }
        if not changed:
            return
        for job in self.waiting():
            if job.accelerator in changed:
                record = self._jobs.records[job.id]
                self._jobs.remove(record)
                self._enqueue(record)

    def _on_session_limits(self, event: events.SessionLimitsChanged) -> None:
        accounts = self._view.accounts
        if accounts is None:
            return
        accounts.set_limits(event.default, event.of_projects)
        for job in self.waiting():
            record = self._jobs.records[job.id]
            group = record.group
            if group and group.lane.project != accounts.lane_of(job.project):
                self._jobs.remove(record)
                self._view.enqueue(record)
        self._view.touch_idle()
        self._pass_due = True

    def _on_progress(self, event: events.Progress) -> None:
        """Reports change nothing but what strategies know of rates."""
        loads = self._view.loads
        if loads is not None and self._current(
            event.slot_id, event.generation
        ):
            loads.set_rate(event.slot_id, event.bytes_per_s)

    def _on_wake(self, event: events.Wake) -> None:
        # What has fallen due is found in every step. Being woken too early
        # must not lose the rest of the time.
        self._wake_s = math.inf

    _HANDLERS: typing.ClassVar[
        dict[type, abc.Callable[["PoolState", typing.Any], None]]
    ] = {
        events.AcceleratorsChanged: _on_accelerators,
        events.SessionLimitsChanged: _on_session_limits,
        events.HostUp: _on_host_up,
        events.HostLost: _on_host_lost,
        events.DeviceFailed: _on_device_failed,
        events.DeviceRestored: _on_device_restored,
        events.DeviceEnabled: _on_device_enabled,
        events.DeviceDisabled: _on_device_disabled,
        events.DrainRequested: _on_drain_requested,
        events.ReservableSlotsChanged: _on_reservable,
        events.ReservationsChanged: _on_reservations,
        events.SlotFaulty: _on_slot_faulty,
        events.SlotRestored: _on_slot_restored,
        events.AcceleratorFaulty: _on_accelerator_faulty,
        events.AcceleratorRestored: _on_accelerator_restored,
        events.AssignmentRestored: _on_restored,
        events.SlotReady: _on_moved,
        events.HolderAttached: _on_moved,
        events.HolderDetached: _on_moved,
        events.Progress: _on_progress,
        events.ClaimExceeded: _on_claim_exceeded,
        events.SlotReleased: _on_released,
        events.PrepareFailed: _on_prepare_failed,
        events.JobCancelled: _on_cancelled,
        events.JobSubmitted: _on_submitted,
        events.Wake: _on_wake,
    }


def _joined(
    avoided: frozenset[model.SlotId], shunned: frozenset[model.SlotId]
) -> frozenset[model.SlotId]:
    """Return both sets as one, which is that of all others if it can be."""
    return shunned if avoided <= shunned else avoided | shunned
