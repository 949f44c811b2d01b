# SPDX-License-Identifier: Apache-2.0

"""Finds differences between database, leader and agents.

All three change constantly and independently, so a difference is significant
only if two audits, some time apart, both find it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.views import questions
from fpgapool.db import api as db_api
from fpgapool.objects import finding as findings
from fpgapool.vocabulary import states

#: Reservations are read from Placement about once a minute, so an instance
#: that was deleted longer ago should have none.
GONE_S = 300.0

_AGENTS = {
    reconcile.Finding.STRAY: findings.WORKER_WITHOUT_SESSION,
    reconcile.Finding.VANISHED: findings.SESSION_WITHOUT_WORKER,
    reconcile.Finding.NOT_STARTED: findings.ORDER_NOT_FOLLOWED,
    reconcile.Finding.NOT_RELEASED: findings.ORDER_NOT_FOLLOWED,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A copy of the part of the leader's memory that an audit needs.

    :ivar holds: kind and row id of the holder, and the generation, by slot.
    :ivar reservations: pairs of device and instance with reserved slots.
    """

    epoch: int
    sessions: Mapping[int, db_api.SessionState]
    holds: Mapping[int, tuple[str, int, int]]
    reservations: tuple[tuple[str, str], ...] = ()
    differences: tuple[findings.Finding, ...]


def remember(
    asked: questions.Questions,
    epoch: int,
    reports: Mapping[str, objects.AgentReport],
) -> Memory:
    """Copy the leader's memory, in the thread that owns it."""
    return Memory(
        epoch=epoch,
        sessions={
            one.row_id: db_api.SessionState(
                id=one.row_id,
                session_id=one.session_id,
                state=one.state,
                slot_id=one.slot_id,
                generation=one.generation,
            )
            for one in asked.live_sessions
        },
        holds={
            slot_id: (hold.holder.kind.value, hold.holder.id, hold.generation)
            for slot_id, hold in asked.pool.holds.items()
        },
        reservations=tuple(
            (f"{device.host.name} {device.name}", instance_id)
            for device in asked.pool.registry.devices.values()
            for instance_id in device.reservations
        ),
        differences=(
            *_with_agents(asked, reports),
            *_silent_hosts(asked),
        ),
    )


def _with_agents(
    asked: questions.Questions, reports: Mapping[str, objects.AgentReport]
) -> Iterator[findings.Finding]:
    for host_uuid, report in reports.items():
        host = asked.pool.registry.hosts.get(host_uuid)
        if host is None or not host.up:
            continue
        for slot, line in _lines(host, report):
            hold = asked.pool.holds.get(slot.id)
            test = asked.pool.probation.tests.get(slot.id)
            if test is not None and test.generation == line.generation:
                continue
            kind = _AGENTS.get(reconcile.compare(hold, line))
            if kind is not None:
                yield findings.Finding(
                    kind=kind,
                    subject=f"slot {slot}",
                    detail=f"agent: {line.state}, session {line.session_id},"
                    f" generation {line.generation}; conductor: {_held(hold)}",
                    host_uuid=host_uuid,
                )


def _lines(
    host: registry.HostEntry, report: objects.AgentReport
) -> Iterator[tuple[registry.SlotEntry, objects.SlotReport]]:
    for device in report.devices:
        known = host.devices.get(device.name)
        for line in device.slots:
            slot = known.slots.get(line.slot) if known else None
            if slot is not None:
                yield slot, line


def _held(hold: holds.Hold | None) -> str:
    if hold is None:
        return "idle"
    return (
        f"{hold.phase.value}, {hold.holder.kind.value} {hold.public_id},"
        " generation"
        f" {hold.generation}"
    )


def _silent_hosts(asked: questions.Questions) -> Iterator[findings.Finding]:
    held = {hold.slot.host.uuid: hold for hold in asked.pool.holds.values()}
    for host in asked.pool.registry.hosts.values():
        if host.up:
            continue
        if host.uuid in held:
            hold = held[host.uuid]
            yield findings.Finding(
                kind=findings.WORKER_WITHOUT_AGENT,
                subject=f"host {host.name} ({host.uuid})",
                detail=f"its agent does not report; slot {hold.slot} and"
                " perhaps others are still in use",
                host_uuid=host.uuid,
            )
        elif host.devices:
            yield findings.Finding(
                kind=findings.DEVICES_OF_SILENT_HOST,
                subject=f"host {host.name} ({host.uuid})",
                detail="its agent does not report;"
                f" {', '.join(_states(host))}",
                host_uuid=host.uuid,
            )


def _states(host: registry.HostEntry) -> Iterator[str]:
    for device in host.devices.values():
        yield f"{device.name} is {device.admin.state.value}"


