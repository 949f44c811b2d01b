# SPDX-License-Identifier: Apache-2.0

"""Becoming a client of a group through the API."""

from __future__ import annotations

import threading
import time
import types
import typing

import pytest

from fpgapool import client
from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import groupdoor
from fpgapool.client.doors import instance
from fpgapool.client.groups import group as groups
from fpgapool.client.groups import grouphosts
from fpgapool.client.links import waiting
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes
from tests.harness import group_api

TIMEOUT_S = 30.0
HOST = {
    "host_uuid": "h1",
    "members": 2,
    "endpoints": [{"network": "data", "address": "127.0.0.1", "port": 9}],
    "certificate_sha256": "ab" * 32,
}
CLIENTS = f"/groups/{group_api.GROUP_ID}/clients"


@pytest.fixture
def api() -> group_api.Api:
    made = group_api.Api()
    made.hosts, made.revision = [HOST], 7
    return made


def attach(
    api: group_api.Api,
    name: str = "render",
    accelerator: str | None = None,
    timeout_s: float = TIMEOUT_S,
    token: cancel.CancelToken | None = None,
) -> tuple[groupdoor.GroupDoor, groupdoor.Access]:
    door = groupdoor.GroupDoor(
        client.PoolApi(api), token or cancel.CancelToken()
    )
    deadline_s = channel.deadline_after(timeout_s)
    return door, door.attach(name, accelerator, deadline_s)


def refused(api: group_api.Api, code: str, **options: typing.Any) -> None:
    """Check that a program does not get access, and leaves nothing."""
    with pytest.raises(client.FpgapoolError) as caught:
        attach(api, **options)
    assert caught.value.code == code
    assert api.clients == []


@pytest.mark.parametrize("name", ["render", group_api.GROUP_ID])
def test_a_group_is_found_by_its_name_or_id(api, name) -> None:
    door, access = attach(api, name, "copy")
    assert api.clients == [access.client_id] == ["c1"]
    assert access.group_id == group_api.GROUP_ID
    assert access.secret == group_api.SECRET
    assert group_api.SECRET not in repr(access)
    assert access.profile["stateless"] is True
    assert access.members.revision == 7
    ((host_id, members, endpoints, certificate),) = access.members.hosts
    assert (host_id, members, certificate) == ("h1", 2, "ab" * 32)
    assert endpoints == (("local", "", 0), ("data", "127.0.0.1", 9))
    assert api.versions == {"1.0"}
    door.detach(access)
    assert api.clients == []
    door.detach(access)


def test_a_program_waits_for_the_first_member(api) -> None:
    """Neither a host without members nor one without a desk is enough."""
    idle = {**HOST, "members": 0}
    deaf = {**HOST, "endpoints": []}
    coming = [[HOST], [deaf], [idle], []]

    def before(asked: str) -> None:
        if CLIENTS in asked:
            api.hosts = coming.pop()

    api.before = before
    _door, access = attach(api)
    assert coming == []
    assert access.members.hosts[0].members == 2
    assert api.asked[-3:] == [f"GET {CLIENTS}/c1"] * 3


def test_members_that_do_not_come_in_time(api) -> None:
    api.hosts = []
    refused(api, codes.TIMEOUT, timeout_s=0.5)


def test_a_program_that_cancels_its_wait(api) -> None:
    api.hosts = []
    token = cancel.CancelToken()

    def before(asked: str) -> None:
        if asked.startswith(f"GET {CLIENTS}"):
            token.cancel()

    api.before = before
    refused(api, codes.CANCELLED, token=token)


def test_a_group_that_is_deleted_meanwhile(api) -> None:
    api.hosts = []

    def before(asked: str) -> None:
        if asked.startswith(f"GET {CLIENTS}"):
            api.groups.clear()
            api.clients.clear()

    api.before = before
    refused(api, codes.GROUP_NOT_FOUND)


