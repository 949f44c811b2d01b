# SPDX-License-Identifier: Apache-2.0

"""Handles clients' requests to open, cancel and reopen sessions."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import uuid
from collections.abc import Callable

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import ratelimit
from fpgapool.common.monitoring import tallies
from fpgapool.common.monitoring import tracing
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.budgets import keeping
from fpgapool.conductor.decisions.budgets import rules as budget_rules
from fpgapool.conductor.decisions.calendar import book
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import member_sets
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import what_if
from fpgapool.core.queues import overruns
from fpgapool.db import api as db_api
from fpgapool.objects import instance as instance_objects
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)
# For warnings that clients can cause repeatedly.
_OFTEN = ratelimit.RateLimitedLog(__name__)
#: States in which a client is connected, or may be (READY).
_WITH_CLIENTS = states.CONNECTED | {states.READY}


@dataclasses.dataclass(eq=False, repr=False)
class Opening(parts.Room):
    """Admits requests, and ends sessions that are no longer needed."""

    _registry: registry.Registry
    _holds: holds.Holds
    _catalogue: bitstreams.Catalogue
    _probation: probation.Probation
    _quotas: quotas.QuotaBook
    _instances: instances.Directory
    _sessions: sessions.SessionBook
    _lives: lives.Lives
    _waits: expected_waits.ExpectedWaits
    _overruns: overruns.Overruns
    _charging: charging.Charging
    _keeping: keeping.Keeping
    _serving: servings.Serving

    def __post_init__(self) -> None:
        self.recorded_id = self._sessions.last_row_id
        self._unrecorded: collections.deque[effects.NewSession] = (
            collections.deque()
        )

    # -- requests ----------------------------------------------------------

    @parts.handles(inputs.Open)
    def _open(self, item: inputs.Open) -> None:
        request = item.request
        if self._clock.now > item.awaited_until:
            with _about(request):
                LOG.info("A request arrived too late and is ignored")
            return
        known = self._sessions.by_request.get(
            (request.project_id, request.request_id)
        )
        try:
            if known is not None:
                self._repeat(known, request, item.future)
            elif self._outages.database_failing:
                raise admission.not_recordable()
            else:
                self._admit(item)
        except admission.Rejected as error:
            self._refuse(request, item.future, error)

    def _repeat(
        self,
        session: sessions.Session,
        request: objects.OpenRequest,
        future: effects.ViewFuture,
    ) -> None:
        """Answer a repeated request with the state of its session."""
        if not session.same_request(request, self._settings):
            raise admission.Rejected(
                codes.REQUEST_ID_REUSED,
                f"request_id {request.request_id} was already used for a"
                " different request",
            )
        if request.host_uuid and request.host_uuid not in session.front_doors:
            # It would receive the secret of another client's session.
            raise admission.Rejected(
                codes.REQUEST_ID_REUSED,
                f"request_id {request.request_id} was already used through"
                " another front door",
            )
        self._lives.answer(session, request.host_uuid, future)
        if session.secret or (
            session.secret_sha256 in ("", request.secret_sha256)
        ):
            return
        # The front door has restarted and lost the secret.
        if session.hold is None:
            session.secret_sha256 = request.secret_sha256
        else:
            session.forget_secret()
            self._lives.touch(session)
            self._serving.ask_secret(session.hold)

    def _admit(self, item: inputs.Open) -> None:
        request, together = self._checked(item.request)
        session = self._session(
            request, self._sessions.next_id(), str(uuid.uuid4())
        )
        if together is not None:
            session.join(together)
        if item.secret and not request.secret_sha256:
            session.take_secret(item.secret)
        self._counts.opened += 1
        self._sessions.add(session)
        self._sessions.count_queued(session)
        self._link.tell(
            events.JobSubmitted(
                self._lives.job(session),
                is_known=together is not None and not self._registry.is_whole,
            )
        )
        self._lives.touch(session)
        self._lives.answer(session, request.host_uuid, item.future)
        new = effects.NewSession(
            session.row_id, session.session_id, request, item.future
        )
        self._outbox.admissions.append(new)
        self._unrecorded.append(new)

    def _checked(
        self, request: objects.OpenRequest, *, is_dry_run: bool = False
    ) -> tuple[objects.OpenRequest, model.Together | None]:
        """Check a request; return it with its accelerator's key, and its set.

        The first session of a set is checked as if all came with it.
        """
        known, accelerator = self._catalogue.resolve(
            request.accelerator, request.project_id
        )
        if accelerator != request.accelerator:
            request = dataclasses.replace(request, accelerator=accelerator)
        admission.check(request, self._settings, self._registry, known)
        together = member_sets.wanted(request, is_dry_run=is_dry_run)
        count = 1
        if together is not None:
            count = member_sets.check(
                request,
                together,
                self._core.sets,
                self._registry,
                self._quotas.of(request.project_id).sessions,
            )
        self._check_room(request, count)
        admission.check_in_use(
            accelerator, self._registry, known, self._probation.faults
        )
        if request.deadline_s is not None:
            view = self._core.view
            wanted = view.accelerators[accelerator]
            admission.check_deadline(
                request,
                request.deadline_s,
                view.best_peak_bytes_per_s(wanted),
                view.least_programming_s(wanted),
            )
        self._check_user(request, count)
        return request, together

    def _check_room(self, request: objects.OpenRequest, count: int) -> None:
        """Check that so many sessions may wait besides those that do.

        The others of a set whose first session waits are counted with it.
        """
        project_id, book = request.project_id, self._sessions
        to_come = self._core.sets.to_come
        waiting = book.queued.total() + to_come.total()
        if waiting + count > self._settings.max_queued_sessions:
            raise admission.Rejected(
                codes.QUEUE_FULL, "the queue is full; try again later"
            )
        self._keeping.check(project_id)
        quota = self._quotas.of(project_id)
        admission.check_quota(
            project_id,
            "waiting requests",
            quota.queued,
            book.queued[project_id] + to_come[project_id],
            count,
        )
        admission.check_quota(
            project_id,
            "bytes of waiting requests",
            quota.queued_bytes,
            book.queued_bytes[project_id],
            request.claimed_bytes,
        )

    def _session(
        self, request: objects.OpenRequest, job_id: int, session_id: str
    ) -> sessions.Session:
        host = self._registry.hosts.get(self._origin(request) or "")
        asked = sessions.requested(request, self._settings)
        return sessions.Session(
            row_id=job_id,
            job_id=job_id,
            session_id=session_id,
            host_id=host.id if host else None,
            host_uuid=host.uuid if host else None,
            queued_at=self._clock.now,
            arrival_s=self._clock.pool_time,
            deadline_at=(
                None
                if request.deadline_s is None
                else self._clock.now + request.deadline_s
            ),
            front_doors=sessions.front_doors(request.host_uuid),
            correction=self._overruns.correction(
                request.project_id, asked["accelerator"]
            ),
            **asked,
        )

    def dry_run(
        self, request: objects.OpenRequest
    ) -> Callable[[], objects.DryRun]:
        """Prepare a dry run of a request, without changing anything.

        :returns: a function that computes the answer in any thread.
        :raises DryRunUnsupported: if the core's state cannot be copied.
        """
        try:
            if self._outages.database_failing:
                raise admission.not_recordable()
            checked, together = self._checked(request, is_dry_run=True)
        except admission.Rejected as error:
            refused = objects.DryRun(
                state=states.REJECTED,
                reasons=(error.code,),
                message=str(error),
            )
            return lambda: refused
        session = self._session(checked, self._sessions.last_row_id + 1, "")
        if together is not None:
            session.join(together)
        job = self._lives.job(session)
        wait = self._waits.of_new(job, self._clock.now)
        try:
            snapshot = what_if.Snapshot(self._core)
        except what_if.NotCopyable as error:
            raise exception.DryRunUnsupported(reason=str(error)) from error
        share = self._keeping.taken_pct(
            request.project_id, self._estimate(checked)
        )
        return lambda: _dry_run_of(snapshot.ask(job), wait, share)

    def _estimate(self, request: objects.OpenRequest) -> budget_rules.Amounts:
        """Return what a session will use at least, in the fastest slot."""
        profile = self._catalogue.profiles[request.accelerator]
        view = self._core.view
        wanted = view.accelerators[request.accelerator]
        return self._charging.estimate(
            request.claimed_bytes,
            profile,
            view.least_programming_s(wanted)
            + request.claimed_bytes / view.best_peak_bytes_per_s(wanted),
            view.slots.known_shapes(),
        )

    def _origin(self, request: objects.OpenRequest) -> str | None:
        """Return the host where a request's data is.

        The data of an instance counts as local to its host only if the
        operator has configured that.
        """
        if self._settings.instances_are_local:
            own = self._instances.host_uuid(request.user_id)
            return own or request.host_uuid
        return request.host_uuid

    def _refuse(
        self,
        request: objects.OpenRequest,
        future: effects.ViewFuture,
        error: admission.Rejected,
    ) -> None:
        now, carrier = self._clock.now, carriers.valid(request.carrier)
        tracing.begin(
            "conductor queue", carrier.get(carriers.TRACEPARENT), now
        ).end(now, error=error.code)
        with _about(request):
            LOG.info(
                "Request %s of project %s refused: %s",
                request.request_id[:80],
                request.project_id,
                error.code,
            )
        self._counts.refused[tallies.known(error.code)] += 1
        view = admission.refusal(request, error, self._clock.now)
        self._outbox.send(effects.EarlyReply(future, view))

    # -- sessions that are not in the database -----------------------------

    def settle_unrecorded(self) -> None:
        """If the database fails, withdraw sessions that are not recorded."""
        unrecorded = self._unrecorded
        while unrecorded and unrecorded[0].row_id <= self.recorded_id:
            unrecorded.popleft()
        if self._outages.database_failing:
            self._outages.failing_at = self._clock.now
            # Clients must not wait until the database is available again.
            while unrecorded:
                self._withdraw(unrecorded.popleft(), None)

    @parts.handles(inputs.Unrecorded)
    def _unrecorded_found(self, item: inputs.Unrecorded) -> None:
        self._withdraw(item.admission, item.holder)

    def _withdraw(
        self,
        new: effects.NewSession,
        record: db_api.SessionRecord | None,
    ) -> None:
        """Undo an admission of which no client has been notified.

        Whether an old session has the same request id is checked only when the
        new one is recorded, because an earlier check would delay all requests.

        :param record: the session that already uses the request id; None if
            the database is unavailable.
        """
        self._outbox.withdrawn.append(new.row_id)
        session = self._sessions.by_id.get(new.session_id)
        if session is None:
            return
        self._drop(session)
        try:
            if record is None:
                raise admission.not_recordable()
            self._repeat(
                self._lives.of_record(record), new.request, new.future
            )
        except admission.Rejected as error:
            self._refuse(new.request, new.future, error)

    def _drop(self, session: sessions.Session) -> None:
        if session.live:
            if session.hold is None:
                self._sessions.count_queued(session, -1)
            self._link.tell(
                events.JobCancelled(session.job_id, codes.DATABASE_UNAVAILABLE)
            )
            session.hold = None
        # The slot of a session that has ended may still have to be released.
        session.withdrawn = True
        self._lives.forget_changes(session)
        self._sessions.forget(session)

    # -- ends --------------------------------------------------------------

    @parts.handles(inputs.Cancel)
    def _cancel(self, item: inputs.Cancel) -> None:
        session = self._find(item)
        self._tell(item.future, session)
        if session is None or not _is_door(item.sender, session, "cancel"):
            return
        if not session.live:
            return
        if item.reason == codes.CLIENT_GONE and _may_be_connected(session):
            # Ignored: the front door lost its connection to the client, but
            # only the worker knows whether the client is still connected.
            return
        self._lives.cancel(session, item.reason)

    def _tell(
        self,
        future: effects.ViewFuture | None,
        session: sessions.Session | None,
    ) -> None:
        """Answer a call with its session's view at the end of the batch."""
        if future is None:
            return
        if session is None:
            self._outbox.send(effects.Reply(future, None))
        else:
            self._lives.answer(session, None, future)

    def _find(
        self, item: inputs.Cancel | inputs.Close
    ) -> sessions.Session | None:
        if isinstance(item, inputs.Close) or item.session_id:
            session = self._sessions.by_id.get(item.session_id or "")
        else:
            session = self._sessions.by_request.get(
                (item.project_id, item.request_id or "")
            )
        if session is None or session.project_id != item.project_id:
            return None
        return session

    @parts.handles(inputs.Close)
    def _close(self, item: inputs.Close) -> None:
        """End a session as completed if no worker can report the end.

        The worker and its agent may both have died before the leader was
        notified of the client's connection.
        """
        session = self._find(item)
        self._tell(item.future, session)
        if (
            session is None
            or not _is_door(item.sender, session, "close_session")
            or not 0 < item.generation <= session.generation
            or not (session.live or session.reason in codes.UNSEEN)
        ):
            return
        hold = session.hold
        has_slot = hold is not None and hold.generation == item.generation
        if item.confirmed and has_slot and hold.slot.host.up:
            # The agent will report the worker's result, or its loss.
            return
        self._charging.book_unseen(
            session, item.input_bytes, item.output_bytes
        )
        session.started_at = (
            session.started_at or session.ready_at or self._clock.now
        )
        if not session.live:
            self._lives.close(session)
            return
        self._lives.end(session, states.CLOSED, codes.OK, "")
        self._link.tell(events.JobCancelled(session.job_id, codes.SUPERSEDED))
        if not has_slot:
            # The result of its current slot must not apply to the session.
            session.hold = None

    @parts.handles(inputs.ClientProgress)
    def _progress(self, item: inputs.ClientProgress) -> None:
        """Record a client's own progress, which affects only jobs' order."""
        session = self._sessions.by_id.get(item.session_id)
        if (
            session is not None
            and session.project_id == item.project_id
            and session.state == states.QUEUED
            and _is_door(item.sender, session, "report_progress")
        ):
            own_bytes = item.input_bytes - session.input_bytes
            session.own_bytes = max(session.own_bytes, own_bytes)
            self._link.tell(
                events.JobProgress(session.job_id, session.done_bytes)
            )

    @parts.handles(inputs.InstanceChanged)
    def _instance_changed(self, item: inputs.InstanceChanged) -> None:
        self._instances.note(
            item.instance_id, item.host_uuid, item.max_sessions
        )
        if not self._settings.instances_are_local:
            return
        host = self._registry.hosts.get(item.host_uuid or "")
        user_id = instance_objects.user_of(item.instance_id)
        for session in self._sessions.of_instance(user_id):
            if session.host_id != (host.id if host else None):
                self._lives.move(session, host)
                if session.hold is not None:
                    self._holds.save(session.hold)

    @parts.handles(inputs.InstanceDeleted)
    def _instance_deleted(self, item: inputs.InstanceDeleted) -> None:
        if not self._instances.delete(item.instance_id, self._clock.now):
            return
        own = self._sessions.of_instance(
            instance_objects.user_of(item.instance_id)
        )
        LOG.info(
            "Instance %s was deleted; ending its %d sessions",
            item.instance_id,
            len(own),
        )
        for session in own:
            self._lives.cancel(
                session, codes.INSTANCE_DELETED, "the instance was deleted"
            )

    # -- another slot, another secret --------------------------------------

    @parts.handles(inputs.Reopen)
    def _reopen(self, item: inputs.Reopen) -> None:
        """Give another slot to a session that lost its own, if it can move.

        Only the client can request this: it knows whether data still flows.
        """
        session = self._sessions.by_id.get(item.session_id)
        door = item.host_uuid or None
        if (
            session is None
            or session.project_id != item.project_id
            or not _is_door(door, session, "reopen_session")
        ):
            self._outbox.send(effects.Reply(item.future, None))
            return
        self._lives.answer(session, door, item.future)
        profile = self._catalogue.profiles.get(session.accelerator)
        if (
            profile is None
            or not profile.moves
            or session.generation != item.generation
        ):
            return
        hold = session.hold
        if hold is not None and session.state in _WITH_CLIENTS:
            if hold.revoked == codes.PREEMPTED and hold.slot.host.up:
                # The worker is about to report the session's progress.
                hold.is_left = True
            else:
                session.reopens += 1
                self._serving.move(session)
        elif session.live:
            # It is already waiting for another slot.
            return
        elif session.reason in codes.REOPENABLE and self._may_revive(session):
            session.check_move("reopen")
            session.reopens += 1
            self._sessions.revive(session)
            self._serving.resubmit(session, session.reason, session.message)

    def _may_revive(self, session: sessions.Session) -> bool:
        """Whether the session's user may have another session."""
        try:
            self._check_user(session)
        except admission.Rejected:
            return False
        return True

    def _check_user(
        self, one: objects.OpenRequest | sessions.Session, count: int = 1
    ) -> None:
        """Check that a user, perhaps an instance, may have so many more."""
        project_id, user_id = one.project_id, one.user_id
        used = self._sessions.count_of_user(project_id, user_id)
        # Sets do not reserve the sessions of their users.
        self._instances.check(user_id, project_id, used + max(count - 1, 0))
        admission.check_quota(
            project_id,
            "sessions that wait or have a slot",
            self._quotas.of(project_id).live_per_user,
            used,
            max(count, 1),
            user_id=user_id,
        )

    @parts.handles(inputs.RenewSecret)
    def _renew_secret(self, item: inputs.RenewSecret) -> None:
        session = self._sessions.by_id.get(item.session_id)
        if (
            session is not None
            and session.hold is not None
            and session.state == states.READY
        ):
            self._serving.ask_secret(session.hold)


