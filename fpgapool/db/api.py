# SPDX-License-Identifier: Apache-2.0

"""All that fpgapool reads from and writes to the database.

One call is one transaction. Every method blocks and may raise
DatabaseUnavailable, DatabaseSchemaMismatch or DatabaseError.
"""

import contextlib
import dataclasses
import datetime
import functools
import math
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Self
from typing import TypeAlias
from typing import TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_exception
from sqlalchemy import exc as sa_exc
from sqlalchemy import pool as sa_pool
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite

from fpgapool.common import exception
from fpgapool.db import engine as db_engine
from fpgapool.db import models
from fpgapool.db import standing
from fpgapool.db import usage as db_usage
from fpgapool.db.records import DELETED
from fpgapool.db.records import AcceleratorRecord
from fpgapool.db.records import AssignmentRecord
from fpgapool.db.records import BitstreamRecord
from fpgapool.db.records import Changes
from fpgapool.db.records import ComputeState
from fpgapool.db.records import DeviceRecord
from fpgapool.db.records import FaultRecord
from fpgapool.db.records import Holdings
from fpgapool.db.records import HostRecord
from fpgapool.db.records import InstanceRecord
from fpgapool.db.records import Inventory
from fpgapool.db.records import Lease
from fpgapool.db.records import MaxIds
from fpgapool.db.records import QuotaRecord
from fpgapool.db.records import Record
from fpgapool.db.records import ReservationRecord
from fpgapool.db.records import SessionCount
from fpgapool.db.records import SessionFilter
from fpgapool.db.records import SessionRecord
from fpgapool.db.records import SlotHolder
from fpgapool.db.records import SlotRecord
from fpgapool.db.records import Snapshot
from fpgapool.db.records import Standing
from fpgapool.db.records import UsageRecord
from fpgapool.db.records import UsageSum
from fpgapool.vocabulary import states

__all__ = [
    "DELETED",
    "AcceleratorRecord",
    "AssignmentRecord",
    "BitstreamRecord",
    "Changes",
    "ComputeState",
    "Database",
    "DeviceRecord",
    "FaultRecord",
    "Holdings",
    "HostRecord",
    "InstanceRecord",
    "Inventory",
    "Lease",
    "MaxIds",
    "QuotaRecord",
    "Record",
    "ReservationRecord",
    "SessionCount",
    "SessionFilter",
    "SessionRecord",
    "SlotHolder",
    "SlotRecord",
    "Snapshot",
    "Standing",
    "UsageRecord",
    "UsageSum",
]

#: Columns, and whether the smallest comes first.
_Order: TypeAlias = Sequence[tuple[sa.Column[Any], bool]]

_LIVE = sorted(states.LIVE)

# What a row says of the session's end; the others need not be asked for it.
_WORDS_OF_THE_END = frozenset({"reason", "message", "finished_at"})

_COMMON_TEXTS = ("project_id", "user_id", "accelerator", "state")

# The texts of errors may have any length; a row that the database refuses
# would hold up all rows after it.
MAX_TEXT_LENGTH = 4000

_LEASE_ID = 1

# Times of the leader's clock from which, or up to which, time is counted.
_COUNTED = (
    models.assignments.c.assigned_at,
    models.hosts.c.drain_deadline_at,
    models.devices.c.drain_deadline_at,
    models.faults.c.next_test_at,
)

# More values in one IN (...) are no faster, and SQLite allows 999 at worst.
_IDS_PER_STATEMENT = 500

_ROWS_PER_FETCH = 2000

# A question for one row is answered in milliseconds, even while large
# changes are being written.
_SLOW_ANSWER_S = 2.0

# Far more than it takes to write one.
_SLOW_ROW_S = 0.01

_ANY_SESSION = SessionFilter()

# In an order in which no row is written before those that it refers to.
_TABLES: dict[type[Any], sa.Table] = {
    HostRecord: models.hosts,
    DeviceRecord: models.devices,
    SlotRecord: models.slots,
    ReservationRecord: models.reservations,
    FaultRecord: models.faults,
    AcceleratorRecord: models.accelerators,
    BitstreamRecord: models.bitstreams,
    SessionRecord: models.sessions,
    AssignmentRecord: models.assignments,
    UsageRecord: models.usage,
    QuotaRecord: models.quotas,
    InstanceRecord: models.instances,
}

_R = TypeVar("_R")


