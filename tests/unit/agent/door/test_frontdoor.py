# SPDX-License-Identifier: Apache-2.0

"""The front door shares its host: between projects, and with the agent."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import threading
from collections.abc import Callable
from collections.abc import Iterator
from unittest import mock

import pytest

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent.door import doorway
from fpgapool.agent.door import frontdoor
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states
from tests.functional.agent.harness import Client
from tests.harness import waiting

pytestmark = pytest.mark.security

SPAMMER, OTHER = "project-a", "project-b"

#: Connections to workers that a client, and a project, may leave unread.
PER_CLIENT, PER_PROJECT = 16, 256

#: What the loop does of its own, among the served requests.
REPORT = "report"

CONNECT = messages.encode(
    messages.request(1, "connect", session_id="session-1", generation=1)
)


class FakeSlots:
    """Notes whose requests are served, in their order."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.has_workers = False

    def connect(
        self,
        project_id: str,
        session_id: str,
        generation: int,
        view: objects.SessionView | None = None,
    ) -> socket.socket:
        self.served.append(project_id)
        if not self.has_workers:
            raise rules.RequestError(codes.SESSION_NOT_FOUND, "not here")
        client_end, worker_end = socket.socketpair()
        worker_end.close()
        return client_end

    def connect_group(self, project_id: str, group_id: str) -> socket.socket:
        assert group_id == "group-1"
        return self.connect(project_id, "", 0)

    def sessions_in_use(self) -> set[str]:
        return set()


class Scene:
    """A front door for two projects, and its loop."""

    def __init__(self, paths: dict[str, str]) -> None:
        self.paths = paths
        self.slots = FakeSlots()
        self.loop = agent_loop.Loop("test-loop")
        self.door = frontdoor.FrontDoor(
            doorway.FrontDoorSettings(
                host_uuid="host-uuid", host_name="host1", sockets=paths
            ),
            self.loop,
            mock.Mock(name="conductor"),
            mock.Mock(name="casts"),
            mock.Mock(name="caller"),
            mock.Mock(name="opener"),
            self.slots,
        )

    def run(self, callback: Callable[[], object]) -> None:
        """Do something in the loop's thread."""
        self.loop.run_and_wait(callback, waiting.LIMIT_S)

    @contextlib.contextmanager
    def holding_up_the_loop(self) -> Iterator[None]:
        """What is sent meanwhile is there when the loop goes on."""
        reached, let_go = threading.Event(), threading.Event()

        def hold_up() -> None:
            reached.set()
            let_go.wait(waiting.LIMIT_S)

        self.loop.call(hold_up)
        assert reached.wait(waiting.LIMIT_S)
        try:
            yield
        finally:
            let_go.set()

    @contextlib.contextmanager
    def clients(self, project_id: str, count: int) -> Iterator[list[Client]]:
        """Connect several clients that have been greeted."""
        with contextlib.ExitStack() as stack:
            made = [
                stack.enter_context(Client(self.paths[project_id]))
                for _ in range(count)
            ]
            for client in made:
                assert client.request("hello")["ok"]
            yield made

    def wait_served(self, count: int) -> None:
        waiting.wait_until(
            lambda: len(self.slots.served) >= count,
            lambda: f"{len(self.slots.served)} of {count} are served",
        )


@pytest.fixture
def scene(tmp_path):
    made = Scene(
        {name: str(tmp_path / f"{name}.sock") for name in (SPAMMER, OTHER)}
    )
    made.loop.start()
    made.run(made.door.start)
    yield made
    made.run(made.door.stop)
    made.loop.stop(waiting.LIMIT_S)


def test_a_projects_flood_delays_nobody_by_more_than_its_turns(scene):
    """Neither another project's request nor what the agent has to do."""
    spammers, each = 5, 800
    served = scene.slots.served
    with (
        scene.clients(SPAMMER, spammers) as flood,
        scene.clients(OTHER, 1) as (other,),
    ):
        with scene.holding_up_the_loop():
            for client in flood:
                client.sock.sendall(CONNECT * each)
            other.sock.sendall(CONNECT)
            scene.loop.call(lambda: served.append(REPORT))
        scene.wait_served(spammers * each + 2)
        assert served.index(REPORT) == 0
        before_other = served.index(OTHER) - 1
        assert before_other <= spammers * 16
        # All of it is served, and answered, in the end.
        assert served.count(SPAMMER) == spammers * each


def test_descriptors_that_a_client_does_not_fetch_are_bounded(scene):
    scene.slots.has_workers = True
    with (
        scene.clients(SPAMMER, 1) as (greedy,),
        scene.clients(OTHER, 1) as (other,),
    ):
        greedy.sock.sendall(CONNECT * 100)
        # Between two of these, the other one has a turn.
        for _ in range(100):
            assert other.request("hello")["ok"]
        replies = [greedy.next(lambda one: True) for _ in range(100)]
        refused = [one["error"]["code"] for one in replies if not one["ok"]]
        assert refused == [codes.RATE_LIMITED] * (100 - PER_CLIENT)
        assert len(greedy.fds) == PER_CLIENT
        # It has read all: there is room again.
        assert greedy.request("connect", session_id="session-1", generation=1)[
            "ok"
        ]