def test_an_answer_that_comes_too_late_is_undone(api) -> None:
    """The pool would have a client that no program uses."""
    answers, undone = threading.Event(), threading.Event()

    def before(asked: str) -> None:
        if asked.startswith("POST"):
            answers.wait(TIMEOUT_S)
        if asked.startswith("DELETE"):
            undone.set()

    api.before = before
    with pytest.raises(client.OperationTimeout):
        attach(api, timeout_s=0.2)
    answers.set()
    assert undone.wait(TIMEOUT_S)
    # It was not revoked.
    assert api.asked[-1] == f"DELETE {CLIENTS}/c1?ended=true"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": "other"}, codes.GROUP_NOT_FOUND),
        ({"name": "../../quotas?x=1"}, codes.GROUP_NOT_FOUND),
        ({"accelerator": "none-such"}, codes.UNKNOWN_ACCELERATOR),
        ({"accelerator": "aes"}, codes.WRONG_ACCELERATOR),
    ],
)
def test_bad_wishes(api, options, code) -> None:
    api.accelerators["aes"] = {"name": "aes"}
    refused(api, code, **options)
    assert not any(one.startswith("POST") for one in api.asked)
    # What the caller writes stays one step of the path.
    assert not any("/quotas" in one for one in api.asked)


def test_an_accelerator_that_the_project_does_not_see(api) -> None:
    """Its owner shares the group only."""
    api.groups[0]["accelerator"] = "copy@q"
    _door, access = attach(api)
    assert access.profile == {}


def test_a_name_that_two_projects_use(api) -> None:
    api.groups.append({**api.groups[0], "id": "other"})
    refused(api, codes.INVALID_REQUEST)
    _door, access = attach(api, name="other")
    assert access.group_id == "other"


@pytest.mark.parametrize(
    "hosts",
    [
        None,
        [None],
        [{}],
        [{**HOST, "members": "two"}],
        [{**HOST, "endpoints": [{"network": "data"}]}],
    ],
)
def test_hosts_that_are_none(api, hosts) -> None:
    api.hosts = hosts
    refused(api, codes.PROTOCOL_ERROR)


def test_an_api_that_is_away(api) -> None:
    door, access = attach(api)

    def away(_asked: str) -> None:
        raise doors.ConnectionLost("away")

    api.before = away
    with pytest.raises(client.FrontDoorUnavailable):
        door.members(access)
    door.detach(access)
    with pytest.raises(client.FrontDoorUnavailable):
        attach(api)


def test_a_pool_that_dies_for_good(api) -> None:
    """It is told once, and tasks fail in time."""
    told: list[tuple[str, float | None]] = []
    with client.group_open(
        "render",
        front_door=client.PoolApi(api),
        away_timeout_s=0.1,
        on_away=lambda *what: told.append(what),
    ) as opened:

        def away(_asked: str) -> None:
            raise doors.ConnectionLost("the API is away")

        api.before = away
        with pytest.raises(client.FrontDoorUnavailable) as caught:
            opened.submit(b"x").result(TIMEOUT_S)
        assert "unavailable for 0.1 s: the API is away" in caught.value.message
        with pytest.raises(client.FrontDoorUnavailable):
            opened.run(b"x", timeout_s=TIMEOUT_S)
    ((what, gives_up_s),) = told
    assert what == "the pool's front door"
    assert gives_up_s == pytest.approx(0.1, abs=0.05)


