# SPDX-License-Identifier: Apache-2.0

"""Handles agents' reports about their hosts and slots."""

from __future__ import annotations

import dataclasses

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common.monitoring import ratelimit
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.hardware import accelerators
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import hosts
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.queues import overruns
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)
# For log lines that agents can cause repeatedly.
_LIMITED_LOG = ratelimit.RateLimitedLog(__name__)

_PROGRAMMED = frozenset(
    {
        reconcile.Finding.READY,
        reconcile.Finding.ATTACHED,
        reconcile.Finding.DETACHED,
    }
)

# A session's state in the conductor and in the worker's result, if the client
# closed the session and cancelled it before the conductor was notified.
_CLOSED_BEFORE_CANCEL = (states.CANCELLED, states.CLOSED)

# A former slot's result does not end a session in these states: it uses
# another slot, is closed already, or never had a slot.
_NOT_CLOSED_LATE = states.CONNECTED | {states.CLOSED, states.REJECTED}

# A client was notified too late if less than this share of
# ``connect_timeout_s`` was left.
_TIME_TO_CONNECT = 0.5


@dataclasses.dataclass(eq=False, repr=False)
class Reports(parts.Room):
    """Compares reports with the assignments, and acts on differences."""

    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _probation: probation.Probation
    _sessions: sessions.SessionBook
    _lives: lives.Lives
    _holds: holds.Holds
    _traffic: holds.Traffic
    _charging: charging.Charging
    _serving: servings.Serving
    _hosts: hosts.Hosts
    _desks: desks.Desks
    _library: accelerators.Accelerators
    _overruns: overruns.Overruns

    @parts.handles(objects.Prepared)
    def _prepared(self, prepared: objects.Prepared) -> None:
        host = self._registry.hosts.get(prepared.host_uuid)
        device = host.devices.get(prepared.device) if host else None
        slot = device.slots.get(prepared.slot) if device else None
        hold = self._holds.get(slot.id) if slot else None
        if (
            not isinstance(hold, sessions.SessionHold)
            or hold.generation != prepared.generation
            or hold.revoked
            or hold.phase not in reconcile.UNCONNECTED
        ):
            LOG.debug(
                "Stale preparation of generation %d ignored",
                prepared.generation,
            )
            return
        session = hold.session
        hold.announced_at = min(hold.announced_at, self._clock.now)
        if prepared.secret:
            # The worker has made it, and expects no other one.
            session.secret, session.secret_sha256 = prepared.secret, ""
        session.endpoints = prepared.endpoints
        session.certificate_sha256 = prepared.certificate_sha256
        hold.heard = prepared.agent_boot_id, prepared.sequence
        if not session.has_secret:
            # The front door that created the secret has restarted, or another
            # conductor led when the session was opened.
            self._outbox.send(agent_orders.reissue_secret(hold))
        if hold.phase is model.Phase.PREPARING:
            self._link.tell(events.SlotReady(hold.slot.id, hold.generation))
        else:
            self._lives.touch(session)

    @parts.handles(objects.AgentReport)
    def _report(self, report: objects.AgentReport) -> None:
        known = self._registry.hosts.get(report.host_uuid)
        if known and not known.accepts(report.agent_boot_id, report.sequence):
            _log_ignored(known, report)
            return
        host, changed, rows = self._registry.update(report)
        host.check_clock(report.agent_boot_id, report.sent_at, self._clock.now)
        host.note_report(
            report.agent_boot_id, report.sequence, self._clock.now
        )
        self._outbox.write(*rows)
        if changed or not host.up:
            self._library.see_slots()
            self._host_up(host)
        # The time must be counted before the report ends any members.
        self._desks.count_time(host)
        for device in report.devices:
            for line in device.slots:
                slot = host.devices[device.name].slots[line.slot]
                self._check_slot(slot, line, report)
            for slot in host.devices[device.name].slots.values():
                if slot.missing:
                    self._check_missing(slot, report)
        self._desks.heard(host, report)
        self._repeat_news(report)

    def _repeat_news(self, report: objects.AgentReport) -> None:
        """Send news again that the host's front door has missed."""
        for session_id, revision in (report.sessions or {}).items():
            session = self._sessions.by_id.get(session_id)
            if session is not None and session.revision != revision:
                self._lives.tell(session, report.host_uuid)

    def _host_up(self, host: registry.HostEntry) -> None:
        if not host.up:
            LOG.info("Host %s (%s) is up", host.name, host.uuid)
            host.up = True
            self._hosts.found(host)
            self._outbox.write(registry.host_row(host))
        # Some of its devices may be new.
        self._link.tell(
            *administration.core_events(host.devices.values()),
            events.HostUp(host.spec()),
        )
        self._library.tell_power_caps()

    def _check_slot(
        self,
        slot: registry.SlotEntry,
        line: objects.SlotReport,
        report: objects.AgentReport,
    ) -> None:
        if line.previous_result is not None:
            self._end_unrecorded(slot, line.previous_result)
        hold = self._holds.get(slot.id)
        if hold is not None and hold.successor is not None:
            hold = self._check_successor(hold, hold.successor, line)
        if hold is None or not hold.outdates(report):
            finding = reconcile.compare(hold, line)
            if hold is None and self._probation.check_report(slot, line):
                finding = reconcile.Finding.AS_EXPECTED
            if finding is reconcile.Finding.STRAY:
                self._release_stray(slot, line)
            self._update_programmed(slot, line)
            self._update_usable(slot, line, finding)
            if hold is not None:
                hold.note_energy(report.agent_boot_id, line)
                self._handle_finding(hold, finding, line)
        if line.last_result is not None:
            self._end_late(slot.host, line.last_result)

    def _check_successor(
        self, hold: holds.Hold, successor: holds.Hold, line: objects.SlotReport
    ) -> holds.Hold | None:
        """See whether a holder and its successor have changed places.

        :returns: the slot's assignment now.
        """
        result = line.last_result
        if line.generation == successor.generation:
            # Agent and worker have lost the former's result.
            self._vanished(hold)
        elif hold.generation == (
            line.generation or (result and result.generation)
        ):
            if line.seen_generation >= successor.generation:
                self._serving.give_back(successor)
            else:
                # An agent that has lost the order takes it again, and one
                # that has carried it out already ignores it.
                self._serving.order_again(successor)
        return self._holds.get(hold.slot.id)

    def _check_missing(
        self, slot: registry.SlotEntry, report: objects.AgentReport
    ) -> None:
        self._probation.check_missing(slot)
        hold = self._holds.get(slot.id)
        if hold is not None and not hold.outdates(report):
            self._vanished(hold)

    # -- ends that were missed ---------------------------------------------

    def _end_unrecorded(
        self, slot: registry.SlotEntry, result: objects.SessionResult
    ) -> None:
        """End an assignment that the agent reports as the slot's previous one.

        A former leader reassigned the slot, but died before recording that.
        """
        hold = self._holds.get(slot.id)
        if (
            hold is not None
            and result.generation == hold.generation
            and not reconcile.is_not_prepared(hold, result)
        ):
            self._counts.reconciled["end_not_recorded"] += 1
            self._finished(hold, result)

    def _end_late(
        self, host: registry.HostEntry, result: objects.SessionResult
    ) -> None:
        """End a session whose client closed it while using its former slot.

        The slot's host was silent, so the session was queued again. It may
        have received another slot, or may have ended otherwise.
        """
        if result.state != states.CLOSED:
            return
        session = self._sessions.by_id.get(result.session_id)
        if session is None or session.state in _NOT_CLOSED_LATE:
            return
        if session.hold and session.hold.generation <= result.generation:
            return
        self._charging.charge_late(session, result)
        self._apply_result(session, result, host)
        if not session.live:
            self._lives.close(session)
            return
        self._lives.end(session, result.state, result.code, result.message)
        self._link.tell(events.JobCancelled(session.job_id, codes.SUPERSEDED))
        # The other slot's result must not replace the session's.
        session.hold = None

    # -- findings ----------------------------------------------------------

    def _handle_finding(
        self,
        hold: holds.Hold,
        finding: reconcile.Finding,
        line: objects.SlotReport,
    ) -> None:
        if isinstance(hold, sessions.SessionHold):
            self._update_session(hold, finding, line)
        elif isinstance(hold, holds.Member) and finding in _PROGRAMMED:
            joined = finding is not reconcile.Finding.READY
            self._serving.member_ready(hold, joined=joined)
        match finding:
            case (
                reconcile.Finding.NOT_STARTED | reconcile.Finding.NOT_RELEASED
            ):
                self._serving.order_again(hold)
            case reconcile.Finding.PREPARE_FAILED:
                self._prepare_failed(hold, line.last_result)
            case reconcile.Finding.FINISHED:
                self._finished(hold, line.last_result)
            case reconcile.Finding.VANISHED:
                self._vanished(hold)

    def _update_session(
        self,
        hold: sessions.SessionHold,
        finding: reconcile.Finding,
        line: objects.SlotReport,
    ) -> None:
        session, serving = hold.session, self._serving
        if hold.wanted and line.generation == hold.generation:
            self._counts.moved_bytes += session.update_bytes(
                line.input_bytes, line.output_bytes
            )
        match finding:
            case reconcile.Finding.READY:
                hold.prepared = True
                if not (session.has_secret and session.endpoints):
                    serving.ask_secret(hold)
            case reconcile.Finding.ATTACHED:
                serving.attached(hold)
                self._check_claim(hold, line)
                self._measure_progress(hold, line)
                if hold.quantum_bytes:
                    self._report_border(hold, line)
            case reconcile.Finding.DETACHED:
                serving.detached(hold)
                self._measure_progress(hold, line)

    def _measure_progress(
        self, hold: sessions.SessionHold, line: objects.SlotReport
    ) -> None:
        """Measure a session's data rate; report it if the core needs it."""
        reading = self._traffic.note(
            hold.slot.id,
            hold.generation,
            line.input_bytes,
            line.output_bytes,
            self._clock.now,
        )
        if reading is not None and (
            self._core.wants_rates or hold.session.deadline_at is not None
        ):
            self._link.tell(
                events.Progress(
                    hold.slot.id,
                    hold.generation,
                    hold.session.done_bytes,
                    reading.input_bytes_per_s,
                )
            )

    def _report_border(
        self, hold: sessions.SessionHold, line: objects.SlotReport
    ) -> None:
        """Report to the core that the session reached a border, where another
        session may get the slot.
        """
        quanta = line.input_bytes // hold.quantum_bytes
        if quanta > hold.quanta:
            hold.quanta = quanta
            self._link.tell(
                events.QuantumDone(
                    hold.slot.id, hold.generation, hold.session.done_bytes
                )
            )

    def _check_claim(
        self, hold: sessions.SessionHold, line: objects.SlotReport
    ) -> None:
        session = hold.session
        limit_bytes = self._settings.claim_limit_bytes(session.counted_bytes)
        beyond = session.claim_used_bytes > limit_bytes
        if line.beyond_claim is not None:
            # A new leader does not know the correction of its order.
            beyond = line.beyond_claim
        if beyond:
            self._link.tell(
                events.ClaimExceeded(hold.slot.id, hold.generation)
            )

    def _prepare_failed(
        self, hold: holds.Hold, result: objects.SessionResult | None
    ) -> None:
        reason = result.code if result else codes.PREPARE_FAILED
        with hold.about():
            LOG.warning(
                "Slot %s could not be prepared for %s %s: %s",
                hold.slot,
                hold.holder.kind.value,
                hold.public_id,
                reason,
            )
        self._hosts.fail_preparation(
            hold, reason, result.message if result else ""
        )

    def _vanished(self, hold: holds.Hold) -> None:
        self._counts.reconciled["vanished"] += 1
        if not isinstance(hold, sessions.SessionHold):
            self._serving.free(hold, self._clock.now)
            return
        if hold.wanted and hold.phase in reconcile.UNCONNECTED:
            # The client has not sent anything yet and can use another slot.
            self._hosts.fail_preparation(
                hold,
                codes.WORKER_LOST,
                "the slot's worker process is no longer running",
            )
            return
        if hold.wanted:
            self._lives.end(
                hold.session,
                states.FAILED,
                codes.WORKER_LOST,
                "the slot's worker process is no longer running",
            )
        self._serving.free(hold, self._clock.now)

    # -- ends --------------------------------------------------------------

    def _finished(
        self, hold: holds.Hold, result: objects.SessionResult | None
    ) -> None:
        if result is not None:
            self._probation.finished(hold, result)
        if (
            result is None
            or not isinstance(hold, sessions.SessionHold)
            or hold.abandoned
        ):
            self._serving.free(hold, self._clock.now, result)
            return
        session, result = hold.session, hold.complete(result)
        self._apply_result(session, result, hold.slot.host)
        if not session.live:
            if (session.state, result.state) == _CLOSED_BEFORE_CANCEL:
                self._lives.close(session)
            self._lives.touch(session)
            again = False
        else:
            again = self._may_go_on(hold, result)
            if not again:
                self._lives.end(session, *self._how_it_ended(session, result))
        if not again:
            self._overruns.note(
                session.project_id,
                session.accelerator,
                session.first_claim_bytes or session.claimed_bytes,
                session.claim_used_bytes,
            )
        self._serving.free(hold, self._clock.now, result)
        if again:
            # It queues after the waiting sessions, because it has had a slot.
            self._serving.resubmit(
                session,
                result.code,
                yields=result.code not in codes.ROOM_IS_MADE,
            )

    def _may_go_on(
        self, hold: sessions.SessionHold, result: objects.SessionResult
    ) -> bool:
        """Whether a session that lost its slot should wait for another."""
        session = hold.session
        if result.code == codes.YIELDED:
            # A session that exceeds its claim only loses its place in the
            # queue.
            likely_bytes = self._overruns.next_claim(
                session.project_id,
                session.accelerator,
                session.first_claim_bytes or session.claimed_bytes,
                session.input_bytes,
            )
            session.claim_again(
                min(int(likely_bytes), self._settings.max_claimed_bytes)
            )
            return True
        if result.code == codes.PREEMPTED:
            return True
        if result.code in codes.ROOM_IS_MADE:
            profile = self._catalogue.profiles.get(session.accelerator)
            has_begun = result.started_at is not None or result.input_bytes > 0
            return not has_begun or (profile is not None and profile.moves)
        if result.code == codes.CONNECT_TIMEOUT and self._was_told_late(hold):
            return session.count_failed_slot(result.code)
        return False

    def _how_it_ended(
        self, session: sessions.Session, result: objects.SessionResult
    ) -> tuple[str, str, str]:
        at = f"the session ended at input offset {result.input_bytes}"
        if result.code in codes.ROOM_IS_MADE:
            message = f"the slot was taken back; {at}"
            return states.FAILED, result.code, message
        if result.code == codes.CLAIM_EXCEEDED:
            message = (
                f"the session sent more than the {session.claimed_bytes} bytes"
                f" that it claimed; {at}"
            )
            return states.FAILED, result.code, message
        if result.code == codes.DEADLINE_PASSED:
            message = f"the deadline passed; {at}"
            return states.EXPIRED, result.code, message
        # An agent of another release may report other states.
        known = result.state in states.RESULTS - {states.PREPARE_FAILED}
        state = result.state if known else states.FAILED
        return state, result.code, result.message

    def _was_told_late(self, hold: sessions.SessionHold) -> bool:
        """Whether a client was notified too late to connect to its slot.

        The agent's message may have been lost, the database or the bus
        unavailable, or a former leader may have died before notifying it.
        """
        enough_s = _TIME_TO_CONNECT * hold.session.connect_timeout_s
        told_at = max(hold.announced_at, self._outages.last_at)
        # announced_at is infinite if the client was never notified.
        return self._clock.now - told_at < enough_s

    def _apply_result(
        self,
        session: sessions.Session,
        result: objects.SessionResult,
        host: registry.HostEntry,
    ) -> None:
        """Update a session's byte counts and start time from a result."""
        self._counts.moved_bytes += session.update_bytes(
            result.input_bytes, result.output_bytes
        )
        if result.started_at is not None:
            started_at = host.our_time(result.started_at)
            # The host's clock may have been adjusted since its last report.
            session.started_at = min(
                max(started_at, session.queued_at), self._clock.now
            )

    # -- slots -------------------------------------------------------------

    def _release_stray(
        self, slot: registry.SlotEntry, line: objects.SlotReport
    ) -> None:
        # The agent answers each order with a report. While the worker is
        # ending, that report would trigger another order.
        if (
            self._clock.now - slot.stray_ordered_at
            < self._settings.resend_interval_s
        ):
            return
        slot.stray_ordered_at = self._clock.now
        self._counts.reconciled["stray"] += 1
        LOG.warning(
            "Slot %s serves session %s, generation %s, but is not assigned"
            " to it; releasing it",
            slot,
            line.session_id,
            line.generation,
        )
        self._outbox.send(
            agent_orders.release_slot(
                slot,
                line.session_id or "",
                line.generation or 0,
                codes.SUPERSEDED,
            )
        )

    def _update_programmed(
        self, slot: registry.SlotEntry, line: objects.SlotReport
    ) -> None:
        if slot.programmed != line.programmed:
            slot.programmed = line.programmed
            self._outbox.write(registry.slot_row(slot))
        slot.bitstream_id = line.bitstream_id
        slot.outdated = self._catalogue.is_outdated(
            slot.programmed, slot.bitstream_id, slot.shape
        )

    def _update_usable(
        self,
        slot: registry.SlotEntry,
        line: objects.SlotReport,
        finding: reconcile.Finding,
    ) -> None:
        usable = finding is not reconcile.Finding.STRAY and (
            line.state not in (states.SLOT_FAULTY, states.SLOT_STARTING)
        )
        if usable != slot.usable:
            slot.usable = usable
            self._link.tell(probation.core_event(slot))


def _log_ignored(
    known: registry.HostEntry, report: objects.AgentReport
) -> None:
    LOG.debug(
        "Late report %s/%d of host %s ignored",
        report.agent_boot_id,
        report.sequence,
        report.host_name,
    )
    if known.is_double(report.agent_boot_id, report.sent_at):
        _LIMITED_LOG.warning(
            "Two agents report as host %s: %s on %s, and %s on %s, which is"
            " ignored; set a different [DEFAULT] host_uuid for one of them",
            known.uuid,
            known.boot_id,
            known.name,
            report.agent_boot_id,
            report.host_name,
        )