def test_a_desk_is_connected_as_a_worker_is(scene):
    scene.slots.has_workers = True
    with scene.clients(OTHER, 1) as (client,):
        for group_id in (None, 7, "", "../group-1", "g" * 65):
            reply = client.request("connect_group", group_id=group_id)
            assert reply["error"]["code"] == codes.GROUP_NOT_FOUND
        assert scene.slots.served == []
        for _ in range(PER_CLIENT):
            assert client.request("connect_group", group_id="group-1")["ok"]
        assert scene.slots.served == [OTHER] * PER_CLIENT
        assert len(client.fds) == PER_CLIENT


def test_descriptors_that_a_projects_clients_do_not_fetch_are_bounded(scene):
    scene.slots.has_workers = True
    with (
        scene.clients(SPAMMER, PER_PROJECT // PER_CLIENT) as greedy,
        scene.clients(SPAMMER, 1) as (late,),
        scene.clients(OTHER, 1) as (other,),
    ):
        for client in greedy:
            client.sock.sendall(CONNECT * PER_CLIENT)
        scene.wait_served(PER_PROJECT)
        members = {"session_id": "session-1", "generation": 1}
        reply = late.request("connect", **members)
        assert reply["error"]["code"] == codes.RATE_LIMITED
        assert other.request("connect", **members)["ok"]
        for _ in range(PER_CLIENT):
            assert greedy[0].next(lambda one: True)["ok"]
        assert late.request("connect", **members)["ok"]


def test_what_a_projects_clients_do_not_read_is_bounded(scene, monkeypatch):
    """The one goes that has left most unread."""
    most_bytes = 1 << 17
    monkeypatch.setattr(doorway, "MAX_PROJECT_UNREAD_BYTES", most_bytes)
    # Far below what is left to one connection.
    flood = messages.encode(messages.request("x" * 64, "nonsense")) * 2000
    with (
        scene.clients(SPAMMER, 2) as deaf,
        scene.clients(SPAMMER, 1) as (polite,),
    ):
        for client in deaf:
            client.sock.sendall(flood)
        assert any(map(_is_cut_off, deaf))
        assert polite.request("hello")["ok"]


def _is_cut_off(client: Client) -> bool:
    """Whether all answers to a flood come, or the end."""
    with contextlib.suppress(EOFError, ConnectionResetError):
        for _ in range(2000):
            client.next(lambda one: True)
        return False
    return True


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(doorway, "CHECK_INTERVAL_S", 0.01)


def _may_connect(path: str) -> bool:
    with Client(path) as client:
        return bool(client.request("hello")["ok"])


def test_a_socket_that_was_removed_is_made_again(often, scene):
    path = scene.paths[SPAMMER]
    with scene.clients(SPAMMER, 1) as (before,):
        os.unlink(path)
        waiting.wait_until(lambda: _may_connect(path), "there is a socket")
        # Who was there already stays.
        assert before.request("hello")["ok"]
    assert pathlib.Path(path).stat().st_mode & 0o777 == 0o660
    scene.run(scene.door.stop)
    assert not os.path.exists(path)


def test_what_is_in_the_place_of_a_socket_stays(often, scene, caplog):
    path = pathlib.Path(scene.paths[SPAMMER])
    path.unlink()
    path.write_text("somebody's file")
    waiting.wait_until(
        lambda: "a file is in the way" in caplog.text, "it is told"
    )
    assert path.read_text() == "somebody's file"
    assert _may_connect(scene.paths[OTHER])
    path.unlink()
    waiting.wait_until(lambda: _may_connect(str(path)), "there is a socket")


def _ready(request_id: str) -> objects.SessionView:
    return objects.SessionView(
        session_id="session-1",
        request_id=request_id,
        project_id=OTHER,
        state=states.READY,
        accelerator="copy",
        claimed_bytes=1,
        generation=1,
        host_uuid="host-uuid",
        revision=1,
        secret="secret",
    )


@pytest.mark.parametrize("has_workers", [True, False])
@pytest.mark.parametrize("wish", [{"connections": True}, {"connections": 1}])
def test_who_wishes_so_is_connected_with_the_news_of_a_slot(
    scene, has_workers: bool, wish: dict[str, object]
) -> None:
    scene.slots.has_workers = has_workers
    with Client(scene.paths[OTHER]) as client:
        assert client.request("hello", **wish)["ok"]
        assert client.request(
            "open", request_id="r", accelerator="copy", size_bytes=1
        )["ok"]
        scene.run(lambda: scene.door.session_changed([_ready("r")]))
        news = client.next(lambda one: "event" in one)
        assert news["session"]["secret"] == "secret"
        comes = has_workers and wish["connections"] is True
        assert news.get("connection", False) == comes
        assert len(client.fds) == comes
        # Only the project of the session reaches its worker.
        assert scene.slots.served == [OTHER] * (wish["connections"] is True)


def test_the_answers_of_a_turn_keep_their_order(scene) -> None:
    scene.slots.has_workers = True
    with scene.clients(OTHER, 1) as (client,):
        hello = messages.encode(messages.request(7, "hello"))
        wrong = messages.encode(messages.request(8, "nonsense"))
        client.sock.sendall(hello + CONNECT + wrong + hello)
        answers = [client.next(lambda one: True) for _ in range(4)]
        assert [one["id"] for one in answers] == [7, 1, 8, 7]
        assert [one["ok"] for one in answers] == [True, True, False, True]
        assert len(client.fds) == 1
