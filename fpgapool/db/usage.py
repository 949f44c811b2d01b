# SPDX-License-Identifier: Apache-2.0

"""Queries for projects' usage."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fpgapool.db import models
from fpgapool.db import records
from fpgapool.db import rows
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import fields

#: The columns by which usage can be grouped, in sort order.
KEYS = ("day", "project_id", "accelerator")

_SUMS = tuple(
    one.name for one in accounting.USAGE.in_record if one.name not in KEYS
)
#: The columns whose sums are whole numbers.
_COUNTS = tuple(
    one.name for one in accounting.USAGE.in_record if one.kind is fields.COUNT
)


def conditions(
    project_id: str | None,
    accelerator: str | None,
    first_day: datetime.date | None,
    last_day: datetime.date | None,
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for rows; None means any; days are inclusive."""
    columns = models.usage.c
    found = []
    if project_id is not None:
        found.append(columns.project_id == project_id)
    if accelerator is not None:
        found.append(columns.accelerator == accelerator)
    if first_day is not None:
        found.append(columns.day >= first_day)
    if last_day is not None:
        found.append(columns.day <= last_day)
    return found


def is_of_newest_day() -> sa.ColumnElement[bool]:
    """Return the condition for the rows of the last day in the table."""
    day = models.usage.c.day
    return day == sa.select(sa.func.max(day)).scalar_subquery()


def since(day: datetime.date) -> sa.Select[Any]:
    """Return the query for sums by project and accelerator."""
    columns = models.usage.c
    by = columns.project_id, columns.accelerator
    return (
        sa.select(*by, *(sa.func.sum(columns[n]).label(n) for n in _COUNTS))
        .where(columns.day >= day)
        .group_by(*by)
    )


def sums(
    where: Sequence[sa.ColumnElement[bool]],
    keys: Sequence[str],
    after: Sequence[Any] | None,
    limit: int,
) -> sa.Select[Any]:
    """Return the query for sums over rows that have the same keys.

    :param after: the keys of the last sum on the previous page; None: the
        first page.
    """
    columns = models.usage.c
    by = [columns[key] for key in keys]
    query = (
        sa.select(*by, *(sa.func.sum(columns[n]).label(n) for n in _SUMS))
        .where(*where)
        .group_by(*by)
        .order_by(*by)
        .limit(limit)
    )
    if after is None:
        return query
    return query.where(rows.beyond([(column, True) for column in by], after))


def summed(row: sa.Row[Any]) -> records.UsageSum:
    """Create a record from a row of :func:`sums`."""
    found: dict[str, Any] = dict(row._mapping)
    for name in _COUNTS:
        # MariaDB returns sums of integers as decimals.
        found[name] = int(found[name])
    return records.UsageSum(**found)
