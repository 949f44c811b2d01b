# SPDX-License-Identifier: Apache-2.0

"""Requests of clients: sessions are opened, cancelled and reopened."""

from __future__ import annotations

import collections
import dataclasses
import functools
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import NoReturn

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common.monitoring import ratelimit
from fpgapool.common.monitoring import tallies
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import what_if
from fpgapool.db import api as db_api
from fpgapool.objects import instance as instance_objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)
# For warnings that clients can cause again and again.
_OFTEN = ratelimit.RateLimitedLog(__name__)
#: Reports may not show yet that the client of a READY session is connected.
_WITH_CLIENTS = states.CONNECTED | {states.READY}


class Opening:
    """Admits requests, and drops sessions that are no longer wanted.

    :ivar recorded_id: the last new session that the database holds.
    """

    def __init__(self, pool: pools.Pool, serving: servings.Serving) -> None:
        self._pool = pool
        self._serving = serving
        self.recorded_id = pool.last_row_id
        self._unrecorded: collections.deque[effects.Admission] = (
            collections.deque()
        )

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The inputs that are handled here."""
        return {
            inputs.Open: self._open,
            inputs.Unrecorded: self._unrecorded_found,
            inputs.Cancel: self._cancel,
            inputs.Close: self._close,
            inputs.ClientProgress: self._progress,
            inputs.Reopen: self._reopen,
            inputs.RenewSecret: self._renew_secret,
            inputs.InstanceDeleted: self._instance_deleted,
        }

    # -- requests ----------------------------------------------------------

    def _open(self, wish: inputs.Open) -> None:
        pool, request = self._pool, wish.request
        if pool.now > wish.awaited_until:
            LOG.info("Request %s came too late", request.request_id[:80])
            return
        known = pool.sessions.by_request.get(
            (request.project_id, request.request_id)
        )
        try:
            if known is not None:
                self._repeat(known, request, wish.future)
            elif pool.database_failing:
                raise not_recordable()
            else:
                self._admit(wish)
        except admission.Rejected as error:
            self._refuse(request, wish.future, error)

    def _repeat(
        self,
        session: sessions.Session,
        request: objects.OpenRequest,
        future: effects.ViewFuture,
    ) -> None:
        """Answer a retry with the session's state; it never opens twice."""
        if not session.same_request(request, self._pool.settings):
            raise admission.Rejected(
                codes.REQUEST_ID_REUSED,
                f"request {request.request_id} has been used for something"
                " else",
            )
        if request.host_uuid and request.host_uuid not in session.front_doors:
            # It would get the secret of a session that others have opened.
            raise admission.Rejected(
                codes.REQUEST_ID_REUSED,
                f"request {request.request_id} has come by another way",
            )
        self._pool.answer(session, request.host_uuid, future)
        if session.secret_sha256 in ("", request.secret_sha256):
            return
        # The front door was started anew, and its secret is gone.
        if session.hold is None:
            session.secret_sha256 = request.secret_sha256
        else:
            session.forget_secret()
            self._pool.touch(session)
            self._serving.ask_secret(session.hold)

    def _admit(self, wish: inputs.Open) -> None:
        pool, book = self._pool, self._pool.sessions
        request = self._checked(wish.request)
        session = self._session(request, pool.next_job_id(), str(uuid.uuid4()))
        pool.counts.opened += 1
        book.add(session)
        book.count_queued(session)
        pool.tell(events.JobSubmitted(pool.job(session)))
        pool.touch(session)
        pool.answer(session, request.host_uuid, wish.future)
        new = effects.Admission(
            session.row_id, session.session_id, request, wish.future
        )
        pool.outbox.admit(new)
        self._unrecorded.append(new)

    def _checked(self, request: objects.OpenRequest) -> objects.OpenRequest:
        """Return a request with the key of its accelerator.

        :raises admission.Rejected: if it cannot become a session.
        """
        pool, limits = self._pool, self._pool.settings
        known, accelerator = pool.catalogue.resolve(
            request.accelerator, request.project_id
        )
        if accelerator != request.accelerator:
            request = dataclasses.replace(request, accelerator=accelerator)
        book, project_id = pool.sessions, request.project_id
        admission.check(
            request,
            limits,
            pool.registry,
            known,
            pool.quotas.of(project_id),
            admission.Queue(
                total=book.queued.total(),
                of_project=book.queued[project_id],
                bytes_of_project=book.queued_bytes[project_id],
            ),
        )
        admission.check_in_use(
            accelerator, pool.registry, known, pool.probation.faults
        )
        if request.deadline_s is not None:
            view = pool.core.view
            admission.check_deadline(
                request,
                request.deadline_s,
                view.best_peak_bytes_per_s(view.accelerators[accelerator]),
            )
        pool.instances.check(request, book.count_of_instance(request.user_id))
        return request

    def _session(
        self, request: objects.OpenRequest, job_id: int, session_id: str
    ) -> sessions.Session:
        """Return the session of a request."""
        pool = self._pool
        host = pool.registry.hosts.get(self._origin(request) or "")
        return sessions.Session(
            row_id=job_id,
            job_id=job_id,
            session_id=session_id,
            host_id=host.id if host else None,
            host_uuid=host.uuid if host else None,
            queued_at=pool.now,
            arrival_s=pool.pool_time,
            deadline_at=(
                None
                if request.deadline_s is None
                else pool.now + request.deadline_s
            ),
            front_doors=sessions.front_doors(request.host_uuid),
            **sessions.wishes(request, pool.settings),
        )

    def dry_run(
        self, request: objects.OpenRequest
    ) -> Callable[[], objects.DryRun]:
        """Prepare the answer what would become of a request; change nothing.

        :returns: finds it out, in any thread; it raises DryRunUnsupported if
            the core's state cannot be copied.
        """
        pool = self._pool
        try:
            if pool.database_failing:
                raise not_recordable()
            checked = self._checked(request)
        except admission.Rejected as error:
            refused = objects.DryRun(
                state=states.REJECTED,
                reasons=(error.code,),
                message=str(error),
            )
            return lambda: refused
        session = self._session(checked, pool.last_row_id + 1, "")
        job, interval_s = pool.job(session), pool.pace.interval_s(pool.now)
        try:
            snapshot = what_if.Snapshot(pool.core)
        except what_if.NotCopyable as error:
            return functools.partial(_raise_unsupported, str(error))
        return lambda: _told(snapshot.ask(job), interval_s)

    def _origin(self, request: objects.OpenRequest) -> str | None:
        """Return the host that holds a request's data.

        An instance is on a host of the pool, but its data reach a board there
        without the network only if the operator has configured it so.
        """
        if self._pool.settings.instances_are_local:
            own = self._pool.instances.host_uuid(request.user_id)
            return own or request.host_uuid
        return request.host_uuid

    def _refuse(
        self,
        request: objects.OpenRequest,
        future: effects.ViewFuture,
        error: admission.Rejected,
    ) -> None:
        """Refuse a request; it leaves no trace but its answer."""
        LOG.info(
            "Request %s of project %s refused: %s",
            request.request_id[:80],
            request.project_id,
            error.code,
        )
        self._pool.counts.refused[tallies.known(error.code)] += 1
        view = admission.refusal(request, error, self._pool.now)
        self._pool.outbox.send(effects.EarlyAnswer(future, view))

    # -- sessions that are not in the database -----------------------------

    def settle_unrecorded(self) -> None:
        """Withdraw sessions that a failing database cannot record."""
        pool, unrecorded = self._pool, self._unrecorded
        while unrecorded and unrecorded[0].row_id <= self.recorded_id:
            unrecorded.popleft()
        if pool.database_failing:
            pool.failing_at = pool.now
            # Their clients shall not wait for it.
            while unrecorded:
                self._withdraw(unrecorded.popleft(), None)

    def _unrecorded_found(self, item: inputs.Unrecorded) -> None:
        self._withdraw(item.admission, item.holder)

    def _withdraw(
        self,
        new: effects.Admission,
        record: db_api.SessionRecord | None,
    ) -> None:
        """Undo an admission that no client knows of.

        Checking the database first would add a wait to each request, and
        names are hardly ever reused after so long.

        :param record: the session that had the name before; None if the
            database is away.
        """
        pool = self._pool
        pool.outbox.withdraw(new.row_id)
        session = pool.sessions.by_id.get(new.session_id)
        if session is None:
            return
        self._drop(session)
        try:
            if record is None:
                raise not_recordable()
            self._repeat(pool.of_record(record), new.request, new.future)
        except admission.Rejected as error:
            self._refuse(new.request, new.future, error)

    def _drop(self, session: sessions.Session) -> None:
        """Forget a session, and revoke its slot."""
        pool = self._pool
        if session.live:
            if session.hold is None:
                pool.sessions.uncount_queued(session)
            pool.tell(
                events.JobCancelled(session.job_id, codes.DATABASE_UNAVAILABLE)
            )
            session.hold = None
        # If it ended before, its slot may still be on its way to be free.
        session.withdrawn = True
        pool.forget_changes(session)
        pool.sessions.forget(session)

    # -- ends --------------------------------------------------------------

    def _cancel(self, item: inputs.Cancel) -> None:
        session = self._find(item)
        if session is None or not _is_door(item.sender, session, "cancel"):
            return
        if not session.live:
            return
        if item.reason == codes.CLIENT_GONE and _may_be_connected(session):
            # The front door lost the client, and repeats this; the worker
            # knows better.
            return
        self._pool.cancel(session, item.reason)

    def _find(self, item: inputs.Cancel) -> sessions.Session | None:
        book = self._pool.sessions
        if item.session_id:
            session = book.by_id.get(item.session_id)
        else:
            session = book.by_request.get(
                (item.project_id, item.request_id or "")
            )
        if session is None or session.project_id != item.project_id:
            return None
        return session

    def _close(self, item: inputs.Close) -> None:
        """Let a session end as served if no worker can report that.

        The slot's worker and its agent may both have died before the leader
        heard of the client.
        """
        pool = self._pool
        session = pool.sessions.by_id.get(item.session_id)
        if (
            session is None
            or session.project_id != item.project_id
            or not _is_door(item.sender, session, "close_session")
            or not 0 < item.generation <= session.generation
            or not (session.live or session.reason in codes.UNSEEN)
        ):
            return
        hold = session.hold
        has_slot = hold is not None and hold.generation == item.generation
        if item.confirmed and has_slot and hold.slot.host.up:
            # The worker's report is on its way, or the loss of the worker.
            return
        self._serving.book_unseen(session, item.input_bytes, item.output_bytes)
        session.started_at = session.started_at or session.ready_at or pool.now
        if not session.live:
            pool.close(session)
            return
        pool.end(session, states.CLOSED, codes.OK, "")
        pool.tell(events.JobCancelled(session.job_id, codes.SUPERSEDED))
        if not has_slot:
            # The result of another slot's worker is not that of the session.
            session.hold = None

    def _progress(self, item: inputs.ClientProgress) -> None:
        """Let the client's own work steer; it is no account of anything."""
        pool = self._pool
        session = pool.sessions.by_id.get(item.session_id)
        if (
            session is not None
            and session.project_id == item.project_id
            and session.state == states.QUEUED
            and _is_door(item.sender, session, "report_progress")
        ):
            own_bytes = item.input_bytes - session.input_bytes
            session.own_bytes = max(session.own_bytes, own_bytes)
            pool.tell(events.JobProgress(session.job_id, session.done_bytes))

    def _instance_deleted(self, item: inputs.InstanceDeleted) -> None:
        """End the sessions of an instance, because the instance is gone."""
        pool = self._pool
        if not pool.instances.delete(item.instance_id, pool.now):
            return
        own = pool.sessions.of_instance(
            instance_objects.user_of(item.instance_id)
        )
        LOG.info(
            "Instance %s is gone: %d sessions", item.instance_id, len(own)
        )
        for session in own:
            pool.cancel(
                session, codes.INSTANCE_DELETED, "the instance was deleted"
            )

    # -- another slot, another secret --------------------------------------

    def _reopen(self, item: inputs.Reopen) -> None:
        """Give a session whose slot is gone another one, if it can move.

        The client decides: only it knows that its data has stopped.
        """
        pool = self._pool
        session = pool.sessions.by_id.get(item.session_id)
        door = item.host_uuid or None
        if (
            session is None
            or session.project_id != item.project_id
            or not _is_door(door, session, "reopen_session")
        ):
            pool.outbox.send(effects.Answer(item.future, None))
            return
        pool.answer(session, door, item.future)
        profile = pool.profiles.get(session.accelerator)
        if (
            profile is None
            or not profile.moves
            or session.generation != item.generation
        ):
            return
        hold = session.hold
        if hold is not None and session.state in _WITH_CLIENTS:
            if hold.revoked == codes.PREEMPTED and hold.slot.host.up:
                # Its worker is about to say how far it is.
                hold.is_left = True
            else:
                self._serving.move(session)
        elif session.live:
            # It waits for another slot already.
            return
        elif session.reason in codes.REOPENABLE and self._may_revive(session):
            session.check_move("reopen")
            pool.sessions.revive(session)
            self._serving.resubmit(session, session.reason, session.message)

    def _may_revive(self, session: sessions.Session) -> bool:
        """Whether its instance, if it has one, may have one more session."""
        instance_id = instance_objects.id_of(session.user_id)
        if instance_id is None:
            return True
        known = self._pool.instances.live.get(instance_id)
        if known is None:
            return False
        used = self._pool.sessions.count_of_instance(session.user_id)
        return known.max_sessions is None or used < known.max_sessions

    def _renew_secret(self, item: inputs.RenewSecret) -> None:
        session = self._pool.sessions.by_id.get(item.session_id)
        if (
            session is not None
            and session.hold is not None
            and session.state == states.READY
        ):
            self._serving.ask_secret(session.hold)


