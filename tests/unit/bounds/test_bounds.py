# SPDX-License-Identifier: Apache-2.0

"""Every answer of a large pool is as large as the documentation says."""

import collections
import contextlib
import gc
import json
import unittest.mock
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.door import doorway
from fpgapool.agent.door import frontdoor
from fpgapool.agent.door import opens
from fpgapool.api import routes
from fpgapool.api.http import microversion
from fpgapool.client import listing
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.calls import audits
from fpgapool.conductor.decisions.requests import admission
from fpgapool.objects import notification
from fpgapool.protocol import messages as front_messages
from fpgapool.rpcapi import api as api_rpcapi
from tests.unit.api import fakes
from tests.unit.bounds import declared
from tests.unit.bounds import large
from tests.unit.conductor import world
from tests.unit.recorded import making
from tests.unit.recorded import samples

SIZE = large.Size()
COUNTS = {
    "accelerator": len(large.LIBRARY) + SIZE.projects,
    "client": SIZE.projects,
    "finding": 10 * SIZE.hosts,
    "host": SIZE.hosts,
    "session": 1000,
    "slot": SIZE.slots,
}
OPERATOR = f"root:{large.project(1)}:admin,manager,member,reader"
REST = declared.table("REST API")
DOOR = declared.table("Front door")
CONDUCTOR = declared.table("Conductor")
AGENTS = declared.table("Agents")
APIS = declared.table("Processes of the API")


@pytest.fixture(scope="module")
def pool() -> Iterator[large.Pool]:
    """Give a large pool; it takes seconds."""
    gc.disable()
    try:
        made = large.Pool(SIZE)
    finally:
        gc.enable()
    gc.freeze()
    yield made
    made.close()
    gc.unfreeze()


# The REST API.


@pytest.fixture(scope="module")
def api(pool: large.Pool) -> Iterator[fakes.Api]:
    """Give the API of that pool."""
    made = fakes.Api(
        conductor=pool.conductor(),
        database=pool.database,
        # What it has read of the pool is fresh for all tests.
        inventory_cache_s=60.0,
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def names(api: fakes.Api) -> dict[str, str]:
    """Give the things that paths name."""

    def first(name: str) -> str:
        path = f"/v1/{name}?limit=1"
        return api.ask("GET", path, OPERATOR).json[name][0]["id"]

    return {
        "bitstream_id": large.session_id(1),
        "client_id": large.session_id(1),
        "device_id": first("devices"),
        "group_id": large.GROUP,
        "host_uuid": large.host_uuid(1),
        "instance_id": large.session_id(1),
        "name": "aes",
        "project_id": large.project(1),
        "reservation_id": large.session_id(1),
        # It waits; the answer says why.
        "session_id": large.session_id(SIZE.sessions),
        "slot_id": first("slots"),
    }


READS = [
    pytest.param(one, id=one.path)
    for one in routes.ROUTES
    if one.method == "GET" and not one.download
]


def test_every_operation_of_the_api_has_a_bound() -> None:
    reads = {f"GET {one.path}" for one in routes.ROUTES if one.method == "GET"}
    assert reads <= REST.keys()


def _path(route: routes.Route, names: dict[str, str]) -> str:
    path = route.path.format(**names)
    wide = "all_projects" in route.query["properties"]
    return f"{path}?all_projects=true" if wide else path


@pytest.mark.parametrize("route", READS)
def test_answers_of_the_api_are_bounded(
    api: fakes.Api, names: dict[str, str], route: routes.Route
) -> None:
    answer = api.ask("GET", _path(route, names), OPERATOR, check=False)
    assert answer.status_code == 200
    bound = REST[f"GET {route.path}"]
    assert len(answer.content) <= bound.of(**COUNTS)


def test_the_oldest_answer_about_the_pool_grows_with_its_slots(
    api: fakes.Api,
) -> None:
    old = {microversion.HEADER: "fpgapool 1.0"}
    answer = api.ask("GET", "/v1/pool", OPERATOR, headers=old, check=False)
    assert len(answer.json["pool"]["hosts"]) == SIZE.hosts
    bound = REST["GET /v1/pool in version 1.0"]
    assert len(answer.content) <= bound.of(**COUNTS)


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("hosts", SIZE.hosts),
        ("pool/hosts", SIZE.hosts),
        ("slots?host={host_uuid}", large.SLOTS_OF_HOST),
    ],
)
def test_pages_lead_to_all(
    api: fakes.Api, names: dict[str, str], path: str, count: int
) -> None:
    name = path.partition("?")[0].rpartition("/")[2]
    pages = api.pages(f"/v1/{path}".format(**names), OPERATOR, name=name)
    assert sum(map(len, pages)) == count


# The front door.


class Caller:
    """Makes calls at once."""

    def submit(
        self,
        call: Callable[[], Any],
        answered: Callable[[Any], None],
        failed: Callable[[Exception], None],
        **_options: object,
    ) -> None:
        """Call, and hand over what comes of it."""
        try:
            found = call()
        except Exception as error:
            failed(error)
        else:
            answered(found)