class Database:
    """The conductor's memory. Safe to use from several threads.

    Nothing is connected before the first call, so that it can be made while
    the server is away.

    :param url: a SQLAlchemy URL.
    :param options: see :func:`fpgapool.db.engine.create`.
    :raises: ConfigurationError for an unusable URL.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._engine = db_engine.create(url, **options)
        # All users of an in-memory database share one connection, and so
        # would share their transactions.
        self._turn: contextlib.AbstractContextManager[Any] = (
            threading.RLock()
            if isinstance(self._engine.pool, sa_pool.StaticPool)
            else contextlib.nullcontext()
        )
        # Of the thread that writes what becomes of all sessions.
        self._writer = standing.Standing(self._engine)
        self._unavailable = False
        self._answer_due_s: dict[object, float] = {}
        self._asked_lock = threading.Lock()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, **options: Any) -> Self:
        """Return the database of the group ``[database]``.

        :param options: see :func:`fpgapool.db.engine.create`.
        """
        return cls(**db_engine.options_from_conf(conf), **options)

    @property
    def engine(self) -> sa.Engine:
        """The engine, for migrations."""
        return self._engine

    @property
    def failing(self) -> bool:
        """Whether the server seems to be away, known without asking it.

        Either the transaction that ended last has failed for that, or a
        question is waiting for its answer for longer than it ever should: a
        server that is frozen refuses nothing.
        """
        with self._asked_lock:
            due_s = min(self._answer_due_s.values(), default=math.inf)
        return self._unavailable or time.monotonic() > due_s

    def close(self) -> None:
        """Close all connections that are not in use."""
        self._writer.close()
        self._engine.dispose()

    def now(self) -> float:
        """Return the server's wall clock, which all services share.

        :returns: seconds since the epoch; our own clock where the database
            is a file.
        """
        with self._transaction() as connection:
            query = _NOW.get(connection.dialect.name)
            if query is None:
                return time.time()
            return float(connection.exec_driver_sql(query).scalar_one())

    # Leadership.

    def read_lease(self) -> Lease | None:
        """Return who leads; None before the first election."""
        with self._transaction() as connection:
            return _lease(connection)

    def take_lease(self, holder: str, expected: Lease | None) -> Lease:
        """Become the leader, unless the lease has changed meanwhile.

        Whether the lease may be taken is for the caller to know: it has run
        out, was given back, or is one's own from before a restart.

        :param expected: what :meth:`read_lease` returned.
        :returns: the lease, with a new epoch.
        :raises: NotLeader if somebody else took or renewed it.
        """
        if expected is None:
            lease = Lease(holder=holder, epoch=1, renewals=0)
            return self._insert_lease(lease)
        lease = dataclasses.replace(
            expected, holder=holder, epoch=expected.epoch + 1, renewals=0
        )
        self._update_lease(
            dataclasses.asdict(lease),
            epoch=expected.epoch,
            renewals=expected.renewals,
        )
        return lease

    def renew_lease(
        self, holder: str, epoch: int, pool_time_s: float | None = None
    ) -> None:
        """Show that the leader is alive.

        :param pool_time_s: as it is now; None: what was told last stays.
        :raises: NotLeader if the lease was taken by somebody else.
        """
        self._update_lease(
            {"renewals": models.leader_lease.c.renewals + 1}
            | _told(pool_time_s),
            holder=holder,
            epoch=epoch,
        )

    def release_lease(
        self, holder: str, epoch: int, pool_time_s: float | None = None
    ) -> None:
        """Give the lease back, so that another one need not wait.

        :param pool_time_s: as that of :meth:`renew_lease`.
        :raises: NotLeader if the lease was taken by somebody else.
        """
        self._update_lease(
            {"holder": ""} | _told(pool_time_s), holder=holder, epoch=epoch
        )

    def begin_term(
        self, epoch: int, pool_time_s: float, ahead_s: float
    ) -> float:
        """Tell pool time, and how a new leader's clock differs from it.

        Where it differs otherwise than that of the leader before, deadlines
        move with it, so that as much time is left, and the beginnings of
        assignments, so that as much time is over.

        :param pool_time_s: as it is now.
        :param ahead_s: by how much the clock is ahead of it.
        :returns: by how many seconds these times have moved.
        :raises: NotLeader if there is a later leader.
        """
        with self._transaction() as connection:
            _lock_epoch(connection, epoch)
            column = models.leader_lease.c.ahead_s
            before_s = connection.scalar(sa.select(column).where(_lease_is()))
            connection.execute(
                sa.update(models.leader_lease)
                .where(_lease_is())
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

    def pass_epochs(self, count: int) -> None:
        """Make the next leader's epoch higher than any that agents know.

        They refuse a lower one, such as that of a leader which begins with
        tables from a backup.

        :param count: how many leaders there may have been since.
        """
        lease = models.leader_lease
        values = {"epoch": lease.c.epoch + count, "holder": "", "renewals": 0}
        with self._transaction() as connection:
            connection.execute(
                sa.update(lease).where(_lease_is()).values(values)
            )

    def _insert_lease(self, lease: Lease) -> Lease:
        values = {"id": _LEASE_ID, **dataclasses.asdict(lease)}
        try:
            with self._transaction() as connection:
                connection.execute(
                    sa.insert(models.leader_lease).values(values)
                )
        except exception.DatabaseError as error:
            if isinstance(error.__cause__, oslo_exception.DBDuplicateEntry):
                raise exception.NotLeader(
                    reason="another conductor was elected first"
                ) from error
            raise
        return lease

    def _update_lease(self, values: dict[str, Any], **expected: Any) -> None:
        columns = models.leader_lease.c
        condition = sa.and_(
            _lease_is(), *(columns[k] == v for k, v in expected.items())
        )
        with self._transaction() as connection:
            result = connection.execute(
                sa.update(models.leader_lease).where(condition).values(values)
            )
            if result.rowcount != 1:
                raise exception.NotLeader(
                    reason="the lease is no longer as it was"
                )

    # The conductor's state.

    def commit(
        self,
        epoch: int,
        changes: Changes,
        *,
        admitted: Container[int] = (),
        withdrawn: Collection[int] = (),
    ) -> list[SessionRecord]:
        """Write changes, all or none.

        They may be written again: rows hold absolute values.

        :param epoch: of the leader on whose behalf they are written.
        :param admitted: ids of the sessions in ``changes`` that are new; one
            whose request's name belongs to another session is left out, with
            its assignment.
        :param withdrawn: ids of sessions that shall not exist.
        :returns: the sessions to which those names belong.
        :raises: NotLeader if there is a later one; nothing is written then.
        """
        sessions = changes.rows(SessionRecord)
        new = [record for record in sessions if record.id in admitted]

        def write(connection: sa.Connection) -> list[SessionRecord]:
            _lock_epoch(connection, epoch)
            _write(connection, changes, set(withdrawn))
            return []

        def write_others(connection: sa.Connection) -> list[SessionRecord]:
            _lock_epoch(connection, epoch)
            holders = _holders(connection, new)
            left_out = _of_same_name(new, holders)
            _write(connection, changes, left_out.union(withdrawn))
            return holders

        allowed_s = _SLOW_ANSWER_S + len(sessions) * _SLOW_ROW_S
        with self._question(allowed_s), self._translated():
            try:
                return self._writer.run(write)
            except oslo_exception.DBError as error:
                # Mostly the names are new; the database says when not.
                if not new or not _is_about_uniqueness(error):
                    raise
            return self._writer.run(write_others)

    def load(self) -> Snapshot:
        """Return all that a conductor needs to take over."""
        with self._transaction() as connection:
            return Snapshot(
                hosts=_all(connection, models.hosts, HostRecord),
                devices=_all(connection, models.devices, DeviceRecord),
                slots=_all(connection, models.slots, SlotRecord),
                accelerators=_all(
                    connection, models.accelerators, AcceleratorRecord
                ),
                live_sessions=_live_sessions(connection),
                ending_sessions=_all(
                    connection,
                    models.sessions,
                    SessionRecord,
                    models.sessions.c.id.in_(
                        sa.select(models.assignments.c.job_id)
                    ),
                    models.sessions.c.finished_at.is_not(None),
                ),
                unknown_sessions=_all(
                    connection,
                    models.sessions,
                    SessionRecord,
                    models.sessions.c.finished_at.is_(None),
                    models.sessions.c.state.not_in(_LIVE),
                ),
                assignments=_all(
                    connection, models.assignments, AssignmentRecord
                ),
                max_ids=_max_ids(connection),
                usage=_newest_usage(connection),
                quotas=_all(connection, models.quotas, QuotaRecord),
                bitstreams=_all(
                    connection, models.bitstreams, BitstreamRecord
                ),
                instances=_all(
                    connection,
                    models.instances,
                    InstanceRecord,
                    models.instances.c.deleted_at.is_(None),
                ),
                reservations=_all(
                    connection, models.reservations, ReservationRecord
                ),
                faults=_all(connection, models.faults, FaultRecord),
            )

    # Sessions.

    def get_session(self, session_id: str) -> SessionRecord | None:
        """Return a session by the id that its owner knows, if it exists."""
        return self._one_session(models.sessions.c.session_id == session_id)

    def find_session(
        self, project_id: str, request_id: str
    ) -> SessionRecord | None:
        """Return the session that a request led to, if there is one."""
        columns = models.sessions.c
        return self._one_session(
            sa.and_(
                columns.project_id == project_id,
                columns.request_id == request_id,
            )
        )

    def sessions_by_ids(
        self, session_ids: Iterable[str]
    ) -> list[SessionRecord]:
        """Return those of the sessions that exist, in no special order."""
        column = models.sessions.c.session_id
        with self._transaction() as connection:
            return [
                record
                for ids in _batches(sorted(set(session_ids)))
                for record in _all(
                    connection,
                    models.sessions,
                    SessionRecord,
                    column.in_(ids),
                )
            ]

    def list_sessions(
        self,
        filters: SessionFilter = _ANY_SESSION,
        *,
        marker: str | None = None,
        limit: int,
        order: Sequence[tuple[str, bool]] = (),
    ) -> list[SessionRecord]:
        """Return sessions, newest first, a page at a time.

        :param marker: the ``session_id`` of the last session of the page
            before.
        :param limit: how many at most.
        :param order: members that are never None, and whether the smallest
            comes first; sessions that are equal in all follow in the order of
            their arrival, in the direction of the last one.
        :raises: SessionNotFound if there is no session of the marker.
        """
        conditions = _conditions(filters)
        columns = [(models.sessions.c[name], up) for name, up in order]
        columns.append(
            (models.sessions.c.id, order[-1][1] if order else False)
        )
        with self._transaction() as connection:
            if marker is not None:
                place = _place_of(connection, marker, columns)
                conditions.append(_beyond(columns, place))
            query = (
                sa.select(models.sessions)
                .where(*conditions)
                .order_by(*(c if up else c.desc() for c, up in columns))
                .limit(limit)
            )
            return _records(connection, query, SessionRecord)

    def count_sessions(
        self, project_id: str | None = None
    ) -> list[SessionCount]:
        """Return how many live sessions there are of each kind.

        :param project_id: whose; None means all.
        """
        columns = models.sessions.c
        kind = (
            columns.state,
            columns.project_id,
            columns.accelerator,
            columns.host_id,
        )
        claimed = sa.func.sum(columns.claimed_bytes)
        query = (
            sa.select(
                *kind,
                sa.func.count().label("sessions"),
                # The sum of whole numbers is a decimal one on some servers.
                sa.cast(claimed, sa.BigInteger).label("claimed_bytes"),
            )
            .where(columns.state.in_(_LIVE))
            .group_by(*kind)
        )
        if project_id is not None:
            query = query.where(columns.project_id == project_id)
        with self._transaction() as connection:
            return _records(connection, query, SessionCount)

    def holdings(self, deleted_before: float) -> Holdings:
        """Return who waits for and has which slots.

        Of sessions, little is read: there may be very many.

        :param deleted_before: wall clock; instances that Nova deleted later
            are not among those that are gone.
        """
        instances = models.instances.c
        gone = sa.select(instances.instance_id).where(
            instances.deleted_at < deleted_before
        )
        columns = models.sessions.c
        standing = (
            sa.select(
                columns.id,
                columns.session_id,
                columns.state,
                columns.slot_id,
                columns.generation,
            )
            .where(columns.state.in_(_LIVE))
            .order_by(columns.id)
        )
        with self._transaction() as connection:
            return Holdings(
                lease=_lease(connection),
                sessions=_records(connection, standing, Standing),
                assignments=_all(
                    connection, models.assignments, AssignmentRecord
                ),
                gone_instances=frozenset(connection.scalars(gone)),
            )

    def purge_sessions(self, finished_before: float, limit: int) -> int:
        """Delete sessions that have ended.

        :param finished_before: wall clock; later ones are kept.
        :param limit: how many at most, so that locks are short.
        :returns: how many were deleted; less than the limit means all.
        """
        columns = models.sessions.c
        query = (
            sa.select(columns.id)
            .where(
                columns.finished_at < finished_before,
                columns.state.not_in(_LIVE),
                ~sa.exists().where(models.assignments.c.job_id == columns.id),
            )
            .order_by(columns.finished_at)
            .limit(limit)
        )
        with self._transaction() as connection:
            ids = connection.execute(query).scalars().all()
            for batch in _batches(ids):
                connection.execute(
                    sa.delete(models.sessions).where(columns.id.in_(batch))
                )
        return len(ids)

    # Usage.

    def list_usage(
        self,
        project_id: str | None = None,
        *,
        first_day: datetime.date | None = None,
        last_day: datetime.date | None = None,
    ) -> list[UsageRecord]:
        """Return what projects have used, by day, project and accelerator.

        :param project_id: None means all projects.
        :param first_day: in UTC; None means from the beginning.
        :param last_day: that day is included; None means until now.
        """
        columns = models.usage.c
        query = (
            sa.select(models.usage)
            .where(*db_usage.conditions(project_id, None, first_day, last_day))
            .order_by(columns.day, columns.project_id, columns.accelerator)
        )
        with self._transaction() as connection:
            return _records(connection, query, UsageRecord)

    def sum_usage(
        self,
        project_id: str | None = None,
        *,
        accelerator: str | None = None,
        first_day: datetime.date | None = None,
        last_day: datetime.date | None = None,
        keys: Sequence[str] = db_usage.KEYS,
        after: Sequence[Any] | None = None,
        limit: int,
    ) -> list[UsageSum]:
        """Return what projects have used, added up, a page at a time.

        :param project_id: as of :meth:`list_usage`, like the days.
        :param accelerator: None means all.
        :param keys: of :data:`fpgapool.db.usage.KEYS`, in their order: what
            is told apart, and sorted by.
        :param after: the keys of the last sum of the page before.
        :param limit: how many at most.
        """
        where = db_usage.conditions(
            project_id, accelerator, first_day, last_day
        )
        query = db_usage.sums(where, keys, after, limit)
        with self._transaction() as connection:
            return [db_usage.summed(row) for row in connection.execute(query)]

    def _one_session(
        self, condition: sa.ColumnElement[bool]
    ) -> SessionRecord | None:
        with self._question(), self._transaction() as connection:
            found = _all(connection, models.sessions, SessionRecord, condition)
        return found[0] if found else None

    @contextlib.contextmanager
    def _question(self, allowed_s: float = _SLOW_ANSWER_S) -> Iterator[None]:
        question = object()
        with self._asked_lock:
            self._answer_due_s[question] = time.monotonic() + allowed_s
        try:
            yield
        finally:
            with self._asked_lock:
                del self._answer_due_s[question]

    # Quotas.

    def quotas(self, project_id: str) -> list[QuotaRecord]:
        """Return what was set for a project."""
        column = models.quotas.c.project_id
        with self._transaction() as connection:
            return _all(
                connection, models.quotas, QuotaRecord, column == project_id
            )

    # Hardware.

    def inventory(self) -> Inventory:
        """Return all hosts, devices and slots, and who has which slot."""
        assignments, sessions = models.assignments.c, models.sessions.c
        holders = sa.select(
            assignments.slot_id,
            assignments.accelerator,
            assignments.phase,
            sessions.session_id,
            sessions.project_id,
            sessions.user_id,
        ).join_from(
            models.assignments,
            models.sessions,
            assignments.job_id == sessions.id,
        )
        instances = models.instances.c
        projects = sa.select(
            instances.instance_id, instances.project_id
        ).where(
            instances.instance_id.in_(
                sa.select(models.slots.c.reserved_for).where(
                    models.slots.c.reserved_for.is_not(None)
                )
            )
        )
        with self._transaction() as connection:
            return Inventory(
                hosts=_all(connection, models.hosts, HostRecord),
                devices=_all(connection, models.devices, DeviceRecord),
                slots=_all(connection, models.slots, SlotRecord),
                holders=_records(
                    connection,
                    holders.order_by(assignments.slot_id),
                    SlotHolder,
                ),
                reservations=_all(
                    connection, models.reservations, ReservationRecord
                ),
                faults=_all(
                    connection,
                    models.faults,
                    FaultRecord,
                    models.faults.c.active.is_(True),
                ),
                projects={
                    row.instance_id: row.project_id
                    for row in connection.execute(projects)
                },
            )

    # The library.

    def accelerators(self) -> list[AcceleratorRecord]:
        """Return all accelerators, by name."""
        with self._transaction() as connection:
            return _all(connection, models.accelerators, AcceleratorRecord)

    def upsert_accelerators(
        self, records: Sequence[AcceleratorRecord]
    ) -> None:
        """Add accelerators, or replace those of the same name."""
        with self._transaction() as connection:
            _upsert(connection, models.accelerators, records)

    def bitstreams(
        self, project_id: str | None = None
    ) -> list[BitstreamRecord]:
        """Return bitstreams, in the order of their making.

        :param project_id: whose; None means all.
        """
        columns = models.bitstreams.c
        conditions = (
            [] if project_id is None else [columns.project_id == project_id]
        )
        with self._transaction() as connection:
            return _all(
                connection, models.bitstreams, BitstreamRecord, *conditions
            )

    def get_bitstream(self, bitstream_id: str) -> BitstreamRecord | None:
        """Return a bitstream by the id that its owner knows, if it exists."""
        column = models.bitstreams.c.bitstream_id
        with self._transaction() as connection:
            found = _all(
                connection,
                models.bitstreams,
                BitstreamRecord,
                column == bitstream_id,
            )
        return found[0] if found else None

    # Instances.

    def get_instance(self, instance_id: str) -> InstanceRecord | None:
        """Return an instance by Nova's name of it, if it is known."""
        column = models.instances.c.instance_id
        with self._question(), self._transaction() as connection:
            found = _all(
                connection,
                models.instances,
                InstanceRecord,
                column == instance_id,
            )
        return found[0] if found else None

    def list_instances(
        self,
        project_id: str | None = None,
        *,
        marker: str | None = None,
        limit: int,
        ascending: bool = False,
    ) -> list[InstanceRecord]:
        """Return instances that are not deleted, newest first, as a page.

        :param project_id: whose; None means all.
        :param marker: the ``instance_id`` of the last one of the page before.
        :param limit: how many at most.
        :param ascending: the oldest first.
        """
        columns = models.instances.c
        conditions = [columns.deleted_at.is_(None)]
        if project_id is not None:
            conditions.append(columns.project_id == project_id)
        if marker is not None:
            last = sa.select(columns.id).where(columns.instance_id == marker)
            place = last.scalar_subquery()
            conditions.append(
                columns.id > place if ascending else columns.id < place
            )
        query = (
            sa.select(models.instances)
            .where(*conditions)
            .order_by(columns.id if ascending else columns.id.desc())
            .limit(limit)
        )
        with self._transaction() as connection:
            return _records(connection, query, InstanceRecord)

    def purge_instances(self, deleted_before: float, limit: int) -> int:
        """Forget instances that Nova has deleted.

        :param deleted_before: wall clock; later ones are kept.
        :param limit: how many at most, so that locks are short.
        :returns: how many were forgotten; less than the limit means all.
        """
        columns = models.instances.c
        query = (
            sa.select(columns.id)
            .where(columns.deleted_at < deleted_before)
            .order_by(columns.deleted_at)
            .limit(limit)
        )
        with self._transaction() as connection:
            ids = connection.execute(query).scalars().all()
            for batch in _batches(ids):
                connection.execute(
                    sa.delete(models.instances).where(columns.id.in_(batch))
                )
        return len(ids)

    # Transactions.

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with self._turn:
                yield
        except (
            oslo_exception.DBError,
            sa_exc.SQLAlchemyError,
        ) as error:
            translated = db_engine.translate(error)
            self._unavailable = isinstance(
                translated, exception.DatabaseUnavailable
            )
            raise translated from error
        self._unavailable = False


