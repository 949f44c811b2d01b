# SPDX-License-Identifier: Apache-2.0

"""Assignments of slots, from programming to release.

The pass that chooses a job for a slot creates an assignment. It has a
generation, which grows with every assignment of the pool, and a phase::

    PREPARING --SlotReady--> READY --HolderAttached--> ACTIVE
                                                        |   ^
                                       HolderDetached   v   | HolderAttached
                                                      DETACHED

Reports come from agents, so they may be late, lost or repeated. A report with
another generation concerns an earlier assignment and is ignored. ``SlotReady``
may be missing: any sign of a client advances the phase, and no late report
moves it back (``events.PHASE_MOVES``). Slots of groups are ACTIVE as soon as
they are ready, because the group's desk uses them at once.

An assignment ends when its release is reported. To take a slot back, the core
acts by phase:

* PREPARING and READY: no client has used the slot. The slot is free at once,
  and the job returns to its place in the queue.
* ACTIVE and DETACHED: a client may be using it. The core marks the assignment
  as revoked, with the reason, and waits for the release. It never withdraws
  the order, because the agent may already be carrying it out.

A holder that leaves soon (``HolderLeaves``) is in ``leaving``, and its slot is
free for one pass: the job that gets it is its successor, PREPARING until the
holder's release is reported. If there is no successor after the pass, or it
loses the slot, the holder has its slot again.

If the host is lost, the state of a worker in ACTIVE or DETACHED is unknown:
the assignment stays until the host or the session reports.
"""

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.rules import members
from fpgapool.core.rules import session_sets
from fpgapool.core.rules import set_places
from fpgapool.core.topology import slots
from fpgapool.vocabulary import codes

