# SPDX-License-Identifier: Apache-2.0

"""Queries for sessions."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fpgapool.common import exception
from fpgapool.db import answers
from fpgapool.db import models
from fpgapool.db import records
from fpgapool.db import rows
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import scheduling
from fpgapool.vocabulary import states

_COLUMNS = models.sessions.c

_LIVE = sorted(states.LIVE)

_HOLDERS = sa.select(models.assignments.c.holder_id).where(models.OF_SESSIONS)

IS_LIVE = _COLUMNS.state.in_(_LIVE)
#: Sessions that have ended but still hold a slot.
IS_ENDING = sa.and_(
    _COLUMNS.id.in_(_HOLDERS),
    _COLUMNS.finished_at.is_not(None),
)
#: Sessions that have not ended, but whose state is not a live one.
IS_UNKNOWN = sa.and_(
    _COLUMNS.finished_at.is_(None), _COLUMNS.state.not_in(_LIVE)
)

#: How long after losing its slot a session may request another. A client needs
#: time for that: it first looks for the worker, then for a conductor. Front
#: doors ask much earlier for ends that they have not heard of.
_REMEMBERED_S = 120.0
#: Sessions that ended otherwise than by their clients, at most _REMEMBERED_S
#: before the most recent end of any session.
HAS_JUST_FAILED = sa.and_(
    _COLUMNS.state.in_(sorted(states.TERMINAL - {states.CLOSED})),
    _COLUMNS.finished_at
    >= sa.select(
        sa.func.max(models.sessions.alias("last").c.finished_at)
        - _REMEMBERED_S
    ).scalar_subquery(),
)

# Columns that live sessions do not use, apart from those of sets.
_UNUSED_WHILE_LIVE = frozenset({"reason", "message", "finished_at"})
# Columns that sessions do not use before they have a slot.
_UNUSED_BEFORE_SLOT = _UNUSED_WHILE_LIVE | {
    "deadline_met",
    "energy_j",
    "former_input_bytes",
    "former_output_bytes",
    "generation",
    "input_bytes",
    "local",
    "output_bytes",
    "ready_at",
    "slot_id",
    "started_at",
    "state",
}

_COMMON_TEXTS = ("project_id", "user_id", "accelerator")


def live(connection: sa.Connection) -> list[records.SessionRecord]:
    """Return the live sessions; there may be very many.

    Most of them wait for their first slot. The fewer columns they have, the
    faster they are read.
    """
    is_new = sa.and_(_COLUMNS.state == states.QUEUED, _COLUMNS.generation == 0)
    found = _live(connection, is_new, _UNUSED_BEFORE_SLOT)
    found += _live(
        connection, sa.and_(IS_LIVE, sa.not_(is_new)), _UNUSED_WHILE_LIVE
    )
    sets = _of_sets(connection)
    if sets:
        found = [
            dataclasses.replace(record, **sets[record.id])
            if record.id in sets
            else record
            for record in found
        ]
    return sorted(found, key=operator.attrgetter("id"))


def _of_sets(connection: sa.Connection) -> dict[int, dict[str, str]]:
    """Return what names the sets of live sessions that have not started."""
    query = sa.select(_COLUMNS.id, _COLUMNS.message).where(
        IS_LIVE, _COLUMNS.reason == codes.SET_WAITS
    )
    return {
        row_id: {"reason": codes.SET_WAITS, "message": message}
        for row_id, message in connection.execute(query)
    }


def _live(
    connection: sa.Connection,
    condition: sa.ColumnElement[bool],
    unused: frozenset[str],
) -> list[records.SessionRecord]:
    query = (
        sa.select(*(c for c in _COLUMNS if c.name not in unused))
        .where(condition)
        .order_by(_COLUMNS.id)
    )
    return rows.fetch(connection, query, _live_record)


def _live_record(
    state: str = states.QUEUED, **members: Any
) -> records.SessionRecord:
    # Many sessions share these texts, so keep one copy of each.
    for name in _COMMON_TEXTS:
        members[name] = sys.intern(members[name])
    return records.SessionRecord(state=sys.intern(state), **members)


def recent_claims(
    connection: sa.Connection,
) -> list[tuple[int | None, float]]:
    """Return the hosts and claimed bytes of the latest sessions, oldest
    first.
    """
    query = (
        sa.select(_COLUMNS.host_id, _COLUMNS.claimed_bytes)
        .order_by(_COLUMNS.id.desc())
        .limit(scheduling.RECENT_CLAIMS)
    )
    found = connection.execute(query).all()
    return [(host_id, claimed) for host_id, claimed in reversed(found)]


def page(
    connection: sa.Connection,
    filters: answers.SessionFilter,
    marker: str | None,
    limit: int,
    order: Sequence[tuple[str, bool]],
) -> list[records.SessionRecord]:
    """Return a page of sessions, as ``Database.list_sessions`` defines it."""
    conditions = _conditions(filters)
    columns = [(_COLUMNS[name], up) for name, up in order]
    columns.append((_COLUMNS.id, order[-1][1] if order else False))
    if marker is not None:
        place = _place_of(connection, marker, columns)
        conditions.append(rows.beyond(columns, place))
    query = (
        sa.select(models.sessions)
        .where(*conditions)
        .order_by(*(c if up else c.desc() for c, up in columns))
        .limit(limit)
    )
    return rows.fetch(connection, query, records.SessionRecord)


def _conditions(
    filters: answers.SessionFilter,
) -> list[sa.ColumnElement[bool]]:
    conditions = [
        _COLUMNS[name] == value
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
        conditions.append(_COLUMNS.state.in_(filters.states))
    if filters.changed_since is not None:
        conditions.append(_COLUMNS.updated_at >= filters.changed_since)
    return conditions


def _place_of(
    connection: sa.Connection, session_id: str, order: rows.Order
) -> Sequence[Any]:
    query = sa.select(
        # A column may occur twice.
        *(column.label(f"value{n}") for n, (column, _) in enumerate(order))
    ).where(_COLUMNS.session_id == session_id)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise exception.SessionNotFound(session_id=session_id)
    return found


def revisions(
    connection: sa.Connection, session_ids: Sequence[str]
) -> dict[str, tuple[str, int]]:
    """Return the state and revision of sessions that exist."""
    return {
        name: (state, revision)
        for ids in rows.batches(session_ids)
        for name, state, revision in connection.execute(
            _revisions_query(), {"ids": list(ids)}
        )
    }


@functools.cache
def _revisions_query() -> sa.Select[Any]:
    # Cached, because building it takes longer than executing it.
    ids: sa.BindParameter[str] = sa.bindparam("ids", expanding=True)
    return sa.select(
        _COLUMNS.session_id, _COLUMNS.state, _COLUMNS.revision
    ).where(_COLUMNS.session_id.in_(ids))


def slots_of(project_id: str) -> sa.Select[Any]:
    """Return the query that counts the slots of a project's sessions."""
    return (
        sa.select(sa.func.count())
        .select_from(models.assignments)
        .join(
            models.sessions,
            sa.and_(
                models.OF_SESSIONS,
                models.assignments.c.holder_id == _COLUMNS.id,
            ),
        )
        .where(_COLUMNS.project_id == project_id)
    )


