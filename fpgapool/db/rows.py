# SPDX-License-Identifier: Apache-2.0

"""Rows are read as records, and written and deleted in few statements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite

from fpgapool.db import models
from fpgapool.db import records

#: Columns, and whether the smallest comes first.
Order: TypeAlias = Sequence[tuple[sa.Column[Any], bool]]

#: The tables of records, in an order in which no row is written before those
#: that it refers to.
TABLES: dict[type[Any], sa.Table] = {
    records.HostRecord: models.hosts,
    records.DeviceRecord: models.devices,
    records.SlotRecord: models.slots,
    records.ReservationRecord: models.reservations,
    records.FaultRecord: models.faults,
    records.AcceleratorRecord: models.accelerators,
    records.BitstreamRecord: models.bitstreams,
    records.SessionRecord: models.sessions,
    records.AssignmentRecord: models.assignments,
    records.UsageRecord: models.usage,
    records.QuotaRecord: models.quotas,
    records.InstanceRecord: models.instances,
}

# The texts of errors may have any length; a row that the database refuses
# would hold up all rows after it.
MAX_TEXT_LENGTH = 4000

# More values in one IN (...) are no faster, and SQLite allows 999 at worst.
_IDS_PER_STATEMENT = 500

_ROWS_PER_FETCH = 2000

_R = TypeVar("_R")


def read(
    connection: sa.Connection,
    record_class: type[_R],
    *conditions: sa.ColumnElement[bool],
) -> list[_R]:
    """Return the rows of a kind for which all conditions hold, by their keys.

    :param record_class: of :data:`TABLES`.
    """
    query = _query(TABLES[record_class])
    if conditions:
        query = query.where(*conditions)
    return fetch(connection, query, record_class)


@functools.cache
def _query(table: sa.Table) -> sa.Select[Any]:
    # As for the others below: to build one takes longer than to execute it.
    (key,) = table.primary_key.columns
    return sa.select(table).order_by(key)


def fetch(
    connection: sa.Connection,
    query: sa.Select[Any],
    record_class: Callable[..., _R],
) -> list[_R]:
    """Return what a query finds.

    :param record_class: is called with the values, by their columns' names.
    """
    # In parts, so that a long queue is not in memory twice.
    result = connection.execute(
        query, execution_options={"yield_per": _ROWS_PER_FETCH}
    )
    names = list(result.keys())
    return [
        record_class(**dict(zip(names, row, strict=True))) for row in result
    ]


def beyond(order: Order, place: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Return the condition of what comes after a place in a sorted list.

    :param place: the values of the columns.
    """
    equal: list[sa.ColumnElement[bool]] = []
    ways = []
    for (column, up), value in zip(order, place, strict=True):
        later = column > value if up else column < value
        ways.append(sa.and_(*equal, later))
        equal.append(column == value)
    return sa.or_(*ways)


def batches(values: Sequence[_R]) -> Iterator[Sequence[_R]]:
    """Yield as many values as one statement had better have at a time."""
    for start in range(0, len(values), _IDS_PER_STATEMENT):
        yield values[start : start + _IDS_PER_STATEMENT]


def delete(
    connection: sa.Connection, column: sa.Column[Any], values: Sequence[int]
) -> None:
    """Delete the rows that have one of these values in a column."""
    for batch in batches(values):
        connection.execute(_delete_statement(column), {"values": list(batch)})


@functools.cache
def _delete_statement(column: sa.Column[Any]) -> sa.Executable:
    values: sa.BindParameter[int] = sa.bindparam("values", expanding=True)
    return sa.delete(column.table).where(column.in_(values))


def upsert(
    connection: sa.Connection,
    record_class: type[Any],
    written: Sequence[records.Record],
) -> None:
    """Add rows of a kind, or replace those of the same keys."""
    if written:
        table = TABLES[record_class]
        statement = _upsert_statement(connection.dialect.name, table)
        connection.execute(statement, _values(table, written))


def _values(
    table: sa.Table, written: Iterable[records.Record]
) -> list[dict[str, Any]]:
    names, texts = _column_names(table)
    rows = []
    for record in written:
        row = {name: getattr(record, name) for name in names}
        for name in texts:
            row[name] = row[name][:MAX_TEXT_LENGTH]
        rows.append(row)
    return rows


@functools.cache
def _column_names(table: sa.Table) -> tuple[list[str], list[str]]:
    """:returns: of all columns, and of those that take long texts."""
    texts = [
        column.name
        for column in table.columns
        if isinstance(column.type, sa.Text)
    ]
    return table.columns.keys(), texts


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