def _lease(connection: sa.Connection) -> Lease | None:
    row = connection.execute(_lease_query()).one_or_none()
    if row is None:
        return None
    return Lease(
        holder=row.holder,
        epoch=row.epoch,
        renewals=row.renewals,
        pool_time_s=row.pool_time_s,
    )


def _told(pool_time_s: float | None) -> dict[str, float]:
    return {} if pool_time_s is None else {"pool_time_s": pool_time_s}


@functools.cache
def _lease_query() -> sa.Select[Any]:
    # As for the others below: to build it takes longer than to execute it.
    return sa.select(models.leader_lease).where(_lease_is())


def _lease_is() -> sa.ColumnElement[bool]:
    return models.leader_lease.c.id == _LEASE_ID


def _lock_epoch(connection: sa.Connection, epoch: int) -> None:
    """Make sure that the epoch is current until the transaction ends.

    An update that changes nothing locks the row on every server, and takes
    the write lock of SQLite before anything was read, as it must be.
    """
    result = connection.execute(_epoch_statement(), {"current": epoch})
    if result.rowcount != 1:
        raise exception.NotLeader(reason=f"epoch {epoch} is over")


@functools.cache
def _epoch_statement() -> sa.Executable:
    current = sa.bindparam("current", type_=sa.BigInteger)
    return (
        sa.update(models.leader_lease)
        .where(_lease_is(), models.leader_lease.c.epoch == current)
        .values(epoch=current)
    )


