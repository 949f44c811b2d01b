# SPDX-License-Identifier: Apache-2.0

"""The database interface of fpgapool.

One call is one transaction. Every method blocks and may raise
DatabaseUnavailable, DatabaseSchemaMismatch or DatabaseError.
"""

import collections
import dataclasses
import datetime
import functools
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as oslo_exception
from sqlalchemy import exc as sa_exc

from fpgapool.db import calendar as db_calendar
from fpgapool.db import connected
from fpgapool.db import hardware
from fpgapool.db import leadership
from fpgapool.db import models
from fpgapool.db import rows
from fpgapool.db import sessions as sessions_sql
from fpgapool.db import usage as db_usage
from fpgapool.db.answers import Holdings as Holdings
from fpgapool.db.answers import Inventory as Inventory
from fpgapool.db.answers import ProjectUse as ProjectUse
from fpgapool.db.answers import SessionCount as SessionCount
from fpgapool.db.answers import SessionFilter as SessionFilter
from fpgapool.db.answers import SessionState as SessionState
from fpgapool.db.answers import SlotHolder as SlotHolder
from fpgapool.db.answers import UsageGap as UsageGap
from fpgapool.db.records import DELETED as DELETED
from fpgapool.db.records import AcceleratorRecord as AcceleratorRecord
from fpgapool.db.records import AssignmentRecord as AssignmentRecord
from fpgapool.db.records import BitstreamRecord as BitstreamRecord
from fpgapool.db.records import Changes as Changes
from fpgapool.db.records import ComputeState as ComputeState
from fpgapool.db.records import DeviceRecord as DeviceRecord
from fpgapool.db.records import FaultRecord as FaultRecord
from fpgapool.db.records import GroupClientRecord as GroupClientRecord
from fpgapool.db.records import GroupDeskRecord as GroupDeskRecord
from fpgapool.db.records import GroupRecord as GroupRecord
from fpgapool.db.records import HostRecord as HostRecord
from fpgapool.db.records import InstanceRecord as InstanceRecord
from fpgapool.db.records import Lease as Lease
from fpgapool.db.records import QuotaRecord as QuotaRecord
from fpgapool.db.records import Record as Record
from fpgapool.db.records import ReservationRecord as ReservationRecord
from fpgapool.db.records import SessionHead as SessionHead
from fpgapool.db.records import SessionRecord as SessionRecord
from fpgapool.db.records import SlotRecord as SlotRecord
from fpgapool.db.records import Snapshot as Snapshot
from fpgapool.db.records import UsageRecord as UsageRecord
from fpgapool.db.records import UsageSum as UsageSum

_R = TypeVar("_R")

# Much longer than writing one row takes.
_SLOW_ROW_S = 0.01

_ANY_SESSION = SessionFilter()


