# SPDX-License-Identifier: Apache-2.0

"""Records and publishes changes to sessions, once per batch."""

from __future__ import annotations

import dataclasses

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common.monitoring import tallies
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: A session's row id, and the host of the calling front door.
_Caller = tuple[int, str | None]


@dataclasses.dataclass(eq=False, repr=False)
class Lives(parts.Room):
    """Records, publishes and ends sessions; returns their views."""

    _registry: registry.Registry
    _sessions: sessions.SessionBook
    _ledger: usage.Ledger
    _waits: expected_waits.ExpectedWaits
    _touched: dict[int, sessions.Session] = dataclasses.field(
        default_factory=dict, init=False
    )
    _calls: dict[
        _Caller, tuple[sessions.Session, list[effects.ViewFuture]]
    ] = dataclasses.field(default_factory=dict, init=False)

    def job(self, session: sessions.Session) -> model.Job:
        """Return the core's view of a session."""
        return session.job(self._clock.ahead_s)

    def touch(self, session: sessions.Session) -> None:
        """Record and publish a changed session at the end of the batch."""
        if session.withdrawn:
            return
        session.revision += 1
        self._touched[session.row_id] = session

    def forget_changes(self, session: sessions.Session) -> None:
        """Do not record or publish a session's changes in this batch."""
        self._touched.pop(session.row_id, None)

    def answer(
        self,
        session: sessions.Session,
        host_uuid: str | None,
        future: effects.ViewFuture,
    ) -> None:
        """Answer a call with a session's view at the end of the batch.

        :param host_uuid: the calling front door's host; None: the API calls,
            which gets the secret of a session without a front door.
        """
        key = session.row_id, host_uuid
        self._calls.setdefault(key, (session, []))[1].append(future)

    def tell(self, session: sessions.Session, host_uuid: str) -> None:
        """Send a front door a session's view that it has missed."""
        self._publish(session, host_uuid)

    def view(
        self, session: sessions.Session, host_uuid: str | None = None
    ) -> objects.SessionView:
        """Return a session's view; its own front door also gets the secret."""
        if host_uuid and host_uuid in session.front_doors:
            return session.view(with_secret=True)
        chunk_bytes = self._registry.chunk_bytes
        if session.state != states.QUEUED:
            return session.view(chunk_bytes=chunk_bytes)
        wait = self._waits.remaining(session.job_id, self._clock.now)
        return session.view(
            queue_position=self._core.queue_position(session.job_id),
            pending_reasons=self._core.status(session.job_id).reasons,
            **expected_waits.members(wait),
            chunk_bytes=chunk_bytes,
        )

    def project_view(self, session: sessions.Session) -> objects.SessionView:
        """Return a session's view, with the secret once it may connect."""
        if session.state == states.READY or session.is_next:
            chunk_bytes = self._registry.chunk_bytes
            return session.view(with_secret=True, chunk_bytes=chunk_bytes)
        return self.view(session)

    def end(
        self, session: sessions.Session, state: str, code: str, message: str
    ) -> None:
        """End a session; its slot must be released later."""
        now = self._clock.now
        was_queued = session.hold is None and session.live
        if was_queued:
            error = "" if code in codes.AS_WANTED else code
            session.span_of_wait(now).end(now, error=error)
        session.finish(state, code, message, now, self._clock.pool_time)
        if was_queued:
            self._sessions.count_queued(session, -1)
        self._counts.ended[state, tallies.known(code)] += 1
        if code not in codes.AS_WANTED:
            with session.about():
                LOG.info(
                    "Session %s of project %s is %s: %s",
                    session.session_id,
                    session.project_id,
                    state,
                    code,
                )
        met = None if session.judged else session.deadline_met
        session.judged = session.judged or met is not None
        counts = bool(session.generation) and not session.counted
        session.counted = session.counted or counts
        if counts or met is not None:
            self._ledger.add(
                session.project_id,
                session.accelerator,
                now,
                sessions=int(counts),
                sessions_met=int(met is True),
                sessions_missed=int(met is False),
            )
        if met is not None:
            result = "met" if met else "missed"
            self._counts.deadlines[session.project_id, result] += 1
        self.touch(session)
        self._sessions.note_end(session)

    def move(
        self, session: sessions.Session, host: registry.HostEntry | None
    ) -> None:
        """Count a live session as from another host; None: from none."""
        waits = session.hold is None
        if waits:
            self._sessions.count_queued(session, -1)
        session.come_from(host)
        if waits:
            self._sessions.count_queued(session)
        self._link.tell(events.JobMoved(session.job_id, session.host_id))
        self.touch(session)

    def close(self, session: sessions.Session) -> None:
        """Replace a session's recorded end: it was closed normally."""
        session.finish(
            states.CLOSED, codes.OK, "", self._clock.now, self._clock.pool_time
        )
        self.touch(session)

    def cancel(
        self, session: sessions.Session, code: str, message: str = ""
    ) -> None:
        """Cancel a session, and revoke its slot."""
        self.end(session, states.CANCELLED, code, message)
        self._link.tell(events.JobCancelled(session.job_id, code))

    def of_record(self, record: db_api.SessionRecord) -> sessions.Session:
        host = self._registry.hosts_by_id.get(record.host_id or 0)
        return sessions.Session.from_record(
            record, host.uuid if host else None
        )

    def finish_batch(self) -> None:
        """Record and publish the sessions that have changed."""
        calls, self._calls = self._calls, {}
        new = {one.row_id for one in self._outbox.admissions}
        for session in self._touched.values():
            session.updated_at = self._clock.now
            self._outbox.write(session.record())
            for host_uuid in session.front_doors:
                _, waiting = calls.pop((session.row_id, host_uuid), (None, ()))
                self._publish(session, host_uuid, *waiting)
            # The answer tells all of a new session.
            if not (
                session.front_doors
                or session.withdrawn
                or session.row_id in new
            ):
                self._outbox.send(
                    effects.SessionChanged(self.project_view(session))
                )
        self._touched.clear()
        for (_, host_uuid), (session, waiting) in calls.items():
            self._publish(session, host_uuid, *waiting)

    def _publish(
        self,
        session: sessions.Session,
        host_uuid: str | None,
        *waiting: effects.ViewFuture,
    ) -> None:
        if not session.withdrawn:
            view = (
                self.view(session, host_uuid)
                if host_uuid or session.front_doors
                else self.project_view(session)
            )
            self._outbox.send(effects.PublishSession(host_uuid, view, waiting))