def _holders(
    connection: sa.Connection, new: Sequence[SessionRecord]
) -> list[SessionRecord]:
    """Return the other sessions that have the names of new ones."""
    requests: dict[str, list[str]] = {}
    for record in new:
        requests.setdefault(record.project_id, []).append(record.request_id)
    own = {record.id for record in new}
    columns = models.sessions.c
    return [
        record
        for project_id, request_ids in requests.items()
        for batch in _batches(request_ids)
        for record in _all(
            connection,
            models.sessions,
            SessionRecord,
            # Both with one index; of pairs, not all servers make good use.
            columns.project_id == project_id,
            columns.request_id.in_(batch),
        )
        if record.id not in own
    ]


def _of_same_name(
    new: Iterable[SessionRecord], holders: Iterable[SessionRecord]
) -> set[int]:
    """Return the ids of new sessions whose names belong to others."""
    names = {(record.project_id, record.request_id) for record in holders}
    return {
        record.id
        for record in new
        if (record.project_id, record.request_id) in names
    }


def _write(
    connection: sa.Connection, changes: Changes, left_out: set[int]
) -> None:
    """Write changes, and delete the sessions that are left out of them."""
    wanted = changes.without_sessions(left_out)
    _delete_assignments(connection, wanted.released_slots)
    _delete_sessions(connection, left_out)
    _delete_bitstreams(connection, wanted.deleted_bitstreams)
    _delete_hosts(connection, wanted.deleted_hosts)
    for record_class, table in _TABLES.items():
        _upsert(connection, table, wanted.rows(record_class))