def test_outages(monkeypatch) -> None:
    """One counts from its own begin, and only while no desk answers."""
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    answers: list[BaseException | groups.groups.MemberList] = []

    class Door:
        def members(self, _access: object) -> object:
            answer = answers.pop()
            if isinstance(answer, BaseException):
                raise answer
            return answer

    told: list[float | None] = []
    absence = waiting.Absence(
        14.0, lambda _what, gives_up_s: told.append(gives_up_s)
    )
    hosts = grouphosts.Hosts(
        typing.cast(typing.Any, Door()),
        groupdoor.Access("g", "c", "s", groups.groups.MemberList(1, ())),
        1,
        absence,
    )

    def ask(answer: typing.Any, has_desk: bool = False) -> None:
        answers.append(answer)
        link = types.SimpleNamespace(wire=object())
        monkeypatch.setattr(hosts, "_links", {"h": link} if has_desk else {})
        hosts._ask_door()

    away = OSError("no answer")
    ask(away)
    assert told == [14.0]
    for is_over in (
        lambda: ask(groups.groups.MemberList(2, ())),
        # It answers, although it knows nothing.
        lambda: ask(errors.RequestRejected("CONDUCTOR_UNAVAILABLE", "")),
        lambda: ask(away, has_desk=True),
        absence.end,
    ):
        before = len(told)
        now_s += 13.9
        ask(away)
        assert len(told) == before
        is_over()
        now_s += 13.9
        ask(errors.OperationTimeout(""))
        assert len(told) == before + 1
    assert hosts.failure is None
    now_s += 14.0
    ask(away)
    assert isinstance(hosts.failure, client.FrontDoorUnavailable)


@pytest.mark.parametrize("wrong", ["3", -1.0, float("nan")])
def test_a_wrong_time_limit_of_outages(api, wrong: typing.Any) -> None:
    with pytest.raises(client.InvalidRequest):
        client.group_open(
            "render", front_door=client.PoolApi(api), away_timeout_s=wrong
        )
    assert api.clients == []


def test_members_are_those_of_now(api) -> None:
    door, access = attach(api)
    api.hosts, api.revision = [{**HOST, "members": 3}], 8
    found = door.members(access)
    assert (found.revision, found.hosts[0].members) == (8, 3)
    api.clients.clear()
    with pytest.raises(client.RequestRejected) as caught:
        door.members(access)
    assert caught.value.code == codes.GROUP_CLIENT_NOT_FOUND


def test_a_host_without_a_front_door(api, monkeypatch) -> None:
    door, access = attach(api)
    monkeypatch.setenv("FPGAPOOL_SOCKET", "/nowhere/front-door.sock")
    with pytest.raises(OSError, match="nowhere"):
        door.connect_local(access, "h1")


def test_refused_credentials_are_replaced(api) -> None:
    stale = group_api.Api()
    stale.request = lambda *_, **__: group_api.refusal(401, "UNAUTHORIZED")
    pool = client.PoolApi(stale, lambda _reason: client.PoolApi(api))
    with client.group_open("render", front_door=pool) as opened:
        assert opened.client_id == "c1"


# The call itself.


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": ""}, codes.INVALID_REQUEST),
        ({"window_tasks": 0}, codes.INVALID_REQUEST),
        ({"timeout_s": -1}, codes.INVALID_TIMEOUT),
        ({"require_tls": "yes"}, codes.INVALID_REQUEST),
        ({"require_tls": True}, codes.TLS_REQUIRED),
        ({"cancel": "now"}, codes.INVALID_REQUEST),
    ],
)
def test_bad_arguments(api, options, code) -> None:
    wanted = {"name": "render", "front_door": client.PoolApi(api), **options}
    with pytest.raises(client.InvalidRequest) as caught:
        client.group_open(**wanted)
    assert caught.value.code == code
    assert api.asked == []


def test_a_cancelled_program_asks_for_nothing(api) -> None:
    event = threading.Event()
    event.set()
    with pytest.raises(client.Cancelled):
        client.group_open(
            "render", front_door=client.PoolApi(api), cancel=event
        )
    assert api.asked == []


def test_the_api_is_found_as_for_sessions(api, monkeypatch) -> None:
    """Also on a host with a front door, which has one project only."""
    monkeypatch.setenv("FPGAPOOL_SOCKET", "/run/front-door.sock")
    monkeypatch.setenv(instance.API_URL, "http://api.example.org")
    pool = client.PoolApi(api)
    monkeypatch.setattr(client.PoolApi, "at", lambda _url: pool)
    with client.group_open("render") as opened:
        assert (opened.group_id, opened.members) == (group_api.GROUP_ID, 2)
    assert api.clients == []


