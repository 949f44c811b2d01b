# SPDX-License-Identifier: Apache-2.0

"""What the leader deletes of a database, and what it leaves."""

import datetime
from collections.abc import Sequence

import pytest

from fpgapool.common import exception
from fpgapool.conductor import counts
from fpgapool.conductor.runtime import retention
from fpgapool.db import api
from tests.functional.db import factory

pytestmark = pytest.mark.dialect

_DAY_S = 86400.0
_NOW = 1.7e9
_OLD = _NOW - 91 * _DAY_S
_RECENT = _NOW - 89 * _DAY_S
_STEP_ROWS = 2


@pytest.fixture
def rows() -> list[api.Record]:
    """Give five sessions and an instance to delete, and others to keep."""
    return [
        *factory.hardware(),
        *(factory.ended(i, _OLD) for i in range(1, 6)),
        factory.ended(6, _RECENT),
        # Its slot is not released yet.
        factory.ended(7, _OLD),
        factory.assignment(1, holder_id=7),
        factory.session(8, queued_at=_OLD),
        *(_instance(i, at) for i, at in enumerate((_OLD, _RECENT, None), 1)),
        api.UsageRecord(
            id=1,
            project_id="p1",
            accelerator="aes",
            day=datetime.date(2020, 1, 1),
            sessions=7,
        ),
        api.QuotaRecord(id=1, project_id="p1", resource="slots", hard_limit=2),
    ]


def _instance(id_: int, deleted_at: float | None) -> api.InstanceRecord:
    return api.InstanceRecord(
        id=id_,
        instance_id=f"vm{id_}",
        project_id="p1",
        token_nonce="n",
        token_hash="h",
        created_at=1.0,
        deleted_at=deleted_at,
    )


@pytest.fixture
def counted() -> counts.Counts:
    """Give the counts of the conductor."""
    return counts.Counts()


@pytest.fixture
def keeper(database, epoch, counted, monkeypatch) -> retention.Retention:
    """Give the retention of the leader, which keeps 90 days."""
    monkeypatch.setattr(retention, "STEP_ROWS", _STEP_ROWS)
    return retention.Retention(
        database,
        epoch,
        90,
        now=lambda: _NOW,
        counts=counted,
        on_failure=pytest.fail,
    )


def _left(database: api.Database) -> tuple[Sequence[int], Sequence[str]]:
    sessions = database.list_sessions(limit=99)
    instances = (f"vm{i}" for i in range(1, 4))
    return (
        sorted(one.id for one in sessions),
        [name for name in instances if database.get_instance(name)],
    )


def test_only_what_ended_long_ago_is_deleted(
    database, epoch, rows, keeper, counted, caplog
):
    caplog.set_level("INFO")
    database.commit(epoch, api.Changes.of(rows))
    lefts = []
    while keeper.step() != retention._NOTHING_LEFT_S:
        lefts.append(len(_left(database)[0]))
    # A few at a time.
    assert lefts == [6, 4]
    assert _left(database) == ([6, 7, 8], ["vm2", "vm3"])
    snapshot = database.load()
    assert (len(snapshot.usage), len(snapshot.quotas)) == (1, 1)
    assert dict(counted.purged_rows) == {"sessions": 5, "instances": 1}
    said = "more than 90 days ago: 5 sessions, 1 instances"
    assert caplog.text.count(said) == 1
    # Not again, when there is nothing.
    keeper.step()
    assert caplog.text.count("90 days") == 1


def test_a_later_leader_makes_it_end(database, epoch, rows, keeper):
    database.commit(epoch, api.Changes.of(rows))
    database.take_lease("c2", database.read_lease())
    before = _left(database)
    with pytest.raises(exception.NotLeader):
        keeper.step()
    assert _left(database) == before
