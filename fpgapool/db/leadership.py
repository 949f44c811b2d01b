# SPDX-License-Identifier: Apache-2.0

"""The leader's lease, stored in a one-row table, and the leader's clock."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_exception

from fpgapool.common import exception
from fpgapool.db import models
from fpgapool.db import records

_LEASE = models.leader_lease
_ID = 1
_IS_THE_ROW = _LEASE.c.id == _ID
#: SQL for incrementing the renewals.
ONE_MORE = _LEASE.c.renewals + 1

# Columns with start times and deadlines according to the leader's clock.
_COUNTED = (
    models.assignments.c.assigned_at,
    models.hosts.c.drain_deadline_at,
    models.devices.c.drain_deadline_at,
    models.faults.c.next_test_at,
)


def read(connection: sa.Connection) -> records.Lease | None:
    """Return the lease; None before the first election."""
    row = connection.execute(_query()).one_or_none()
    return None if row is None else records.Lease(**row._mapping)


def renewed_at(connection: sa.Connection) -> float | None:
    """Return when a leader last renewed the lease, by its own clock."""
    query = sa.select(_LEASE.c.pool_time_s + _LEASE.c.ahead_s)
    return connection.scalar(query.where(_IS_THE_ROW))


@functools.cache
def _query() -> sa.Select[Any]:
    # Cached, because building it takes longer than executing it.
    names = [field.name for field in dataclasses.fields(records.Lease)]
    return sa.select(*(_LEASE.c[name] for name in names)).where(_IS_THE_ROW)


def insert(connection: sa.Connection, lease: records.Lease) -> None:
    """Write the first lease."""
    values = {"id": _ID, **dataclasses.asdict(lease)}
    try:
        connection.execute(sa.insert(_LEASE).values(values))
    except oslo_exception.DBDuplicateEntry as error:
        raise exception.NotLeader(
            reason="another conductor was elected first"
        ) from error


def update(
    connection: sa.Connection,
    values: dict[str, Any],
    pool_time_s: float | None = None,
    **expected: Any,
) -> None:
    """Change the lease.

    :param values: new values by column; ``renewals`` may also be
        :data:`ONE_MORE`.
    :param pool_time_s: the current pool time; None: do not change it.
    :raises: NotLeader if columns do not have the expected values.
    """
    if pool_time_s is not None:
        values = {**values, "pool_time_s": pool_time_s}
    same = (_LEASE.c[name] == value for name, value in expected.items())
    result = connection.execute(
        sa.update(_LEASE).where(_IS_THE_ROW, *same).values(values)
    )
    if result.rowcount != 1:
        raise exception.NotLeader(reason="the lease was changed meanwhile")


def pass_epochs(connection: sa.Connection, count: int) -> None:
    """Raise the epoch, and release the lease."""
    values = {"epoch": _LEASE.c.epoch + count, "holder": "", "renewals": 0}
    connection.execute(sa.update(_LEASE).where(_IS_THE_ROW).values(values))


def lock_epoch(connection: sa.Connection, epoch: int) -> None:
    """Make sure that the epoch stays current until the transaction ends.

    An update that changes nothing locks the row on every server. With SQLite
    it takes the write lock, which must happen before the first read.
    """
    result = connection.execute(_epoch_statement(), {"current": epoch})
    if result.rowcount != 1:
        raise exception.NotLeader(reason=f"epoch {epoch} has ended")


@functools.cache
def _epoch_statement() -> sa.Executable:
    current = sa.bindparam("current", type_=sa.BigInteger)
    return (
        sa.update(_LEASE)
        .where(_IS_THE_ROW, _LEASE.c.epoch == current)
        .values(epoch=current)
    )


def begin_term(
    connection: sa.Connection, pool_time_s: float, ahead_s: float
) -> float:
    """Store the pool time, and move stored times to a new leader's clock."""
    before_s = connection.scalar(
        sa.select(_LEASE.c.ahead_s).where(_IS_THE_ROW)
    )
    connection.execute(
        sa.update(_LEASE)
        .where(_IS_THE_ROW)
        .values(pool_time_s=pool_time_s, ahead_s=ahead_s)
    )
    moved_s = 0.0 if before_s is None else ahead_s - before_s
    for time_at in _COUNTED:
        connection.execute(
            sa.update(time_at.table)
            .where(time_at.is_not(None))
            .values({time_at: time_at + moved_s})
        )
    return moved_s
