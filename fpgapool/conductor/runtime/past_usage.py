# SPDX-License-Identifier: Apache-2.0

"""Reads what projects used before the days that the leader has in memory."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Collection
from collections.abc import Iterator

from fpgapool.conductor.decisions.budgets import book
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.budgets import stored
from fpgapool.db import api as db_api
from fpgapool.vocabulary import budget

# Number of projects in one query.
_PROJECTS = 1000
_DAY = datetime.timedelta(days=1)

_Sums = collections.defaultdict[str, dict[str, rules.Amounts]]


def at_start(
    database: db_api.Database,
    snapshot: db_api.Snapshot,
    default: rules.Budget | None,
) -> dict[str, book.Past]:
    """Return what a new leader needs to know; empty if there is no budget."""
    periods = stored.periods(
        (row.resource, row.hard_limit) for row in snapshot.quotas
    )
    if default is not None:
        periods.add(default.period)
    if not periods or not snapshot.usage:
        return {}
    newest = max(row.day for row in snapshot.usage)
    return read(database, newest, periods)


def read(
    database: db_api.Database,
    today: datetime.date,
    periods: Collection[str] = budget.PERIODS,
    project_id: str | None = None,
) -> dict[str, book.Past]:
    """Return what projects used before a day, in its periods and in those
    before.

    :param project_id: the only project to read; None: all of them.
    """
    former: _Sums = collections.defaultdict(dict)
    current: _Sums = collections.defaultdict(dict)
    for period in periods:
        begin = rules.begins(period, today)
        for sums, first, last in (
            (former, rules.former(period, begin), begin - _DAY),
            (current, begin, today - _DAY),
        ):
            for row in _rows(database, project_id, first, last):
                sums[row.project_id][period] = book.amounts(row)
    return {
        project: book.Past(today, former[project], current[project])
        for project in {*former, *current}
    }


def _rows(
    database: db_api.Database,
    project_id: str | None,
    first: datetime.date,
    last: datetime.date,
) -> Iterator[db_api.UsageSum]:
    if first > last:
        return
    after = None
    while True:
        page = database.sum_usage(
            project_id,
            first_day=first,
            last_day=last,
            keys=("project_id",),
            after=after,
            limit=_PROJECTS,
        )
        yield from page
        if len(page) < _PROJECTS:
            return
        after = (page[-1].project_id,)