def _raise_unsupported(reason: str) -> NoReturn:
    raise exception.DryRunUnsupported(reason=reason)


def _told(found: what_if.Answer, interval_s: float | None) -> objects.DryRun:
    """Return the core's answer for the client.

    :param interval_s: between two sessions that get slots, if known.
    """
    match found.status.verdict:
        case model.Verdict.OK:
            return objects.DryRun(state=states.PREPARING, expected_wait_s=0.0)
        case model.Verdict.NEVER:
            state, expected_wait_s = states.REJECTED, None
        case model.Verdict.NOT_NOW:
            state, expected_wait_s = states.QUEUED, None
            if found.position is not None and interval_s is not None:
                expected_wait_s = (found.position + 1) * interval_s
    return objects.DryRun(
        state=state,
        reasons=found.status.reasons,
        message=found.message,
        expected_wait_s=expected_wait_s,
    )


def not_recordable() -> admission.Rejected:
    """Return why a request is refused while the database is away."""
    return admission.Rejected(
        codes.DATABASE_UNAVAILABLE,
        "requests cannot be recorded at the moment, try again",
    )


def _may_be_connected(session: sessions.Session) -> bool:
    """Whether its client is connected, or its board was not heard yet."""
    return session.hold is not None and (
        session.state in states.CONNECTED
        or not session.hold.slot.device.host.up
    )


def _is_door(
    host_uuid: str | None, session: sessions.Session, method: str
) -> bool:
    """Whether a session was opened at the front door that asks.

    :param host_uuid: of the front door; None if it is none, or uncertain.
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
