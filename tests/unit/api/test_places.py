# SPDX-License-Identifier: Apache-2.0

"""Tenants see hashes of hosts, wherever hosts are shown."""

from __future__ import annotations

import dataclasses
import pathlib
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.api import routes
from fpgapool.api.http import microversion
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.unit.api import fakes
from tests.unit.api import test_security as security

pytestmark = pytest.mark.security

OTHER = str(uuid.UUID(int=8))
NAMES = (fakes.HOST, OTHER, "compute1", "compute2")
INSTANCE = security.token_of(security.OWNER)
#: A reader who sees the resources of all projects.
AUDITOR = "ann:p3:reader"
VERSIONS = (microversion.OLDEST, microversion.NEWEST)
ALL = ("sessions", "groups", "instances")
AUDITS = {
    **fakes.OPEN,
    **dict.fromkeys(
        (
            *(f"fpgapool:{name}:list:all_projects" for name in ALL),
            *(f"fpgapool:{name}:all_projects" for name in ALL),
            "fpgapool:groups:update",
        ),
        "@",
    ),
}


class Scene(security.Scene):
    """Hosts are in everything that can show any."""

    def __init__(
        self,
        make_world: Callable[..., fakes.Api],
        directory: pathlib.Path,
        strategy: str,
        policies: dict[str, str],
    ) -> None:
        super().__init__(
            lambda *views, **options: make_world(
                *(dataclasses.replace(one, host_uuid=OTHER) for one in views),
                policies=policies,
                **options,
            ),
            directory,
            strategy,
        )
        conductor, database = self.world.conductor, self.world.database
        conductor.group_hosts = (
            objects.GroupHost(host_uuid=fakes.HOST, members=1),
        )
        member = objects.GroupMember(
            host_uuid=fakes.HOST,
            host_name="compute1",
            device="board0",
            slot=0,
            phase="ACTIVE",
        )
        now = conductor.group_now
        conductor.group_now = lambda group_id: dataclasses.replace(
            now(group_id), members=(member,)
        )
        # Sessions are not to be mistaken for hosts.
        database.records = [
            one for one in database.records if one.session_id not in NAMES
        ]
        first, second = database.inventory().hosts
        silent = dataclasses.replace(first, up=False, last_report_at=1e9)
        database.change_inventory(hosts=[silent, second])
        for name, one in database.instances.items():
            database.instances[name] = dataclasses.replace(
                one, host_uuid=fakes.HOST
            )
        over, waiting = uuid.UUID(int=501), uuid.UUID(int=502)
        for view in (
            fakes.view(501, state="CANCELLED", host_uuid=OTHER),
            fakes.queued(502, pending_reasons=(codes.NO_HOST_UP,)),
        ):
            user_id = self.session.user_id
            conductor.views[view.session_id] = dataclasses.replace(
                view, user_id=user_id
            )
        self.sessions = [self.session.session_id, str(over), str(waiting)]

    def documents(self, token: str) -> Iterator[tuple[str, Any]]:
        """Give the path and the answer of everything that can be read."""
        for path in self._paths(token):
            for version in VERSIONS:
                answer = self.world.client.simulate_get(
                    path,
                    headers={
                        "X-Auth-Token": token,
                        microversion.HEADER: f"fpgapool {version}",
                    },
                    remote_addr="127.0.0.1",
                )
                yield path, answer

    def _paths(self, token: str) -> Iterator[str]:
        for route in routes.ROUTES:
            if route.method != "GET" or route.download:
                continue
            names = "device_id", "slot_id", "host_uuid", "session_id"
            if not any(f"{{{name}}}" in route.path for name in names):
                yield self.paths(route)
            if "all_projects" in route.query["properties"]:
                yield f"{self.paths(route)}?all_projects=true"
        yield from (f"/v1/sessions/{one}" for one in self.sessions)
        # What lists lead to, by whatever they call it.
        for name in ("hosts", "devices", "slots"):
            found = self.world.client.simulate_get(
                f"/v1/{name}",
                headers={"X-Auth-Token": token},
                remote_addr="127.0.0.1",
            ).json
            for one in found.get(name, ()):
                yield one["links"][0]["href"].partition("localhost")[2]


