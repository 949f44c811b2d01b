# SPDX-License-Identifier: Apache-2.0

"""Instances, and hosts that are deleted, on every kind of server."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest

from fpgapool.common import exception
from fpgapool.db import api


def instance(number: int, **members: Any) -> api.InstanceRecord:
    values: dict[str, Any] = {
        "instance_id": str(uuid.UUID(int=number)),
        "project_id": "a",
        "name": f"guest {number}",
        "token_nonce": "0" * 32,
        "token_hash": "ab" * 32,
        "created_at": 1e9 + number,
    }
    return api.InstanceRecord(id=number, **{**values, **members})


ROWS = [
    instance(1, deleted_at=100.0),
    instance(2, host_uuid=str(uuid.UUID(int=9)), max_sessions=3),
    instance(3, project_id="A"),
    instance(4, token_revoked=True),
    instance(5, deleted_at=200.0),
]


@pytest.fixture
def rows(database: api.Database, epoch: int) -> list[api.InstanceRecord]:
    """Write instances, of which two are deleted."""
    database.commit(epoch, api.Changes.of(ROWS))
    return ROWS


def test_an_instance_is_found_by_its_name(
    database: api.Database, rows: list[api.InstanceRecord]
) -> None:
    for one in rows:
        assert database.get_instance(one.instance_id) == one
    assert database.get_instance("none") is None
    assert database.get_instance("") is None


def test_a_leader_takes_over_those_that_are_not_deleted(
    database: api.Database, rows: list[api.InstanceRecord]
) -> None:
    snapshot = database.load()
    assert snapshot.instances == rows[1:4]
    assert snapshot.max_ids[api.InstanceRecord] == 5


def test_rows_are_changed(
    database: api.Database, epoch: int, rows: list[api.InstanceRecord]
) -> None:
    changed = dataclasses.replace(rows[1], deleted_at=5.0, max_sessions=None)
    for _ in range(2):
        database.commit(epoch, api.Changes.of([changed]))
    assert database.get_instance(changed.instance_id) == changed
    assert not changed.usable


def test_pages(database: api.Database, rows: list[api.InstanceRecord]) -> None:
    assert database.list_instances("a", limit=9) == [rows[3], rows[1]]
    newest = database.list_instances(limit=1)
    assert newest == [rows[3]]
    marker = newest[-1].instance_id
    rest = database.list_instances(marker=marker, limit=9)
    assert rest == [rows[2], rows[1]]
    oldest = database.list_instances(limit=2, ascending=True)
    assert oldest == [rows[1], rows[2]]
    marker = oldest[-1].instance_id
    assert database.list_instances(marker=marker, limit=2, ascending=True) == [
        rows[3]
    ]


@pytest.mark.dialect
def test_two_rows_of_one_name_are_refused(
    database: api.Database, epoch: int, rows: list[api.InstanceRecord]
) -> None:
    twin = dataclasses.replace(rows[1], id=77)
    with pytest.raises(exception.DatabaseError):
        database.commit(epoch, api.Changes.of([twin]))
    assert database.get_instance(twin.instance_id) == rows[1]


def test_purge(database: api.Database, rows: list[api.InstanceRecord]) -> None:
    assert database.purge_instances(100.0, 9) == 0
    assert database.purge_instances(150.0, 9) == 1
    assert database.purge_instances(1e12, 1) == 1
    assert database.purge_instances(1e12, 9) == 0
    assert len(database.list_instances(limit=9)) == 3


def test_a_host_is_deleted_and_may_come_back(
    database: api.Database, epoch: int
) -> None:
    host = api.HostRecord(id=1, uuid="u", name="n", nic_bytes_per_s=1.0)
    other = dataclasses.replace(host, id=2, uuid="v")
    database.commit(epoch, api.Changes.of([host, other]))
    gone = dataclasses.replace(host, admin_state=api.DELETED)
    back = dataclasses.replace(host, id=3)
    for _ in range(2):
        database.commit(epoch, api.Changes.of([gone, back]))
    assert database.load().hosts == [other, back]