def test_without_an_api_the_places_are_named(monkeypatch) -> None:
    monkeypatch.setattr(frontdoor, "candidate_paths", list)
    for name in (instance.API_URL, "OS_CLOUD", "OS_AUTH_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(instance.METADATA_URL, "")
    monkeypatch.setattr(instance, "FINDER", instance.Finder())
    with pytest.raises(client.FrontDoorUnavailable) as caught:
        client.group_open("render")
    assert "No pool found" in caught.value.message
    assert instance.API_URL in caught.value.message


def test_cancelling_ends_tasks(api) -> None:
    token = cancel.CancelToken()
    opened = client.group_open(
        "render", front_door=client.PoolApi(api), cancel=token
    )
    # No desk is there.
    future = opened.submit(b"x")
    token.cancel()
    with pytest.raises(client.Cancelled):
        future.result(TIMEOUT_S)
    with pytest.raises(client.Cancelled):
        opened.run(b"x")
    opened.close()
    assert api.clients == []


def test_parameters_are_checked_before_they_are_sent(api) -> None:
    api.accelerators["copy"]["params_schema"] = {
        "type": "object",
        "properties": {"key": {"type": "string", "pattern": "^[0-9a-f]{4}$"}},
        "required": ["key"],
        "additionalProperties": False,
    }
    with client.group_open("render", front_door=client.PoolApi(api)) as opened:
        for params, said in (
            (None, "params: missing: key"),
            ({"key": "c0fe", "ky": 1}, "known names: key"),
            ({"key": b"\x01"}, "params.key: must satisfy pattern"),
            ([1], "params must be a mapping"),
        ):
            # No desk is there: what was sent would wait.
            with pytest.raises(client.InvalidParams, match=said) as caught:
                opened.run(b"x", params=params, timeout_s=TIMEOUT_S)
            assert caught.value.code == codes.INVALID_PARAMS
            with pytest.raises(client.InvalidParams):
                opened.submit(b"x", params=params)
        good = {"key": b"\x01\xff"}
        waiting = [opened.submit(b"x", params=good) for _ in range(2)]
        assert not any(one.done() for one in waiting)
        # One that was good does not let others pass.
        with pytest.raises(client.InvalidParams):
            opened.submit(b"x", params={"key": "c0ff3"})
        opened.close(timeout_s=0.0)


def test_a_host_without_tls_gets_nothing(monkeypatch) -> None:
    api = group_api.Api()
    api.hosts = [{**HOST, "certificate_sha256": None}]
    api.get_endpoint = lambda: "https://api.example.org/v1"
    with client.group_open(
        "render", front_door=client.PoolApi(api), require_tls=True
    ) as opened:
        with pytest.raises(client.TaskFailed) as caught:
            opened.run(b"x", timeout_s=TIMEOUT_S)
        assert caught.value.code == codes.TLS_REQUIRED


def test_hosts_stay_while_there_are_no_others(api) -> None:
    """A program without hosts would never ask for new ones."""
    with client.group_open("render", front_door=client.PoolApi(api)) as opened:
        api.hosts, api.revision = [], 8
        opened._hosts._ask_door()
        assert opened.members == 2
        api.hosts, api.revision = [{**HOST, "members": 1}], 9
        opened._hosts._ask_door()
        assert opened.members == 1


@pytest.mark.parametrize(
    "code", [codes.GROUP_CLIENT_NOT_FOUND, codes.GROUP_NOT_FOUND]
)
def test_a_client_that_is_gone_waits_for_no_desk(
    api, monkeypatch, code: str
) -> None:
    """Its desks have gone before they could say that it was revoked."""
    with client.group_open("render", front_door=client.PoolApi(api)) as opened:
        sent = opened.submit(b"x")

        def members(_access: object) -> None:
            raise errors.RequestRejected(code, "there is none")

        monkeypatch.setattr(opened._hosts._door, "members", members)
        opened._hosts._ask_door()
        with pytest.raises(client.TaskFailed) as caught:
            sent.result(TIMEOUT_S)
        assert caught.value.code == codes.ACCESS_REVOKED


def test_the_package_has_one_way_to_groups() -> None:
    assert client.group_open is groups.group_open