class Door:
    """The front door of a host of the pool, without its socket."""

    def __init__(self, pool: large.Pool) -> None:
        loop = unittest.mock.Mock(name="loop")
        loop.now.return_value = large.NOW
        loop.call_later.return_value = agent_loop.Timer(0.0, None)
        self._door = frontdoor.FrontDoor(
            agent_settings.AgentSettings(
                host_uuid=large.host_uuid(1),
                host_name="host1",
                state_path="",
                driver_name="noop",
                driver_path="",
                front_door_sockets={},
            ),
            loop,
            pool.conductor(),
            unittest.mock.Mock(name="casts"),
            Caller(),
            unittest.mock.Mock(name="opener"),
            unittest.mock.Mock(name="slots"),
        )
        self.operations = self._door._operations.keys()
        self._doorway = self._door._doorway
        self._doorway.send = self._take
        self._client = unittest.mock.Mock(
            spec=doorway.Client,
            project_id=large.project(1),
            user_id="u",
            number=1,
            questions=0,
        )
        self._client.takes_connections = False
        self.size_bytes = 0
        self.answer: dict[str, Any] = {}

    def _take(self, _client: object, message: Any, fds: Any = ()) -> None:
        self.size_bytes = len(front_messages.encode(message))
        self.answer = dict(message)

    def request(self, operation: str, **members: object) -> dict[str, Any]:
        """Send a request, and return the answer."""
        message = front_messages.request(1, operation, **members)
        with unittest.mock.patch.object(self._doorway, "check_descriptors"):
            self._door._dispatch(self._client, message)
        return self.answer


MEMBERS = {
    "accelerator": "aes",
    "name": "render",
    "size_bytes": 7,
    "request_id": "r",
    "session_id": large.session_id(1),
    "group_id": large.GROUP,
    "client_id": large.session_id(1),
    "generation": 1,
    "input_bytes": 7,
    "output_bytes": 7,
    "confirmed": True,
    "secret_sha256": "ab" * 32,
    "after": "",
}


@pytest.fixture(scope="module")
def door(pool: large.Pool) -> Door:
    return Door(pool)


def test_every_operation_of_the_front_door_has_a_bound(door: Door) -> None:
    assert door.operations == DOOR.keys()


# These hand over a descriptor.
@pytest.mark.parametrize(
    "name", sorted(DOOR.keys() - {"connect", "connect_group"})
)
def test_answers_of_the_front_door_are_bounded(door: Door, name: str) -> None:
    more = {"name": "aes"} if name == "accelerator" else {}
    answer = door.request(name, **MEMBERS | more)
    assert answer["ok"] or name == "dry_run", answer
    assert door.size_bytes <= DOOR[name].of()


def test_accelerators_have_numbers_of_all_slots(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        listing.asking,
        "ask",
        lambda asked, **_: [door.request(name, **one) for name, one in asked],
    )
    found = listing.accelerators(front_door="socket")
    assert {one.name for one in found} >= set(large.LIBRARY)
    assert {one.slots for one in found} == {SIZE.slots}


def test_the_front_door_has_pages_of_hosts(door: Door) -> None:
    assert door.request("pool")["error"]["code"] == "FRAME_TOO_LARGE"
    count, after = 0, ""
    while after is not None:
        page = door.request("pool", after=after)
        count += len(page["summary"]["hosts"])
        after = page.get("next")
    assert count == SIZE.hosts


# Remote calls.


def test_every_call_has_a_bound() -> None:
    # It asks for changed sessions.
    calls = making.methods("conductor").keys() - {"get_sessions"}
    assert calls == CONDUCTOR.keys()
    assert making.methods("agent").keys() == AGENTS.keys()
    assert making.methods("api").keys() == APIS.keys()


ARGUMENTS: dict[str, dict[str, Any]] = {
    "accelerators_after": {"name": ""},
    "changed_sessions": {
        "revisions": {
            large.session_id(number): 0
            for number in range(SIZE.slots - 400, SIZE.slots + 600)
        }
    },
    "find_groups": {"project_id": large.project(1), "name": "render"},
    "get_groups": {"group_ids": [large.GROUP]},
    "group_now": {"group_id": large.GROUP},
    "hosts_now": {
        "host_uuids": [large.host_uuid(number) for number in range(1, 101)]
    },
    "pool_hosts": {"after": ""},
    "usable_groups": {
        "project_id": large.project(1),
        "name": "render",
        "host_uuid": large.host_uuid(SIZE.hosts),
    },
}
COUNTS_OF = {
    name: COUNTS | {"slot": large.GROUP_SLOTS}
    for name in ("find_groups", "get_groups")
}


