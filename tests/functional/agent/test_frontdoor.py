# SPDX-License-Identifier: Apache-2.0

"""The front door over its real socket."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
import socket
import stat
import struct
import threading
import time

import pytest

from fpgapool import client as fpgapool_client
from fpgapool.agent.door import doorway
from fpgapool.agent.door import questions
from fpgapool.common import exception
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from tests.functional.agent import harness
from tests.functional.agent.harness import Client
from tests.harness import waiting

pytestmark = pytest.mark.security

# Longer than the agent's clock ticks.
POLL_INTERVAL_S = 0.3


@pytest.fixture
def quiet_host(directory):
    """A host without boards: its front door is all it has."""
    with harness.running_host(
        directory,
        driver_name="noop",
        driver_path="fpgapool.drivers.noop:NoopDriver",
        open_timeout_s=2.0,
        session_poll_interval_s=POLL_INTERVAL_S,
    ) as running:
        yield running


@pytest.fixture
def agent(quiet_host):
    return quiet_host.start()


@pytest.fixture
def conductor(quiet_host, agent):
    return quiet_host.conductor


@pytest.fixture
def client(quiet_host, agent):
    with Client(quiet_host.front_door) as connected:
        yield connected


def code_of(message: messages.Message) -> str:
    assert message["ok"] is False
    return message["error"]["code"]


def test_hello(client):
    assert client.request("hello", version=1) == {
        "id": 1,
        "ok": True,
        "host_uuid": harness.HOST,
        "host_name": "host1",
        "version": 1,
        "chunk_bytes": 4096,
        "sets": True,
    }
    assert code_of(client.request("hello", version=99)) == "INVALID_REQUEST"


def test_the_socket_is_for_its_owner_and_group(quiet_host, agent):
    mode = os.stat(quiet_host.front_door).st_mode
    assert stat.S_IMODE(mode) == 0o660


def test_accelerators_are_asked_for_once(client, conductor):
    reply = client.request("accelerator", name="aes")
    assert reply["profile"]["name"] == "aes"
    names = [
        one["name"] for one in client.request("accelerators")["accelerators"]
    ]
    assert names == ["aes", "copy"]
    assert conductor.named("accelerators_after") == ["", "copy"]
    assert code_of(client.request("accelerator", name="nix")) == (
        "UNKNOWN_ACCELERATOR"
    )


def test_a_project_sees_its_own_accelerators_and_no_others(client, conductor):
    own, shared, foreign = (
        dataclasses.replace(
            harness.profile("aes"),
            name=f"{name}@{owner}",
            projects=projects,
            peak_bytes_per_s=rate,
        )
        for name, owner, projects, rate in (
            ("aes", harness.PROJECT, (harness.PROJECT,), 1.0),
            ("fft", "other", ("other", harness.PROJECT), 2.0),
            ("sha", "other", ("other",), 3.0),
        )
    )
    conductor.profiles += [own, shared, foreign]

    def rate(name):
        profile = client.request("accelerator", name=name)["profile"]
        assert "projects" not in profile
        return profile["name"], profile["peak_bytes_per_s"]

    assert rate("aes") == (own.name, 1.0)
    assert rate(shared.name) == (shared.name, 2.0)
    for name in ("sha", foreign.name, "fft"):
        reply = client.request("accelerator", name=name)
        assert code_of(reply) == "UNKNOWN_ACCELERATOR"
    names = [
        one["name"] for one in client.request("accelerators")["accelerators"]
    ]
    assert names == ["aes", own.name, "copy", shared.name]


def large_pool(count):
    """Return the hosts of a summary with this many slots."""
    return [
        {
            "uuid": f"{number:08}-0000-4000-8000-000000000000",
            "name": f"compute-{number:08}.example.org",
            "up": number % 2 == 0,
            "devices": [
                {
                    "name": "board0",
                    "healthy": True,
                    "slots": [
                        {
                            "slot": slot,
                            "shape": ("small", "large")[slot % 2],
                            "state": "idle" if slot < 2 else "active",
                            "accelerator": None,
                            "programmed": "copy",
                        }
                        for slot in range(4)
                    ],
                }
            ],
        }
        for number in range(count // 4)
    ]


def test_what_a_pool_of_ten_thousand_slots_answers(
    quiet_host, client, conductor
):
    """Numbers, and as much of a list as a message holds."""
    conductor.hosts = large_pool(10_000)
    conductor.profiles = [
        dataclasses.replace(
            harness.profile(f"acc{number:03}"),
            description="x" * 600,
            shapes=(("small",), ())[number % 2],
        )
        for number in range(300)
    ]
    found = fpgapool_client.accelerators(
        front_door=quiet_host.front_door, timeout_s=harness.TIMEOUT_S
    )
    assert [one.name for one in found] == [
        one.name for one in conductor.profiles
    ]
    # Half of the hosts are down.
    assert {(one.slots, one.free_slots) for one in found[::2]} == {
        (5_000, 1_250)
    }
    assert {(one.slots, one.free_slots) for one in found[1::2]} == {
        (10_000, 2_500)
    }
    reply = client.request("pool")
    assert code_of(reply) == "FRAME_TOO_LARGE"
    assert "use the REST API" in reply["error"]["message"]
    hosts, after = [], ""
    while after is not None:
        reply = client.request("pool", after=after)
        hosts += reply["summary"]["hosts"]
        after = reply.get("next")
    assert hosts == conductor.hosts


def test_where_a_list_goes_on_is_a_text(client):
    reply = client.request("accelerators", after=1)
    assert code_of(reply) == "INVALID_REQUEST"


def test_what_was_approved_just_now_is_known_at_once(client, conductor):
    assert client.request("accelerator", name="aes")["ok"]
    conductor.profiles.append(harness.profile("new"))
    assert client.request("accelerator", name="new")["ok"]


def test_questions_fail_clearly_while_the_conductor_is_away(client, conductor):
    conductor.unavailable = True
    for operation, members in (
        ("accelerator", {"name": "aes"}),
        ("accelerators", {}),
        ("pool", {}),
        ("dry_run", {"accelerator": "aes", "size_bytes": 7}),
        ("get", {"session_id": "s"}),
    ):
        reply = client.request(operation, **members)
        assert code_of(reply) == "CONDUCTOR_UNAVAILABLE"


def test_questions_that_hang_are_answered_in_time(client, conductor):
    """The threads that ask are all stuck; nobody waits for them."""
    conductor.answers.clear()
    for _ in range(3):
        assert code_of(client.request("pool")) == "CONDUCTOR_UNAVAILABLE"
    reply = client.request("accelerator", name="aes")
    assert code_of(reply) == "CONDUCTOR_UNAVAILABLE"
    # Before any of them was let go.
    assert conductor.let_go == 0
    conductor.answers.set()
    assert client.request("pool")["ok"]
    assert client.request("accelerator", name="aes")["ok"]


def test_the_leader_that_was_heard_is_addressed(client, conductor, agent):
    for epoch in (5, 4, 6, 4):
        agent.manager.report_now({}, epoch)
    waiting.wait_until(
        lambda: conductor.leader_epoch == 6, "the newest leader is known"
    )


def test_open_goes_to_the_conductor_and_events_come_back(
    client, conductor, agent
):
    assert client.open("r1", wait_timeout_s=5, priority=3) == {
        "id": 1,
        "ok": True,
        "session_id": None,
    }
    request = conductor.wait_for("submit_sessions", lambda one: True)
    assert (request.request_id, request.project_id, request.host_uuid) == (
        "r1",
        harness.PROJECT,
        harness.HOST,
    )
    assert request.user_id == str(os.getuid())
    assert (request.claimed_bytes, request.wait_timeout_s) == (1000, 5.0)
    harness.tell(
        agent,
        harness.view("r1", "QUEUED", 1),
        harness.view("r1", "READY", 3, secret="ab"),
        harness.view("r1", "PREPARING", 2),
        harness.view("r1", "CLOSED", 4),
    )
    events = [client.event() for _ in range(3)]
    assert [one["state"] for one in events] == ["QUEUED", "READY", "CLOSED"]
    assert events[1]["secret"] == "ab"


def test_stopping_the_agent_cancels_nothing(quiet_host, agent, conductor):
    with Client(quiet_host.front_door) as client:
        client.open("r1")
        harness.tell(agent, harness.view("r1", "QUEUED", 1))
        client.event()
        agent.stop()
        assert client.is_closed()
    assert conductor.named("cancel_session") == []
    # And the client finds the next agent at the same place.
    successor = quiet_host.start()
    with Client(quiet_host.front_door) as client:
        client.open("r1")
        harness.tell(successor, harness.view("r1", "PREPARING", 2))
        assert client.event()["state"] == "PREPARING"


def test_a_conductor_that_refuses_is_not_asked_again_at_once(
    client, conductor, agent
):
    asked_at_s = []
    enough = threading.Event()

    def refuse(revisions, host_uuid):
        asked_at_s.append(time.monotonic())
        if len(asked_at_s) == 4:
            enough.set()
        raise exception.Overloaded(reason="too many questions wait")

    conductor.changed_sessions = refuse
    client.open("r1")
    harness.tell(agent, harness.view("r1", "QUEUED", 1))
    assert enough.wait(30)
    gaps_s = [b - a for a, b in itertools.pairwise(asked_at_s)]
    assert min(gaps_s) >= POLL_INTERVAL_S


def test_a_session_that_nobody_knows_is_lost(client, agent):
    client.open("r1")
    harness.tell(agent, harness.view("r1", "QUEUED", 1))
    assert client.event()["state"] == "QUEUED"
    assert client.event()["state"] == "LOST"


def test_get_knows_the_projects_own_sessions_only(client, conductor):
    own = harness.view("r1", "ACTIVE", 1, secret="ab")
    foreign = harness.view("r2", "ACTIVE", 1, project_id="project-b")
    for one in (own, foreign):
        conductor.sessions[one.session_id] = one
    session = client.request("get", session_id=own.session_id)["session"]
    assert (session["state"], session["secret"]) == ("ACTIVE", "")
    reply = client.request("get", session_id=foreign.session_id)
    assert code_of(reply) == "SESSION_NOT_FOUND"


def test_cancel_and_pool(client, conductor):
    assert client.request("cancel", request_id="r9")["ok"]
    assert conductor.wait_for("cancel_session", lambda one: True) == (
        harness.PROJECT,
        "r9",
        "CANCELLED_BY_CLIENT",
    )
    assert client.request("pool")["summary"] == {
        "strategy": "wra",
        "waiting": 3,
        "sessions": {"QUEUED": 3},
        "hosts": [],
    }


def test_work_of_a_waiting_client_is_passed_on(client, agent, conductor):
    client.open("r1")
    view = harness.view("r1", "QUEUED", 1)
    harness.tell(agent, view)
    assert client.event()["state"] == "QUEUED"
    for input_bytes in (-1, True, "1", 2**63, None):
        reply = client.request(
            "progress", session_id=view.session_id, input_bytes=input_bytes
        )
        assert code_of(reply) == "INVALID_SIZE"
    for session_id in (view.session_id, "another"):
        assert client.request(
            "progress", session_id=session_id, input_bytes=7
        )["ok"]
    assert conductor.wait_for("report_progress", lambda one: True) == (
        harness.PROJECT,
        view.session_id,
        7,
    )
    assert [name for name, _ in conductor.calls].count("report_progress") == 1


def test_a_dry_run_is_asked_of_the_conductor(client, conductor):
    wanted = {"accelerator": "aes", "size_bytes": 7, "deadline_s": 5.0}
    reply = client.request("dry_run", **wanted)
    assert (reply["state"], reply["reasons"]) == ("QUEUED", ["NO_IDLE_SLOT"])
    assert (reply["message"], reply["expected_wait_s"]) == ("", None)
    asked = conductor.wait_for("dry_run", lambda one: True)
    assert (asked.project_id, asked.host_uuid) == (
        harness.PROJECT,
        harness.HOST,
    )
    assert (asked.accelerator, asked.claimed_bytes) == ("aes", 7)
    assert asked.deadline_s == 5.0
    bad = {"size_bytes": 0}, {"accelerator": 7}, {"deadline_s": "soon"}
    for changes in bad:
        assert not client.request("dry_run", **{**wanted, **changes})["ok"]
    conductor.refusal = "RATE_LIMITED"
    assert code_of(client.request("dry_run", **wanted)) == "RATE_LIMITED"


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 0),
        struct.pack(">I", messages.MAX_MESSAGE_BYTES + 1),
        struct.pack(">I", 4) + b"nope",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 3) + b"\xff\xfe{",
    ],
)
def test_malformed_messages_end_the_connection_with_a_reason(
    quiet_host, client, data, caplog
):
    client.sock.sendall(data)
    assert client.is_closed()
    assert "closed:" in caplog.text
    with Client(quiet_host.front_door) as other:
        assert other.request("hello")["ok"]


def test_a_client_that_does_not_read_is_dropped(quiet_host, client, caplog):
    data = messages.encode(messages.request(1, "hello")) * 200

    def flood() -> None:
        while True:
            client.sock.sendall(data)

    with pytest.raises(ConnectionError):
        flood()
    assert "bytes unread" in caplog.text
    with Client(quiet_host.front_door) as other:
        assert other.request("hello")["ok"]


def test_a_project_has_room_of_its_own(directory):
    other_door = str(directory / "other.sock")
    with harness.running_host(
        directory,
        driver_name="noop",
        driver_path="fpgapool.drivers.noop:NoopDriver",
        max_front_door_connections=8,
        front_door_sockets={
            harness.PROJECT: str(directory / "door.sock"),
            "other": other_door,
        },
    ) as host:
        host.start()
        door = str(directory / "door.sock")
        with contextlib.ExitStack() as stack:
            # More than its share, while the other leaves a quarter of all.
            for _ in range(6):
                one = stack.enter_context(Client(door))
                assert one.request("hello")["ok"]
            with Client(door) as late:
                reply = late.next(lambda one: True)
                assert code_of(reply) == "TOO_MANY_CONNECTIONS"
                assert late.is_closed()
            for _ in range(2):
                other = stack.enter_context(Client(other_door))
                assert other.request("hello")["ok"]

        def served() -> bool:
            with Client(door) as again:
                try:
                    return again.request("hello")["ok"]
                except (EOFError, OSError):
                    return False

        waiting.wait_until(served, "there is room again")


def test_questions_that_nobody_answers_are_bounded(quiet_host, agent):
    quiet_host.conductor.answers.clear()
    most = questions.MAX_QUESTIONS_PER_CLIENT
    with Client(quiet_host.front_door) as asking:
        for number in range(most + 1):
            asking.sock.sendall(
                messages.encode(messages.request(number, "pool"))
            )
        reply = asking.next(lambda one: one.get("id") == most)
        assert code_of(reply) == "RATE_LIMITED"
        with Client(quiet_host.front_door) as other:
            assert other.request("hello")["ok"]
        quiet_host.conductor.answers.set()
        replies = [
            asking.next(lambda one, number=number: one.get("id") == number)
            for number in range(most)
        ]
        assert replies[0]["ok"]
        assert asking.request("pool")["ok"]


def test_sessions_that_nobody_wants_any_more_count_until_that_is_heard(
    directory,
):
    """So one that opens and gives up for ever makes nothing grow."""
    other_door = str(directory / "other.sock")
    with harness.running_host(
        directory,
        driver_name="noop",
        driver_path="fpgapool.drivers.noop:NoopDriver",
        max_front_door_project_sessions=3,
        front_door_sockets={
            harness.PROJECT: str(directory / "door.sock"),
            "other": other_door,
        },
    ) as host:
        agent = host.start()
        door = str(directory / "door.sock")
        for number in range(3):
            # Each time another program, so that none has many.
            with Client(door) as one:
                assert one.open(request_id=f"r{number}")["ok"]
                cancelled = one.request("cancel", request_id=f"r{number}")
                assert cancelled["ok"]
        with Client(door) as one:
            reply = one.open(request_id="r3")
            assert code_of(reply) == "QUOTA_EXCEEDED"
            with Client(other_door) as other:
                assert other.open(request_id="r")["ok"]
            # What the conductor has heard of is forgotten at once.
            harness.tell(agent, harness.view("r0", "CANCELLED", 1))
            waiting.wait_until(
                lambda: one.open(request_id="r3")["ok"], "there is room again"
            )


def test_sockets_in_the_way(directory, quiet_host):
    path = pathlib.Path(quiet_host.front_door)
    path.write_text("")
    with pytest.raises(doorway.FrontDoorError, match="not a socket"):
        quiet_host.start()
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(doorway.FrontDoorError, match="another process"):
            quiet_host.start()
    # What a killed agent left behind is replaced.
    quiet_host.start()
    with Client(quiet_host.front_door) as client:
        assert client.request("hello")["ok"]


def test_paths_that_are_too_long_are_refused(directory):
    with harness.running_host(
        directory,
        driver_path="fpgapool.drivers.noop:NoopDriver",
        front_door_sockets={"p": "/tmp/" + "x" * 120},
    ) as host:
        with pytest.raises(doorway.FrontDoorError, match="longer than"):
            host.start()


@pytest.fixture
def ready_host(host):
    agent = host.start()
    harness.assign(agent, 7)
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    return host


def test_connect_hands_over_a_connection_to_the_worker(ready_host):
    with Client(ready_host.front_door) as client:
        reply = client.request("connect", session_id="session-7", generation=7)
        assert reply["ok"]
        (fd,) = client.fds
        assert os.get_blocking(fd)
        client.fds.clear()
    prepared = ready_host.conductor.wait_for("prepared", lambda one: True)
    with socket.socket(fileno=fd) as data:
        data.settimeout(harness.TIMEOUT_S)
        hello = {
            "features": [],
            "session_id": "session-7",
            "generation": 7,
            "secret": prepared.secret,
            "transport": "stream",
            "params": {},
        }
        data.sendall(
            frames.encode_frame(frames.FrameHeader(frames.HELLO), hello)
        )
        header = frames.FrameHeader.unpack_from(
            data.recv(32, socket.MSG_WAITALL)
        )
        assert header.type == frames.OPENED
        ready_host.conductor.wait_for_slot(
            0, lambda one: one.state == "active"
        )
        # The end of this client's front door connection is not the end of
        # a session that the slot table knows to be in use.
        with Client(ready_host.front_door) as client:
            client.open("r1")
            harness.tell(
                ready_host.agents[-1],
                harness.view(
                    "r1", "READY", 1, secret="ab", session_id="session-7"
                ),
            )
            client.event()
        with Client(ready_host.front_door) as client:
            assert client.request("hello")["ok"]
        assert ready_host.conductor.named("cancel_session") == []


@pytest.mark.parametrize("state", ["PREPARING", "READY"])
def test_a_client_comes_to_a_slot_before_the_order_for_it(host, state):
    agent = host.start()
    idle = host.conductor.wait_for_slot(0, lambda one: one.offer is not None)
    with Client(host.front_door) as client:
        client.open("r1")
        request = host.conductor.wait_for(
            "submit_sessions", lambda one: one.request_id == "r1"
        )
        harness.tell(
            agent,
            harness.view(
                "r1",
                state,
                1,
                session_id="session-7",
                generation=7,
                slot_host_uuid=harness.HOST,
                device="board0",
                slot=0,
                endpoints=idle.offer.endpoints,
                secret_sha256=request.secret_sha256,
            ),
        )
        secret = client.event()["secret"]
        for generation, code in ((6, "SESSION_NOT_FOUND"), (7, None)):
            reply = client.request(
                "connect", session_id="session-7", generation=generation
            )
            assert (None if reply["ok"] else code_of(reply)) == code
        (fd,) = client.fds
        client.fds.clear()
        with socket.socket(fileno=fd) as data:
            data.settimeout(harness.TIMEOUT_S)
            hello = {
                "features": [],
                "session_id": "session-7",
                "generation": 7,
                "secret": secret,
            }
            data.sendall(
                frames.encode_frame(frames.FrameHeader(frames.HELLO), hello)
            )
            harness.assign(
                agent,
                7,
                offer=idle.offer,
                secret_sha256=request.secret_sha256,
            )
            header = frames.FrameHeader.unpack_from(
                data.recv(32, socket.MSG_WAITALL)
            )
            assert header.type == frames.OPENED
            host.conductor.wait_for_slot(0, lambda one: one.state == "active")
    assert host.conductor.named("prepared") == []


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"session_id": "session-8", "generation": 7}, "SESSION_NOT_FOUND"),
        ({"session_id": "session-7", "generation": 6}, "STALE_GENERATION"),
        ({"session_id": "session-7"}, "INVALID_REQUEST"),
        ({"generation": 7}, "SESSION_NOT_FOUND"),
    ],
)
def test_connect_refuses_what_is_not_there(ready_host, members, code):
    with Client(ready_host.front_door) as client:
        assert code_of(client.request("connect", **members)) == code
        assert client.fds == []


def test_connect_is_for_the_sessions_own_project(host):
    agent = host.start()
    harness.assign(agent, 7, project_id="project-b")
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    with Client(host.front_door) as client:
        reply = client.request("connect", session_id="session-7", generation=7)
        assert code_of(reply) == "SESSION_NOT_FOUND"