class Database(connected.Connected):
    """The database; thread-safe."""

    # Leadership.

    def read_lease(self) -> Lease | None:
        """Return the lease; None before the first election."""
        with self._transaction() as connection:
            return leadership.read(connection)

    def lease_renewed_at(self) -> float | None:
        """Return when a leader last renewed the lease; None: unknown."""
        with self._transaction() as connection:
            return leadership.renewed_at(connection)

    def take_lease(self, holder: str, expected: Lease | None) -> Lease:
        """Become the leader, unless the lease has changed meanwhile.

        The caller has to make sure that it may take the lease: it has expired,
        was released, or is the caller's own from before a restart.

        :raises: NotLeader if another conductor took or renewed it.
        """
        if expected is None:
            lease = Lease(holder=holder, epoch=1, renewals=0)
            with self._transaction() as connection:
                leadership.insert(connection, lease)
            return lease
        lease = dataclasses.replace(
            expected, holder=holder, epoch=expected.epoch + 1, renewals=0
        )
        with self._transaction() as connection:
            leadership.update(
                connection,
                dataclasses.asdict(lease),
                epoch=expected.epoch,
                renewals=expected.renewals,
            )
        return lease

    def renew_lease(
        self, holder: str, epoch: int, pool_time_s: float | None = None
    ) -> None:
        """Show that the leader is alive.

        :param pool_time_s: the current pool time; None: do not change it.
        """
        values = {"renewals": leadership.ONE_MORE}
        with self._transaction() as connection:
            leadership.update(
                connection, values, pool_time_s, holder=holder, epoch=epoch
            )

    def release_lease(
        self, holder: str, epoch: int, pool_time_s: float | None = None
    ) -> None:
        """Release the lease, so that the next leader need not wait."""
        with self._transaction() as connection:
            leadership.update(
                connection,
                {"holder": ""},
                pool_time_s,
                holder=holder,
                epoch=epoch,
            )

    def begin_term(
        self, epoch: int, pool_time_s: float, ahead_s: float
    ) -> float:
        """Store the pool time and the offset of a new leader's clock.

        If the offset differs from the former leader's, stored deadlines and
        the starts of assignments move by the difference. This keeps the
        remaining and elapsed times the same.
        """
        with self._transaction() as connection:
            leadership.lock_epoch(connection, epoch)
            return leadership.begin_term(connection, pool_time_s, ahead_s)

    def pass_epochs(self, count: int) -> None:
        """Make the next leader's epoch higher than any that agents know.

        Agents refuse orders with a lower epoch, such as that of a leader that
        starts with tables from a backup.

        :param count: an upper bound for the number of leaders since the
            backup.
        """
        self._change(lambda one: leadership.pass_epochs(one, count))

    # The conductor's state.

    def commit(
        self,
        epoch: int,
        changes: Changes,
        *,
        admitted: Container[int] = (),
        withdrawn: Collection[int] = (),
    ) -> list[SessionRecord]:
        """Write either all changes or none.

        Writing them again is safe, because rows hold absolute values.

        :param admitted: ids of the sessions in ``changes`` that are new; one
            whose ``request_id`` belongs to another session is left out, with
            its assignment.
        :returns: the other sessions with these request ids.
        :raises: NotLeader if there is a later leader; in that case nothing is
            written.
        """
        sessions = changes.rows(SessionRecord)
        new = [record for record in sessions if record.id in admitted]

        def write(connection: sa.Connection) -> list[SessionRecord]:
            leadership.lock_epoch(connection, epoch)
            _write(connection, changes, set(withdrawn))
            return []

        def write_others(connection: sa.Connection) -> list[SessionRecord]:
            leadership.lock_epoch(connection, epoch)
            holders = sessions_sql.holders_of_names(connection, new)
            left_out = sessions_sql.of_same_name(new, holders)
            _write(connection, changes, left_out.union(withdrawn))
            return holders

        allowed_s = connected.SLOW_ANSWER_S + len(sessions) * _SLOW_ROW_S
        with self._question(allowed_s), self._translated():
            try:
                return self._writer.run(write)
            except oslo_exception.DBError as error:
                # Request ids are nearly always new, so they are only checked
                # after an error.
                if not new or not _is_about_uniqueness(error):
                    raise
            return self._writer.run(write_others)

    def load(self) -> Snapshot:
        """Return the rows that a new leader needs."""
        with self._transaction() as connection:
            read = functools.partial(rows.read, connection)
            return Snapshot(
                hosts=read(HostRecord),
                devices=read(DeviceRecord),
                slots=read(SlotRecord),
                accelerators=read(AcceleratorRecord),
                live_sessions=sessions_sql.live(connection),
                ending_sessions=read(SessionRecord, sessions_sql.IS_ENDING),
                failed_sessions=read(
                    SessionRecord, sessions_sql.HAS_JUST_FAILED
                ),
                unknown_sessions=read(SessionRecord, sessions_sql.IS_UNKNOWN),
                recent_claims=sessions_sql.recent_claims(connection),
                assignments=read(AssignmentRecord),
                max_ids=_max_ids(connection),
                usage=read(UsageRecord, db_usage.is_of_newest_day()),
                quotas=read(QuotaRecord),
                bitstreams=read(BitstreamRecord),
                instances=read(
                    InstanceRecord, models.instances.c.deleted_at.is_(None)
                ),
                reservations=read(ReservationRecord),
                faults=read(FaultRecord),
                groups=read(GroupRecord),
                group_clients=read(GroupClientRecord),
                group_desks=read(GroupDeskRecord),
            )

    # Sessions.

    def get_session(self, session_id: str) -> SessionRecord | None:
        """Return a session by its public id; None if it does not exist."""
        return self._read_one(SessionRecord, session_id=session_id)

    def session_head(self, session_id: str) -> SessionHead | None:
        """Return a part of :meth:`get_session`'s answer, in less time."""
        return self._read_one(SessionHead, session_id=session_id)

    def find_session(
        self, project_id: str, request_id: str
    ) -> SessionRecord | None:
        return self._read_one(
            SessionRecord, project_id=project_id, request_id=request_id
        )

    def sessions_by_ids(
        self, session_ids: Iterable[str]
    ) -> list[SessionRecord]:
        """Return the sessions that exist, in no particular order."""
        column = models.sessions.c.session_id
        with self._transaction() as connection:
            return [
                record
                for ids in rows.batches(sorted(set(session_ids)))
                for record in rows.read(
                    connection, SessionRecord, column.in_(ids)
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
        """Return a page of sessions, newest first.

        :param marker: the ``session_id`` of the last session on the previous
            page.
        :param order: members to sort by, which must never be None, and whether
            each is ascending. Equal sessions are sorted by arrival, in the
            direction of the last member.
        """
        with self._transaction() as connection:
            return sessions_sql.page(connection, filters, marker, limit, order)

    def count_sessions(
        self, project_id: str | None = None
    ) -> list[SessionCount]:
        """Count the live sessions of each kind."""
        return self._fetch(sessions_sql.counts(project_id), SessionCount)

    def session_revisions(
        self, session_ids: Iterable[str]
    ) -> dict[str, tuple[str, int]]:
        """Return the state and revision of the sessions that exist."""
        with self._transaction() as connection:
            return sessions_sql.revisions(connection, sorted(set(session_ids)))

    def project_use(self, project_id: str) -> ProjectUse:
        """Return what a project uses, and the limits that were set for it."""
        with self._transaction() as connection:
            slots = connection.execute(sessions_sql.slots_of(project_id))
            return ProjectUse(
                slots=int(slots.scalar_one()),
                sessions=rows.fetch(
                    connection, sessions_sql.counts(project_id), SessionCount
                ),
                bitstreams=rows.read(
                    connection,
                    BitstreamRecord,
                    models.bitstreams.c.project_id == project_id,
                ),
                groups=rows.read(
                    connection,
                    GroupRecord,
                    models.groups.c.project_id == project_id,
                ),
                group_clients=rows.read(
                    connection,
                    GroupClientRecord,
                    models.group_clients.c.project_id == project_id,
                ),
                quotas=rows.read(
                    connection,
                    QuotaRecord,
                    models.quotas.c.project_id == project_id,
                ),
                reservations=db_calendar.fetch(connection, project_id),
            )

    def holdings(self, deleted_before: float) -> Holdings:
        """Return the live sessions and the assignments.

        It reads only a few columns, because there may be very many sessions.

        :param deleted_before: wall-clock time; the result lists the instances
            that Nova deleted before it.
        """
        instances = models.instances.c
        gone = sa.select(instances.instance_id).where(
            instances.deleted_at < deleted_before
        )
        with self._transaction() as connection:
            return Holdings(
                lease=leadership.read(connection),
                sessions=rows.fetch(
                    connection, sessions_sql.live_states(), SessionState
                ),
                assignments=rows.read(connection, AssignmentRecord),
                gone_instances=frozenset(connection.scalars(gone)),
                groups=frozenset(
                    connection.scalars(sa.select(models.groups.c.id))
                ),
            )

    def usage_gaps(self, day: datetime.date) -> list[UsageGap]:
        """Return what the usage lacks of sessions queued since a day began.

        It is not an error if usage is higher: it includes groups, sessions
        from before that day, and input that was processed again.
        """
        began_at = datetime.datetime.combine(
            day, datetime.time(), datetime.UTC
        ).timestamp()
        with self._transaction() as connection:
            # The order matters: sessions that end between the queries only
            # increase the usage.
            ended = connection.execute(sessions_sql.sums(began_at)).all()
            used = {
                (row.project_id, row.accelerator): row
                for row in connection.execute(db_usage.since(day))
            }
        names = ("sessions", "input_bytes", "output_bytes")
        found = []
        for row in ended:
            known = used.get((row.project_id, row.accelerator))
            lacks = {
                # MariaDB returns sums of integers as decimals.
                name: max(int(getattr(row, name) - getattr(known, name, 0)), 0)
                for name in names
            }
            if any(lacks.values()):
                found.append(
                    UsageGap(
                        project_id=row.project_id,
                        accelerator=row.accelerator,
                        **lacks,
                    )
                )
        return found

    def purge_sessions(
        self, finished_before: float, limit: int, epoch: int | None = None
    ) -> int:
        """Delete sessions that have ended.

        :param finished_before: a wall-clock time; sessions that ended later
            are kept.
        :returns: the number deleted; if it is below the limit, none are left.
        """
        query = sessions_sql.over(finished_before, limit)
        return self._purge(models.sessions, query, epoch)

    # Usage.

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
        """Return a page of sums of projects' usage.

        :param first_day: first day, in UTC; None means no limit.
        :param keys: keys from :data:`fpgapool.db.usage.KEYS`, in that order;
            usage is grouped and sorted by them.
        :param after: the keys of the last sum on the previous page.
        """
        where = db_usage.conditions(
            project_id, accelerator, first_day, last_day
        )
        query = db_usage.sums(where, keys, after, limit)
        with self._transaction() as connection:
            return [db_usage.summed(row) for row in connection.execute(query)]

    # Quotas.

    def quotas(self, project_id: str) -> list[QuotaRecord]:
        """Return the quotas that were set for a project."""
        return self._read(
            QuotaRecord, models.quotas.c.project_id == project_id
        )

    def calendar(
        self, project_id: str | None = None
    ) -> list[db_calendar.Reservation]:
        """Return the reservations by calendar, in no particular order.

        :param project_id: their project; None: any.
        """
        with self._transaction() as connection:
            return db_calendar.fetch(connection, project_id)

    # Hardware.

    def inventory(self) -> Inventory:
        """Return all hosts, devices and slots, with the slots' holders."""
        with self._transaction() as connection:
            return hardware.inventory(connection)

    def part_of_inventory(self, after: str, most: int) -> Inventory:
        """Return hosts in the order of their UUIDs, with their hardware.

        :param after: the UUID after which the part starts.
        :param most: maximum number of hosts.
        """
        with self._transaction() as connection:
            return hardware.part(connection, after, most)

    # The library.

    def accelerators(self) -> list[AcceleratorRecord]:
        return self._read(AcceleratorRecord)

    def upsert_accelerators(
        self, records: Sequence[AcceleratorRecord]
    ) -> None:
        """Add accelerators, or replace those with the same name."""
        self._change(lambda one: rows.upsert(one, AcceleratorRecord, records))

    def bitstreams(
        self, project_id: str | None = None
    ) -> list[BitstreamRecord]:
        """Return bitstreams, oldest first."""
        columns = models.bitstreams.c
        conditions = (
            [] if project_id is None else [columns.project_id == project_id]
        )
        return self._read(BitstreamRecord, *conditions)

    def get_bitstream(self, bitstream_id: str) -> BitstreamRecord | None:
        """Return a bitstream by its public id; None if it does not exist."""
        return self._read_one(BitstreamRecord, bitstream_id=bitstream_id)

    # Groups.

    def groups(self, *group_ids: str) -> list[GroupRecord]:
        """Return groups, oldest first."""
        column = models.groups.c.group_id
        conditions = [column.in_(group_ids)] if group_ids else []
        return self._read(GroupRecord, *conditions)

    def group_clients(
        self, *, group_id: str | None = None, project_id: str | None = None
    ) -> list[GroupClientRecord]:
        """Return clients of groups, oldest first."""
        columns = models.group_clients.c
        given = {"group_id": group_id, "project_id": project_id}
        return self._read(
            GroupClientRecord,
            *(
                columns[name] == value
                for name, value in given.items()
                if value is not None
            ),
        )

    # Instances.

    def get_instance(self, instance_id: str) -> InstanceRecord | None:
        """Return an instance by its UUID; None if it is unknown."""
        return self._read_one(InstanceRecord, instance_id=instance_id)

    def list_instances(
        self,
        project_id: str | None = None,
        *,
        marker: str | None = None,
        limit: int,
        ascending: bool = False,
    ) -> list[InstanceRecord]:
        """Return a page of instances that are not deleted, newest first."""
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
        return self._fetch(query, InstanceRecord)

    def purge_instances(
        self, deleted_before: float, limit: int, epoch: int | None = None
    ) -> int:
        """Delete the rows of instances that Nova has deleted.

        :param deleted_before: wall-clock time; instances deleted later stay.
        :returns: the number deleted; if it is below the limit, none are left.
        """
        columns = models.instances.c
        query = (
            sa.select(columns.id)
            .where(columns.deleted_at < deleted_before)
            .order_by(columns.deleted_at)
            .limit(limit)
        )
        return self._purge(models.instances, query, epoch)


def _write(
    connection: sa.Connection, changes: Changes, left_out: set[int]
) -> None:
    """Write changes, but delete the rows of the sessions to leave out."""
    wanted = changes.without_sessions(left_out)
    columns = models.assignments.c
    gone = sorted(left_out)
    if released := wanted.released_slots:
        rows.delete(connection, columns.slot_id, released)
    if gone:
        rows.delete(connection, columns.holder_id, gone, models.OF_SESSIONS)
        rows.delete(connection, models.sessions.c.id, gone)
    kinds = sorted(wanted.kinds, key=list(rows.TABLES).index)
    for kind in kinds:
        if deleted := wanted.deleted(kind):
            ids = [record.id for record in deleted]
            rows.delete(connection, rows.TABLES[kind].c.id, ids)
    for kind in kinds:
        rows.upsert(connection, kind, wanted.rows(kind))


def _is_about_uniqueness(error: oslo_exception.DBError) -> bool:
    # oslo.db does not recognize error messages in all languages.
    return isinstance(error, oslo_exception.DBDuplicateEntry) or isinstance(
        error.inner_exception, sa_exc.IntegrityError
    )


def _max_ids(connection: sa.Connection) -> collections.Counter[type]:
    return collections.Counter(
        {
            kind: connection.scalar(sa.select(sa.func.max(table.c.id))) or 0
            for kind, table in rows.TABLES.items()
            if "id" in table.c
        }
    )
