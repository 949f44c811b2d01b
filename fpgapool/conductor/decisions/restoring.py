# SPDX-License-Identifier: Apache-2.0

"""A new leader takes over the sessions in the database."""

from __future__ import annotations

from oslo_log import log as logging

from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import stored_enums
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)


def restore_sessions(
    pool: pools.Pool, serving: servings.Serving, snapshot: db_api.Snapshot
) -> None:
    """Take over all sessions and their assignments.

    Every host counts as down until its agent reports, so that no slot is
    assigned that may no longer exist.
    """
    held = {
        (row.holder_id, row.generation): row
        for row in snapshot.assignments
        if row.holder_kind != states.HELD_BY_GROUP
    }
    for record in snapshot.unknown_sessions:
        stored_enums.log_unknown(record, "state")
    for record in snapshot.live_sessions:
        row = held.get((record.id, record.generation))
        phase = row and stored_enums.read(model.Phase, row, "phase")
        if record.state == states.QUEUED or row is None or phase is None:
            adopt(pool, record)
        else:
            del held[record.id, record.generation]
            session = pool.of_record(record)
            pool.sessions.add(session)
            _restore_assignment(pool, serving, session, row, phase)
    for record in snapshot.ending_sessions:
        row = held.get((record.id, record.generation))
        phase = row and stored_enums.read(model.Phase, row, "phase")
        if (
            row is not None
            and phase is not None
            and row.slot_id == record.slot_id
        ):
            del held[record.id, record.generation]
            _restore_ending(pool, serving, record, row, phase)
    for record in snapshot.lost_sessions:
        if record.session_id not in pool.sessions.by_id:
            _remember(pool, record)
    # The other assignments are of sessions that have ended or moved, or have
    # unknown phases. Slots that are still busy show up as strays in the first
    # report.
    for orphan in held.values():
        pool.counts.reconciled["slot_without_session"] += 1
        # The slot may have gone to another session meanwhile.
        if orphan.slot_id not in pool.holds:
            pool.outbox.write_assignment(orphan.slot_id, None)


def adopt(pool: pools.Pool, record: db_api.SessionRecord) -> None:
    """Take over a live session without a recorded slot."""
    session = pool.of_record(record)
    pool.sessions.add(session)
    if record.state != states.QUEUED:
        # The record of its slot is lost.
        LOG.error(
            "Session %s is %s, but no slot is recorded for it",
            session.session_id,
            record.state,
        )
        pool.counts.reconciled["session_without_slot"] += 1
        pool.touch(session)
    pool.sessions.count_queued(session)
    if record.state in states.UNCONNECTED:
        session.wait_again()
        pool.tell(events.JobSubmitted(pool.job(session)))
    else:
        pool.end(
            session,
            states.FAILED,
            codes.WORKER_LOST,
            "the record of its slot is lost",
        )


def _remember(
    pool: pools.Pool, record: db_api.SessionRecord
) -> sessions.Session:
    """Know an ended session, whose end is in the usage already."""
    session = pool.of_record(record)
    session.counted = True
    pool.sessions.add(session)
    pool.sessions.note_end(session)
    return session


def _restore_ending(
    pool: pools.Pool,
    serving: servings.Serving,
    record: db_api.SessionRecord,
    row: db_api.AssignmentRecord,
    phase: model.Phase,
) -> None:
    """Take over an ended session whose slot is not released yet.

    The worker's result may be more exact about its end and duration.
    """
    session = _remember(pool, record)
    _restore_assignment(pool, serving, session, row, phase)
    pool.tell(
        events.JobCancelled(session.job_id, record.reason or codes.SUPERSEDED)
    )
    if record.state != states.CANCELLED:
        # Another slot's worker gave its result; ignore this worker's.
        session.hold = None


def _restore_assignment(
    pool: pools.Pool,
    serving: servings.Serving,
    session: sessions.Session,
    row: db_api.AssignmentRecord,
    phase: model.Phase,
) -> None:
    slot = pool.registry.slots[row.slot_id]
    pool.tell(
        events.AssignmentRestored(
            job=pool.job(session),
            slot_id=slot.id,
            generation=row.generation,
            phase=phase,
            host_id=slot.host.id,
            device_id=slot.device.id,
        )
    )
    serving.hold(
        session,
        slot.id,
        row.assigned_at,
        pool.catalogue.reference(row.bitstream_id),
    )