def _is_about_uniqueness(error: oslo_exception.DBError) -> bool:
    # See _upsert_mysql(): MariaDB's complaint is about a NULL.
    return isinstance(error, oslo_exception.DBDuplicateEntry) or isinstance(
        error.inner_exception, sa_exc.IntegrityError
    )


def _delete_sessions(connection: sa.Connection, ids: Collection[int]) -> None:
    for batch in _batches(sorted(ids)):
        for table, column in (
            (models.assignments, models.assignments.c.job_id),
            (models.sessions, models.sessions.c.id),
        ):
            connection.execute(sa.delete(table).where(column.in_(batch)))


def _delete_assignments(
    connection: sa.Connection, slot_ids: Sequence[int]
) -> None:
    for batch in _batches(slot_ids):
        connection.execute(_delete_statement(), {"slot_ids": list(batch)})


def _delete_hosts(connection: sa.Connection, ids: Sequence[int]) -> None:
    column = models.hosts.c.id
    for batch in _batches(ids):
        connection.execute(sa.delete(models.hosts).where(column.in_(batch)))


def _delete_bitstreams(connection: sa.Connection, ids: Sequence[int]) -> None:
    for batch in _batches(ids):
        connection.execute(
            sa.delete(models.bitstreams).where(
                models.bitstreams.c.id.in_(batch)
            )
        )


