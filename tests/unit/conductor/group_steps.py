# SPDX-License-Identifier: Apache-2.0

"""Groups and their clients."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.db import api as db_api
from fpgapool.objects import group as group_objects
from tests.unit.conductor import world

HASH = "ab" * 32
_numbers = itertools.count(1)


def new(**members: Any) -> objects.CreateGroup:
    number = next(_numbers)
    values: dict[str, Any] = {
        "group_id": str(uuid.UUID(int=number)),
        "project_id": "p",
        "accelerator": "copy",
        "name": f"group{number}",
        "size": 2,
    }
    return objects.CreateGroup(**values | members)


def client(group_id: str, **members: Any) -> objects.AttachClient:
    values: dict[str, Any] = {
        "client_id": str(uuid.UUID(int=next(_numbers))),
        "group_id": group_id,
        "project_id": "p",
        "user_id": "u",
        "secret_hash": HASH,
    }
    return objects.AttachClient(**values | members)


def change(pool: world.Conductor, wanted: group_objects.GroupChange) -> str:
    """Make a change; return the code of its refusal, or nothing."""
    before = rows(pool), book(pool)
    refusal = pool.answer(inputs.ChangeGroup(wanted))
    if refusal is None:
        # The database has what the leader knows.
        assert rows(pool) == book(pool)
        return ""
    assert (rows(pool), book(pool)) == before
    assert str(refusal)
    return refusal.code


def rows(pool: world.Conductor) -> tuple[list[Any], list[Any]]:
    return tuple(
        sorted(pool.rows[name].values(), key=lambda row: row.id)
        for name in ("groups", "group_clients")
    )


def book(pool: world.Conductor) -> tuple[list[Any], list[Any]]:
    known = pool.memory.groups
    groups = sorted(known.groups.values(), key=lambda row: row.id)
    clients = [one for id_ in known.groups for one in known.clients_of(id_)]
    return groups, sorted(clients, key=lambda row: row.id)


QUOTA = admission.ProjectQuota(groups=3, group_slots=10, group_clients=3)
STATEFUL = dataclasses.replace(
    world.PROFILE, name="stateful", stateless=False
).to_primitive()["data"]
FOREIGN = {**STATEFUL, "name": "other", "shapes": ["large"]}


def make_pool() -> world.Conductor:
    """Host a with three slots, and two accelerators more than usual."""
    made = world.Conductor(world.hosts(a=3), default_quota=QUOTA)
    library = [
        db_api.AcceleratorRecord(name=one["name"], profile=one)
        for one in (
            world.PROFILE.to_primitive()["data"],
            STATEFUL,
            FOREIGN,
        )
    ]
    made.feed(inputs.Library(tuple(library)))
    return made