# Looking up an enum member is slow.
_PREPARING = model.Phase.PREPARING
_READY = model.Phase.READY
_ACTIVE = model.Phase.ACTIVE
_PHASE_MOVES = events.PHASE_MOVES


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Holders:
    """Moves assignments through their phases, and ends them."""

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        group_members: members.Members,
        sets: session_sets.SessionSets,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._slots = view.slots
        self._records = view.jobs.records
        self._reservations = view.reservations
        self._queue = queue
        self._members = group_members
        self._sets = sets
        self._in_sets = sets.of_job
        self._outcome = outcome
        self.overdrawn: set[model.SlotId] = set()
        #: Holders that leave soon, by slot.
        self.leaving: dict[model.SlotId, slots.Hold] = {}

    def current(
        self, slot_id: model.SlotId, generation: int
    ) -> slots.Hold | None:
        """Return the slot's assignment; None if the generation is stale."""
        hold = self._slots.assignments.get(slot_id)
        if hold is None or hold.generation == generation:
            return hold
        hold = self.leaving.get(slot_id)
        if hold is None or hold.generation != generation:
            return None
        return hold

    def _leaves(self, hold: slots.Hold) -> bool:
        return self.leaving.get(hold.slot_id) is hold

    def _of(self, record: queued.JobRecord) -> slots.Hold:
        """Return the slot of a job that has one."""
        assert record.slot_id is not None
        hold = self.leaving.get(record.slot_id)
        if hold is not None and hold.record is record:
            return hold
        return self._slots.assignments[record.slot_id]

    def on_restored(self, event: events.AssignmentRestored) -> None:
        """Restore an assignment from before a restart.

        :raises ValueError: if the slot or the job already has another
            assignment, or the job is waiting.
        """
        job, slot_id = event.job, event.slot_id
        known = self._records.get(job.id)
        if known is not None and known.slot_id == slot_id:
            return
        if known is not None or slot_id in self._slots.assignments:
            raise ValueError(
                f"job {job.id} cannot be assigned slot {slot_id}: one of them "
                "is already assigned, or the job is waiting"
            )
        slot = self._slots.slots.get(slot_id)
        host_id = slot.host.id if slot is not None else event.host_id
        record = self._queue.add_record(job)
        record.slot_id = slot_id
        record.seen_s = self._view.now
        if job.group_id is not None:
            # Groups have no claims.
            record.paid_bytes = 0.0
        hold = slots.Hold(
            slot_id=slot_id,
            record=record,
            accelerator=job.accelerator,
            generation=event.generation,
            phase=event.phase,
            local=job.is_local_to(host_id),
            started_s=self._view.now,
            slot=slot,
        )
        self._slots.hold(hold, event.host_id, event.device_id)
        self._queue.deadlines.watch(record)
        self._view.next_generation = max(
            self._view.next_generation, event.generation + 1
        )
        self._reservations.note_restored(hold)
        self._view.charge_claim(record, hold, in_round=False)
        if slot is not None:
            self._view.put_flow(job, slot)
        if job.group_id is not None:
            self._members.take_over(hold, job.group_id)
        if job.together is not None:
            self._sets.restore(record, job.together)

    def on_test_requested(self, event: events.TestRequested) -> None:
        """Give a slot to a self-test.

        :raises ValueError: if its host is not up, or the slot has a holder.
        """
        slot_id, view = event.slot_id, self._view
        slot = self._slots.slots.get(slot_id)
        if slot is None or not slot.host.up:
            raise ValueError(f"the host of slot {slot_id} is not up")
        if slot_id in self._slots.assignments:
            raise ValueError(f"slot {slot_id} already has a holder")
        hold = slots.Hold(
            slot_id=slot_id,
            record=None,
            accelerator=event.accelerator,
            generation=view.take_generation(),
            phase=_PREPARING,
            local=True,
            started_s=view.now,
            slot=slot,
        )
        self._slots.hold(hold)
        self._outcome.output.append(
            instructions.Test(slot_id, hold.accelerator, hold.generation)
        )

    def on_moved(
        self,
        event: events.SlotReady
        | events.HolderAttached
        | events.HolderDetached,
    ) -> None:
        """Set the phase of an assignment; grant a slot that is ready."""
        hold = self.current(event.slot_id, event.generation)
        if hold is None:
            return
        before, record = hold.phase, hold.record
        phase = _PHASE_MOVES[type(event)].get(before)
        if phase is None:
            return
        if before is _PREPARING:
            if self._in_sets and record is not None:
                one = self._in_sets.get(record.job.id)
                if one is not None:
                    self._note_ready(one, hold)
                    return
            # The SlotReady event may be late or lost.
            if hold.slot is not None:
                hold.slot.programmed = hold.accelerator
                if record is not None:
                    record.seen_s = self._view.now
                    self._queue.deadlines.watch(record)
                    if self._queue.deadlines.next_s <= self._view.now:
                        self._outcome.is_quiet = False
        hold.phase = phase
        if hold.group_id is not None:
            # A group's desk uses a slot as soon as it is ready.
            hold.phase = _ACTIVE
            if before is _PREPARING:
                self._members.ready(hold, hold.group_id)
        if phase is _READY and record is not None and not hold.revoked:
            self._outcome.output.append(
                instructions.Grant(
                    hold.slot_id, record.job.id, hold.generation
                )
            )

    def on_progress(self, event: events.Progress) -> None:
        hold = self.current(event.slot_id, event.generation)
        if hold is None or self._leaves(hold):
            return
        if self._view.loads is not None:
            self._view.loads.set_rate(event.slot_id, event.bytes_per_s)
        record = hold.record
        if record is not None:
            record.done_bytes = float(event.bytes)
            record.seen_s = self._view.now
            self._queue.deadlines.watch(record)

    def on_claim_exceeded(self, event: events.ClaimExceeded) -> None:
        hold = self.current(event.slot_id, event.generation)
        if hold is None or hold.record is None or hold.revoked:
            return
        if hold.group_id is None and not self._leaves(hold):
            self.overdrawn.add(event.slot_id)

    def on_released(self, event: events.SlotReleased) -> None:
        """Free a slot that its holder has released."""
        hold = self.current(event.slot_id, event.generation)
        if hold is not None:
            self._end(hold)

    def on_prepare_failed(self, event: events.PrepareFailed) -> None:
        """Requeue a job; it avoids the slot that failed."""
        hold = self.current(event.slot_id, event.generation)
        if hold is None or hold.phase not in (_PREPARING, _READY):
            return
        if hold.slot is not None:
            hold.slot.programmed = None
        record = hold.record
        if record is None or hold.revoked:
            # The revocation itself may have caused the failure.
            self._end(hold)
            return
        record.avoided |= {event.slot_id}
        if hold.group_id is not None:
            # The group decides when to request another slot.
            self._members.failed(record, hold.group_id)
        if hold.group_id is None or record.job.id in self._in_sets:
            self._requeue(hold, record, event.reason)
            return
        self._end(hold)
        self._report_requeue(hold, record, event.reason)

    def on_cancelled(self, event: events.JobCancelled) -> None:
        """Take a job out of the queue, or revoke its slot."""
        record = self._records.get(event.job_id)
        if record is None:
            self._queue.yielding.pop(event.job_id, None)
            return
        one = self._in_sets.get(event.job_id)
        if one is not None and not one.is_starting:
            self._sets.cancel(one, event.job_id)
            return
        if record.slot_id is None:
            self._queue.withdraw(record)
            self._queue.forget(event.job_id)
            return
        hold = self._of(record)
        if not hold.revoked:
            self._revoke(hold, record, event.reason)
        if one is not None:
            self._dissolve(one)

    def on_job_moved(self, event: events.JobMoved) -> None:
        """Count a job as from another host, whether it waits or has a slot."""
        record = self._queue.move_job(event.job_id, event.host_id)
        if record is None or record.slot_id is None:
            return
        slot = self._slots.slots.get(record.slot_id)
        if slot is None:
            return
        hold, is_local = self._of(record), record.job.is_local_to(slot.host.id)
        if self._leaves(hold):
            # The slot counts for its successor.
            hold.local = is_local
            return
        self._slots.set_local(slot.id, is_local)
        self._view.put_flow(record.job, slot)

    # -- leaving soon ----------------------------------------------------

    def on_leaves(self, event: events.HolderLeaves) -> None:
        """Free the slot of a holder for one pass."""
        hold = self._slots.assignments.get(event.slot_id)
        if (
            hold is None
            or hold.generation != event.generation
            or hold.record is None
            or hold.group_id is not None
            or event.slot_id in self.leaving
        ):
            return
        self._release(hold)
        self.leaving[event.slot_id] = hold

    def on_stays(self, event: events.HolderStays) -> None:
        """Queue a successor again."""
        hold = self._slots.assignments.get(event.slot_id)
        if (
            hold is None
            or hold.generation != event.generation
            or hold.record is None
            or event.slot_id not in self.leaving
        ):
            return
        record = hold.record
        self._release(hold)
        if self._queue.enqueue(record) and hold.group_id is not None:
            self._members.waits_again(record, hold.group_id)

    def keep_without_successor(self) -> None:
        """Give slots back to their holders that nobody took in the pass."""
        for slot_id in list(self.leaving):
            if slot_id not in self._slots.assignments:
                self._keep(slot_id)

    def _keep(self, slot_id: model.SlotId) -> None:
        """Give the slot of a holder that was about to leave back to it."""
        hold = self.leaving.pop(slot_id)
        record = hold.record
        assert record is not None
        hold.slot = self._slots.slots.get(slot_id)
        hold.charged_at_s = self._view.now
        self._view.charge_claim(record, hold, in_round=False)
        self._slots.hold(hold)
        self._queue.deadlines.watch(record)
        if hold.slot is not None:
            self._view.put_flow(record.job, hold.slot)

    # -- sets ------------------------------------------------------------

    def pass_turn(self, hold: slots.Hold) -> None:
        """Take a slot back from a set's leader in the pass that gave it."""
        # What the slot contains has not changed.
        hold.phase = _READY
        self._release(hold)
        assert hold.record is not None
        self._sets.take_turn(hold.record)

    def _note_ready(
        self, one: set_places.SessionSet, ready: slots.Hold
    ) -> None:
        """Note that a slot of a starting set is ready.

        With the last one, all are: a client must not connect to a slot that
        its set may give back.
        """
        one.ready.add(ready.slot_id)
        if len(one.ready) == len(one.records):
            self._sets.started(one)
            for record in one.records:
                hold = self._of(record)
                self.on_moved(events.SlotReady(hold.slot_id, hold.generation))

    def _dissolve(self, one: set_places.SessionSet) -> None:
        """Reject what is left of a starting set, of which one has ended."""
        self._sets.let_go(one)
        for record in one.records:
            if record.job.id not in self._records:
                continue
            hold = self._of(record)
            if not hold.revoked:
                self._release(hold)
                self._sets.reject_other(record.job.id)

    def _give_back(
        self, one: set_places.SessionSet, lost: slots.Hold, reason: str
    ) -> None:
        """Take all slots back from a starting set, which lost one."""
        for record in one.records:
            hold = self._of(record)
            self._release(hold)
            why = reason if hold is lost else codes.SET_INCOMPLETE
            self._report_requeue(hold, record, why)
        self._sets.wait_again(one)

    # -- losing slots ----------------------------------------------------

    def lose(self, hold: slots.Hold) -> None:
        """End an assignment whose host is lost, unless it was used."""
        if hold.phase not in (_PREPARING, _READY):
            # The worker may continue. If it does not, the client reopens the
            # session.
            return
        if hold.record is None or hold.revoked:
            self._end(hold)
        else:
            self._requeue(hold, hold.record, codes.HOST_LOST)
        former = self._slots.assignments.get(hold.slot_id)
        if former is not None:
            self.lose(former)

    def call_back(self, hold: slots.Hold, reason: str) -> None:
        """Take a slot from a holder that must leave.

        Holders on a silent host stay, because their phase is unknown.
        Self-tests stay, because they end soon.
        """
        record = hold.record
        if record is None or hold.revoked:
            return
        if self._slots.assignments.get(hold.slot_id) is not hold:
            # Its set has given it back already.
            return
        if hold.slot is None or not hold.slot.host.up:
            return
        if hold.phase in (_PREPARING, _READY):
            self._requeue(hold, record, reason)
            former = self._slots.assignments.get(hold.slot_id)
            if former is not None:
                self.call_back(former, reason)
        else:
            self._revoke(hold, record, reason)

    def end_lost(self) -> None:
        """End jobs whose deadlines have passed or can no longer be met."""
        for record in self._queue.deadlines.take_lost(self._view.now):
            if record.slot_id is None:
                self._queue.withdraw(record)
                self._queue.reject_lost(record)
                continue
            hold = self._of(record)
            if hold.revoked:
                continue
            if hold.phase in (_PREPARING, _READY):
                self._release(hold)
                self._queue.reject_lost(record)
            else:
                self._revoke(hold, record, codes.DEADLINE_PASSED)

    def call_in_overdrawn(self) -> None:
        """Take slots from holders above their claims, if others wait."""
        for slot_id in sorted(self.overdrawn):
            slot = self._slots.slots.get(slot_id)
            hold = self._slots.assignments[slot_id]
            record = hold.record
            if slot is None or record is None:
                continue
            if not self._is_waited_for(slot, record.job):
                continue
            if self._view.is_stateless(hold.accelerator):
                self.make_yield(hold, record, codes.YIELDED)
            else:
                self._revoke(hold, record, codes.CLAIM_EXCEEDED)

    def make_yield(
        self, hold: slots.Hold, record: queued.JobRecord, reason: str
    ) -> None:
        """Take the slot from a stateless holder; its job is queued again."""
        self._revoke(hold, record, reason, instructions.Yield)

    def _is_waited_for(self, slot: slots.Slot, job: model.Job) -> bool:
        """Return whether a waiting job would get a job's slot if freed."""
        if slot.reserved_for is not None:
            return slot.is_usable and self._reservations.is_wanted(slot)
        if not slot.up:
            return False
        return self._sets.turns.fits(slot.id, slot.shape) or any(
            group.first() is not None
            and group.fits(slot.id, slot.shape)
            and self._view.may_follow(group.lane, job)
            for lane in self._view.jobs.all_lanes()
            for group in lane.groups_for(slot.shape)
        )

    def _revoke(
        self,
        hold: slots.Hold,
        record: queued.JobRecord,
        reason: str,
        kind: type[instructions.Revoke | instructions.Yield] = (
            instructions.Revoke
        ),
    ) -> None:
        hold.revoked = reason
        self.overdrawn.discard(hold.slot_id)
        self._outcome.output.append(
            kind(hold.slot_id, record.job.id, hold.generation, reason)
        )

    def _requeue(
        self, hold: slots.Hold, record: queued.JobRecord, reason: str
    ) -> None:
        one = self._in_sets.get(record.job.id)
        if one is not None:
            self._give_back(one, hold, reason)
            return
        self._release(hold)
        if self._queue.enqueue(record):
            if hold.group_id is not None:
                self._members.waits_again(record, hold.group_id)
            else:
                self._queue.returns.note(record)
            self._report_requeue(hold, record, reason)

    def _report_requeue(
        self, hold: slots.Hold, record: queued.JobRecord, reason: str
    ) -> None:
        """Report that a job waits again, unless nobody knows of its slot."""
        if not self._outcome.take_program_back(hold.generation):
            self._outcome.output.append(
                instructions.Requeue(record.job.id, hold.generation, reason)
            )

    def _end(self, hold: slots.Hold) -> None:
        """Free a slot whose holder has finished."""
        record = hold.record
        if record is None:
            self._release(hold)
            return
        one = self._in_sets.get(record.job.id) if self._in_sets else None
        if one is not None and hold.group_id is not None:
            # The group, which has not ended, waits for all of them again.
            self._requeue(hold, record, codes.WORKER_LOST)
            return
        self._release(hold)
        self._queue.forget(record.job.id)
        if one is not None:
            self._dissolve(one)

    def _release(self, hold: slots.Hold) -> None:
        if self._leaves(hold):
            # Its successor has the slot already.
            del self.leaving[hold.slot_id]
            return
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
        if hold.record is not None:
            self._view.take_back(hold.record, hold)
        if self.overdrawn:
            self.overdrawn.discard(hold.slot_id)
        if hold.group_id is not None:
            self._members.ended(hold, hold.group_id)
        self._outcome.pass_due = True
        if hold.slot_id in self.leaving:
            self._keep(hold.slot_id)
