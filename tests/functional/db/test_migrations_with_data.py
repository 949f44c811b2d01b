# SPDX-License-Identifier: Apache-2.0

"""Migrations of databases that hold something."""

import decimal
import itertools
import uuid

import pytest
import sqlalchemy as sa

from fpgapool.db import api
from fpgapool.db import migration

HOST_UUID = str(uuid.UUID(int=7))
# Four bytes in UTF-8, and a quote.
MESSAGE = "Gerät \N{CRYSTAL BALL} 'fehlt'"

#: Table -> rows, as the first version has them.
FIRST = {
    "hosts": [
        {
            "id": 1,
            "uuid": HOST_UUID,
            "name": "compute1",
            "nic_bytes_per_s": 1.25e9,
            "up": True,
            "last_report_at": 1.7e9 + 0.125,
        }
    ],
    "devices": [
        {
            "id": id_,
            "host_id": 1,
            "name": f"board{id_}",
            "model": "emulated",
            "dma_bytes_per_s": 2.1e9,
            "healthy": True,
            "fault_reason": "",
        }
        for id_ in (1, 2)
    ],
    "slots": [
        {
            "id": 1,
            "device_id": 2,
            "number": 0,
            "shape": "medium",
            "programmed": "aes",
            "programming_time_s": 0.05,
            "faulty": True,
            "fault_reason": MESSAGE,
        }
    ],
    "accelerators": [{"name": "aes", "profile": {"name": "aes", "n": [1]}}],
    "sessions": [
        {
            "id": id_,
            "session_id": str(uuid.UUID(int=id_)),
            "request_id": f"request-{id_}",
            "project_id": "p1",
            "user_id": "u1",
            "host_id": 1,
            "accelerator": "aes",
            "claimed_bytes": 2**62,
            "priority": -3,
            "skips": 4,
            "state": state,
            "reason": "",
            "message": MESSAGE,
            "generation": (1 << 32) + id_,
            "revision": 5,
            "slot_id": 1,
            "local": True,
            "wait_timeout_s": None,
            "connect_timeout_s": 30.0,
            "resume_grace_s": 10.0,
            "queued_at": 1.7e9 + id_ / 1000,
            "ready_at": None,
            "started_at": None,
            "finished_at": 1.7e9 if state == "CLOSED" else None,
            "input_bytes": 2**40,
            "output_bytes": 0,
        }
        for id_, state in ((1, "CLOSED"), (2, "ACTIVE"), (3, "QUEUED"))
    ],
    "assignments": [
        {
            "slot_id": 1,
            "holder_kind": "session",
            "holder_id": 2,
            "accelerator": "aes",
            "generation": (1 << 32) + 2,
            "phase": "ACTIVE",
            "local": True,
            "assigned_at": 1.7e9,
        }
    ],
    "leader_lease": [{"id": 1, "holder": "c1", "epoch": 9, "renewals": 3}],
}


def _reflected(engine: sa.Engine) -> sa.MetaData:
    metadata = sa.MetaData()
    metadata.reflect(engine)
    # No dialect tells that a text is JSON in all its versions.
    for table in metadata.tables.values():
        for column in table.columns:
            if column.name == "profile":
                column.type = sa.JSON()
    return metadata


def _fill(engine: sa.Engine) -> None:
    metadata = _reflected(engine)
    with engine.begin() as connection:
        for name, rows in FIRST.items():
            connection.execute(sa.insert(metadata.tables[name]), rows)


def _rows(engine: sa.Engine, name: str) -> list[dict]:
    table = _reflected(engine).tables[name]
    with engine.connect() as connection:
        query = sa.select(table).order_by(*table.primary_key.columns)
        return [
            {name: _plain(value) for name, value in row.items()}
            for row in connection.execute(query).mappings()
        ]


def _plain(value: object) -> object:
    # How MariaDB's doubles come, where nothing says what they are for.
    return float(value) if isinstance(value, decimal.Decimal) else value


def _require_kept(engine: sa.Engine) -> None:
    for name, before in FIRST.items():
        after = _rows(engine, name)
        assert len(after) == len(before), name
        for old, new in zip(before, after, strict=True):
            assert {k: new[k] for k in old} == old


def _set_version(engine: sa.Engine, version: str | None) -> None:
    table = sa.table("alembic_version", sa.column("version_num"))
    with engine.begin() as connection:
        connection.execute(sa.delete(table))
        if version is not None:
            connection.execute(sa.insert(table).values(version_num=version))


@pytest.mark.dialect
def test_what_there_is_survives_each_step_and_its_repetition(empty):
    steps = [None, *migration.versions()]
    for before, version in itertools.pairwise(steps):
        migration.sync(empty, version)
        if before is None:
            _fill(empty)
        # MariaDB keeps the tables of a run that is killed before its COMMIT.
        _set_version(empty, before)
        migration.sync(empty, version)
        assert migration.current_version(empty) == version
        _require_kept(empty)
    assert migration.differences(empty) == []


@pytest.mark.dialect
def test_a_conductor_takes_over_what_there_was(empty_url, empty):
    migration.sync(empty, migration.versions()[0])
    _fill(empty)
    migration.sync(empty)
    database = api.Database(empty_url)
    snapshot = database.load()
    (session,) = database.sessions_by_ids([str(uuid.UUID(int=1))])
    lease = database.read_lease()
    database.close()
    assert [one.uuid for one in snapshot.hosts] == [HOST_UUID]
    assert [one.id for one in snapshot.live_sessions] == [2, 3]
    assert [one.holder_id for one in snapshot.assignments] == [2]
    assert session.message == MESSAGE
    assert lease == api.Lease(holder="c1", epoch=9, renewals=3)
