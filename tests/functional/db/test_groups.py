# SPDX-License-Identifier: Apache-2.0

"""Groups and their clients, on every kind of server."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest

from fpgapool.db import api
from fpgapool.vocabulary import states
from tests.functional.db import factory


def group(id_: int, **members: Any) -> api.GroupRecord:
    values: dict[str, Any] = {
        "group_id": str(uuid.UUID(int=id_)),
        "name": f"group{id_}",
        "project_id": "p",
        "accelerator": "aes",
        "state": states.GROUP_CREATING,
        "size": 2,
        "min_size": 1,
        "max_size": 2**31 - 1,
        "projects": [],
        "created_at": 1.7e9 + id_ / 1000,
    }
    return api.GroupRecord(id=id_, **values | members)


def client(id_: int, of: api.GroupRecord, **members: Any) -> Any:
    values: dict[str, Any] = {
        "client_id": str(uuid.UUID(int=100 + id_)),
        "group_id": of.group_id,
        "project_id": "p",
        "user_id": "u",
        "state": states.CLIENT_ATTACHED,
        "secret_hash": "ab" * 32,
        "created_at": 1.7e9 + id_ / 1000,
    }
    return api.GroupClientRecord(id=id_, **values | members)


FIRST = group(
    1,
    elastic=True,
    shared=True,
    projects=["q", "Q"],
    goal_kind="deadline",
    deadline_at=1.8e9 + 0.25,
    actions=2**53 + 1,
    actions_done=2**53,
    updated_at=1.7e9,
)
SECOND = group(2, project_id="P", goal_kind="rate", rate_per_s=0.1)


@pytest.mark.dialect
def test_slots_of_groups(database: api.Database, epoch: int) -> None:
    rows = [
        *factory.hardware(),
        FIRST,
        # Ids of sessions and groups are apart.
        factory.session(1, project_id="p2"),
        factory.assignment(1, holder_id=1, phase="READY"),
        factory.assignment(2, holder_id=1, holder_kind="group"),
    ]
    database.commit(epoch, api.Changes.of(rows))
    holders = {one.slot_id: one for one in database.inventory().holders}
    assert holders[1].project_id == "p2"
    assert holders[2] == api.SlotHolder(
        slot_id=2,
        accelerator="aes",
        phase="PREPARING",
        session_id=None,
        project_id="p",
        user_id="",
    )
    found = database.holdings(0.0)
    assert found.groups == {1}
    assert [one.holder_kind for one in found.assignments] == [
        "session",
        "group",
    ]
    assert database.load().assignments == found.assignments


@pytest.mark.dialect
def test_groups_are_written_loaded_and_deleted(
    database: api.Database, epoch: int
) -> None:
    clients = [client(1, FIRST), client(2, FIRST, project_id="q")]
    database.commit(epoch, api.Changes.of([FIRST, SECOND, *clients]))
    snapshot = database.load()
    assert snapshot.groups == database.groups() == [FIRST, SECOND]
    assert snapshot.group_clients == database.group_clients() == clients
    assert (
        snapshot.max_ids[api.GroupRecord],
        snapshot.max_ids[api.GroupClientRecord],
    ) == (2, 2)
    gone = [
        dataclasses.replace(FIRST, state=states.GROUP_DELETED),
        *(
            dataclasses.replace(one, state=states.CLIENT_REVOKED)
            for one in clients
        ),
    ]
    changes = api.Changes.of([*gone, dataclasses.replace(SECOND, size=1)])
    assert changes
    for _ in range(2):
        # It is written again if no answer came.
        database.commit(epoch, changes)
        assert [one.size for one in database.groups()] == [1]
        assert database.group_clients() == []


@pytest.mark.dialect
def test_counts_of_desks(database: api.Database, epoch: int) -> None:
    counts = {"ended": 2**53 + 1, "arrived": 2**60, "busy_s": 0.1}
    row = api.GroupDeskRecord(
        id=7,
        group_id=FIRST.group_id,
        host_id=1,
        boot_id="1",
        counts={str(uuid.UUID(int=101)): {**counts, "project_id": "p"}},
        charged_at=1.7e9 + 0.25,
        unpaid_s=-0.1,
    )
    other = dataclasses.replace(row, id=8, host_id=2, counts={})
    database.commit(epoch, api.Changes.of([row, other]))
    snapshot = database.load()
    assert snapshot.group_desks == [row, other]
    assert snapshot.max_ids[api.GroupDeskRecord] == 8
    assert [one.charged_at for one in snapshot.moved(5.0).group_desks] == [
        row.charged_at + 5.0
    ] * 2
    gone = dataclasses.replace(row, boot_id=api.DELETED)
    database.commit(epoch, api.Changes.of([gone]))
    assert database.load().group_desks == [other]


@pytest.mark.dialect
def test_names_are_exchanged_in_one_commit(
    database: api.Database, epoch: int
) -> None:
    first, second = group(1, name="a"), group(2, name="b")
    database.commit(epoch, api.Changes.of([first, second]))
    changed = [
        dataclasses.replace(second, name="a"),
        dataclasses.replace(first, name="b"),
    ]
    database.commit(epoch, api.Changes.of(changed))
    assert [one.name for one in database.groups()] == ["b", "a"]


def test_groups_and_clients_are_found(
    database: api.Database, epoch: int
) -> None:
    mine = client(1, FIRST)
    theirs = client(2, FIRST, project_id="q")
    other = client(3, SECOND)
    rows = [FIRST, SECOND, mine, theirs, other]
    database.commit(epoch, api.Changes.of(rows))
    assert database.groups(FIRST.group_id, "unknown") == [FIRST]
    assert database.groups("unknown") == []
    found = database.group_clients(group_id=FIRST.group_id)
    assert found == [mine, theirs]
    assert database.group_clients(project_id="p") == [mine, other]
    assert database.group_clients(project_id="P") == []
    assert database.group_clients(group_id=FIRST.group_id, project_id="p") == [
        mine
    ]