@pytest.fixture
def make_scene(
    make_world: Callable[..., fakes.Api], tmp_path: pathlib.Path
) -> Callable[..., Scene]:
    def make(strategy: str, policies: dict[str, str]) -> Scene:
        return Scene(make_world, tmp_path, strategy, policies)

    return make


def _shown(answer: Any) -> list[str]:
    return [name for name in NAMES if name in answer.text]


#: Who is no tenant, so that their default rules stay.
NOT_FOR_TENANTS = ("/v1/pool/snapshot", "/v1/services")


@pytest.mark.parametrize(
    ("policies", "strategy", "token"),
    [
        ({}, "noauth", fakes.MEMBER),
        ({}, "noauth", fakes.READER),
        ({}, "noauth", fakes.STRANGER),
        ({}, "keystone", INSTANCE),
        (fakes.OPEN, "noauth", fakes.MEMBER),
        (fakes.OPEN, "noauth", fakes.READER),
        (fakes.OPEN, "noauth", fakes.STRANGER),
        (fakes.OPEN, "keystone", INSTANCE),
        (AUDITS, "noauth", AUDITOR),
    ],
)
def test_tenants_see_no_host(make_scene, policies, strategy, token):
    """Whatever is read, and in each version."""
    hashed, answered = 0, set()
    for path, answer in make_scene(strategy, policies).documents(token):
        assert not _shown(answer), (path, answer.text)
        if answer.status_code == 200:
            answered.add(path)
            hashed += "host-" in answer.text
        else:
            assert answer.status_code in (403, 404), (path, answer.text)
    assert not answered & set(NOT_FOR_TENANTS)
    if token not in (fakes.STRANGER, INSTANCE) or policies:
        assert hashed > 2
    if policies:
        assert {"/v1/hosts", "/v1/devices", "/v1/slots"} <= answered


@pytest.mark.parametrize("token", [fakes.ADMIN, fakes.SERVICE])
def test_operators_and_services_see_hosts(make_scene, token):
    """Or the walk would find nothing where there is something."""
    named = set()
    for path, answer in make_scene("noauth", {}).documents(token):
        if answer.status_code == 200:
            assert "host-" not in answer.text, path
            named |= {path} if _shown(answer) else set()
    assert {"/v1/hosts", "/v1/slots", "/v1/pool/hosts"} <= named
    assert {*NOT_FOR_TENANTS, "/v1/pool", "/v1/devices"} <= named
    if token == fakes.ADMIN:
        assert "/v1/instances?all_projects=true" in named
        assert f"/v1/groups/{fakes.GROUP}" in named
        assert len([one for one in named if "/sessions/" in one]) == 3


def test_those_to_whom_policies_name_hosts_see_them(make_world):
    policies = {"fpgapool:hosts:identify": "project_id:p1"}
    world = make_world(fakes.view(), policies={**fakes.OPEN, **policies})
    for token, names in (
        (fakes.READER, {"compute1", "compute2"}),
        (fakes.STRANGER, set()),
    ):
        hosts = world.ask("GET", "/v1/hosts", token).json["hosts"]
        assert {one["name"] for one in hosts} & {*NAMES} == names


def _uuids(world: fakes.Api, token: str, name: str) -> list[str]:
    key = "uuid" if "host" in name else "host_uuid"
    listed = world.ask("GET", f"/v1/{name}", token).json
    return sorted({one[key] for one in listed[name.split("/")[-1]]})


def test_a_host_has_one_hash_for_a_project_and_another_for_others(opened):
    mine = _uuids(opened, fakes.MEMBER, "hosts")
    assert len(mine) == 2
    assert mine == _uuids(opened, fakes.READER, "hosts")
    assert mine == _uuids(opened, fakes.READER, "pool/hosts")
    (device,) = _uuids(opened, fakes.READER, "devices")
    assert _uuids(opened, fakes.READER, "slots") == [device]
    assert device in mine
    path = f"/v1/sessions/{fakes.view().session_id}"
    session = opened.ask("GET", path).json["session"]
    assert session["placement"]["host_uuid"] == device
    others = _uuids(opened, fakes.STRANGER, "hosts")
    assert not {*others} & {*mine, fakes.HOST, OTHER}