def counts(project_id: str | None) -> sa.Select[Any]:
    """Return the query that counts live sessions of each kind."""
    kind = (
        _COLUMNS.state,
        _COLUMNS.project_id,
        _COLUMNS.accelerator,
        _COLUMNS.host_id,
    )
    claimed = sa.func.sum(_COLUMNS.claimed_bytes)
    query = (
        sa.select(
            *kind,
            sa.func.count().label("sessions"),
            # Some servers return the sum of integers as a decimal.
            sa.cast(claimed, sa.BigInteger).label("claimed_bytes"),
        )
        .where(IS_LIVE)
        .group_by(*kind)
    )
    if project_id is None:
        return query
    return query.where(_COLUMNS.project_id == project_id)


def live_states() -> sa.Select[Any]:
    """Return the query for the states of live sessions."""
    names = ("id", "session_id", "state", "slot_id", "generation")
    return (
        sa.select(*(_COLUMNS[name] for name in names))
        .where(IS_LIVE)
        .order_by(_COLUMNS.id)
    )


def sums(since: float) -> sa.Select[Any]:
    """Return the query for sums over sessions that have released their slots.

    :param since: wall-clock time; only sessions queued then or later are
        included.
    """
    by = _COLUMNS.project_id, _COLUMNS.accelerator
    return (
        sa.select(
            *by,
            sa.func.count().label("sessions"),
            sa.func.sum(_COLUMNS.input_bytes).label("input_bytes"),
            sa.func.sum(_COLUMNS.output_bytes).label("output_bytes"),
        )
        .where(
            # Redundant, but the index is on this column.
            _COLUMNS.finished_at >= since,
            _COLUMNS.queued_at >= since,
            _COLUMNS.generation > 0,
            _COLUMNS.id.not_in(_HOLDERS),
        )
        .group_by(*by)
        .order_by(*by)
    )


def over(finished_before: float, limit: int) -> sa.Select[Any]:
    """Return the query for the ids of sessions that ended before a time."""
    return (
        sa.select(_COLUMNS.id)
        .where(
            _COLUMNS.finished_at < finished_before,
            _COLUMNS.state.not_in(_LIVE),
            _COLUMNS.id.not_in(_HOLDERS),
        )
        .order_by(_COLUMNS.finished_at)
        .limit(limit)
    )


def holders_of_names(
    connection: sa.Connection, new: Sequence[records.SessionRecord]
) -> list[records.SessionRecord]:
    """Return the older sessions that have the request ids of new ones."""
    requests: dict[str, list[str]] = {}
    for record in new:
        requests.setdefault(record.project_id, []).append(record.request_id)
    own = {record.id for record in new}
    return [
        record
        for project_id, request_ids in requests.items()
        for batch in rows.batches(request_ids)
        for record in rows.read(
            connection,
            records.SessionRecord,
            # One index serves both conditions; not all servers would use it
            # for pairs.
            _COLUMNS.project_id == project_id,
            _COLUMNS.request_id.in_(batch),
        )
        if record.id not in own
    ]


def of_same_name(
    new: Iterable[records.SessionRecord],
    holders: Iterable[records.SessionRecord],
) -> set[int]:
    """Return the ids of new sessions whose request ids are taken."""
    names = {(record.project_id, record.request_id) for record in holders}
    return {
        record.id
        for record in new
        if (record.project_id, record.request_id) in names
    }
