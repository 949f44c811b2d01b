# SPDX-License-Identifier: Apache-2.0

"""Assigns slots to sessions and groups, as the core instructs."""

from __future__ import annotations

import dataclasses

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common.monitoring import tracing
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import first_slots
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.rules import preemption
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

# Messages to a session's owner: why the session is waiting again.
_WHY = {
    codes.CONNECT_TIMEOUT: "its client was notified of its slot too late",
    codes.DRAINED: "an operator is taking its slot out of service",
    codes.HOST_LOST: "its slot's host does not report",
    codes.MOVED: "its client requested another slot",
    codes.PREEMPTED: (
        "its slot went to a session with a higher priority or a more urgent"
        " deadline"
    ),
    codes.RESERVED: "its slot is needed for a reservation",
    codes.YIELDED: "it sent more than it claimed while other sessions were"
    " waiting",
}


@dataclasses.dataclass(eq=False, repr=False)
class Serving(parts.Room):
    """Carries out the core's instructions about assignments."""

    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _sessions: sessions.SessionBook
    _lives: lives.Lives
    _groups: group_book.GroupBook
    _desk_accounts: desk_accounts.DeskAccounts
    _holds: holds.Holds
    _charging: charging.Charging
    _traffic: holds.Traffic

    # -- instructions of the core ------------------------------------------

    @parts.handles(instructions.Program)
    def _program(self, order: instructions.Program) -> None:
        group_id = self._holds.assigned(order.slot_id).group_id
        if self._core.leaving(order.slot_id) and not self._may_follow(order):
            self._link.tell(
                events.HolderStays(order.slot_id, order.generation)
            )
            return
        if group_id:
            group = self._groups.by_row[group_id]
            hold: holds.Hold = self.hold_for_group(
                group,
                order.slot_id,
                self._clock.now,
                self._bitstream(group.accelerator, order.slot_id),
            )
        else:
            session = self._sessions.by_job[order.job_id]
            hold = self._begin_session(session, order.slot_id)
        if LOG.isEnabledFor(logging.DEBUG):
            with hold.about():
                LOG.debug("%s gets slot %s", hold.public_id, hold.slot)
        hold.ordered_at = self._clock.now
        self.entered(hold)
        self._outbox.send(agent_orders.assign(hold, self._settings))
        if isinstance(hold, sessions.SessionHold) and hold.offer is not None:
            hold.session.endpoints = hold.offer.endpoints
            hold.session.certificate_sha256 = hold.offer.certificate_sha256
            if hold.former is None:
                self._announce(hold)

    def _announce(self, hold: sessions.SessionHold) -> None:
        hold.announced_at = self._clock.now
        self._link.tell(events.SlotReady(hold.slot.id, hold.generation))

    def _may_follow(self, order: instructions.Program) -> bool:
        """Whether the slot's worker can serve a successor at once."""
        holder = self._holds.get(order.slot_id)
        session = self._sessions.by_job.get(order.job_id)
        if (
            session is None
            or not isinstance(holder, sessions.SessionHold)
            or holder.session.project_id != session.project_id
            or holder.accelerator != session.accelerator
        ):
            return False
        bitstream = self._bitstream(session.accelerator, order.slot_id)
        offer = _offer_for(session, holder.slot)
        return (
            bitstream == holder.bitstream
            and offer is not None
            and offer.keeps_order
        )

    def _begin_session(
        self, session: sessions.Session, slot_id: int
    ) -> sessions.SessionHold:
        session.check_move("assign")
        self._sessions.count_queued(session, -1)
        waited_s = self._clock.pool_time - session.arrival_s
        if not session.generation:
            self._counts.waits_s.observe(waited_s)
        session.skips = self._core.skips(session.job_id)
        span = session.span_of_wait(self._clock.now)
        hold = self.hold_for_session(
            session,
            slot_id,
            self._clock.now,
            self._bitstream(session.accelerator, slot_id),
        )
        wanted = hold.bitstream and hold.bitstream.bitstream_id
        if hold.former is not None or (
            hold.slot.programmed_now == hold.accelerator
            and hold.slot.bitstream_id == wanted
        ):
            hold.offer = _offer_for(session, hold.slot)
        span.end(self._clock.now, slot=str(hold.slot))
        hold.carrier = tracing.within(session.carrier, span)
        return hold

    def _bitstream(
        self, accelerator: str, slot_id: int
    ) -> objects.BitstreamRef | None:
        shape = self._registry.slots[slot_id].shape
        return self._catalogue.library.choose(accelerator, shape)

    def hold_for_session(
        self,
        session: sessions.Session,
        slot_id: int,
        assigned_at: float,
        bitstream: objects.BitstreamRef | None,
    ) -> sessions.SessionHold:
        """Record a slot that the core has assigned to a session."""
        hold = sessions.SessionHold(
            session=session,
            holder=model.Holder(model.HolderKind.SESSION, session.row_id),
            accelerator=session.accelerator,
            slot=self._registry.slots[slot_id],
            core=self._holds.assigned(slot_id),
            assigned_at=assigned_at,
            bitstream=bitstream,
        )
        session.take_slot(hold)
        if self._settings.quantum_bytes:
            hold.quantum_bytes = self._quantum_bytes(hold)
        self._holds.enter(hold)
        return hold

    def hold_for_group(
        self,
        group: db_api.GroupRecord,
        slot_id: int,
        assigned_at: float,
        bitstream: objects.BitstreamRef | None,
    ) -> holds.Member:
        """Record a slot that the core has assigned to a group."""
        hold = self._holds[slot_id] = holds.Member(
            group=group,
            holder=model.Holder(model.HolderKind.GROUP, group.id),
            accelerator=group.accelerator,
            slot=self._registry.slots[slot_id],
            core=self._holds.assigned(slot_id),
            assigned_at=assigned_at,
            charged_at=assigned_at,
            bitstream=bitstream,
        )
        self._holds.changed_groups.add(group.group_id)
        return hold

    def _quantum_bytes(self, hold: sessions.SessionHold) -> int:
        """Return the input bytes between two borders; 0 if there are none."""
        accelerator = self._core.view.accelerators.get(hold.accelerator)
        if accelerator is None or not accelerator.stateless:
            return 0
        return preemption.quantum_bytes(
            self._settings.quantum_bytes,
            accelerator.peak_in(hold.slot.shape),
            hold.slot.programming_time_s,
        )

    @parts.handles(instructions.Grant)
    def _grant(self, order: instructions.Grant) -> None:
        hold = self._holds.get(order.slot_id)
        if hold is None or hold.abandoned:
            return
        if isinstance(hold, sessions.SessionHold):
            hold.session.mark_ready(self._clock.now)
            self._holds.candidates[hold.generation] = hold
        self.entered(hold)

    @parts.handles(instructions.Reject)
    def _reject(self, order: instructions.Reject) -> None:
        hold, session = self._of_job(order.job_id)
        # Who ends with the others of a set may have ended in this step.
        if session is not None and session.live:
            timed_out = order.code in (
                codes.WAIT_TIMEOUT,
                codes.DEADLINE_PASSED,
            )
            state = states.EXPIRED if timed_out else states.REJECTED
            self._lives.end(session, state, order.code, order.message)
        if hold is not None:
            # The job lost its slot, and its accelerator was deleted.
            self._lose(hold, order.code, tells_agent=True)

    @parts.handles(instructions.Requeue)
    def _requeue(self, order: instructions.Requeue) -> None:
        hold, session = self._of_job(order.job_id)
        # The slots of a set that lost one may be ready for their clients.
        is_taken_back = (
            order.reason in codes.ROOM_IS_MADE
            or order.reason == codes.SET_INCOMPLETE
        )
        if session is not None:
            failure = session.hold.failure if session.hold else ""
            session.wait_again(
                order.reason, failure or _WHY.get(order.reason, "")
            )
            if hold is not None and is_taken_back:
                self._count_taken_back(session, order.reason)
        if hold is not None:
            # Otherwise the agent reported the loss, or its host is lost.
            self._lose(hold, order.reason, tells_agent=is_taken_back)
        if session is not None:
            session.skips = self._core.skips(order.job_id)
            self._sessions.count_queued(session)
            self._lives.touch(session)

    def _of_job(
        self, job_id: int
    ) -> tuple[holds.Hold | None, sessions.Session | None]:
        """Return the job's slot and its session; None for each that it lacks.

        Only the jobs of groups have negative ids.
        """
        if job_id >= 0:
            session = self._sessions.by_job[job_id]
            return session.hold, session
        for hold in self._holds.members():
            record = hold.core.record
            if record is not None and record.job.id == job_id:
                return hold, None
        return None, None

    def _lose(
        self, hold: holds.Hold, reason: str, *, tells_agent: bool
    ) -> None:
        with hold.about():
            LOG.info(
                "%s %s loses slot %s: %s",
                hold.holder.kind.value.capitalize(),
                hold.public_id,
                hold.slot,
                reason,
            )
        if tells_agent:
            self._outbox.send(agent_orders.release(hold, reason))
        self.forget(hold)

    @parts.handles(instructions.Revoke, instructions.Yield)
    def revoke(self, order: instructions.Revoke | instructions.Yield) -> None:
        """Order the agent to take a slot from its holder."""
        hold = self._holds.find(order.slot_id, order.generation)
        if hold is None:
            raise RuntimeError(f"{order} is for no known holder")
        hold.ordered_at = self._clock.now
        if isinstance(hold, sessions.SessionHold):
            self._count_taken_back(hold.session, order.reason)
        self._outbox.send(agent_orders.release(hold, hold.revoked))

    def _count_taken_back(
        self, session: sessions.Session, reason: str
    ) -> None:
        if reason in codes.TAKEN_BACK:
            self._counts.taken_back[session.project_id, reason] += 1

    # -- reports of agents -------------------------------------------------

    def attached(self, hold: sessions.SessionHold) -> None:
        """Record that a session's client is connected."""
        session = hold.session
        if hold.phase is model.Phase.ACTIVE:
            return
        self._link.tell(events.HolderAttached(hold.slot.id, hold.generation))
        session.forget_secret()
        session.mark_ready(self._clock.now)
        session.failed_slots.clear()
        session.started_at = session.started_at or self._clock.now
        self.entered(hold)

    def detached(self, hold: sessions.SessionHold) -> None:
        """Record that a session's client lost its connection."""
        if hold.phase is model.Phase.DETACHED:
            return
        self.attached(hold)
        self._link.tell(events.HolderDetached(hold.slot.id, hold.generation))
        self.entered(hold)

    def member_ready(self, hold: holds.Member, *, joined: bool) -> None:
        """Record that a slot of a group is programmed.

        :param joined: whether it already accepts tasks.
        """
        hold.prepared = True
        if hold.phase is model.Phase.PREPARING:
            event = events.HolderAttached if joined else events.SlotReady
            self._link.tell(event(hold.slot.id, hold.generation))
            self.entered(hold)

    def entered(self, hold: holds.Hold) -> None:
        """Save and publish the new phase of an assignment."""
        self._holds.save(hold)
        if isinstance(hold, sessions.SessionHold):
            self._lives.touch(hold.session)

    def tick(self) -> None:
        """Release the slots of groups whose accelerator was deleted.

        The core frees such a group's unused slots without an instruction,
        because no job waits for a replacement.
        """
        for hold in list(self._holds.members()):
            if self._core.hold(hold.slot.id) is not hold.core:
                self._lose(hold, codes.RESIZED, tells_agent=True)

    # -- slots -------------------------------------------------------------

    def free(
        self,
        hold: holds.Hold,
        ended_at: float,
        result: objects.SessionResult | None = None,
    ) -> None:
        """Release a slot, and add its usage to the ledger.

        :param result: the worker's result; None: use the last report.
        """
        if isinstance(hold, sessions.SessionHold):
            if hold.former is None:
                self._charging.charge(hold, ended_at, result)
        elif isinstance(hold, holds.Member):
            self._charging.charge_group(hold, ended_at)
        self.forget(hold)
        self._link.tell(events.SlotReleased(hold.slot.id, hold.generation))

    def forget(self, hold: holds.Hold) -> None:
        """Remove an assignment from memory and from the database."""
        if isinstance(hold, sessions.SessionHold) and not hold.abandoned:
            hold.session.hold = None
        if hold.former is None:
            self._traffic.forget(hold.slot.id)
        self._holds.drop(hold)
        successor = hold.successor
        if not isinstance(successor, sessions.SessionHold):
            return
        successor.assigned_at = self._clock.now
        if not successor.wanted:
            self._holds.save(successor)
            return
        if successor.offer is not None:
            self._announce(successor)
        self.entered(successor)

    def give_back(self, hold: holds.Hold) -> None:
        """Let a successor wait again, as its slot's holder stays."""
        if hold.revoked or not isinstance(hold, sessions.SessionHold):
            self.free(hold, self._clock.now)
            return
        if hold.former is not None:
            self._holds.candidates.pop(hold.former.generation, None)
        session = hold.session
        self._link.tell(events.HolderStays(hold.slot.id, hold.generation))
        secret, secret_sha256 = session.secret, session.secret_sha256
        session.wait_again()
        # The worker has never heard of it.
        session.secret, session.secret_sha256 = secret, secret_sha256
        self.forget(hold)
        session.skips = self._core.skips(session.job_id)
        self._sessions.count_queued(session)
        self._lives.touch(session)

    # -- sessions ----------------------------------------------------------

    def resubmit(
        self,
        session: sessions.Session,
        reason: str,
        message: str = "",
        *,
        yields: bool = False,
    ) -> None:
        """Queue a session again at the position of its first arrival.

        :param yields: whether it queues after all waiting sessions.
        """
        with session.about():
            LOG.info(
                "Session %s waits for another slot: %s",
                session.session_id,
                reason,
            )
        session.wait_again(reason, message or _WHY.get(reason, ""))
        # The wait timeout restarts: the session has had a slot.
        waited_s = self._clock.pool_time - session.arrival_s
        session.wait_timeout_s = waited_s + self._settings.wait_timeout_s
        self._sessions.count_queued(session)
        self._link.tell(
            events.JobSubmitted(
                self._lives.job(session),
                max(session.counted_bytes - session.input_bytes, 0),
                yields,
                session.returns,
            )
        )
        self._lives.touch(session)

    def move(self, session: sessions.Session) -> None:
        """Queue a session again while its old slot is being revoked."""
        if session.hold is not None:
            # The old slot's worker may never send another report.
            self._charging.charge_so_far(session.hold)
        self._link.tell(events.JobCancelled(session.job_id, codes.MOVED))
        self._sessions.rename_job(session, self._sessions.next_id())
        self.resubmit(session, codes.MOVED)

    # -- a new leader ------------------------------------------------------

    def restore_session(
        self,
        session: sessions.Session,
        row: db_api.AssignmentRecord,
        phase: model.Phase,
    ) -> None:
        """Adopt the slot of a restored session."""
        self._restore(self._lives.job(session), row, phase)
        self.hold_for_session(
            session,
            row.slot_id,
            row.assigned_at,
            self._catalogue.reference(row.bitstream_id),
        )

    def restore_group(
        self,
        group: db_api.GroupRecord,
        row: db_api.AssignmentRecord,
        phase: model.Phase,
        starting: first_slots.FirstSlots | None = None,
    ) -> None:
        """Adopt the slot of a restored group.

        :param starting: its first slots, if it has not all of them ready.
        """
        wanted = first_slots.as_wanted(group, starting)
        job = model.Job(
            # The core numbers groups' jobs in the sequence of generations.
            id=-row.generation,
            host_id=None,
            accelerator=group.accelerator,
            claimed_bytes=1.0,
            arrival_s=starting.since if starting else self._clock.pool_time,
            project=group.project_id,
            group_id=group.id,
            wait_timeout_s=wanted.wait_timeout_s,
            together=wanted.together if starting else None,
        )
        self._restore(job, row, phase)
        hold = self.hold_for_group(
            group,
            row.slot_id,
            row.assigned_at,
            self._catalogue.reference(row.bitstream_id),
        )
        hold.charged_at = max(
            row.assigned_at,
            self._desk_accounts.charged_at(group.group_id, hold.slot.host.id),
        )

    def _restore(
        self, job: model.Job, row: db_api.AssignmentRecord, phase: model.Phase
    ) -> None:
        slot = self._registry.slots[row.slot_id]
        self._link.tell(
            events.AssignmentRestored(
                job=job,
                slot_id=slot.id,
                generation=row.generation,
                phase=phase,
                host_id=slot.host.id,
                device_id=slot.device.id,
            )
        )

    # -- agents ------------------------------------------------------------

    def order_again(self, hold: holds.Hold) -> None:
        """Repeat an order that the agent has not carried out."""
        if not self._may_repeat(hold):
            return
        kind = "not_released" if hold.revoked else "not_started"
        self._counts.reconciled[kind] += 1
        self._outbox.send(
            agent_orders.release(hold, hold.revoked)
            if hold.revoked
            else agent_orders.assign(hold, self._settings)
        )

    def ask_secret(self, hold: sessions.SessionHold) -> None:
        """Order the agent to issue a new secret."""
        if self._may_repeat(hold):
            self._outbox.send(agent_orders.reissue_secret(hold))

    def _may_repeat(self, hold: holds.Hold) -> bool:
        now = self._clock.now
        if now - hold.ordered_at < self._settings.resend_interval_s:
            return False
        hold.ordered_at = now
        return True


def _offer_for(
    session: sessions.Session, slot: registry.SlotEntry
) -> objects.Offer | None:
    """Return where the client can connect before the agent receives the order
    for a slot that has its accelerator; None if it must wait until the slot is
    ready.
    """
    offer = slot.reported.offer if slot.reported else None
    if (
        offer is None
        or not session.secret_sha256
        or offer.project_id not in (None, session.project_id)
    ):
        return None
    return offer
