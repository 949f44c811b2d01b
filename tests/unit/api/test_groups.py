# SPDX-License-Identifier: Apache-2.0

"""Groups, their goals and their clients in the API."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import oslo_messaging as messaging
import pytest

from fpgapool import objects
from fpgapool.api.http import instances
from fpgapool.common import exception
from fpgapool.conductor.decisions.requests import admission
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.objects import instance
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

PATH = "/v1/groups"
MEMBER = fakes.MEMBER
OTHER = fakes.STRANGER
ADMIN = fakes.ADMIN
WANTED = {"name": "render", "accelerator": "copy", "size": 2}
ELASTIC = {"min_size": 1, "max_size": 4, "elastic": True}
DEADLINE = {"deadline_at": "2026-01-01T12:00:00", "actions": 500}
VM = str(uuid.UUID(int=5))


def create(
    world: fakes.Api, token: str = MEMBER, **members: Any
) -> dict[str, Any]:
    body = {"group": {**WANTED, **members}}
    answer = world.ask("POST", PATH, token, body=body)
    assert answer.status_code == 202, answer.json
    return answer.json["group"]


def one(group: dict[str, Any], *more: str) -> str:
    return "/".join((PATH, group["id"], *more))


def change(world: fakes.Api, path: str, token: str = MEMBER, **members: Any):
    return world.ask("PATCH", path, token, body={"group": members})


def attach(
    world: fakes.Api, group: dict[str, Any], token: str = MEMBER
) -> dict[str, Any]:
    answer = world.ask("POST", one(group, "clients"), token)
    assert answer.status_code == 202
    assert int(answer.headers["retry-after"]) > 0
    return answer.json["client"]


def clients(world: fakes.Api, group: dict[str, Any], token: str = MEMBER):
    return world.ask("GET", one(group, "clients"), token).json["clients"]


def shown_client(
    world: fakes.Api, group: dict[str, Any], client: dict[str, Any]
):
    path = one(group, "clients", client["id"])
    return world.ask("GET", path).json["client"]


def kept(world: fakes.Api) -> Any:
    """Return all that requests could change."""
    book = world.conductor.groups
    return list(book.groups.values()), [
        client for id_ in book.groups for client in book.clients_of(id_)
    ]


@pytest.fixture
def group(world: fakes.Api) -> dict[str, Any]:
    return create(world, **ELASTIC)


# Creating, showing, changing, deleting.


def test_a_group_that_was_created(world):
    body = {"group": WANTED}
    answer = world.ask("POST", PATH, body=body)
    group = answer.json["group"]
    assert answer.headers["location"].endswith(one(group))
    assert int(answer.headers["retry-after"]) > 0
    for name, value in {
        **WANTED,
        "project_id": "p1",
        "state": "CREATING",
        "min_size": 2,
        "max_size": 2,
        "elastic": False,
        "shared": False,
        "projects": [],
        "members": [],
        "goal": None,
    }.items():
        assert group[name] == value, name
    assert world.ask("GET", one(group)).json["group"] == group


def test_whole_numbers_may_have_a_point(world):
    assert create(world, size=2.0, max_size=3e0)["max_size"] == 3
    (record,), _ = kept(world)
    assert type(record.size) is type(record.max_size) is int


def test_a_list_shows_the_own_projects_groups(world, group):
    create(world, OTHER, name="theirs")
    second = create(world, name="second")
    listed = world.ask("GET", f"{PATH}?sort_key=name").json["groups"]
    assert [one["name"] for one in listed] == ["render", "second"]
    assert "members" not in listed[0]
    found = world.ask("GET", f"{PATH}?name=second&shared=false").json["groups"]
    assert [one["id"] for one in found] == [second["id"]]
    page = world.ask("GET", f"{PATH}?limit=1&sort_key=name&sort_dir=desc").json
    assert [one["name"] for one in page["groups"]] == ["second"]
    assert f"marker={second['id']}" in page["groups_links"][0]["href"]
    all_ = f"{PATH}?all_projects=true"
    assert world.error("GET", all_) == (403, codes.FORBIDDEN)
    assert len(world.ask("GET", all_, ADMIN).json["groups"]) == 3


def test_a_group_is_changed_member_by_member(world, group):
    changed = change(world, one(group), name="other", size=4).json["group"]
    assert (changed["name"], changed["size"]) == ("other", 4)
    assert (changed["min_size"], changed["max_size"]) == (1, 4)
    assert change(world, one(group)).status_code == 400


def test_a_group_that_was_deleted_is_not_there(world, group):
    attach(world, group)
    assert world.ask("DELETE", one(group)).status_code == 204
    assert kept(world) == ([], [])
    for method in ("GET", "DELETE"):
        assert world.error(method, one(group)) == (404, codes.GROUP_NOT_FOUND)


# Bad input: a code of its own, and nothing changes.

BAD_SIZES = [
    {"size": 0},
    {"size": -1},
    {"size": 10_001, "max_size": 10_001},
    {"min_size": 3},
    {"min_size": -1},
    {"max_size": 1},
    {"max_size": 0, "min_size": 0},
    {"size": 5, "min_size": 1, "max_size": 4},
    {"min_size": 4, "max_size": 3, "size": 3},
]


@pytest.mark.parametrize("sizes", BAD_SIZES)
def test_sizes_that_contradict_each_other(world, sizes):
    body = {"group": {**WANTED, **sizes}}
    found = world.error("POST", PATH, body=body)
    assert found == (400, codes.INVALID_GROUP_SIZE)
    assert kept(world) == ([], [])
    group = create(world)
    before = kept(world)
    found = world.error("PATCH", one(group), body={"group": sizes})
    assert found == (400, codes.INVALID_GROUP_SIZE)
    assert kept(world) == before


@pytest.mark.parametrize(
    "members",
    [
        {"size": None},
        {"size": "2"},
        {"size": True},
        {"size": 1.5},
        {"size": 1e300},
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 65},
        {"name": "é"},
        {"accelerator": ""},
        {"elastic": "yes"},
        {"projects": "p2"},
        {"projects": ["a\0b"]},
        {"projects": ["p"] * 1001},
        {"state": "ACTIVE"},
        {"goal": None},
        {"goal": {"speed": 5}},
        {"goal": {"rate_per_s": "fast"}},
    ],
)
def test_what_is_no_group(world, members):
    body = {"group": {**WANTED, **members}}
    found = world.error("POST", PATH, ADMIN, body=body)
    assert found[0] == 400
    assert found[1] in (codes.INVALID_REQUEST, codes.INVALID_GROUP_SIZE)
    assert kept(world) == ([], [])


def test_a_name_is_unique_in_its_project(world, group):
    second = create(world, name="second")
    before = kept(world)
    taken = (409, codes.GROUP_NAME_TAKEN)
    assert world.error("POST", PATH, body={"group": WANTED}) == taken
    body = {"group": {"name": "render"}}
    assert world.error("PATCH", one(second), body=body) == taken
    assert kept(world) == before
    # It keeps its own name, and another project may have the same.
    assert change(world, one(group), name="render").status_code == 200
    create(world, OTHER)


@pytest.mark.parametrize(
    ("quota", "members"),
    [
        ({"groups": 1}, {"name": "second", "size": 1}),
        ({"group_slots": 4}, {"name": "second", "size": 1}),
    ],
)
def test_a_quota_that_is_exceeded(world, group, quota, members):
    world.conductor.quota = admission.ProjectQuota(**quota)
    before = kept(world)
    body = {"group": {**WANTED, **members}}
    answer = world.ask("POST", PATH, body=body)
    assert answer.status_code == 429
    assert answer.json["errors"][0]["code"] == codes.QUOTA_EXCEEDED
    assert kept(world) == before


def test_a_group_that_may_not_grow_may_shrink(world, group):
    world.conductor.quota = admission.ProjectQuota(group_slots=2)
    body = {"group": {"max_size": 5}}
    assert world.error("PATCH", one(group), body=body)[1] == (
        codes.QUOTA_EXCEEDED
    )
    # It counts 4 slots, which is more than the new limit.
    changed = change(world, one(group), max_size=3)
    assert changed.status_code == 200


# Goals.


def test_goals_come_and_go(world, group):
    path = one(group, "goal")
    goal = world.ask("PUT", path, body={"goal": DEADLINE}).json["group"][
        "goal"
    ]
    assert goal == {
        "kind": "deadline",
        "deadline_at": "2026-01-01T12:00:00.000000Z",
        "rate_per_s": None,
        "actions": 500,
        "actions_done": 0,
        "progress": None,
        "slots": None,
        "expected_finish_at": None,
    }
    (listed,) = world.ask("GET", PATH).json["groups"]
    assert listed["goal"].items() < goal.items()
    body = {"goal": {"rate_per_s": 2.5}}
    goal = world.ask("PUT", path, body=body).json["group"]["goal"]
    assert (goal["kind"], goal["rate_per_s"], goal["deadline_at"]) == (
        "rate",
        2.5,
        None,
    )
    for _ in range(2):
        assert world.ask("DELETE", path).status_code == 204
    assert world.ask("GET", one(group)).json["group"]["goal"] is None


def test_a_group_may_begin_with_a_goal(world):
    group = create(world, **ELASTIC, goal={"rate_per_s": 5, "actions": 9})
    assert (group["goal"]["kind"], group["goal"]["actions"]) == ("rate", 9)


@pytest.mark.parametrize(
    "goal",
    [
        {},
        {**DEADLINE, "rate_per_s": 5},
        {"deadline_at": DEADLINE["deadline_at"]},
        {"actions": 5},
        {**DEADLINE, "actions": 0},
        {**DEADLINE, "actions": -3},
        {**DEADLINE, "deadline_at": "2020-01-01T00:00:00"},
        {**DEADLINE, "deadline_at": "9999-01-01T00:00:00"},
        {**DEADLINE, "deadline_at": "tomorrow"},
        {**DEADLINE, "deadline_at": ""},
        {"rate_per_s": 0},
        {"rate_per_s": -1.5},
        {"rate_per_s": 1e300},
    ],
)
def test_what_is_no_goal(world, group, goal):
    before = kept(world)
    bad = (400, codes.INVALID_GOAL)
    path = one(group, "goal")
    assert world.error("PUT", path, body={"goal": goal}) == bad
    body = {"group": {**WANTED, **ELASTIC, "name": "new", "goal": goal}}
    assert world.error("POST", PATH, body=body) == bad
    assert kept(world) == before


def test_only_an_elastic_group_has_a_goal(world):
    group = create(world)
    before = kept(world)
    refused = (409, codes.GROUP_NOT_ELASTIC)
    body = {"goal": DEADLINE}
    assert world.error("PUT", one(group, "goal"), body=body) == refused
    assert kept(world) == before
    assert change(world, one(group), elastic=True).status_code == 200
    assert world.ask("PUT", one(group, "goal"), body=body).status_code == 200
    body = {"group": {"elastic": False}}
    assert world.error("PATCH", one(group), body=body) == refused


def test_a_goal_that_cannot_be(world, group, monkeypatch):
    def refuse(_change: object) -> None:
        raise exception.GroupRefused(
            "the earliest possible deadline is in 90 s",
            code=codes.GOAL_INFEASIBLE,
        )

    before = kept(world)
    monkeypatch.setattr(world.conductor, "change_group", refuse)
    answer = world.ask("PUT", one(group, "goal"), body={"goal": DEADLINE})
    assert answer.status_code == 409
    (error,) = answer.json["errors"]
    assert error["code"] == codes.GOAL_INFEASIBLE
    assert "the earliest possible deadline is in 90 s" in error["detail"]
    body = {"group": {**WANTED, **ELASTIC, "name": "new", "goal": DEADLINE}}
    refused = (409, codes.GOAL_INFEASIBLE)
    assert world.error("POST", PATH, body=body) == refused
    assert kept(world) == before


# Who may do what.


def test_another_projects_private_group_is_not_there(world, group):
    client = attach(world, group)
    before = kept(world)
    for method, path, body in (
        ("GET", one(group), None),
        ("PATCH", one(group), {"group": {"size": 3}}),
        ("DELETE", one(group), None),
        ("PUT", one(group, "goal"), {"goal": {"rate_per_s": 1}}),
        ("DELETE", one(group, "goal"), None),
        ("GET", one(group, "clients"), None),
        ("POST", one(group, "clients"), None),
        ("GET", one(group, "clients", client["id"]), None),
        ("DELETE", one(group, "clients", client["id"]), None),
    ):
        found = world.error(method, path, OTHER, body=body)
        assert found == (404, codes.GROUP_NOT_FOUND), (method, path)
    assert kept(world) == before


def test_only_administrators_share_groups(world, group):
    before = kept(world)
    for members in ({"shared": True}, {"shared": True, "projects": ["p2"]}):
        body = {"group": members}
        found = world.error("PATCH", one(group), body=body)
        assert found == (403, codes.FORBIDDEN)
        body = {"group": {**WANTED, "name": "new", **members}}
        assert world.error("POST", PATH, body=body) == (403, codes.FORBIDDEN)
    assert kept(world) == before
    assert change(world, one(group), ADMIN, shared=True).status_code == 200


def test_an_accelerator_with_state_is_not_shared(world):
    group = create(world, accelerator="fft")
    before = kept(world)
    refused = (409, codes.ACCELERATOR_NOT_STATELESS)
    body = {"group": {"shared": True}}
    assert world.error("PATCH", one(group), ADMIN, body=body) == refused
    body = {"group": {**WANTED, "accelerator": "fft", "shared": True}}
    assert world.error("POST", PATH, ADMIN, body=body) == refused
    assert kept(world) == before


def test_a_private_group_has_no_projects(world, group):
    body = {"group": {"projects": ["p2"]}}
    found = world.error("PATCH", one(group), ADMIN, body=body)
    assert found == (409, codes.GROUP_NOT_SHARED)


def test_a_shared_group_seen_by_another_project(world, group):
    change(world, one(group), ADMIN, shared=True, projects=["p2", "p3"])
    seen = world.ask("GET", one(group), OTHER).json["group"]
    assert (seen["name"], seen["projects"]) == ("render", [])
    mine = world.ask("GET", one(group)).json["group"]
    assert mine["projects"] == ["p2", "p3"]
    assert world.ask("GET", PATH, OTHER).json["groups"][0]["id"] == group["id"]
    stranger = "zoe:p4:member,reader"
    assert world.error("GET", one(group), stranger)[0] == 404
    # To use it is not to own it.
    for method, body in (("PATCH", {"group": {"size": 3}}), ("DELETE", None)):
        found = world.error(method, one(group), OTHER, body=body)
        assert found == (403, codes.FORBIDDEN)


def test_who_loses_a_group_loses_its_clients(world, group):
    change(world, one(group), ADMIN, shared=True)
    attach(world, group)
    attach(world, group, OTHER)
    change(world, one(group), ADMIN, projects=["p3"])
    assert [one["project_id"] for one in clients(world, group)] == ["p1"]
    change(world, one(group), ADMIN, shared=False)
    found = world.ask("GET", one(group)).json["group"]
    assert (found["shared"], found["projects"]) == (False, [])


# Clients.


def test_a_client_is_told_its_secret_once(world, group):
    client = attach(world, group)
    secret = client.pop("secret")
    assert client == {
        "id": client["id"],
        "project_id": "p1",
        "user_id": "eve",
        "state": "ATTACHED",
        "created_at": client["created_at"],
        "tasks": 0,
        "slot_s": 0.0,
        "hosts": [],
        "hosts_revision": 0,
        "hosts_total": 0,
    }
    assert clients(world, group) == [client]
    assert shown_client(world, group, client) == client
    ((record,),) = kept(world)[1:]
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert record.secret_hash == digest
    assert secret not in repr(kept(world))
    assert attach(world, group)["secret"] != secret


def test_a_client_is_told_the_hosts_of_its_group(world, group):
    client = attach(world, group)
    assert client["hosts"] == []
    world.conductor.group_hosts = (
        objects.GroupHost(
            host_uuid=fakes.HOST,
            members=2,
            endpoints=(
                objects.Endpoint("local", "", 0),
                objects.Endpoint("data", "10.0.0.1", 4000),
            ),
            certificate_sha256="ab" * 32,
        ),
    )
    world.conductor.group_hosts_revision = 7
    host = {
        "host_uuid": identity.host_hash(fakes.HOST, group["id"]),
        "members": 2,
        # The local one is that of the host's front door.
        "endpoints": [
            {"network": "data", "address": "10.0.0.1", "port": 4000}
        ],
        "certificate_sha256": "ab" * 32,
    }
    for found in (
        attach(world, group),
        *clients(world, group),
        shown_client(world, group, client),
    ):
        assert (found["hosts"], found["hosts_revision"]) == ([host], 7)
    # Only the leader knows them.
    world.conductor.failure = messaging.MessagingTimeout()
    assert shown_client(world, group, client)["hosts"] == []


def test_lists_that_may_be_cut_are_counted_since_version_1_1(world, group):
    client = attach(world, group)
    world.conductor.group_hosts = tuple(
        objects.GroupHost(host_uuid=str(uuid.UUID(int=number)), members=1)
        for number in range(900)
    )
    shown = shown_client(world, group, client)
    assert len(shown["hosts"]) < shown["hosts_total"] == 900
    assert world.ask("GET", one(group)).json["group"]["members_total"] == 0
    first = {"OpenStack-API-Version": "fpgapool 1.0"}
    path = one(group, "clients", client["id"])
    old = world.ask("GET", path, headers=first).json["client"]
    assert "hosts_total" not in old
    old = world.ask("GET", one(group), headers=first).json["group"]
    assert "members_total" not in old


def test_a_revoked_client_is_not_there(world, group):
    first, second = attach(world, group), attach(world, group)
    path = one(group, "clients", first["id"])
    assert world.ask("DELETE", path).status_code == 204
    assert [one["id"] for one in clients(world, group)] == [second["id"]]
    gone = (404, codes.GROUP_CLIENT_NOT_FOUND)
    assert world.error("DELETE", path) == gone
    assert world.error("GET", path) == gone
    other = create(world, name="other")
    path = one(other, "clients", second["id"])
    assert world.error("DELETE", path) == gone
    assert len(clients(world, group)) == 1


def test_clients_of_a_shared_group(world, group):
    """Each project sees its own clients, and the owner all of them."""
    change(world, one(group), ADMIN, shared=True)
    mine, theirs = attach(world, group), attach(world, group, OTHER)
    assert len(clients(world, group)) == 2
    assert [one["id"] for one in clients(world, group, OTHER)] == [
        theirs["id"]
    ]
    path = one(group, "clients", mine["id"])
    assert world.error("DELETE", path, OTHER) == (
        404,
        codes.GROUP_CLIENT_NOT_FOUND,
    )
    assert world.ask("DELETE", path, ADMIN).status_code == 204
    path = one(group, "clients", theirs["id"])
    assert world.ask("DELETE", path).status_code == 204
    assert clients(world, group) == []


def test_too_many_clients(world, group):
    world.conductor.quota = admission.ProjectQuota(group_clients=1)
    attach(world, group)
    found = world.error("POST", one(group, "clients"))
    assert found == (429, codes.QUOTA_EXCEEDED)
    assert len(clients(world, group)) == 1


def test_a_list_of_clients_comes_in_pages(world, group):
    names = [attach(world, group)["id"] for _ in range(3)]
    path = f"{one(group, 'clients')}?limit=2&sort_key=created_at"
    first, rest = world.pages(path)
    assert sorted(one["id"] for one in first + rest) == sorted(names)


def test_an_instance_sees_the_clients_that_it_attached(make_world):
    world = make_world(auth_strategy="keystone")
    key, nonce = "k" * 32, "0" * 32
    token = instances.make_token(key, VM, nonce)
    world.database.instances[VM] = db_api.InstanceRecord(
        id=1,
        instance_id=VM,
        project_id="p1",
        token_nonce=nonce,
        token_hash=instances.hash_token(token),
        created_at=fakes.NOW,
    )
    noauth = make_world()
    group = create(noauth)
    attach(noauth, group)
    world.conductor.groups = world.database.book = noauth.conductor.groups
    client = attach(world, group, token)
    assert client["user_id"] == instance.user_of(VM)
    assert [one["id"] for one in clients(world, group, token)] == [
        client["id"]
    ]
    assert len(clients(noauth, group)) == 2
    (others,) = (
        one for one in clients(noauth, group) if one["id"] != client["id"]
    )
    path = one(group, "clients", others["id"])
    for method in ("GET", "DELETE"):
        assert world.error(method, path, token) == (
            404,
            codes.GROUP_CLIENT_NOT_FOUND,
        )
    path = one(group, "clients", client["id"])
    assert world.ask("DELETE", path, token).status_code == 204


# Around it.


def test_without_a_conductor_groups_are_read_and_not_changed(world, group):
    attach(world, group)
    world.conductor.failure = messaging.MessagingTimeout()
    answer = world.ask("GET", one(group))
    assert answer.json["group"]["name"] == "render"
    assert answer.headers["openstack-fpgapool-source"] == "database"
    assert len(clients(world, group)) == 1
    assert len(world.ask("GET", PATH).json["groups"]) == 1
    away = (503, codes.CONDUCTOR_UNAVAILABLE)
    assert world.error("DELETE", one(group)) == away
    assert world.error("POST", one(group, "clients")) == away


def test_the_use_that_the_database_knows(world, group):
    attach(world, group)
    create(world, name="second", size=3)
    world.conductor.failure = messaging.MessagingTimeout()
    quota = world.ask("GET", "/v1/quotas").json["quota"]
    # The elastic group may grow to 4.
    assert quota["groups"]["in_use"] == 2
    assert quota["group_slots"]["in_use"] == 7
    assert quota["group_clients"]["in_use"] == 1


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [
        json.loads(record.getMessage())
        for record in caplog.records
        if record.name == "fpgapool.audit"
    ]


def test_what_administrators_and_owners_do_to_others_is_audited(
    world, group, caplog
):
    caplog.set_level("INFO", "fpgapool.audit")
    change(world, one(group), ADMIN, shared=True)
    theirs = attach(world, group, OTHER)
    attach(world, group)
    change(world, one(group), size=3)
    assert (
        world.ask("DELETE", one(group, "clients", theirs["id"])).status_code
        == 204
    )
    shared, revoked = audited(caplog)
    assert "fpgapool:groups:share" in shared["action"]
    assert shared["before"] == {"shared": False}
    assert revoked["action"] == "group client revoke"
    assert revoked["target_projects"] == ["p2"]
    assert revoked["target"]["client_id"] == theirs["id"]


def test_each_change_of_a_foreign_group_is_audited(world, group, caplog):
    caplog.set_level("INFO", "fpgapool.audit")
    client = attach(world, group)
    change(world, one(group), ADMIN, elastic=True, max_size=4)
    goal = {"goal": {"rate_per_s": 5.0}}
    world.ask("PUT", one(group, "goal"), ADMIN, body=goal)
    world.ask("DELETE", one(group, "goal"), ADMIN)
    world.ask("DELETE", one(group, "clients", client["id"]), ADMIN)
    world.ask("DELETE", one(group), ADMIN)
    lines = audited(caplog)
    assert [line["action"].split()[:2] for line in lines] == [
        ["PATCH", "/v1/groups/{group_id}"],
        ["PUT", "/v1/groups/{group_id}/goal"],
        ["DELETE", "/v1/groups/{group_id}/goal"],
        ["DELETE", "/v1/groups/{group_id}/clients/{client_id}"],
        ["DELETE", "/v1/groups/{group_id}"],
    ]
    for line in lines:
        assert line["outcome"] == "done"
        assert line["target"]["group_id"] == group["id"]
        assert line["target_projects"] == [group["project_id"]]
        assert line["before"]