def _dry_run_of(
    found: what_if.Prediction,
    wait: expected_waits.Wait | None,
    budget_pct: float | None,
) -> objects.DryRun:
    match found.status.verdict:
        case model.Verdict.OK:
            state, wait = states.PREPARING, expected_waits.NONE
        case model.Verdict.NEVER:
            state, wait, budget_pct = states.REJECTED, None, None
        case model.Verdict.NOT_NOW:
            state = states.QUEUED
    message = found.message
    if found.ends_by_s is not None:
        moment = book.moment_of(math.floor(found.ends_by_s))
        message = (
            f"it would get a slot now if it ended before {moment} by its"
            " claim; the slot is reserved from then on"
        )
    return objects.DryRun(
        state=state,
        reasons=found.status.reasons,
        message=message,
        **expected_waits.members(wait),
        budget_pct=budget_pct,
    )


def _about(
    request: objects.OpenRequest,
) -> contextlib.AbstractContextManager[None]:
    """Make the log lines of a block show a request."""
    return context.serving(
        carriers.request_id(request.request_id),
        carriers.valid(request.carrier),
    )


def _may_be_connected(session: sessions.Session) -> bool:
    """Whether its client is connected, or may be on a host that is down."""
    return session.hold is not None and (
        session.state in states.CONNECTED
        or not session.hold.slot.device.host.up
    )


def _is_door(
    host_uuid: str | None, session: sessions.Session, method: str
) -> bool:
    """Whether a session was opened at the calling front door.

    :param host_uuid: the front door's verified host; None: there is none.
    """
    if host_uuid is None or host_uuid in session.front_doors:
        return True
    with session.about():
        _OFTEN.warning(
            "%s: %s of session %s by host %.80r is refused: the session was"
            " not opened at its front door",
            codes.MESSAGE_REFUSED,
            method,
            session.session_id,
            host_uuid,
        )
    return False
