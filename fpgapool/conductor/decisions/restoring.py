# SPDX-License-Identifier: Apache-2.0

"""Restores a new leader's sessions from the database."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import TypeAlias

from oslo_log import log as logging

from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: A session's row, its assignment's, and the phase that this one names.
_WithSlot: TypeAlias = tuple[
    db_api.SessionRecord, db_api.AssignmentRecord, model.Phase
]


@dataclasses.dataclass(eq=False, repr=False)
class Restoring(parts.Room):
    """Restores sessions and their assignments."""

    _sessions: sessions.SessionBook
    _lives: lives.Lives
    _holds: holds.Holds
    _serving: servings.Serving

    def restore_sessions(self, snapshot: db_api.Snapshot) -> None:
        """Restore all sessions and their assignments."""
        held = {
            (row.holder_id, row.generation): row
            for row in snapshot.assignments
            if row.holder_kind != states.HELD_BY_GROUP
        }
        for record in snapshot.unknown_sessions:
            limits.log_unknown(record, "state")
        without_slot = []
        with_slot: list[_WithSlot] = []
        for record in snapshot.live_sessions:
            row = held.get((record.id, record.generation))
            phase = row and limits.read_enum(model.Phase, row, "phase")
            if record.state == states.QUEUED or row is None or phase is None:
                without_slot.append(record)
            else:
                del held[record.id, record.generation]
                with_slot.append((record, row, phase))
        self._restore_with_slots(with_slot)
        for record in snapshot.ending_sessions:
            row = held.get((record.id, record.generation))
            phase = row and limits.read_enum(model.Phase, row, "phase")
            if (
                row is not None
                and phase is not None
                and row.slot_id == record.slot_id
            ):
                del held[record.id, record.generation]
                self._restore_ending(record, row, phase)
        for record in without_slot:
            if not self._restore_successor(record):
                self.adopt(record)
        for record in snapshot.failed_sessions:
            if record.session_id not in self._sessions.by_id:
                self._remember(record)
        # The sessions of the other assignments have ended or moved, or their
        # phases are unknown. If a slot is still busy, the first report shows
        # it as a stray.
        for orphan in held.values():
            self._counts.reconciled["slot_without_session"] += 1
            # The slot may have been assigned to another session meanwhile.
            if orphan.slot_id not in self._holds:
                self._outbox.write_assignment(orphan.slot_id, None)

    def _restore_with_slots(self, found: Iterable[_WithSlot]) -> None:
        """Restore sessions with slots, and the sets that had not started.

        A set whose slots were granted is known no longer.
        """
        restored = [
            (self._lives.of_record(record), row, phase)
            for record, row, phase in found
        ]
        members = collections.Counter(
            (session.project_id, session.together)
            for session, _, phase in restored
            if phase is model.Phase.PREPARING
        )
        for session, row, phase in restored:
            together = session.together
            if together is not None and (
                members[session.project_id, together] != together.size
            ):
                session.leave_set()
            self._sessions.add(session)
            self._serving.restore_session(session, row, phase)

    def _restore_successor(self, record: db_api.SessionRecord) -> bool:
        """Restore a session whose slot's holder has to leave first.

        :returns: False if it is none.
        """
        holder = self._holds.get(record.slot_id or 0)
        if (
            record.state != states.PREPARING
            or not isinstance(holder, sessions.SessionHold)
            or holder.accelerator != record.accelerator
            or holder.generation >= record.generation
            or holder.successor is not None
        ):
            return False
        self._link.tell(events.HolderLeaves(holder.slot.id, holder.generation))
        session = self._lives.of_record(record)
        self._sessions.add(session)
        self._serving.restore_session(
            session,
            dataclasses.replace(
                holder.record(),
                holder_id=record.id,
                generation=record.generation,
                phase=model.Phase.PREPARING.value,
            ),
            model.Phase.PREPARING,
        )
        if session.hold is not None:
            session.hold.ordered_at = self._clock.now
        return True

    def adopt(self, record: db_api.SessionRecord) -> None:
        """Adopt a live session that has no recorded slot."""
        session = self._lives.of_record(record)
        self._sessions.add(session)
        if record.state != states.QUEUED:
            LOG.error(
                "Session %s is %s, but has no recorded slot",
                session.session_id,
                record.state,
            )
            self._counts.reconciled["session_without_slot"] += 1
            self._lives.touch(session)
        self._sessions.count_queued(session)
        if record.state in states.UNCONNECTED:
            session.wait_again(session.reason, session.message)
            self._link.tell(
                events.JobSubmitted(
                    self._lives.job(session),
                    returns=session.returns,
                    is_known=True,
                )
            )
        else:
            self._lives.end(
                session,
                states.FAILED,
                codes.WORKER_LOST,
                "the record of the session's slot was lost",
            )

    def _remember(self, record: db_api.SessionRecord) -> sessions.Session:
        """Keep an ended session, which has already been counted."""
        session = self._lives.of_record(record)
        session.counted = True
        self._sessions.add(session)
        self._sessions.note_end(session)
        return session

    def _restore_ending(
        self,
        record: db_api.SessionRecord,
        row: db_api.AssignmentRecord,
        phase: model.Phase,
    ) -> None:
        """Restore an ended session whose slot has not been released yet.

        The worker's result may contain its exact end and duration.
        """
        session = self._remember(record)
        self._serving.restore_session(session, row, phase)
        self._link.tell(
            events.JobCancelled(
                session.job_id, record.reason or codes.SUPERSEDED
            )
        )
        if record.state != states.CANCELLED:
            # This worker's result must not replace the session's.
            session.hold = None