def _ids(world: fakes.Api, path: str, token: str) -> list[str]:
    listed = world.ask("GET", path, token).json
    return [one["id"] for one in listed["slots"]]


def test_identifiers_of_boards_and_slots_follow_the_hash(opened):
    """So they do not say of what they are derived, either."""
    seen = {
        token: _ids(opened, "/v1/slots?sort_key=number", token)
        for token in (fakes.READER, fakes.STRANGER, fakes.ADMIN)
    }
    assert len({one for ids in seen.values() for one in ids}) == 12
    for token, ids in seen.items():
        for other in seen:
            status = opened.ask("GET", f"/v1/slots/{ids[0]}", other)
            assert (status.status_code == 200) == (other == token)


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/slots?host={fakes.HOST}",
        f"/v1/devices?host={fakes.HOST}",
        f"/v1/sessions?host={fakes.HOST}",
        "/v1/hosts?name=compute1",
        "/v1/pool/hosts?name_part=compute",
    ],
)
def test_filters_do_not_tell_whether_a_guess_is_right(opened, path):
    name = path.partition("?")[0].rpartition("/")[2]
    assert opened.ask("GET", path).json[name] == []
    assert opened.ask("GET", path, fakes.ADMIN).json is not None
    if name != "sessions":
        assert opened.ask("GET", path, fakes.ADMIN).json[name]


def test_hashes_are_filters(opened):
    mine = identity.host_hash(fakes.HOST, "p1")
    for path in (f"/v1/slots?host={mine}", f"/v1/devices?host={mine}"):
        name = path.partition("?")[0].rpartition("/")[2]
        assert opened.ask("GET", path).json[name]
        assert not opened.ask("GET", path, fakes.STRANGER).json[name]
        assert not opened.ask("GET", path, fakes.ADMIN).json[name]


def test_cached_lists_are_not_mixed(make_world):
    """Of two callers of a project, one may see names."""
    world = make_world(policies=fakes.OPEN, inventory_cache_s=60.0)
    boss = "boss:p1:admin,reader"
    for token in (fakes.READER, boss, fakes.READER, boss):
        answer = world.ask("GET", "/v1/hosts", token)
        assert bool(_shown(answer)) == (token == boss)


def test_old_clients_get_no_hosts_that_the_policy_hides(world):
    old = {microversion.HEADER: "fpgapool 1.0"}
    assert (
        world.ask("GET", "/v1/pool", headers=old).json["pool"]["hosts"] == []
    )
    pool = world.ask("GET", "/v1/pool", fakes.SERVICE, headers=old).json
    assert len(pool["pool"]["hosts"]) == 2


def test_clients_of_a_group_see_what_its_desks_call_hosts(make_scene):
    """Everybody the same, because desks do not ask who may see names."""
    scene = make_scene("noauth", {})
    path = f"/v1/groups/{fakes.GROUP}/clients/{fakes.CLIENT}"
    mine = identity.host_hash(fakes.HOST, fakes.GROUP)
    for token in (fakes.MEMBER, fakes.ADMIN):
        client = scene.world.ask("GET", path, token).json["client"]
        assert [one["host_uuid"] for one in client["hosts"]] == [mine]


def test_hashes_stay_the_same():
    """Programs may keep them."""
    assert identity.host_hash(fakes.HOST, "p1") == (
        "7a1dc8a8-ffc6-5a0d-a76a-ace5355d73e7"
    )


def test_hosts_are_few_to_ask_the_leader_for(opened):
    """It is asked by the real UUIDs: one slot is unusable only there."""
    hosts = opened.ask("GET", "/v1/pool/hosts").json["hosts"]
    (device,) = (one for host in hosts for one in host["devices"])
    states = [one["state"] for one in device["slots"]]
    assert states == ["active", "active", "faulty", "faulty"]
