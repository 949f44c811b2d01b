# SPDX-License-Identifier: Apache-2.0

"""Assignments of slots to sessions, from start to release."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.rules import preemption
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import platforms
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: More than any slot moves: bounds what clients say that nobody has counted.
_MAX_BYTES_PER_S = 2**37

# Why a session waits again, for its owner.
_WHY = {
    codes.CONNECT_TIMEOUT: "its client could not be told in time of its slot",
    codes.DRAINED: "an operator takes its slot out of use",
    codes.HOST_LOST: "the host of its slot is silent",
    codes.MOVED: "its client asked for another slot",
    codes.PREEMPTED: (
        "a session with a higher priority or less time left has its slot"
    ),
    codes.RESERVED: "its slot is kept for a reservation",
    codes.YIELDED: "it sent more than it claimed, and others waited",
}


class Serving:
    """Carries out the core's instructions about assignments."""

    def __init__(self, pool: pools.Pool) -> None:
        self._pool = pool

    @property
    def instructed(self) -> Mapping[type, pools.Handler]:
        """The handlers of the core's instructions."""
        return {
            instructions.Program: self._program,
            instructions.Grant: self._grant,
            instructions.Reject: self._reject,
            instructions.Requeue: self._requeue,
            instructions.Revoke: self.revoke,
            instructions.Yield: self.revoke,
        }

    # -- instructions of the core ------------------------------------------

    def _program(self, order: instructions.Program) -> None:
        pool = self._pool
        session = pool.sessions.by_job[order.job_id]
        session.check_move("assign")
        pool.sessions.uncount_queued(session)
        waited_s = pool.pool_time - session.arrival_s
        pool.pace.note(waited_s, pool.now)
        if not session.generation:
            pool.counts.waits_s.observe(waited_s)
        session.skips = pool.core.skips(session.job_id)
        slot = pool.registry.slots[order.slot_id]
        hold = self.hold(
            session,
            slot.id,
            pool.now,
            pool.catalogue.library.choose(session.accelerator, slot.shape),
        )
        hold.told_at = pool.now
        hold.offer = offer = _offer_for(hold)
        self.entered(hold)
        pool.outbox.send(agent_orders.assign(hold, pool.settings))
        if offer is not None:
            session.endpoints = offer.endpoints
            session.certificate_sha256 = offer.certificate_sha256
            hold.announced_at = pool.now
            pool.tell(events.SlotReady(slot.id, hold.generation))

    def hold(
        self,
        session: sessions.Session,
        slot_id: int,
        assigned_at: float,
        bitstream: objects.BitstreamRef | None,
    ) -> sessions.Hold:
        """Give a session the slot that the core has assigned to it."""
        hold = sessions.Hold(
            session=session,
            slot=self._pool.registry.slots[slot_id],
            core=self._pool.assignment(slot_id),
            assigned_at=assigned_at,
            bitstream=bitstream,
        )
        session.take_slot(hold)
        if self._pool.settings.quantum_bytes:
            hold.quantum_bytes = self._quantum_bytes(hold)
        self._pool.holds[slot_id] = hold
        return hold

    def _quantum_bytes(self, hold: sessions.Hold) -> int:
        """Return the input between two borders; 0: there are none."""
        view, slot = self._pool.core.view, hold.slot
        accelerator = view.accelerators.get(hold.accelerator)
        if accelerator is None or not accelerator.stateless:
            return 0
        return preemption.quantum_bytes(
            self._pool.settings.quantum_bytes,
            accelerator.peak_in(slot.shape),
            slot.programming_time_s,
        )

    def _grant(self, order: instructions.Grant) -> None:
        hold = self._pool.sessions.by_job[order.job_id].hold
        if hold is not None:
            hold.session.note_ready(self._pool.now)
            self.entered(hold)

    def _reject(self, order: instructions.Reject) -> None:
        pool = self._pool
        session = pool.sessions.by_job[order.job_id]
        hold = session.hold
        timed_out = order.code in (codes.WAIT_TIMEOUT, codes.DEADLINE_PASSED)
        state = states.EXPIRED if timed_out else states.REJECTED
        pool.end(session, state, order.code, order.message)
        if hold is not None:
            # It lost its slot, and its accelerator was deleted.
            pool.outbox.send(agent_orders.release(hold, order.code))
            self.forget(hold)

    def _requeue(self, order: instructions.Requeue) -> None:
        pool = self._pool
        session = pool.sessions.by_job[order.job_id]
        hold = session.hold
        LOG.info(
            "Session %s waits again: %s", session.session_id, order.reason
        )
        why = hold.failure if hold is not None else ""
        session.wait_again(order.reason, why or _WHY.get(order.reason, ""))
        if hold is not None:
            if order.reason in codes.ROOM_IS_MADE:
                self._count_taken_back(session, order.reason)
                # For other reasons the agent knows it, or is silent.
                pool.outbox.send(agent_orders.release(hold, order.reason))
            self.forget(hold)
        session.skips = pool.core.skips(order.job_id)
        pool.sessions.count_queued(session)
        pool.touch(session)

    def revoke(self, order: instructions.Revoke | instructions.Yield) -> None:
        """Order the agent to take a slot from its holder."""
        hold = self._pool.holds[order.slot_id]
        hold.told_at = self._pool.now
        if isinstance(hold, sessions.Hold):
            self._count_taken_back(hold.session, order.reason)
        self._pool.outbox.send(agent_orders.release(hold, hold.revoked))

    def _count_taken_back(
        self, session: sessions.Session, reason: str
    ) -> None:
        if reason in codes.TAKEN_BACK:
            self._pool.counts.taken_back[session.project_id, reason] += 1

    # -- reports of agents -------------------------------------------------

    def attached(self, hold: sessions.Hold) -> None:
        """Note that the client of a session is connected."""
        pool, session = self._pool, hold.session
        if hold.phase is model.Phase.ACTIVE:
            return
        pool.tell(events.HolderAttached(hold.slot.id, hold.generation))
        session.forget_secret()
        session.note_ready(pool.now)
        session.vain.clear()
        session.started_at = session.started_at or pool.now
        self.entered(hold)

    def detached(self, hold: sessions.Hold) -> None:
        """Note that the client of a session lost its connection."""
        if hold.phase is model.Phase.DETACHED:
            return
        self.attached(hold)
        self._pool.tell(events.HolderDetached(hold.slot.id, hold.generation))
        self.entered(hold)

    def entered(self, hold: sessions.Hold) -> None:
        """Record and publish a new phase of an assignment."""
        self._pool.save(hold)
        self._pool.touch(hold.session)

    # -- slots -------------------------------------------------------------

    def free(
        self,
        hold: holds.Hold,
        ended_at: float,
        result: objects.SessionResult | None = None,
    ) -> None:
        """Release a slot, and add its usage to the ledger.

        :param result: of its worker; None: the last report counts.
        """
        if isinstance(hold, sessions.Hold):
            self._charge(hold, ended_at, result)
        elif isinstance(hold, holds.Member):
            self._pool.ledger.add(
                hold.group.project_id,
                hold.accelerator,
                ended_at,
                slot_s=max(ended_at - hold.charged_at, 0.0),
                energy_j=self._energy_j(hold, ended_at),
            )
        self.forget(hold)
        self._pool.tell(events.SlotReleased(hold.slot.id, hold.generation))

    def _charge(
        self,
        hold: sessions.Hold,
        ended_at: float,
        result: objects.SessionResult | None,
    ) -> None:
        pool, session = self._pool, hold.session
        input_bytes, output_bytes = hold.told_bytes
        if result is not None:
            input_bytes = max(input_bytes, result.input_bytes)
            output_bytes = max(output_bytes, result.output_bytes)
        energy_j = self._energy_j(hold, ended_at)
        pool.ledger.add(
            session.project_id,
            session.accelerator,
            ended_at,
            slot_s=ended_at - hold.assigned_at,
            energy_j=energy_j,
            **hold.book(input_bytes, output_bytes),
        )
        if energy_j is not None:
            session.energy_j = (session.energy_j or 0.0) + energy_j
            pool.touch(session)
        pool.counts.service_s.observe(ended_at - hold.assigned_at)

    def charge_late(
        self, session: sessions.Session, result: objects.SessionResult
    ) -> None:
        """Add to the usage what a slot did after the session had lost it.

        :param result: of its worker; the session has not taken it over yet.
        """
        slot_s = 0.0
        if session.started_at is None and result.started_at is not None:
            # Otherwise its slot was charged when its host was given up.
            slot_s = max(result.finished_at - result.started_at, 0.0)
        told = session.former_input_bytes + result.input_bytes
        told_output = session.former_output_bytes + result.output_bytes
        self._pool.ledger.add(
            session.project_id,
            session.accelerator,
            self._pool.now,
            slot_s=slot_s,
            input_bytes=max(told - session.input_bytes, 0),
            output_bytes=max(told_output - session.output_bytes, 0),
        )

    def book_unseen(
        self, session: sessions.Session, input_bytes: int, output_bytes: int
    ) -> None:
        """Take over a client's own counts, which no report can tell any more.

        The claim bounds them, and what a slot can move.

        :param input_bytes: that all its slots have computed.
        :param output_bytes: that its client has received.
        """
        pool = self._pool
        most = min(
            pool.settings.claim_limit_bytes(session.claimed_bytes)
            + session.lost_bytes,
            # Clocks are not exact.
            int(
                (max(pool.now - session.queued_at, 0.0) + 1.0)
                * _MAX_BYTES_PER_S
            ),
        )
        profile = pool.profiles.get(session.accelerator)
        ratio = 1.0 if profile is None else max(profile.return_ratio, 1.0)
        known = session.input_bytes, session.output_bytes
        former = session.former_input_bytes, session.former_output_bytes
        session.note_bytes(
            min(input_bytes, most) - former[0],
            min(output_bytes, int(most * ratio)) - former[1],
        )
        if session.hold is None:
            booked = {
                "input_bytes": session.input_bytes - known[0],
                "output_bytes": session.output_bytes - known[1],
            }
        else:
            booked = session.hold.book(
                session.input_bytes - former[0],
                session.output_bytes - former[1],
            )
        pool.ledger.add(
            session.project_id, session.accelerator, pool.now, **booked
        )

    def _energy_j(self, hold: holds.Hold, ended_at: float) -> float | None:
        """Return the measured energy; else that of the platform, if known."""
        if hold.energy.total_j is not None:
            return hold.energy.total_j
        profile = self._pool.profiles.get(hold.accelerator)
        if profile is None:
            return None
        power_w = platforms.active_w(profile.platforms, hold.slot.shape)
        if power_w is None:
            return None
        return power_w * max(ended_at - hold.assigned_at, 0.0)

    def forget(self, hold: holds.Hold) -> None:
        """Remove an assignment from memory and from the database."""
        if isinstance(hold, sessions.Hold) and not hold.abandoned:
            hold.session.hold = None
        self._pool.traffic.forget(hold.slot.id)
        self._pool.drop(hold)

    # -- sessions ----------------------------------------------------------

    def resubmit(
        self,
        session: sessions.Session,
        reason: str,
        message: str = "",
        *,
        yields: bool = False,
    ) -> None:
        """Queue a session again, at the place of its first arrival.

        :param reason: the code of why it lost its slot.
        :param message: more about that, if the code does not say it.
        :param yields: whether the core serves the waiting sessions first.
        """
        pool = self._pool
        LOG.info(
            "Session %s waits for another slot: %s", session.session_id, reason
        )
        session.wait_again(reason, message or _WHY.get(reason, ""))
        # The wait timeout starts anew: the session has had a slot.
        waited_s = pool.pool_time - session.arrival_s
        session.wait_timeout_s = waited_s + pool.settings.wait_timeout_s
        pool.sessions.count_queued(session)
        pool.tell(
            events.JobSubmitted(
                pool.job(session),
                max(session.claimed_bytes - session.input_bytes, 0),
                yields,
            )
        )
        pool.touch(session)

    def move(self, session: sessions.Session) -> None:
        """Queue a session again while its old slot is taken back."""
        pool = self._pool
        if session.hold is not None:
            # Its worker may never say how much more it was.
            pool.ledger.add(
                session.project_id,
                session.accelerator,
                pool.now,
                **session.hold.book(*session.hold.told_bytes),
            )
        pool.tell(events.JobCancelled(session.job_id, codes.MOVED))
        pool.sessions.rename_job(session, pool.next_job_id())
        self.resubmit(session, codes.MOVED)

    # -- agents ------------------------------------------------------------

    def tell_again(self, hold: holds.Hold) -> None:
        """Repeat an order that the agent has not carried out."""
        pool = self._pool
        if not self._may_repeat(hold):
            return
        kind = "not_released" if hold.revoked else "not_started"
        pool.counts.reconciled[kind] += 1
        pool.outbox.send(
            agent_orders.release(hold, hold.revoked)
            if hold.revoked
            else agent_orders.assign(hold, pool.settings)
        )

    def ask_secret(self, hold: sessions.Hold) -> None:
        """Order a new secret from the agent."""
        if self._may_repeat(hold):
            self._pool.outbox.send(agent_orders.reissue_secret(hold))

    def _may_repeat(self, hold: holds.Hold) -> bool:
        now = self._pool.now
        if now - hold.told_at < self._pool.settings.resend_interval_s:
            return False
        hold.told_at = now
        return True


def _offer_for(hold: sessions.Hold) -> objects.Offer | None:
    """Return where the client can come while the order is on its way.

    None: it must wait until the slot is ready.
    """
    session, slot = hold.session, hold.slot
    offer = slot.reported.offer if slot.reported else None
    wanted = hold.bitstream and hold.bitstream.bitstream_id
    is_in_slot = (
        slot.programmed_now == hold.accelerator and slot.bitstream_id == wanted
    )
    if (
        offer is None
        or not session.secret_sha256
        or offer.project_id not in (None, session.project_id)
        or not is_in_slot
    ):
        return None
    return offer
