# SPDX-License-Identifier: Apache-2.0

"""Limits, and sums of usage, on every kind of server."""

from __future__ import annotations

import dataclasses
import datetime
import itertools

import pytest

from fpgapool.db import api
from fpgapool.db import usage

DAYS = [datetime.date(2026, 5, day) for day in (1, 2, 3)]
PROJECTS = ("a", "B")
ACCELERATORS = ("aes", "copy")
WHERE = tuple(itertools.product(DAYS, PROJECTS, ACCELERATORS))


@pytest.fixture
def rows(database: api.Database, epoch: int) -> list[api.UsageRecord]:
    """Write rows, of which only those of one accelerator have an energy."""
    found = [
        api.UsageRecord(
            id=number,
            project_id=project,
            accelerator=accelerator,
            day=day,
            sessions=number,
            slot_s=0.5 * number,
            group_busy_s=0.25 * number,
            group_idle_s=0.125 * number,
            input_bytes=2**50 + number,
            output_bytes=number,
            energy_j=2.0 * number if accelerator == "aes" else None,
        )
        for number, (day, project, accelerator) in enumerate(WHERE, start=1)
    ]
    database.commit(epoch, api.Changes.of(found))
    return found


def test_energy_is_kept_or_unknown(
    database: api.Database, rows: list[api.UsageRecord]
) -> None:
    found = database.sum_usage(limit=100)
    assert {
        (one.day, one.project_id, one.accelerator): one.energy_j
        for one in found
    } == {
        (one.day, one.project_id, one.accelerator): one.energy_j
        for one in rows
    }


def test_nothing_is_added_up_by_default(
    database: api.Database, rows: list[api.UsageRecord]
) -> None:
    found = database.sum_usage(limit=100)
    assert len(found) == len(rows)
    row = rows[0]
    (first,) = (
        one
        for one in found
        if (one.day, one.project_id, one.accelerator) == WHERE[0]
    )
    assert dataclasses.asdict(first) == {
        name: getattr(row, name) for name in dataclasses.asdict(first)
    }
    assert type(first.input_bytes) is int


@pytest.mark.parametrize("key", usage.KEYS)
def test_what_has_the_same_key_is_added_up(
    database: api.Database, rows: list[api.UsageRecord], key: str
) -> None:
    found = database.sum_usage(keys=(key,), limit=100)
    assert {getattr(one, key) for one in found} == {
        getattr(row, key) for row in rows
    }
    for one in found:
        same = [r for r in rows if getattr(r, key) == getattr(one, key)]
        assert one.sessions == sum(row.sessions for row in same)
        assert one.input_bytes == sum(row.input_bytes for row in same)
        for name in ("slot_s", "group_busy_s", "group_idle_s"):
            assert getattr(one, name) == pytest.approx(
                sum(getattr(row, name) for row in same)
            )
        measured = [r.energy_j for r in same if r.energy_j is not None]
        assert one.energy_j == (
            pytest.approx(sum(measured)) if measured else None
        )
        others = {name: getattr(one, name) for name in usage.KEYS}
        del others[key]
        assert set(others.values()) == {None}


def test_usage_is_filtered(
    database: api.Database, rows: list[api.UsageRecord]
) -> None:
    found = database.sum_usage(
        "a",
        accelerator="copy",
        first_day=DAYS[1],
        last_day=DAYS[2],
        limit=100,
    )
    assert [(one.day, one.project_id, one.accelerator) for one in found] == [
        (day, "a", "copy") for day in DAYS[1:]
    ]
    assert database.sum_usage("A", limit=100) == []
    assert database.sum_usage("nobody", limit=100) == []


@pytest.mark.parametrize("keys", [usage.KEYS, ("project_id",), ("day",)])
@pytest.mark.parametrize(
    "limit", [1, pytest.param(2, marks=pytest.mark.dialect), 5, 100]
)
def test_pages_make_the_whole(
    database: api.Database,
    rows: list[api.UsageRecord],
    keys: tuple[str, ...],
    limit: int,
) -> None:
    whole = database.sum_usage(keys=keys, limit=1000)
    found: list[api.UsageSum] = []
    after = None
    while page := database.sum_usage(keys=keys, after=after, limit=limit):
        found += page
        after = [getattr(page[-1], key) for key in keys]
    assert found == whole


@pytest.mark.dialect
def test_limits_are_written_and_loaded(
    database: api.Database, epoch: int
) -> None:
    limits = [
        api.QuotaRecord(
            id=number, project_id=project, resource=resource, hard_limit=limit
        )
        for number, (project, resource, limit) in enumerate(
            [
                ("a", "sessions", 2**63 - 1),
                ("A", "sessions", -1),
                ("a", "queued", 0),
            ],
            start=1,
        )
    ]
    database.commit(epoch, api.Changes.of(limits))
    assert database.load().quotas == limits
    none = dataclasses.replace(limits[1], hard_limit=None)
    database.commit(epoch, api.Changes.of([none]))
    snapshot = database.load()
    assert snapshot.quotas == [limits[0], none, limits[2]]
    assert snapshot.max_ids[api.QuotaRecord] == 3
