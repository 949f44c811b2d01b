# SPDX-License-Identifier: Apache-2.0

"""The conductor's decisions: inputs and time in, effects out.

The engine keeps the sessions, turns what agents and clients say into events
for :class:`fpgapool.core.state.PoolState`, and turns its instructions into
rows and messages.  It does no I/O and has no thread: the pump calls it.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import uuid
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common import ratelimit
from fpgapool.common import tallies
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import administration
from fpgapool.conductor.decisions import admission
from fpgapool.conductor.decisions import agent_orders
from fpgapool.conductor.decisions import bitstreams
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import expected_waits
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import instances
from fpgapool.conductor.decisions import probation
from fpgapool.conductor.decisions import quotas as conductor_quotas
from fpgapool.conductor.decisions import rates
from fpgapool.conductor.decisions import reconcile
from fpgapool.conductor.decisions import registry
from fpgapool.conductor.decisions import reservations
from fpgapool.conductor.decisions import sessions
from fpgapool.conductor.decisions import summary
from fpgapool.conductor.decisions import unknown_words
from fpgapool.conductor.decisions import usage
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.objects import instance as instance_objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)
# For what agents can make it say again and again.
_OFTEN = ratelimit.RateLimitedLog(__name__)

# What the conductor says of a session, and then its worker: it was closed
# while that could not be told, and its client left before it was.
_SERVED_ALREADY = (states.CANCELLED, states.CLOSED)
_IN_USE = frozenset({model.Phase.ACTIVE, model.Phase.DETACHED})
# Who has a slot has to leave it, and may have another one.
_ROOM_IS_MADE = frozenset({codes.DRAINED, codes.RESERVED})
# After so many slots of which its client was never told, none of the next ones
# would be of use.
_MAX_UNTOLD_ENDS = 3
# A client that knew of its slot for less than this share of its time to
# connect was told late.
_TIME_TO_CONNECT = 0.5

# More than this share of all hosts silent at once: the bus is ill, not they.
_BUS_IS_ILL = 0.5

# Slots that a session is given in vain because of its bitstream.
_MAX_BITSTREAM_FAILURES = 3
# What its owner hears; the agent's log says more.
_UNTRUSTED = "no key that the hosts trust now has signed it"

# Refusals that are repeated if the request comes again.
_MAX_REFUSALS = 10_000

_PHASE_STATES = {
    model.Phase.PREPARING: states.PREPARING,
    model.Phase.READY: states.READY,
    model.Phase.ACTIVE: states.ACTIVE,
    model.Phase.DETACHED: states.DETACHED,
}


class Engine:
    """The state behind the pump; see the module's docstring.

    :param state: the scheduling core, empty.
    :param settings: limits.
    :param snapshot: what the database holds.
    :param strategy_name: what the core decides by.
    :param quotas: what projects may use, until others come; None: they are
        kept here, over those that the settings say.
    :param thresholds_bytes: between priority queues, if there are any.
    :param counts: to count what happens in.
    :param ahead_s: by how much the times that it is given are ahead of pool
        time.
    """

    def __init__(
        self,
        state: core_state.PoolState,
        settings: admission.Limits,
        snapshot: db_api.Snapshot,
        strategy_name: str,
        quotas: admission.Quotas | None = None,
        *,
        thresholds_bytes: Sequence[float] = (),
        counts: conductor_counts.Counts | None = None,
        ahead_s: float = 0.0,
    ) -> None:
        self.state = state
        self._ahead_s = ahead_s
        # From now on each one is recorded.
        state.take_skips()
        self._counts = counts or conductor_counts.Counts()
        self._strategy_name = strategy_name
        self.settings = settings
        self._quota_book = conductor_quotas.Book(
            settings.default_quota, snapshot.quotas, snapshot.max_ids.quota
        )
        self.keeps_quotas = quotas is None
        self._quotas = quotas or self._quota_book.quotas()
        self._ledger = usage.Ledger(snapshot.usage, snapshot.max_ids.usage)
        self.registry = registry.Registry()
        self.catalogue = bitstreams.Catalogue(
            (), snapshot.bitstreams, snapshot.max_ids.bitstream
        )
        self.instances = instances.Directory(
            snapshot.instances, snapshot.max_ids.instance
        )
        self.profiles: dict[str, objects.AcceleratorProfile] = {}
        self.holds: dict[int, reconcile.Hold] = {}
        self.wake_at: float | None = None
        self.database_failing = False
        # The last new session that the database holds.
        self.recorded_id = snapshot.max_ids.session
        self._unrecorded: collections.deque[effects.Admission] = (
            collections.deque()
        )
        self.probation = probation.Probation(
            settings,
            self.registry,
            self.catalogue,
            self.holds,
            state.take_generation,
            snapshot.faults,
            self._counts,
        )
        self._snapshot: db_api.Snapshot | None = snapshot
        self._book = sessions.Book(thresholds_bytes)
        self._last_job_id = snapshot.max_ids.session
        self._pace = expected_waits.Pace()
        self._events: list[events.Event] = []
        self._dirty: dict[int, sessions.Session] = {}
        self._traffic = rates.Traffic()
        self._refusals: dict[tuple[str, str, float], tuple[str, str]] = {}
        self._lost_since: dict[str, float] = {}
        self._bus_is_ill = False
        self._ticked_at: float | None = None
        # Until then nothing could be heard, so that silence proves nothing.
        self._deaf_until = -math.inf
        # When the database was last seen to fail: what was to be told waited.
        self._failing_at = -math.inf
        self._rows: list[db_api.Record] = []
        self._assignments: dict[int, db_api.AssignmentRecord | None] = {}
        self._at_once: list[effects.Message] = []
        self._after_commit: list[effects.Message] = []
        self._admissions: list[effects.Admission] = []
        self._withdrawn: list[int] = []

    # -- entry points ------------------------------------------------------

    def start(self, now: float) -> effects.Effects:
        """Take over what the database holds.

        Every host counts as down until its agent reports, so nothing is
        scheduled on what may no longer be there.
        """
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            raise RuntimeError("the engine has been started already")
        self._load_accelerators(snapshot.accelerators)
        self._events.append(self._quotas.session_limits())
        self.registry.restore(
            snapshot.hosts,
            snapshot.devices,
            snapshot.slots,
            now,
            (one.host_id or 0 for one in snapshot.live_sessions),
        )
        self._events += administration.reminders(
            self.registry.devices.values()
        )
        reservations.restore(self.registry, snapshot.reservations)
        self._events += reservations.reminders(self.registry)
        self.probation.start(now)
        self._note_health()
        self._load_sessions(snapshot, now)
        self._step(now)
        for host_uuid in self.registry.hosts:
            self._at_once.append(effects.AskReport(host_uuid))
        return self._take_effects(now)

    def process(
        self, batch: Sequence[inputs.Input], now: float
    ) -> effects.Effects:
        """Handle what has come in since the last call.

        :param batch: inputs in the order of their arrival; may be empty.
        :param now: wall clock in seconds, never less than before.
        """
        self._forget_recorded()
        if self.database_failing:
            self._failing_at = now
            self._withdraw_unrecorded(now)
        queries = []
        for item in batch:
            match item:
                case inputs.Open():
                    self._open(item, now)
                case inputs.Unrecorded(new, holder):
                    self._withdraw(new, holder, now)
                case inputs.Cancel():
                    self._cancel(item, now)
                case inputs.Reopen():
                    self._reopen(item, now)
                case inputs.Report(report):
                    self._report(report, now)
                case inputs.Prepared(prepared):
                    self._prepared(prepared, now)
                case inputs.RenewSecret():
                    self._renew_secret(item, now)
                case inputs.Library(records):
                    self._load_accelerators(records)
                case inputs.ChangeBitstream():
                    self._change_bitstream(item, now)
                case inputs.NewQuotas(quotas):
                    self._take_quotas(quotas)
                case inputs.SetQuota(project_id, changes):
                    rows = self._quota_book.set(project_id, changes)
                    if rows:
                        self._rows += rows
                        self._take_quotas(self._quota_book.quotas())
                case inputs.Administer():
                    queries.append(self._administer(item, now))
                case inputs.TestNow():
                    queries.append(self._test_now(item, now))
                case inputs.AdmitInstance(entry):
                    self.instances.admit(entry, now)
                case inputs.ReplaceToken(instance_id, lost, nonce, hash_):
                    self.instances.replace_token(
                        instance_id, lost, nonce, hash_
                    )
                case inputs.RevokeInstance(instance_id):
                    self.instances.revoke(instance_id)
                case inputs.InstanceDeleted(instance_id):
                    self._delete_instance(instance_id, now)
                case inputs.InstanceChanged(instance_id, uuid_, limit):
                    self.instances.note(instance_id, uuid_, limit)
                case inputs.Reservations(by_device):
                    self._reserve(by_device)
                case inputs.SetReservable():
                    queries.append(self._set_reservable(item))
                case inputs.ComputesSeen(host_uuids):
                    for host_uuid in sorted(host_uuids):
                        self._rows += self.registry.note_compute(
                            host_uuid, db_api.ComputeState.KNOWN
                        )
                case inputs.ComputeDeleted(host_uuid):
                    self._delete_compute(host_uuid, now)
                case inputs.Query():
                    queries.append(item)
        if self.wake_at is not None and now >= self.wake_at:
            self.wake_at = None
            self._events.append(events.Wake())
        self._step(now)
        for query in queries:
            answers = self._after_commit if query.durable else self._at_once
            answers.append(self._answer(query))
        return self._take_effects(now)

    def _answer(self, query: inputs.Query) -> effects.Answer:
        """Answer a question; one that fails must not cost the leader."""
        try:
            return effects.Answer(query.future, query.ask(self))
        except Exception as error:
            LOG.exception("A question to the engine has failed")
            return effects.Answer(query.future, error, failed=True)

    def tick(self, now: float) -> effects.Effects:
        """Look for what did not happen: silent hosts, stuck preparations."""
        limits = self.settings
        if (
            self._ticked_at is not None
            and now - self._ticked_at > limits.report_timeout_s / 2
        ):
            # This conductor stood still; what agents said waits to be read.
            self._deaf_until = now
        self._ticked_at = now
        self._find_silent_hosts(now)
        for host in self.registry.hosts.values():
            if host.turned_clock():
                _tell_of_clock(host)
        for hold in list(self.holds.values()):
            if self.holds.get(hold.slot.id) is hold:
                self._check_hold(hold, now)
        self._step(now)
        # With the slots that the core knows to be free.
        self.probation.tick(now)
        self._note_health()
        self._step(now)
        # The core does not wait for what a host took with it.
        for entry in administration.draining(self.registry):
            self._finish_drain(entry)
        return self._take_effects(now)

    def _take_quotas(self, quotas: admission.Quotas) -> None:
        self._quotas = quotas
        self._events.append(quotas.session_limits())

    # -- questions (on the pump's thread) ----------------------------------

    @property
    def queued_count(self) -> int:
        """How many sessions wait for a slot."""
        return self._book.queued.total()

    def views(self, session_ids: Iterable[str]) -> list[objects.SessionView]:
        """Return the sessions of these ids that are in memory."""
        found = (
            self._book.by_id.get(session_id) for session_id in session_ids
        )
        return [self._full_view(session) for session in found if session]

    def changed(
        self, revisions: Mapping[str, int]
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Compare what somebody knows of sessions with how they stand.

        :param revisions: the revision that is known of each, by its id.
        :returns: the sessions that have another one, and the ids of those
            that are not in memory.
        """
        changed, missing = [], []
        for session_id, revision in revisions.items():
            session = self._book.by_id.get(session_id)
            if session is None:
                missing.append(session_id)
            elif session.revision != revision:
                changed.append(self._full_view(session))
        return changed, missing

    def secret(self, session_id: str, project_id: str, generation: int) -> str:
        """Return what a READY session's client connects with.

        :param project_id: for which it is asked.
        :param generation: of the assignment that it is for.
        :returns: empty if there is none, or it is another project's.
        """
        session = self._book.by_id.get(session_id)
        if (
            session is None
            or (session.project_id, session.generation)
            != (project_id, generation)
            or session.state != states.READY
        ):
            return ""
        return session.secret

    def find(
        self, project_id: str, request_id: str
    ) -> objects.SessionView | None:
        """Return the session of a request, if it is in memory."""
        session = self._book.by_request.get((project_id, request_id))
        return self._full_view(session) if session else None

    def outcome(
        self, request: objects.OpenRequest
    ) -> objects.SessionView | admission.Rejected | None:
        """Return what became of a request, if that is in memory."""
        refusal = self._refusals.get(_attempt(request))
        if refusal is not None:
            return admission.Rejected(*refusal)
        return self.find(request.project_id, request.request_id)

    @property
    def default_quota(self) -> admission.ProjectQuota:
        """What projects may use that have no limits of their own."""
        return self._quotas.default

    def quota(self, project_id: str) -> admission.ProjectQuota:
        """Return what a project may use."""
        return self._quotas.of(project_id)

    def in_use(self, project_id: str) -> dict[str, int]:
        """Return how much of each resource a project uses now."""
        book = self._book
        return {
            "sessions": sum(
                hold.session.project_id == project_id
                for hold in self.holds.values()
            ),
            "queued": book.queued[project_id],
            "queued_bytes": book.queued_bytes[project_id],
            "bitstream_bytes": sum(
                one.size_bytes
                for one in self.catalogue.bitstreams
                if one.project_id == project_id
            ),
        }

    def reservable_slots(self, device_id: str) -> int:
        """Return how many slots of a device instances can reserve.

        :param device_id: what the API and Placement call it.
        :returns: 0 also if there is no such device.
        """
        device = self.registry.find_device(device_id)
        return device.reservable_slots if device else 0

    def summary(self) -> dict[str, Any]:
        """Return the pool at a glance, without anything of a tenant's."""
        return {
            "strategy": self._strategy_name,
            "hosts": summary.hosts(
                self.registry,
                self.holds,
                self.state.view.reservations.pending,
            ),
            "waiting": self.state.waiting_count,
            "sessions": self._book.count_by_state(
                hold.session for hold in self.holds.values() if hold.wanted
            ),
        }

    def figures(self, max_projects: int) -> summary.Figures:
        """Return how many there are of what.

        Looks at none of the sessions that wait: there may be very many.

        :param max_projects: how many to tell one by one.
        """
        book = self._book
        served = collections.Counter(
            hold.session.state for hold in self.holds.values() if hold.wanted
        )
        return summary.Figures(
            queued_by_project=summary.largest(book.queued, max_projects),
            queued_by_size=tuple(book.queued_by_size),
            queued_bytes=book.queued_bytes.total(),
            sessions={state: served[state] for state in states.ASSIGNED}
            | {states.QUEUED: self.queued_count},
            slots=summary.slots_by_state(self.registry, self.holds),
            hosts={
                host.name: host.up for host in self.registry.hosts.values()
            },
            clocks_behind_s={
                host.name: host.clock_behind_s
                for host in self.registry.hosts.values()
                if host.up and host.clock_readings_s
            },
            devices=summary.devices_by_state(self.registry),
            reservations=summary.reservations_by_state(
                self.registry, self.state.view.reservations.pending
            ),
        )

    def snapshot(self, now: float) -> dict[str, Any]:
        """Return what placement needs to know of the pool.

        :param now: wall clock.
        """
        book = self._book
        return summary.snapshot(
            self.registry,
            self.holds,
            self.profiles,
            self._traffic,
            summary.Queued(book.queued_by_host, book.queued_by_accelerator),
            now,
        )

    def _full_view(self, session: sessions.Session) -> objects.SessionView:
        if session.state != states.QUEUED:
            return session.view()
        position = self.state.queue_position(session.job_id)
        return session.view(
            queue_position=position,
            pending_reasons=self.state.status(session.job_id).reasons,
            expected_wait_s=self._pace.expected_wait_s(
                position, self.state.view.now
            ),
        )

    # -- audits ------------------------------------------------------------

    @property
    def live_sessions(self) -> Iterator[sessions.Session]:
        """All that wait for or have a slot."""
        return (one for one in self._book.by_id.values() if one.live)

    def ask_reports(self, host_uuid: str | None = None) -> set[str]:
        """Have the agents of hosts that are up report at once.

        :param host_uuid: of the only one; None for all.
        :returns: the UUIDs of these hosts.
        """
        up = {
            host.uuid
            for host in self.registry.hosts.values()
            if host.up and host_uuid in (None, host.uuid)
        }
        self._at_once += map(effects.AskReport, up)
        return up

    def record_again(
        self, session_id: str | None, slot_id: int | None
    ) -> None:
        """Write anew how a session and a slot stand.

        :param session_id: None for no session.
        :param slot_id: of its row; None for no slot.
        """
        session = self._book.by_id.get(session_id or "")
        if session is not None:
            self._touch(session)
            slot_id = session.slot_id if slot_id is None else slot_id
        if slot_id is None:
            return
        hold = self.holds.get(slot_id)
        if hold is not None:
            self._save_hold(hold)
            self._touch(hold.session)
        else:
            self._assignments[slot_id] = None

    def adopt(self, record: db_api.SessionRecord) -> None:
        """Take over a session that only the database knows.

        Whatever slot it had belongs to somebody else, or to nobody.
        """
        if record.session_id in self._book.by_id or (
            record.state not in states.LIVE
        ):
            return
        session = self._of_record(record)
        self._book.add(session)
        now = self.state.view.now
        self._restore_slotless(session, now)
        self._step(now)

    def _of_record(self, record: db_api.SessionRecord) -> sessions.Session:
        host = self.registry.hosts_by_id.get(record.host_id or 0)
        return sessions.Session.from_record(
            record, host.uuid if host else None
        )

    # -- loading -----------------------------------------------------------

    def _load_accelerators(
        self, records: Iterable[db_api.AcceleratorRecord]
    ) -> None:
        self.catalogue.set_accelerators(records)
        self._take_library()

    def _take_library(self) -> None:
        """What sessions can ask for has changed."""
        self.profiles = self.catalogue.library.profiles
        self._note_outdated()
        self._events.append(
            events.AcceleratorsChanged(
                tuple(
                    model.Accelerator(
                        name=profile.name,
                        peak_bytes_per_s=profile.peak_bytes_per_s,
                        return_ratio=profile.return_ratio,
                        stateless=profile.stateless,
                        shapes=frozenset(profile.shapes),
                    )
                    for profile in self.profiles.values()
                )
            )
        )

    def _load_sessions(self, snapshot: db_api.Snapshot, now: float) -> None:
        held = {
            (row.job_id, row.generation): row for row in snapshot.assignments
        }
        for record in snapshot.unknown_sessions:
            unknown_words.log_unknown(record, "state")
        for record in snapshot.live_sessions:
            session = self._of_record(record)
            self._book.add(session)
            if record.state == states.QUEUED:
                self._restore_queued(session)
            else:
                row = held.get((record.id, record.generation))
                phase = row and unknown_words.read(model.Phase, row, "phase")
                if row is None or phase is None:
                    self._restore_slotless(session, now)
                else:
                    del held[record.id, record.generation]
                    self._restore_assignment(session, row, phase)
        for record in snapshot.ending_sessions:
            row = held.get((record.id, record.generation))
            phase = row and unknown_words.read(model.Phase, row, "phase")
            if (
                row is not None
                and phase is not None
                and row.slot_id == record.slot_id
            ):
                del held[record.id, record.generation]
                self._restore_ending(record, row, phase)
        # What is left belongs to sessions that have ended or moved, or cannot
        # be read. If the slots are still busy, they show up as strays in the
        # first report.
        for orphan in held.values():
            self._counts.reconciled["slot_without_session"] += 1
            # The slot may have gone to somebody else meanwhile.
            if orphan.slot_id not in self.holds:
                self._assignments[orphan.slot_id] = None

    def _restore_slotless(self, session: sessions.Session, now: float) -> None:
        """No row says which slot a session has: that is lost."""
        LOG.error(
            "Session %s is %s, but no slot is recorded for it",
            session.session_id,
            session.state,
        )
        self._counts.reconciled["session_without_slot"] += 1
        if session.state in states.UNCONNECTED:
            self._restore_queued(session)
            self._touch(session)
        else:
            self._end(
                session,
                states.FAILED,
                codes.WORKER_LOST,
                "which slot it had is not recorded",
                now,
            )

    def _restore_ending(
        self,
        record: db_api.SessionRecord,
        row: db_api.AssignmentRecord,
        phase: model.Phase,
    ) -> None:
        """A session has ended, and its slot is still to be given back.

        Its worker may know better how it ended, and for how long it ran.
        """
        session = self._of_record(record)
        # It was among those that its project has used, when it ended.
        session.counted = True
        self._book.add(session)
        self._restore_assignment(session, row, phase)
        session.state = record.state
        self._book.note_end(session)
        # What has ended otherwise than by a word of its client's was told by
        # the worker of another slot.
        hold = self.holds[row.slot_id]
        hold.abandoned = record.state != states.CANCELLED
        self._events.append(
            events.JobCancelled(
                session.job_id, record.reason or codes.SUPERSEDED
            )
        )

    def _restore_assignment(
        self,
        session: sessions.Session,
        row: db_api.AssignmentRecord,
        phase: model.Phase,
    ) -> None:
        slot = self.registry.slots[row.slot_id]
        session.slot_id = slot.id
        session.generation = row.generation
        session.local = row.local
        session.place = _place(slot)
        session.state = _PHASE_STATES[phase]
        self.holds[slot.id] = reconcile.Hold(
            session=session,
            slot=slot,
            generation=row.generation,
            phase=phase,
            assigned_at=row.assigned_at,
            bitstream=self.catalogue.reference(row.bitstream_id),
        )
        self._events.append(
            events.AssignmentRestored(
                job=self._job(session),
                slot_id=slot.id,
                generation=row.generation,
                phase=phase,
                host_id=slot.host.id,
                device_id=slot.device.id,
            )
        )

    def _restore_queued(self, session: sessions.Session) -> None:
        session.state = states.QUEUED
        session.leave_slot()
        self._book.note_queued(session)
        self._events.append(events.JobSubmitted(self._job(session)))

    # -- bitstreams --------------------------------------------------------

    def _change_bitstream(
        self, item: inputs.ChangeBitstream, now: float
    ) -> None:
        if self.database_failing:
            self._at_once.append(
                effects.Answer(item.future, _not_recordable())
            )
            return
        before = self.catalogue.library
        try:
            row = self.catalogue.apply(
                item.change, self._surroundings(item.change, now)
            )
        except admission.Rejected as error:
            # What it is refused for may not be recorded yet, and whoever is
            # told will look there.
            self._after_commit.append(effects.Answer(item.future, error))
            return
        if row is not None:
            self._rows.append(row)
        if self.catalogue.library is not before:
            self._take_library()
        self._after_commit.append(effects.Answer(item.future, None))

    def _surroundings(
        self, change: bitstream.BitstreamChange, now: float
    ) -> bitstreams.Surroundings:
        project_id = self.catalogue.project_of(change)
        return bitstreams.Surroundings(
            now=now,
            limits=bitstreams.Limits(
                count=self.settings.max_bitstreams_per_project,
                total_bytes=self._quotas.of(project_id).bitstream_bytes,
            ),
            capacities=self.registry.capacities(),
            running={
                hold.bitstream_id
                for hold in self.holds.values()
                if hold.bitstream_id is not None
            },
        )

    # -- clients -----------------------------------------------------------

    def _open(self, wish: inputs.Open, now: float) -> None:
        request = wish.request
        until = wish.awaited_until
        if now > (self._expiry(request) if until is None else until):
            LOG.info("Request %s came too late", request.request_id[:80])
            return
        known = self._book.by_request.get(
            (request.project_id, request.request_id)
        )
        refusal = self._refusals.get(_attempt(request))
        try:
            if known is not None:
                self._repeat(known, request)
            elif refusal is not None:
                # Casts are doubled and overtake each other: nobody waits
                # for what has been refused once.
                raise admission.Rejected(*refusal)
            elif self.database_failing:
                raise _not_recordable()
            else:
                self._admit(request, now)
        except admission.Rejected as error:
            self._refuse(request, error, now)

    def _expiry(self, request: objects.OpenRequest) -> float:
        """Return when a request expires, by our clock."""
        host = self.registry.hosts.get(request.host_uuid or "")
        return (
            host.our_time(request.expires_at) if host else request.expires_at
        )

    def _repeat(
        self, session: sessions.Session, request: objects.OpenRequest
    ) -> None:
        """A retry never opens twice; it learns how things stand."""
        if not session.same_request(request):
            raise admission.Rejected(
                codes.REQUEST_ID_REUSED,
                f"request {request.request_id} has been used for something"
                " else",
            )
        if not request.host_uuid:
            return
        if request.host_uuid not in session.front_doors:
            # It would get the secret of what others have opened.
            raise admission.Rejected(
                codes.REQUEST_ID_REUSED,
                f"request {request.request_id} has come by another way",
            )
        self._publish(session, request.host_uuid)

    def _admit(self, request: objects.OpenRequest, now: float) -> None:
        known, accelerator = self._resolve(request)
        if accelerator != request.accelerator:
            request = dataclasses.replace(request, accelerator=accelerator)
        admission.check(
            request,
            self.settings,
            self.registry,
            known,
            self._quotas.of(request.project_id),
            self._queue_for(request.project_id),
        )
        self.instances.check(
            request, self._book.count_of_instance(request.user_id)
        )
        host = self.registry.hosts.get(self._origin(request) or "")
        limits = self.settings
        job_id = self._next_job_id()
        session = sessions.Session(
            row_id=job_id,
            job_id=job_id,
            session_id=str(uuid.uuid4()),
            request_id=request.request_id,
            project_id=request.project_id,
            user_id=request.user_id,
            host_id=host.id if host else None,
            host_uuid=host.uuid if host else None,
            accelerator=request.accelerator,
            claimed_bytes=request.claimed_bytes,
            priority=request.priority,
            wait_timeout_s=_limited(
                request.wait_timeout_s, limits.wait_timeout_s
            ),
            connect_timeout_s=_limited(
                request.connect_timeout_s, limits.connect_timeout_s
            ),
            resume_grace_s=_limited(
                request.resume_grace_s, limits.resume_grace_s
            ),
            queued_at=now,
            arrival_s=now - self._ahead_s,
            front_doors=sessions.front_doors(request.host_uuid),
        )
        self._counts.opened += 1
        self._book.add(session)
        self._book.note_queued(session)
        self._events.append(events.JobSubmitted(self._job(session)))
        self._touch(session)
        new = effects.Admission(job_id, session.session_id, request)
        self._admissions.append(new)
        self._unrecorded.append(new)

    def _resolve(
        self, request: objects.OpenRequest
    ) -> tuple[Mapping[str, objects.AcceleratorProfile], str]:
        """Find the accelerator that a project means.

        :returns: profiles, and the key of its own among them. If there is
            none, of what the project may use, and the name that is unknown.
        """
        library = self.catalogue.library
        key = library.resolve(request.accelerator, request.project_id)
        if key is None:
            return library.visible(request.project_id), request.accelerator
        return self.profiles, key

    def _origin(self, request: objects.OpenRequest) -> str | None:
        """Return on which host a request's data are.

        An instance is on a host of the pool, but its data reach a board there
        without the network only if the operator says so.
        """
        if self.settings.instances_are_local:
            own = self.instances.host_uuid(request.user_id)
            return own or request.host_uuid
        return request.host_uuid

    def _delete_instance(self, instance_id: str, now: float) -> None:
        """Nobody is left to use what an instance has."""
        if not self.instances.delete(instance_id, now):
            return
        user_id = instance_objects.user_of(instance_id)
        own = self._book.of_instance(user_id)
        LOG.info("Instance %s is gone: %d sessions", instance_id, len(own))
        for session in own:
            self._events.append(
                events.JobCancelled(session.job_id, codes.INSTANCE_DELETED)
            )
            self._end(
                session,
                states.CANCELLED,
                codes.INSTANCE_DELETED,
                "the instance was deleted",
                now,
            )
        self._apply(now)

    def _delete_compute(self, host_uuid: str, now: float) -> None:
        """Nova has no such compute node any more.

        A host that still has anything is for the operator to decide about.
        """
        host = self.registry.hosts.get(host_uuid)
        if host is None:
            return
        if host.up or host.devices:
            LOG.warning(
                "Nova has no compute node %s any more, but host %s %s",
                host_uuid,
                host.name,
                "is up" if host.up else "has boards here",
            )
        self._rows += self.registry.note_compute(
            host_uuid, db_api.ComputeState.DELETED
        )
        self._forget_if_left(host, now)

    def _forget_if_left(self, host: registry.HostEntry, now: float) -> None:
        """Forget a host that Nova has deleted, if nothing is left of it.

        Of one that has not been silent for long, an agent may still run.
        """
        if (
            host.compute is not db_api.ComputeState.DELETED
            or host.devices
            or host.uuid not in self._lost_since
        ):
            return
        LOG.info("Host %s (%s) is forgotten", host.name, host.uuid)
        del self._lost_since[host.uuid]
        self._rows.append(self.registry.forget(host))
        self.probation.forget_gone(now)
        self._note_health()

    def _may_revive(self, session: sessions.Session) -> bool:
        """Whether its instance, if it has one, may have one more session."""
        instance_id = instance_objects.id_of(session.user_id)
        if instance_id is None:
            return True
        known = self.instances.live.get(instance_id)
        if known is None:
            return False
        used = self._book.count_of_instance(session.user_id)
        return known.max_sessions is None or used < known.max_sessions

    def _queue_for(self, project_id: str) -> admission.Queue:
        book = self._book
        return admission.Queue(
            total=book.queued.total(),
            of_project=book.queued[project_id],
            bytes_of_project=book.queued_bytes[project_id],
        )

    def _forget_recorded(self) -> None:
        unrecorded = self._unrecorded
        while unrecorded and unrecorded[0].row_id <= self.recorded_id:
            unrecorded.popleft()

    def _withdraw_unrecorded(self, now: float) -> None:
        """The database is away: nobody shall wait for it."""
        while self._unrecorded:
            self._withdraw(self._unrecorded.popleft(), None, now)

    def _withdraw(
        self,
        new: effects.Admission,
        record: db_api.SessionRecord | None,
        now: float,
    ) -> None:
        """Undo an admission of which nobody has been told.

        To ask the database before would be one more wait for each request,
        and names are hardly ever used again after so long.

        :param record: the session that had the name before; None if the
            database is away.
        """
        self._withdrawn.append(new.row_id)
        session = self._book.by_id.get(new.session_id)
        if session is None:
            return
        self._drop(session, now)
        try:
            if record is None:
                raise _not_recordable()
            holder = self._of_record(record)
            self._repeat(holder, new.request)
        except admission.Rejected as error:
            self._refuse(new.request, error, now)

    def _drop(self, session: sessions.Session, now: float) -> None:
        """Forget a session, and take its slot back."""
        if session.live:
            if session.state == states.QUEUED:
                self._book.note_unqueued(session)
            else:
                self.holds[_slot_id(session)].abandoned = True
            self._events.append(
                events.JobCancelled(session.job_id, codes.DATABASE_UNAVAILABLE)
            )
            self._apply(now)
        # If it ended before, its slot may still be on the way to be free.
        session.withdrawn = True
        self._dirty.pop(session.row_id, None)
        self._book.forget(session)

    @property
    def last_row_id(self) -> int:
        """No session's row has a higher id."""
        return self._last_job_id

    def _next_job_id(self) -> int:
        self._last_job_id += 1
        return self._last_job_id

    def _refuse(
        self,
        request: objects.OpenRequest,
        error: admission.Rejected,
        now: float,
    ) -> None:
        """A refused request leaves no trace but its answer, to be repeated."""
        LOG.info(
            "Request %s of project %s refused: %s",
            request.request_id[:80],
            request.project_id,
            error.code,
        )
        self._counts.refused[tallies.known(error.code)] += 1
        self._refusals[_attempt(request)] = (error.code, str(error))
        while len(self._refusals) > _MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        if not request.host_uuid:
            return
        view = admission.refusal(request, error, now)
        self._at_once.append(effects.PublishSession(request.host_uuid, view))

    def _cancel(self, item: inputs.Cancel, now: float) -> None:
        session = self._find_for_cancel(item)
        if session is None or not _is_door(item.sender, session, "cancel"):
            return
        if not session.live:
            self._publish_everywhere(session)
            return
        if (
            item.reason == codes.CLIENT_GONE
            and session.state in states.CONNECTED
        ):
            # The front door lost a client that the worker knows better.
            return
        self._events.append(events.JobCancelled(session.job_id, item.reason))
        self._end(session, states.CANCELLED, item.reason, "", now)
        self._apply(now)

    def _reopen(self, item: inputs.Reopen, now: float) -> None:
        """Give a session whose slot is gone another one, if it can move.

        The client decides: only it knows that its data flow no more.
        """
        session = self._book.by_id.get(item.session_id)
        if session is None or session.project_id != item.project_id:
            return
        door = item.host_uuid or None
        if not _is_door(door, session, "reopen_session"):
            return
        profile = self.profiles.get(session.accelerator)
        if (
            profile is None
            or not profile.stateless
            or session.generation != item.generation
        ):
            self._publish_everywhere(session)
        elif session.state in states.CONNECTED:
            self._abandon_slot(session, now)
        elif session.reason in codes.REOPENABLE and self._may_revive(session):
            self._book.revive(session)
            self._resubmit(session, now)
        else:
            self._publish_everywhere(session)

    def _abandon_slot(self, session: sessions.Session, now: float) -> None:
        """Let a session wait again while its slot is being taken back."""
        hold = self.holds[_slot_id(session)]
        hold.abandoned = True
        if not hold.revoked:
            self._events.append(
                events.JobCancelled(session.job_id, codes.MOVED)
            )
            self._apply(now)
        self._book.rename_job(session, self._next_job_id())
        self._resubmit(session, now)

    def _resubmit(self, session: sessions.Session, now: float) -> None:
        """Queue a session again, at the place of its first arrival."""
        LOG.info("Session %s waits for another slot", session.session_id)
        unsent_bytes = max(session.claimed_bytes - session.input_bytes, 0)
        session.leave_slot()
        session.state = states.QUEUED
        session.reason = session.message = ""
        session.finished_at = None
        # Its patience starts anew; it has been served once already.
        session.wait_timeout_s = (
            self._waited_s(session, now) + self.settings.wait_timeout_s
        )
        self._book.note_queued(session)
        self._events.append(
            events.JobSubmitted(self._job(session), unsent_bytes)
        )
        self._touch(session)
        self._apply(now)

    def _find_for_cancel(self, item: inputs.Cancel) -> sessions.Session | None:
        if item.session_id:
            session = self._book.by_id.get(item.session_id)
        else:
            session = self._book.by_request.get(
                (item.project_id, item.request_id or "")
            )
        if session is None or session.project_id != item.project_id:
            return None
        return session

    def _renew_secret(self, item: inputs.RenewSecret, now: float) -> None:
        session = self._book.by_id.get(item.session_id)
        if (
            session is None
            or session.state != states.READY
            or not _is_door(item.sender, session, "renew_secret")
        ):
            return
        self._ask_secret(self.holds[_slot_id(session)], now)

    # -- agents ------------------------------------------------------------

    def _prepared(self, prepared: objects.Prepared, now: float) -> None:
        host = self.registry.hosts.get(prepared.host_uuid)
        device = host.devices.get(prepared.device) if host else None
        slot = device.slots.get(prepared.slot) if device else None
        hold = self.holds.get(slot.id) if slot else None
        if (
            hold is None
            or hold.generation != prepared.generation
            or hold.revoked
            or hold.phase not in (model.Phase.PREPARING, model.Phase.READY)
        ):
            LOG.debug(
                "Stale preparation of generation %d ignored",
                prepared.generation,
            )
            return
        session = hold.session
        hold.announced_at = min(hold.announced_at, now)
        session.secret = prepared.secret
        session.endpoints = prepared.endpoints
        session.certificate_sha256 = prepared.certificate_sha256
        hold.heard = prepared.agent_boot_id, prepared.sequence
        if hold.phase is model.Phase.PREPARING:
            self._events.append(
                events.SlotReady(hold.slot.id, hold.generation)
            )
            # Whatever else this batch says of the slot comes after.
            self._apply(now)
        else:
            self._touch(session)

    def _report(self, report: objects.AgentReport, now: float) -> None:
        known = self.registry.hosts.get(report.host_uuid)
        if known and not known.accepts(report.agent_boot_id, report.sequence):
            LOG.debug(
                "Late report %s/%d of host %s ignored",
                report.agent_boot_id,
                report.sequence,
                report.host_name,
            )
            if known.is_double(report.agent_boot_id, report.sent_at):
                _OFTEN.warning(
                    "Two agents say that they are host %s: %s on %s, and %s on"
                    " %s, which is ignored; give one of them a [DEFAULT]"
                    " host_uuid of its own",
                    known.uuid,
                    known.boot_id,
                    known.name,
                    report.agent_boot_id,
                    report.host_name,
                )
            return
        host, changed, rows = self.registry.update(report)
        host.note_clock(report.agent_boot_id, report.sent_at, now)
        host.note_report(report.agent_boot_id, report.sequence, now)
        if changed or not host.up:
            self._host_up(host, rows)
        for slot, line in _lines(host, report):
            self._note_unrecorded_end(slot, line, now)
        # First what each slot can take, then what has become of the
        # assignments: the second may schedule onto what the first says.
        findings = [
            (hold, self._look_at(slot, line, hold, now), line)
            for slot, line in _lines(host, report)
            for hold in (self.holds.get(slot.id),)
            if hold is None or not hold.outdates(report)
        ]
        for hold, finding, line in findings:
            # What is done about one may take the slot from another.
            if hold is not None and self.holds.get(hold.slot.id) is hold:
                hold.note_energy(report.agent_boot_id, line)
                self._act(hold, finding, line, now)
            self._note_late_end(host, line.last_result, now)

    def _note_unrecorded_end(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
        now: float,
    ) -> None:
        """A former leader gave a slot on, and died before it recorded that.

        Its new holder is unknown, and the one before has not vanished.
        """
        hold, result = self.holds.get(slot.id), report.previous_result
        if (
            hold is not None
            and result is not None
            and result.generation == hold.generation
            and result.state != states.PREPARE_FAILED
        ):
            self._counts.reconciled["end_not_recorded"] += 1
            self._finished(
                hold, dataclasses.replace(report, last_result=result), now
            )

    def _note_late_end(
        self,
        host: registry.HostEntry,
        result: objects.SessionResult | None,
        now: float,
    ) -> None:
        """A client has used and closed the slot that it was to lose.

        Its host was silent meanwhile, so that the session has, or waits
        for, another slot that nobody needs.
        """
        if result is None or result.state != states.CLOSED:
            return
        session = self._book.by_id.get(result.session_id)
        if session is None or session.state not in states.UNCONNECTED:
            return
        if session.state != states.QUEUED:
            hold = self.holds[_slot_id(session)]
            if hold.generation <= result.generation:
                return
            # What its worker says of the end is not the session's.
            hold.abandoned = True
        self._events.append(
            events.JobCancelled(session.job_id, codes.SUPERSEDED)
        )
        session.input_bytes = result.input_bytes
        session.output_bytes = result.output_bytes
        session.started_at = _started_at(session, result, host, now)
        self._end(session, result.state, result.code, result.message, now)
        self._apply(now)

    def _host_up(
        self, host: registry.HostEntry, rows: list[db_api.Record]
    ) -> None:
        if not host.up:
            LOG.info("Host %s (%s) is up", host.name, host.uuid)
            host.up = True
            self._lost_since.pop(host.uuid, None)
            rows = [*rows, registry.host_row(host)]
        self._rows += rows
        # Some of its devices may be new.
        self._events += administration.reminders(host.devices.values())
        self._events.append(events.HostUp(host.spec()))

    def _look_at(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
        hold: reconcile.Hold | None,
        now: float,
    ) -> reconcile.Finding:
        finding = reconcile.compare(hold, report)
        if hold is None and self.probation.look(slot, report, now):
            finding = reconcile.Finding.AS_IT_SHOULD
        self._note_health()
        if finding is reconcile.Finding.STRAY:
            self._release_stray(slot, report, now)
        self._note_programmed(slot, report)
        self._note_usable(slot, report, finding)
        return finding

    def _act(
        self,
        hold: reconcile.Hold,
        finding: reconcile.Finding,
        report: objects.SlotReport,
        now: float,
    ) -> None:
        session = hold.session
        if hold.wanted and report.generation == hold.generation:
            session.input_bytes = report.input_bytes
            session.output_bytes = report.output_bytes
        match finding:
            case reconcile.Finding.NOT_STARTED:
                self._tell_again(hold, now)
            case reconcile.Finding.NOT_RELEASED:
                self._tell_again(hold, now)
            case reconcile.Finding.READY:
                hold.prepared = True
                if not session.secret:
                    self._ask_secret(hold, now)
            case reconcile.Finding.ATTACHED:
                self._attached(hold, now)
                self._check_claim(hold)
                self._note_progress(hold, report, now)
            case reconcile.Finding.DETACHED:
                self._detached(hold, now)
                self._note_progress(hold, report, now)
            case reconcile.Finding.PREPARE_FAILED:
                self._prepare_failed(hold, report, now)
            case reconcile.Finding.FINISHED:
                self._finished(hold, report, now)
            case reconcile.Finding.VANISHED:
                self._vanished(hold, now)

    def _note_progress(
        self, hold: reconcile.Hold, report: objects.SlotReport, now: float
    ) -> None:
        """Note how fast a holder is; tell the core if its strategy asks."""
        reading = self._traffic.note(
            hold.slot.id,
            hold.generation,
            report.input_bytes,
            report.output_bytes,
            now,
        )
        if reading is not None and self.state.wants_rates:
            self._events.append(
                events.Progress(
                    hold.slot.id,
                    hold.generation,
                    reading.input_bytes,
                    reading.input_bytes_per_s,
                )
            )

    def _check_claim(self, hold: reconcile.Hold) -> None:
        session = hold.session
        limit_bytes = self.settings.claim_limit_bytes(session.claimed_bytes)
        if session.input_bytes > limit_bytes:
            self._events.append(
                events.ClaimExceeded(hold.slot.id, hold.generation)
            )

    def _attached(self, hold: reconcile.Hold, now: float) -> None:
        if hold.phase is model.Phase.ACTIVE:
            return
        key = (hold.slot.id, hold.generation)
        if hold.phase is model.Phase.PREPARING:
            self._events.append(events.SlotReady(*key))
        self._events.append(events.HolderAttached(*key))
        session = hold.session
        session.forget_secret()
        session.ready_at = session.ready_at or now
        session.started_at = session.started_at or now
        self._enter(hold, model.Phase.ACTIVE)

    def _detached(self, hold: reconcile.Hold, now: float) -> None:
        if hold.phase is model.Phase.DETACHED:
            return
        self._attached(hold, now)
        self._events.append(
            events.HolderDetached(hold.slot.id, hold.generation)
        )
        self._enter(hold, model.Phase.DETACHED)

    def _enter(self, hold: reconcile.Hold, phase: model.Phase) -> None:
        hold.phase = phase
        hold.session.state = _PHASE_STATES[phase]
        self._save_hold(hold)
        self._touch(hold.session)

    def _prepare_failed(
        self, hold: reconcile.Hold, report: objects.SlotReport, now: float
    ) -> None:
        result = report.last_result
        reason = result.code if result else codes.PREPARE_FAILED
        LOG.warning(
            "Slot %s could not be prepared for session %s: %s",
            hold.slot,
            hold.session.session_id,
            reason,
        )
        if reason in codes.BITSTREAM_FAULTS and hold.wanted:
            hold.session.bitstream_failures += 1
            if hold.session.bitstream_failures >= _MAX_BITSTREAM_FAILURES:
                self._give_up_bitstream(hold, reason, now)
                return
        self._fail_preparation(hold, reason, now)

    def _give_up_bitstream(
        self, hold: reconcile.Hold, reason: str, now: float
    ) -> None:
        """End a session whose bitstream gets into no slot.

        The slots are well, so that nothing else would end its tries.
        """
        self._free(hold, now)
        untrusted = reason == codes.BITSTREAM_UNTRUSTED
        why = f": {_UNTRUSTED}" if untrusted else ""
        self._end(
            hold.session,
            states.FAILED,
            reason,
            f"no slot could be programmed with its bitstream, in"
            f" {_MAX_BITSTREAM_FAILURES} tries{why}",
            now,
        )
        self._apply(now)

    def _fail_preparation(
        self, hold: reconcile.Hold, reason: str, now: float
    ) -> None:
        # A failure may well come from being revoked.
        if not hold.revoked and reason not in codes.BITSTREAM_FAULTS:
            self.probation.failed(hold, reason, now)
            self._note_health()
        self._events.append(
            events.PrepareFailed(hold.slot.id, hold.generation, reason)
        )
        self._apply(now)

    def _finished(
        self, hold: reconcile.Hold, report: objects.SlotReport, now: float
    ) -> None:
        result = report.last_result
        session = hold.session
        if result is not None:
            self.probation.finished(hold, result, now)
            self._note_health()
        self._free(hold, now, result)
        if result is None or hold.abandoned:
            return
        session.input_bytes = result.input_bytes
        session.output_bytes = result.output_bytes
        session.started_at = _started_at(session, result, hold.slot.host, now)
        if not session.live:
            if (session.state, result.state) == _SERVED_ALREADY:
                session.finish(result.state, result.code, result.message, now)
            self._touch(session)
        elif result.code == codes.YIELDED:
            # Those who waited for the slot come before its old holder.
            self._step(now)
            session.claimed_bytes = self._new_claim_bytes(result)
            self._resubmit(session, now)
        elif result.code in _ROOM_IS_MADE:
            self._make_room(session, result, now)
        elif (
            result.code == codes.CONNECT_TIMEOUT
            and self._was_told_late(hold, now)
            and session.untold_ends < _MAX_UNTOLD_ENDS
        ):
            session.untold_ends += 1
            self._step(now)
            self._resubmit(session, now)
        elif result.code == codes.CLAIM_EXCEEDED:
            self._end(
                session,
                states.FAILED,
                codes.CLAIM_EXCEEDED,
                f"more than the {session.claimed_bytes} bytes that were"
                f" claimed; ended at input offset {result.input_bytes}",
                now,
            )
        else:
            self._end(session, result.state, result.code, result.message, now)

    def _was_told_late(self, hold: reconcile.Hold, now: float) -> bool:
        """Whether a client had too little time to connect.

        That its slot was ready did not get here, or was not recorded or sent
        for a while, or the leader before did not live to tell it.
        """
        enough_s = _TIME_TO_CONNECT * hold.session.connect_timeout_s
        told_at = max(hold.announced_at, self._failing_at, self._deaf_until)
        # Infinity, while nothing was told, is late, too.
        return now - told_at < enough_s

    def _make_room(
        self,
        session: sessions.Session,
        result: objects.SessionResult,
        now: float,
    ) -> None:
        """Go on elsewhere, if nothing is lost by it."""
        profile = self.profiles.get(session.accelerator)
        has_begun = result.started_at is not None or result.input_bytes > 0
        if not has_begun or (profile is not None and profile.stateless):
            self._apply(now)
            self._resubmit(session, now)
            return
        self._end(
            session,
            states.FAILED,
            result.code,
            "the slot is taken back; ended at input offset"
            f" {result.input_bytes}",
            now,
        )

    def _new_claim_bytes(self, result: objects.SessionResult) -> int:
        """Twice what it has used: a lie costs a place further back."""
        return min(2 * result.input_bytes, self.settings.max_claimed_bytes)

    def _vanished(self, hold: reconcile.Hold, now: float) -> None:
        """The worker and what it knew are gone."""
        self._counts.reconciled["vanished"] += 1
        if hold.wanted and hold.phase in (
            model.Phase.PREPARING,
            model.Phase.READY,
        ):
            # No client has sent anything yet: another slot will do.
            self._fail_preparation(hold, codes.WORKER_LOST, now)
            return
        if hold.wanted:
            self._end(
                hold.session,
                states.FAILED,
                codes.WORKER_LOST,
                "the slot's worker process is gone",
                now,
            )
        self._free(hold, now)

    def _release_stray(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
        now: float,
    ) -> None:
        # The agent answers each order with a report, which would cause the
        # next order at once while a worker takes its time.
        if now - slot.stray_told_at < self.settings.resend_interval_s:
            return
        slot.stray_told_at = now
        self._counts.reconciled["stray"] += 1
        LOG.warning(
            "Slot %s works for session %s, generation %s, which should not"
            " have it: released",
            slot,
            report.session_id,
            report.generation,
        )
        self._at_once.append(agent_orders.release_stray(slot, report))

    def _note_programmed(
        self, slot: registry.SlotEntry, report: objects.SlotReport
    ) -> None:
        if slot.programmed != report.programmed:
            slot.programmed = report.programmed
            self._rows.append(registry.slot_row(slot))
        slot.bitstream_id = report.bitstream_id
        slot.outdated = self._is_outdated(slot)

    def _is_outdated(self, slot: registry.SlotEntry) -> bool:
        """Whether a slot would be programmed again for what it has."""
        if slot.programmed is None:
            return False
        chosen = self.catalogue.library.choose(slot.programmed, slot.shape)
        wanted = chosen.bitstream_id if chosen else None
        return slot.bitstream_id != wanted

    def _note_outdated(self) -> None:
        """See which slots have to be programmed again, and tell the core."""
        changed: dict[str, registry.HostEntry] = {}
        for slot in self.registry.slots.values():
            outdated = self._is_outdated(slot)
            if outdated != slot.outdated:
                slot.outdated = outdated
                changed[slot.host.uuid] = slot.host
        self._events += [
            events.HostUp(host.spec()) for host in changed.values() if host.up
        ]

    def _note_usable(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
        finding: reconcile.Finding,
    ) -> None:
        """A slot that cannot take a session is not offered any."""
        if finding is reconcile.Finding.STRAY:
            usable = False
        else:
            usable = report.state not in (
                states.SLOT_FAULTY,
                states.SLOT_STARTING,
            )
        if usable == slot.usable:
            return
        slot.usable = usable
        self._events.append(self.probation.word(slot))

    def _note_health(self) -> None:
        """Do what follows from what is out of use, and from its tests."""
        found = self.probation
        self._events += found.events
        self._rows += found.rows
        self._at_once += found.orders
        found.events, found.rows, found.orders = [], [], []

    # -- what did not happen -----------------------------------------------

    def _find_silent_hosts(self, now: float) -> None:
        present = [
            host
            for host in self.registry.hosts.values()
            if host.uuid not in self._lost_since
        ]
        limit = now - self.settings.report_timeout_s
        silent = [host for host in present if host.heard_at < limit]
        if len(silent) > _BUS_IS_ILL * len(present):
            if not self._bus_is_ill:
                LOG.warning(
                    "%d of %d hosts are silent: the message bus is"
                    " suspected, no host is given up",
                    len(silent),
                    len(present),
                )
            self._bus_is_ill = True
            self._deaf_until = now
            return
        self._bus_is_ill = False
        for host in silent:
            # Not all agents find back to the bus at the same time.
            since = max(host.heard_at, self._deaf_until)
            if now - since > self.settings.report_timeout_s:
                self._doubt(host, since, now)

    def _doubt(
        self, host: registry.HostEntry, silent_since: float, now: float
    ) -> None:
        """Ask a silent host, and give it up if it does not answer.

        Its reports may have gone to a former leader.
        """
        if host.asked_at <= silent_since:
            host.asked_at = now
            self._at_once.append(effects.AskReport(host.uuid))
        elif now - host.asked_at >= self.settings.resend_interval_s:
            self._lose_host(host, now)

    def _lose_host(self, host: registry.HostEntry, now: float) -> None:
        LOG.error(
            "Host %s (%s) has been silent for %.0f s and counts as lost",
            host.name,
            host.uuid,
            now - host.heard_at,
        )
        host.up = False
        self._lost_since[host.uuid] = now
        self._rows.append(registry.host_row(host))
        self._events.append(events.HostLost(host.id))
        self._apply(now)
        self._forget_if_left(host, now)

    def _check_hold(self, hold: reconcile.Hold, now: float) -> None:
        limits = self.settings
        host = hold.slot.host
        lost_at = self._lost_since.get(host.uuid)
        if lost_at is not None:
            missed_s = now - max(lost_at, self._deaf_until)
            if missed_s > limits.lost_session_timeout_s:
                self._give_up(hold, now)
        elif (
            hold.phase is model.Phase.PREPARING
            and not hold.revoked
            and not hold.prepared
            # By the host's own word: while it cannot be heard, its slot may
            # have become ready long ago. That of another leader is not known.
            and host.up
            and host.heard_at - hold.assigned_at > limits.prepare_timeout_s
        ):
            self._prepare_timed_out(hold, now)

    def _give_up(self, hold: reconcile.Hold, now: float) -> None:
        if hold.wanted:
            self._end(
                hold.session,
                states.LOST,
                codes.HOST_LOST,
                "the slot's host has not come back",
                now,
            )
        # Nobody knows of the time since then.
        self._free(hold, max(hold.slot.host.heard_at, hold.assigned_at))

    def _prepare_timed_out(self, hold: reconcile.Hold, now: float) -> None:
        LOG.warning(
            "Slot %s was not prepared within %.0f s",
            hold.slot,
            self.settings.prepare_timeout_s,
        )
        self._at_once.append(agent_orders.release(hold, codes.PREPARE_TIMEOUT))
        # Out of use until a report shows it idle: programming may hang.
        hold.slot.usable = False
        self._events.append(
            events.SlotFaulty(hold.slot.id, codes.PREPARE_TIMEOUT)
        )
        self._fail_preparation(hold, codes.PREPARE_TIMEOUT, now)

    # -- the core ----------------------------------------------------------

    def _apply(self, now: float) -> None:
        """Tell the core what has happened, so that it counts from now on.

        Waiting sessions get slots when all of a batch has been looked at, see
        :meth:`_step`.
        """
        batch, self._events = self._events, []
        if batch:
            self._carry_out(self.state.apply(batch, now), now)

    def _step(self, now: float) -> None:
        """Have the core decide, and do what it says."""
        batch, self._events = self._events, []
        self._carry_out(self.state.step(batch, now), now)
        for job_id, skips in self.state.take_skips().items():
            # Nobody is told, but the next leader is to know it.
            session = self._book.by_job[job_id]
            session.skips = skips
            self._rows.append(session.record())

    def _carry_out(
        self, found: Sequence[instructions.Instruction], now: float
    ) -> None:
        for instruction in found:
            match instruction:
                case instructions.Program():
                    self._program(instruction, now)
                case instructions.Grant(_, job_id, _):
                    self._grant(job_id, now)
                case instructions.Reject(job_id, code, message):
                    self._reject(job_id, code, message, now)
                case instructions.Requeue(job_id, _, reason):
                    self._requeue(job_id, reason)
                case instructions.Revoke(slot_id, _, _, reason):
                    self._revoke(self.holds[slot_id], reason, now)
                case instructions.Yield(slot_id, _, _):
                    self._revoke(self.holds[slot_id], codes.YIELDED, now)
                case instructions.Drained(device_id):
                    self._drained(self.registry.devices[device_id])
                case instructions.Reserve(slot_id, instance_id):
                    self._note_reserved(slot_id, instance_id)
                case instructions.WakeAt(time_s):
                    self.wake_at = time_s

    def _program(self, order: instructions.Program, now: float) -> None:
        session = self._book.by_job[order.job_id]
        slot = self.registry.slots[order.slot_id]
        self._book.note_unqueued(session)
        waited_s = self._waited_s(session, now)
        self._pace.note(waited_s, now)
        if not session.generation:
            self._counts.waits_s.observe(waited_s)
        session.skips = self.state.skips(session.job_id)
        session.generation = order.generation
        session.slot_id = slot.id
        session.local = session.host_id == slot.host.id
        session.place = _place(slot)
        hold = reconcile.Hold(
            session=session,
            slot=slot,
            generation=order.generation,
            phase=model.Phase.PREPARING,
            assigned_at=now,
            told_at=now,
            bitstream=self.catalogue.library.choose(
                session.accelerator, slot.shape
            ),
        )
        self.holds[slot.id] = hold
        self._enter(hold, model.Phase.PREPARING)
        self._at_once.append(agent_orders.assign(hold, self.settings))

    def _grant(self, job_id: int, now: float) -> None:
        session = self._book.by_job[job_id]
        hold = self.holds[_slot_id(session)]
        if hold.phase is model.Phase.PREPARING:
            session.ready_at = now
            self._enter(hold, model.Phase.READY)

    def _reject(
        self, job_id: int, code: str, message: str, now: float
    ) -> None:
        session = self._book.by_job[job_id]
        if session.state != states.QUEUED:
            # It was to wait again, and what it wants is there no more.
            hold = self.holds[_slot_id(session)]
            self._at_once.append(agent_orders.release(hold, code))
            self._forget_hold(hold.slot.id)
        timed_out = code == codes.WAIT_TIMEOUT
        state = states.EXPIRED if timed_out else states.REJECTED
        self._end(session, state, code, message, now)

    def _requeue(self, job_id: int, reason: str) -> None:
        session = self._book.by_job[job_id]
        LOG.info("Session %s waits again: %s", session.session_id, reason)
        if reason in _ROOM_IS_MADE:
            # Else its agent knows, or is silent.
            hold = self.holds[_slot_id(session)]
            self._at_once.append(agent_orders.release(hold, reason))
        self._forget_hold(_slot_id(session))
        session.leave_slot()
        session.state = states.QUEUED
        session.skips = self.state.skips(job_id)
        self._book.note_queued(session)
        self._touch(session)

    def _revoke(self, hold: reconcile.Hold, reason: str, now: float) -> None:
        hold.revoked = reason
        hold.told_at = now
        self._at_once.append(agent_orders.release(hold, reason))

    # -- what the operator says --------------------------------------------

    def _administer(self, item: inputs.Administer, now: float) -> inputs.Query:
        """:returns: the question whether there is what was meant."""
        host = self.registry.hosts.get(item.host_uuid)
        entry: administration.Administered | None = host
        if host is not None and item.device is not None:
            entry = host.devices.get(item.device)
        found = entry is not None
        if entry is not None:
            deadline_at = None
            if item.drain_within_s is not None:
                deadline_at = now + item.drain_within_s
            self._set_admin(
                entry,
                registry.Administration(
                    state=item.state,
                    reason=item.reason,
                    deadline_at=deadline_at,
                ),
                now,
            )
        return inputs.Query(lambda _: found, item.future)

    def _set_admin(
        self,
        entry: administration.Administered,
        wish: registry.Administration,
        now: float,
    ) -> None:
        entry.admin = wish
        self._note_admin(entry)
        devices = administration.devices_of(entry)
        self._events += map(administration.word, devices)
        if wish.state is model.AdminState.ENABLED:
            for device in devices:
                self.probation.repair(device, now)
            self._note_health()
        self._apply(now)
        self._finish_drain(entry)

    def _test_now(self, item: inputs.TestNow, now: float) -> inputs.Query:
        """:returns: the question why there is no test, if so."""
        host = self.registry.hosts.get(item.host_uuid)
        device = host.devices.get(item.device) if host else None
        slot = device.slots.get(item.slot) if device else None
        refusal: exception.FpgapoolException | None
        if slot is None:
            refusal = exception.SlotNotFound(
                slot=item.slot, device=item.device, host_uuid=item.host_uuid
            )
        else:
            # With the slots that the core knows to be free.
            self._step(now)
            refusal = self.probation.test(slot, item.accelerator, now)
            self._note_health()
            self._step(now)
        return inputs.Query(lambda _: refusal, item.future)

    def _drained(self, device: registry.DeviceEntry) -> None:
        self._finish_drain(device)
        self._finish_drain(device.host)

    def _finish_drain(self, entry: administration.Administered) -> None:
        """What was to be drained is disabled when nobody is left."""
        if (
            entry.admin.state is model.AdminState.DRAINING
            and administration.is_empty(entry, self._taken())
        ):
            entry.admin = registry.Administration(
                state=model.AdminState.DISABLED, reason=entry.admin.reason
            )
            self._note_admin(entry)
            self._events += map(
                administration.word, administration.devices_of(entry)
            )

    def _taken(self) -> Iterator[registry.SlotEntry]:
        """Yield the slots that are at work, for sessions or in tests."""
        for hold in self.holds.values():
            yield hold.slot
        for test in self.probation.tests.values():
            yield test.slot

    def _note_admin(self, entry: administration.Administered) -> None:
        LOG.info(
            "%s is %s: %s",
            administration.name(entry),
            entry.admin.state.value,
            entry.admin.reason or "no reason given",
        )
        self._rows.append(administration.row(entry))

    # -- reservations ------------------------------------------------------

    def _reserve(self, by_device: Mapping[str, Mapping[str, int]]) -> None:
        rows = reservations.take(self.registry, by_device)
        if rows:
            self._rows += rows
            self._events.append(reservations.news(self.registry))

    def _set_reservable(self, item: inputs.SetReservable) -> inputs.Query:
        """:returns: the question why it cannot be so, if that is the case."""
        host = self.registry.hosts.get(item.host_uuid)
        device = host.devices.get(item.device) if host else None
        refusal = reservations.refusal(item, device)
        if device is not None and refusal is None:
            LOG.info(
                "Device %s %s: %d slots are reservable",
                device.host.name,
                device.name,
                item.slots,
            )
            device.reservable_slots = item.slots
            self._rows.append(registry.device_row(device))
            self._events.append(
                events.ReservableSlotsChanged(device.id, item.slots)
            )
        return inputs.Query(lambda _: refusal, item.future)

    def _note_reserved(self, slot_id: int, instance_id: str | None) -> None:
        slot = self.registry.slots[slot_id]
        if slot.reserved_for != instance_id:
            LOG.info("Slot %s is reserved for %s", slot, instance_id)
            slot.reserved_for = instance_id
            self._rows.append(registry.slot_row(slot))

    # -- small steps -------------------------------------------------------

    def _job(self, session: sessions.Session) -> model.Job:
        return session.job(self._ahead_s)

    def _waited_s(self, session: sessions.Session, now: float) -> float:
        """Return how long ago a session was queued first."""
        return now - self._ahead_s - session.arrival_s

    def _tell_again(self, hold: reconcile.Hold, now: float) -> None:
        """Repeat an order whose effect does not show."""
        if now - hold.told_at < self.settings.resend_interval_s:
            return
        hold.told_at = now
        kind = "not_released" if hold.revoked else "not_started"
        self._counts.reconciled[kind] += 1
        self._at_once.append(
            agent_orders.release(hold, hold.revoked)
            if hold.revoked
            else agent_orders.assign(hold, self.settings)
        )

    def _ask_secret(self, hold: reconcile.Hold, now: float) -> None:
        if now - hold.told_at >= self.settings.resend_interval_s:
            hold.told_at = now
            self._at_once.append(agent_orders.reissue_secret(hold))

    def _free(
        self,
        hold: reconcile.Hold,
        ended_at: float,
        result: objects.SessionResult | None = None,
    ) -> None:
        """A slot is free again; note what it was used for.

        :param result: what its worker says of that; None: what it reported
            last, if the session has not moved on.
        """
        session = hold.session
        used: objects.SessionResult | sessions.Session | None = result
        if used is None and hold.phase in _IN_USE and not hold.abandoned:
            used = session
        input_bytes = used.input_bytes if used else 0
        output_bytes = used.output_bytes if used else 0
        self._ledger.add(
            session.project_id,
            session.accelerator,
            ended_at,
            slot_s=ended_at - hold.assigned_at,
            input_bytes=input_bytes,
            output_bytes=output_bytes,
            energy_j=hold.energy.total_j,
        )
        self._counts.service_s.observe(ended_at - hold.assigned_at)
        self._forget_hold(hold.slot.id)
        self._events.append(events.SlotReleased(hold.slot.id, hold.generation))

    def _forget_hold(self, slot_id: int) -> None:
        del self.holds[slot_id]
        self._traffic.forget(slot_id)
        self._assignments[slot_id] = None

    def _save_hold(self, hold: reconcile.Hold) -> None:
        session = hold.session
        if session.withdrawn:
            self._assignments[hold.slot.id] = None
            return
        self._assignments[hold.slot.id] = db_api.AssignmentRecord(
            slot_id=hold.slot.id,
            job_id=session.row_id,
            accelerator=session.accelerator,
            generation=hold.generation,
            phase=hold.phase.value,
            local=bool(session.local),
            assigned_at=hold.assigned_at,
            bitstream_id=hold.bitstream_id,
        )

    def _end(
        self,
        session: sessions.Session,
        state: str,
        code: str,
        message: str,
        now: float,
    ) -> None:
        if session.state == states.QUEUED:
            self._book.note_unqueued(session)
        session.finish(state, code, message, now)
        self._counts.ended[state, tallies.known(code)] += 1
        if session.generation and not session.counted:
            session.counted = True
            self._ledger.add(
                session.project_id, session.accelerator, now, sessions=1
            )
        self._touch(session)
        self._book.note_end(session)

    def _touch(self, session: sessions.Session) -> None:
        if session.withdrawn:
            return
        session.revision += 1
        self._dirty[session.row_id] = session

    def _publish_everywhere(self, session: sessions.Session) -> None:
        for host_uuid in session.front_doors:
            self._publish(session, host_uuid)

    def _publish(self, session: sessions.Session, host_uuid: str) -> None:
        self._after_commit.append(
            effects.PublishSession(host_uuid, session.view(with_secret=True))
        )

    def _take_effects(self, now: float) -> effects.Effects:
        for session in self._dirty.values():
            session.updated_at = now
            self._rows.append(session.record())
            self._publish_everywhere(session)
        self._dirty.clear()
        self._rows += self._ledger.take()
        self._rows += self.instances.take()
        taken = effects.Effects(
            changes=self._changes(),
            at_once=self._at_once,
            after_commit=self._after_commit,
            admissions=self._admissions,
            withdrawn=self._withdrawn,
        )
        self._rows, self._assignments = [], {}
        self._at_once, self._after_commit = [], []
        self._admissions, self._withdrawn = [], []
        return taken

    def _changes(self) -> db_api.Changes:
        given = [row for row in self._assignments.values() if row is not None]
        released = [id_ for id_, row in self._assignments.items() if not row]
        return db_api.Changes.of([*self._rows, *given], released)


