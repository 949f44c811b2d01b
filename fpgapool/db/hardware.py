# SPDX-License-Identifier: Apache-2.0

"""The query for all hardware and its holders."""

import functools
from typing import Any

import sqlalchemy as sa

from fpgapool.db import answers
from fpgapool.db import models
from fpgapool.db import records
from fpgapool.db import rows
from fpgapool.vocabulary import states


def inventory(connection: sa.Connection) -> answers.Inventory:
    read = functools.partial(rows.read, connection)
    return answers.Inventory(
        hosts=read(records.HostRecord),
        devices=read(records.DeviceRecord),
        slots=read(records.SlotRecord),
        holders=rows.fetch(connection, _holders(), answers.SlotHolder),
        reservations=read(
            records.ReservationRecord, models.reservations.c.device_id > 0
        ),
        faults=read(records.FaultRecord, models.faults.c.active.is_(True)),
        projects={
            row.instance_id: row.project_id
            for row in connection.execute(_projects())
        },
    )


def part(
    connection: sa.Connection, after: str, most: int
) -> answers.Inventory:
    """Return the hosts that follow a UUID, at most so many."""
    read = functools.partial(rows.read, connection)
    uuid = models.hosts.c.uuid
    chosen = (
        sa.select(models.hosts.c.id)
        .where(uuid > after)
        .order_by(uuid)
        .limit(most)
    )
    ids = connection.scalars(chosen).all()
    of_hosts = models.devices.c.host_id.in_(ids)
    devices = sa.select(models.devices.c.id).where(of_hosts)
    of_devices = models.slots.c.device_id.in_(devices)
    holders = _holders().subquery()
    held = sa.select(holders).where(
        holders.c.slot_id.in_(sa.select(models.slots.c.id).where(of_devices))
    )
    return answers.Inventory(
        hosts=read(records.HostRecord, models.hosts.c.id.in_(ids)),
        devices=read(records.DeviceRecord, of_hosts),
        slots=read(records.SlotRecord, of_devices),
        holders=rows.fetch(connection, held, answers.SlotHolder),
        reservations=read(
            records.ReservationRecord,
            models.reservations.c.device_id.in_(devices),
        ),
        faults=read(records.FaultRecord, models.faults.c.active.is_(True)),
        projects={},
    )


@functools.cache
def _holders() -> sa.CompoundSelect[Any]:
    # Cached, like the other query, because building it takes longer than
    # executing it.
    assignments, sessions = models.assignments.c, models.sessions.c
    of_sessions = (
        sa.select(
            assignments.slot_id,
            assignments.accelerator,
            assignments.phase,
            sessions.session_id,
            sessions.project_id,
            sessions.user_id,
        )
        .join_from(
            models.assignments,
            models.sessions,
            assignments.holder_id == sessions.id,
        )
        .where(models.OF_SESSIONS)
    )
    groups = models.groups.c
    of_groups = (
        sa.select(
            assignments.slot_id,
            assignments.accelerator,
            assignments.phase,
            sa.null().label("session_id"),
            groups.project_id,
            sa.literal("").label("user_id"),
        )
        .join_from(
            models.assignments,
            models.groups,
            assignments.holder_id == groups.id,
        )
        .where(assignments.holder_kind == states.HELD_BY_GROUP)
    )
    return sa.union_all(of_sessions, of_groups).order_by("slot_id")


@functools.cache
def _projects() -> sa.Select[Any]:
    instances = models.instances.c
    return sa.select(instances.instance_id, instances.project_id).where(
        instances.instance_id.in_(
            sa.select(models.slots.c.reserved_for).where(
                models.slots.c.reserved_for.is_not(None)
            )
        )
    )