@functools.cache
def _delete_statement() -> sa.Executable:
    column = models.assignments.c.slot_id
    slot_ids = sa.bindparam("slot_ids", expanding=True)
    return sa.delete(models.assignments).where(column.in_(slot_ids))


def _upsert(
    connection: sa.Connection, table: sa.Table, records: Sequence[Record]
) -> None:
    if not records:
        return
    statement = _upsert_statement(connection.dialect.name, table)
    connection.execute(statement, _rows(table, records))


@functools.cache
def _upsert_statement(dialect_name: str, table: sa.Table) -> sa.Executable:
    # To build one takes longer than to execute it.
    return _UPSERTS[dialect_name](table)


@functools.cache
def _column_names(table: sa.Table) -> tuple[list[str], list[str]]:
    """:returns: of all columns, and of those that take long texts."""
    texts = [
        column.name
        for column in table.columns
        if isinstance(column.type, sa.Text)
    ]
    return table.columns.keys(), texts


def _rows(table: sa.Table, records: Iterable[Record]) -> list[dict[str, Any]]:
    names, texts = _column_names(table)
    rows = []
    for record in records:
        row = {name: getattr(record, name) for name in names}
        for name in texts:
            row[name] = row[name][:MAX_TEXT_LENGTH]
        rows.append(row)
    return rows