def _lines(
    host: registry.HostEntry, report: objects.AgentReport
) -> Iterator[tuple[registry.SlotEntry, objects.SlotReport]]:
    for device in report.devices:
        for line in device.slots:
            yield host.devices[device.name].slots[line.slot], line


def _tell_of_clock(host: registry.HostEntry) -> None:
    if host.clock_is_wrong:
        LOG.warning(
            "The clock of host %s is %.0f s %s this one; that is reckoned"
            " with, but one of them is wrong",
            host.name,
            abs(host.clock_behind_s),
            "behind" if host.clock_behind_s > 0 else "ahead of",
        )
    else:
        LOG.info("The clock of host %s agrees with this one", host.name)


def _started_at(
    session: sessions.Session,
    result: objects.SessionResult,
    host: registry.HostEntry,
    now: float,
) -> float | None:
    """Return by our clock when a session's client connected first."""
    if result.started_at is None:
        return session.started_at
    started_at = host.our_time(result.started_at)
    # Its clock may have been set since its last report.
    return min(max(started_at, session.queued_at), now)


def _attempt(request: objects.OpenRequest) -> tuple[str, str, float]:
    """Return what repeated casts of a request have in common.

    A client that tries again later, under the same name, has another time.
    """
    return request.project_id, request.request_id, request.expires_at