@pytest.mark.parametrize(
    "name", sorted(CONDUCTOR.keys() - conductor_rpc.ConductorManager.CASTS)
)
def test_answers_of_the_conductor_are_bounded(
    pool: large.Pool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No agent answers here.
    monkeypatch.setattr(audits, "_REPORTS_S", 0.0)
    arguments = making.methods("conductor")[name][0]
    # A refusal is short.
    with contextlib.suppress(messaging.ExpectedException):
        getattr(pool.conductor(), name)(**ARGUMENTS.get(name, arguments))
    assert (name in ARGUMENTS) <= (name in pool.wire.sizes_bytes)
    bound = CONDUCTOR[name].of(**COUNTS_OF.get(name, COUNTS))
    assert pool.wire.sizes_bytes[name] <= bound


@pytest.mark.parametrize("topic", making.APIS)
def test_messages_about_one_thing_are_bounded(topic: str) -> None:
    """Their samples have one slot, client or session."""
    wire = making.Wire(collections.defaultdict(lambda: None))
    api = making.api_on(topic, wire)
    bounds = {"conductor": CONDUCTOR, "agent": AGENTS, "api": APIS}[topic]
    for name, bound in bounds.items():
        for arguments in making.methods(topic)[name]:
            with contextlib.suppress(AttributeError, TypeError):
                getattr(api, name)(**arguments)
            sent = wire.sent.pop()
            assert sent["method"] == name
            assert len(json.dumps(sent["kwargs"])) <= max(bound.bytes_, 4096)


def test_news_of_sessions_grow_with_their_number() -> None:
    most = [fakes.view().to_primitive()] * api_rpcapi.MAX_CHANGES
    text = json.dumps({"views": most})
    assert len(text) <= APIS["sessions_changed"].of(session=len(most))


def test_a_report_grows_with_the_slots_of_its_host() -> None:
    agent = world.FakeAgent(large.host_uuid(1), 64)
    text = json.dumps(agent.report().to_primitive())
    assert len(text) <= CONDUCTOR["report"].of(slot=64)
    most = range(opens.MAX_POLLED_SESSIONS)
    agent.sessions = {large.session_id(number): 10**9 for number in most}
    longer = json.dumps(agent.report().to_primitive())
    assert len(longer) - len(text) <= 64 * len(most)


def test_a_group_has_the_host_first_that_asks(pool: large.Pool) -> None:
    asked = ARGUMENTS["usable_groups"]
    (found,) = pool.conductor().usable_groups(**asked)
    assert found.members == ()
    assert found.hosts[0].host_uuid == asked["host_uuid"]
    whole = pool.conductor().get_groups([large.GROUP])[0]
    assert sorted(found.hosts, key=lambda one: one.host_uuid) == sorted(
        whole.hosts, key=lambda one: one.host_uuid
    )
    now = pool.conductor().group_now(large.GROUP)
    assert 0 < len(now.members) < len(whole.members)
    assert now.members == whole.members[: len(now.members)]
    assert now.members_total == len(whole.members)
    assert (now.hosts_total, found.hosts_total) == 2 * (len(whole.hosts),)


def test_pages_of_hosts_are_parts_of_the_whole(pool: large.Pool) -> None:
    asked = pool.conductor()
    page = asked.pool_hosts(large.host_uuid(7))
    whole = {one["uuid"]: one for one in asked.pool_summary()["hosts"]}
    assert page["hosts"] == [
        whole[large.host_uuid(8 + number)]
        for number in range(len(page["hosts"]))
    ]
    assert page["next"] == page["hosts"][-1]["uuid"]
    last = asked.pool_hosts(large.host_uuid(SIZE.hosts - 3))
    assert (len(last["hosts"]), "next" in last) == (3, False)
    end = asked.pool_hosts(large.host_uuid(SIZE.hosts))
    assert end == {"hosts": []}


# Everything else.


def test_notifications_are_bounded() -> None:
    bound = declared.table("Notifications, frames, metrics and log")
    for kind in notification.PAYLOADS:
        payload = samples.payload(kind)
        text = json.dumps(notification.to_notification(payload))
        assert len(text) <= bound["Notifications"].of()


def test_metrics_have_a_few_lines_for_each_host(pool: large.Pool) -> None:
    bound = declared.table("Notifications, frames, metrics and log")
    figures = pool.engine.questions.figures(10, 10)
    # Each host has two lines, with its name, and each name is short.
    lines = [*figures.hosts, *figures.clocks_behind_s]
    assert sum(len(one) + 100 for one in lines) <= (
        bound["Metrics of a conductor"].of(**COUNTS)
    )
    assert len(figures.queued_by_project) == 11


def test_errors_name_a_few_accelerators(pool: large.Pool) -> None:
    with pytest.raises(admission.Rejected) as caught:
        admission.check_accelerator(
            "novel",
            pool.engine.pool.registry,
            pool.engine.pool.catalogue.profiles,
        )
    assert str(caught.value).endswith(f"{COUNTS['accelerator'] - 20} more")
    assert len(str(caught.value)) <= 4096