def _upsert_mysql(table: sa.Table) -> sa.Executable:
    statement = mysql.insert(table)
    (key,) = table.primary_key.columns
    # MariaDB would also "update" a row that is equal in another unique key:
    # a row of something else. NULL makes that an error, before any column
    # of that row is touched.
    updates: dict[str, Any] = {
        key.name: sa.case(
            (key == statement.inserted[key.name], key), else_=sa.null()
        )
    }
    updates.update(
        (column.name, statement.inserted[column.name])
        for column in table.columns
        if column is not key
    )
    return statement.on_duplicate_key_update(list(updates.items()))


def _upsert_on_conflict(
    insert: Callable[[sa.Table], Any],
) -> Callable[[sa.Table], sa.Executable]:
    def upsert(table: sa.Table) -> sa.Executable:
        statement = insert(table)
        (key,) = table.primary_key.columns
        updates = {
            column.name: statement.excluded[column.name]
            for column in table.columns
            if column is not key
        }
        upserted: sa.Executable = statement.on_conflict_do_update(
            index_elements=[key], set_=updates
        )
        return upserted

    return upsert


_UPSERTS: dict[str, Callable[[sa.Table], sa.Executable]] = {
    "mysql": _upsert_mysql,
    "postgresql": _upsert_on_conflict(postgresql.insert),
    "sqlite": _upsert_on_conflict(sqlite.insert),
}


