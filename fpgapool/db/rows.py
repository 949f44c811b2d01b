# SPDX-License-Identifier: Apache-2.0

"""Reads rows as records; writes and deletes them with few statements."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NoReturn
from typing import TypeAlias
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as oslo_exception
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite

from fpgapool.db import models
from fpgapool.db import records
from fpgapool.vocabulary import fields

#: Columns to sort by, and whether each one is ascending.
Order: TypeAlias = Sequence[tuple[sa.Column[Any], bool]]

#: The tables of records; because of foreign keys, referenced tables come
#: first.
TABLES: dict[type[Any], sa.Table] = {
    records.HostRecord: models.hosts,
    records.DeviceRecord: models.devices,
    records.SlotRecord: models.slots,
    records.ReservationRecord: models.reservations,
    records.FaultRecord: models.faults,
    records.AcceleratorRecord: models.accelerators,
    records.BitstreamRecord: models.bitstreams,
    records.SessionRecord: models.sessions,
    records.GroupRecord: models.groups,
    records.GroupClientRecord: models.group_clients,
    records.GroupDeskRecord: models.group_desks,
    records.AssignmentRecord: models.assignments,
    records.UsageRecord: models.usage,
    records.QuotaRecord: models.quotas,
    records.InstanceRecord: models.instances,
}

#: The tables of which records have only some columns.
PARTS: dict[type[Any], sa.Table] = {records.SessionHead: models.sessions}

# Error texts may have any length, and a refused row would block all later
# rows.
MAX_TEXT_LENGTH = 4000

# More values in one IN (...) would not be faster, and some SQLite versions
# allow only 999.
_IDS_PER_STATEMENT = 500

_ROWS_PER_FETCH = 2000

_R = TypeVar("_R")


def read(
    connection: sa.Connection,
    record_class: type[_R],
    *conditions: sa.ColumnElement[bool],
    **equal: Any,
) -> list[_R]:
    """Return the rows that meet all conditions, sorted by their keys.

    :param equal: required values of columns; not None.
    """
    query = _query(TABLES[record_class], *equal)
    if conditions:
        query = query.where(*conditions)
    return fetch(connection, query, record_class, equal)


def read_one(
    connection: sa.Connection, record_class: type[_R], equal: dict[str, Any]
) -> _R | None:
    """Return the row with these values; None if there is none."""
    query = _part_query if record_class in PARTS else _record_query
    result = connection.execute(query(record_class, *equal), equal)
    found = result.first()
    if found is None:
        return None
    return record_class(**dict(zip(result.keys(), found, strict=True)))


def _record_query(record_class: type[Any], *names: str) -> sa.Select[Any]:
    return _query(TABLES[record_class], *names)


@functools.cache
def _part_query(record_class: type[Any], *names: str) -> sa.Select[Any]:
    table = PARTS[record_class]
    wanted = (table.c[one.name] for one in dataclasses.fields(record_class))
    return _query(table, *names).with_only_columns(*wanted)


@functools.cache
def _query(table: sa.Table, *names: str) -> sa.Select[Any]:
    # Cached, like the statements below, because building it takes longer than
    # executing it.
    (key,) = table.primary_key.columns
    same = (table.c[name] == sa.bindparam(name) for name in names)
    return sa.select(table).where(*same).order_by(key)


def fetch(
    connection: sa.Connection,
    query: sa.Select[Any],
    record_class: Callable[..., _R],
    values: Mapping[str, Any] | None = None,
) -> list[_R]:
    """Return the result of a query.

    :param record_class: called for each row, with its columns as keyword
        arguments.
    """
    # Fetch in parts, so that a long result is not in memory twice.
    result = connection.execute(
        query, values, execution_options={"yield_per": _ROWS_PER_FETCH}
    )
    names = list(result.keys())
    return [
        record_class(**dict(zip(names, row, strict=True))) for row in result
    ]


def beyond(order: Order, place: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Return the condition for rows after a position in a sorted list."""
    equal: list[sa.ColumnElement[bool]] = []
    ways = []
    for (column, up), value in zip(order, place, strict=True):
        later = column > value if up else column < value
        ways.append(sa.and_(*equal, later))
        equal.append(column == value)
    return sa.or_(*ways)


def batches(values: Sequence[_R]) -> Iterator[Sequence[_R]]:
    """Yield the values in batches, one for each statement."""
    for start in range(0, len(values), _IDS_PER_STATEMENT):
        yield values[start : start + _IDS_PER_STATEMENT]


def delete(
    connection: sa.Connection,
    column: sa.Column[Any],
    values: Sequence[int],
    *conditions: sa.ColumnElement[bool],
) -> None:
    """Delete the rows whose column has one of these values.

    :param conditions: constant conditions that the rows must also meet.
    """
    statement = _delete_statement(column, *conditions)
    for batch in batches(values):
        connection.execute(statement, {"values": list(batch)})


@functools.cache
def _delete_statement(
    column: sa.Column[Any], *conditions: sa.ColumnElement[bool]
) -> sa.Executable:
    values: sa.BindParameter[int] = sa.bindparam("values", expanding=True)
    return sa.delete(column.table).where(column.in_(values), *conditions)


def upsert(
    connection: sa.Connection,
    record_class: type[Any],
    written: Sequence[records.Record],
) -> None:
    """Insert rows, or replace those with the same keys."""
    if written:
        table = TABLES[record_class]
        statement = _upsert_statement(connection.dialect.name, table)
        connection.execute(statement, _values(table, written))


def _values(
    table: sa.Table, written: Iterable[records.Record]
) -> list[dict[str, Any]]:
    copied, texts = _copied(table)
    rows = []
    for record in written:
        row = copied(record)
        for name in texts:
            row[name] = row[name][:MAX_TEXT_LENGTH]
        rows.append(row)
    return rows


@functools.cache
def _copied(
    table: sa.Table,
) -> tuple[Callable[[Any], dict[str, Any]], list[str]]:
    texts = [
        column.name
        for column in table.columns
        if isinstance(column.type, sa.Text)
    ]
    return fields.copier(table.columns.keys()), texts


@functools.cache
def _upsert_statement(dialect_name: str, table: sa.Table) -> sa.Executable:
    if dialect_name == "mysql":
        return _upsert_mysql(table)
    on_conflict = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
    statement: Any = on_conflict[dialect_name](table)
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


@exc_filters.filters("mysql", sa.exc.IntegrityError, r".*\b1048\b.*'id'")
def _raise_duplicate(
    error: sa.exc.IntegrityError, *_details: object
) -> NoReturn:
    # _upsert_mysql() causes this error on purpose, so it is not logged.
    raise oslo_exception.DBDuplicateEntry(inner_exception=error)


def _upsert_mysql(table: sa.Table) -> sa.Executable:
    statement = mysql.insert(table)
    (key,) = table.primary_key.columns
    # MariaDB would also update another object's row that has the same value in
    # another unique key. Setting its primary key to NULL makes that an error
    # before any column of that row changes.
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