def in_database(found: db_api.Holdings) -> Iterator[findings.Finding]:
    """Yield contradictions within the database; this needs no leader."""
    sessions = {one.id: one for one in found.sessions}
    held = set()
    for row in found.assignments:
        if row.holder_kind == states.HELD_BY_GROUP:
            if row.holder_id not in found.groups:
                yield _slot_without_session(row)
            continue
        session = sessions.get(row.holder_id) if row.of_session else None
        if session is not None and session.generation == row.generation:
            held.add(session.id)
        # A session that is waiting again may still have its former slot.
        elif session is None or session.state != states.QUEUED:
            yield _slot_without_session(row)
    last = {row.slot_id: row.generation for row in found.assignments}
    for session in found.sessions:
        # Its slot's holder is about to leave.
        is_next = (
            session.state == states.PREPARING
            and 0 < last.get(session.slot_id or 0, 0) < session.generation
        )
        if (
            session.state != states.QUEUED
            and session.id not in held
            and not is_next
        ):
            yield _session_without_slot(session)


def against_database(
    found: db_api.Holdings, memory: Memory
) -> Iterator[findings.Finding]:
    """Yield the differences between leader, agents and database."""
    if found.lease is None or found.lease.epoch != memory.epoch:
        yield findings.Finding(
            kind=findings.LEASE_OF_OTHER,
            subject="lease",
            detail=f"database: {_lease(found.lease)}; a conductor considers"
            f" itself the leader in epoch {memory.epoch}",
        )
    yield from _sessions(found.sessions, memory)
    yield from _assignments(found.assignments, memory)
    for device, instance_id in memory.reservations:
        if instance_id in found.gone_instances:
            yield findings.Finding(
                kind=findings.RESERVATION_WITHOUT_INSTANCE,
                subject=f"device {device}",
                detail=f"slots are reserved for instance {instance_id},"
                " which Nova has deleted",
            )
    yield from memory.differences


def _lease(lease: db_api.Lease | None) -> str:
    if lease is None:
        return "none"
    return f"{lease.holder or 'nobody'}, epoch {lease.epoch}"


def _sessions(
    rows: Iterable[db_api.SessionState], memory: Memory
) -> Iterator[findings.Finding]:
    known = dict(memory.sessions)
    for row in rows:
        own = known.pop(row.id, None)
        if own is None:
            yield findings.Finding(
                kind=findings.SESSION_UNKNOWN,
                subject=f"session {row.session_id}",
                detail=f"database: {_standing(row)}; conductor: unknown",
                session_id=row.session_id,
            )
        elif own != row:
            yield findings.Finding(
                kind=findings.SESSION_DIFFERS,
                subject=f"session {row.session_id}",
                detail=f"database: {_standing(row)}; conductor:"
                f" {_standing(own)}",
                session_id=row.session_id,
            )
    for own in known.values():
        yield findings.Finding(
            kind=findings.SESSION_NOT_RECORDED,
            subject=f"session {own.session_id}",
            detail=f"database: ended or unknown; conductor: {_standing(own)}",
            session_id=own.session_id,
        )


def _standing(one: db_api.SessionState) -> str:
    return f"{one.state}, slot {one.slot_id}, generation {one.generation}"


def _assignments(
    rows: Iterable[db_api.AssignmentRecord], memory: Memory
) -> Iterator[findings.Finding]:
    recorded = {}
    for row in rows:
        recorded[row.slot_id] = row.holder_kind, row.holder_id, row.generation
        if row.slot_id not in memory.holds:
            yield _slot_without_session(row)
    for slot_id, own in memory.holds.items():
        if recorded.get(slot_id) != own:
            kind, row_id, generation = own
            of_session = kind == states.HELD_BY_SESSION
            session = memory.sessions.get(row_id) if of_session else None
            yield findings.Finding(
                kind=findings.SESSION_WITHOUT_SLOT,
                subject=f"session {session.session_id}"
                if session
                else f"slot number {slot_id}",
                detail=f"conductor: slot {slot_id} for {kind} row {row_id},"
                f" generation {generation};"
                f" database: {recorded.get(slot_id)}",
                session_id=session.session_id if session else None,
                slot_id=slot_id,
            )


def _slot_without_session(row: db_api.AssignmentRecord) -> findings.Finding:
    return findings.Finding(
        kind=findings.SLOT_WITHOUT_SESSION,
        subject=f"slot number {row.slot_id}",
        detail=f"assigned to {row.holder_kind} row {row.holder_id},"
        f" generation {row.generation}, which does not hold it",
        slot_id=row.slot_id,
    )


def _session_without_slot(session: db_api.SessionState) -> findings.Finding:
    return findings.Finding(
        kind=findings.SESSION_WITHOUT_SLOT,
        subject=f"session {session.session_id}",
        detail=f"{_standing(session)}, but no row assigns this slot to it",
        session_id=session.session_id,
    )