# In UTC: local times come twice when summer ends.
_NOW = {
    "mysql": "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01',"
    " UTC_TIMESTAMP(6)) / 1e6",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}


def _all(
    connection: sa.Connection,
    table: sa.Table,
    record_class: Callable[..., _R],
    *conditions: sa.ColumnElement[bool],
) -> list[_R]:
    query = _query(table)
    if conditions:
        query = query.where(*conditions)
    return _records(connection, query, record_class)


@functools.cache
def _query(table: sa.Table) -> sa.Select[Any]:
    """Return what selects all rows, by their keys."""
    (key,) = table.primary_key.columns
    return sa.select(table).order_by(key)


def _live_sessions(connection: sa.Connection) -> list[SessionRecord]:
    columns = models.sessions.c
    query = (
        sa.select(*(c for c in columns if c.name not in _WORDS_OF_THE_END))
        .where(columns.state.in_(_LIVE))
        .order_by(columns.id)
    )
    return _records(connection, query, _live_session)


def _live_session(**members: Any) -> SessionRecord:
    # Many have these in common: one copy of each is enough.
    for name in _COMMON_TEXTS:
        members[name] = sys.intern(members[name])
    return SessionRecord(**members)


def _records(
    connection: sa.Connection,
    query: sa.Select[Any],
    record_class: Callable[..., _R],
) -> list[_R]:
    # In parts, so that a long queue is not in memory twice.
    result = connection.execute(
        query, execution_options={"yield_per": _ROWS_PER_FETCH}
    )
    names = list(result.keys())
    return [
        record_class(**dict(zip(names, row, strict=True))) for row in result
    ]


def _newest_usage(connection: sa.Connection) -> list[UsageRecord]:
    day = models.usage.c.day
    newest = sa.select(sa.func.max(day)).scalar_subquery()
    return _all(connection, models.usage, UsageRecord, day == newest)


def _max_ids(connection: sa.Connection) -> MaxIds:
    tables = (
        models.hosts,
        models.devices,
        models.slots,
        models.sessions,
        models.usage,
        models.quotas,
        models.bitstreams,
        models.instances,
    )
    queries = [sa.select(sa.func.max(table.c.id)) for table in tables]
    return MaxIds(*(connection.scalar(query) or 0 for query in queries))


def _conditions(filters: SessionFilter) -> list[sa.ColumnElement[bool]]:
    columns = models.sessions.c
    conditions = [
        columns[name] == value
        for name in (
            "project_id",
            "request_id",
            "user_id",
            "accelerator",
            "host_id",
        )
        if (value := getattr(filters, name)) is not None
    ]
    if filters.states:
        conditions.append(columns.state.in_(filters.states))
    if filters.changed_since is not None:
        conditions.append(columns.updated_at >= filters.changed_since)
    return conditions


def _place_of(
    connection: sa.Connection, session_id: str, order: _Order
) -> Sequence[Any]:
    """Return a session's values in columns."""
    query = sa.select(
        # One may be there twice.
        *(column.label(f"value{n}") for n, (column, _) in enumerate(order))
    ).where(models.sessions.c.session_id == session_id)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise exception.SessionNotFound(session_id=session_id)
    return found


def _beyond(order: _Order, place: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Return the condition of what comes after a place in a sorted list."""
    equal: list[sa.ColumnElement[bool]] = []
    ways = []
    for (column, up), value in zip(order, place, strict=True):
        later = column > value if up else column < value
        ways.append(sa.and_(*equal, later))
        equal.append(column == value)
    return sa.or_(*ways)


def _batches(items: Sequence[_R]) -> Iterator[Sequence[_R]]:
    for start in range(0, len(items), _IDS_PER_STATEMENT):
        yield items[start : start + _IDS_PER_STATEMENT]