def _not_recordable() -> admission.Rejected:
    return admission.Rejected(
        codes.DATABASE_UNAVAILABLE,
        "requests cannot be recorded at the moment, try again",
    )


def _limited(wanted: float | None, limit: float) -> float:
    """A request can lower a limit, never raise it."""
    return limit if wanted is None else min(wanted, limit)


def _is_door(
    host_uuid: str | None, session: sessions.Session, method: str
) -> bool:
    """Whether a session was opened at the front door that asks.

    :param host_uuid: of that; None if it is no front door, or not certain.
    """
    if host_uuid is None or host_uuid in session.front_doors:
        return True
    _OFTEN.warning(
        "%s: %s of session %s by host %.80r is refused: it was not opened at"
        " the front door there",
        codes.MESSAGE_REFUSED,
        method,
        session.session_id,
        host_uuid,
    )
    return False


def _slot_id(session: sessions.Session) -> int:
    if session.slot_id is None:
        raise RuntimeError(f"session {session.session_id} has no slot")
    return session.slot_id


def _place(slot: registry.SlotEntry) -> sessions.Place:
    return sessions.Place(
        host_id=slot.host.id,
        host_uuid=slot.host.uuid,
        host_name=slot.host.name,
        device=slot.device.name,
        slot=slot.number,
    )
