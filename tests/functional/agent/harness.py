# SPDX-License-Identifier: Apache-2.0

"""A conductor that records what it hears, and an agent of a small host."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import socket
import threading
import typing
from collections.abc import Callable
from collections.abc import Iterator

import oslo_messaging as messaging_rpc
import yaml

from fpgapool import objects
from fpgapool.agent import service
from fpgapool.agent import settings as agent_settings
from fpgapool.common import exception
from fpgapool.common.channels import channel
from fpgapool.objects import bounds
from fpgapool.protocol import messages
from fpgapool.vocabulary import capacity
from tests.harness import waiting

HOST = "7f000000-0000-4000-8000-000000000001"
PROJECT = "project-a"
TIMEOUT_S = waiting.LIMIT_S

T = typing.TypeVar("T")


class FakeConductor:
    """Has the methods of ConductorAPI and remembers every call."""

    together = staticmethod(contextlib.nullcontext)

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.calls: list[tuple[str, typing.Any]] = []
        self.sessions: dict[str, objects.SessionView] = {}
        self.profiles = [profile("copy"), profile("aes")]
        self.hosts: list[dict[str, typing.Any]] = []
        self.groups: list[objects.GroupView] = []
        #: The code with which changes of groups are refused.
        self.refusal = ""
        self.unavailable = False
        self.leader_epoch: int | None = None
        #: Cleared: whoever asks is left waiting, as by a frozen broker.
        self.answers = threading.Event()
        #: How many questions were kept waiting and are not any more.
        self.let_go = 0
        self.answers.set()

    def _record(self, name: str, value: typing.Any) -> None:
        with self._condition:
            if self.unavailable:
                raise ConnectionError("the broker is away")
            self.calls.append((name, value))
            self._condition.notify_all()

    def report(self, report: objects.AgentReport) -> None:
        # Whatever crosses RPC must survive it.
        self._record(
            "report", objects.AgentReport.from_primitive(report.to_primitive())
        )

    def prepared(self, prepared: objects.Prepared) -> None:
        self._record(
            "prepared",
            objects.Prepared.from_primitive(prepared.to_primitive()),
        )

    def submit_sessions(
        self, requests: list[objects.OpenRequest]
    ) -> list[objects.SessionView]:
        """Take requests; tests tell the news, so that nothing is answered."""
        for request in requests:
            self._record("submit_sessions", request)
        raise messaging_rpc.MessagingTimeout("no answer")

    def dry_run(self, request: objects.OpenRequest) -> objects.DryRun:
        self._record("dry_run", request)
        if self.refusal:
            raise exception.Overloaded(reason="too many dry runs")
        return objects.DryRun(state="QUEUED", reasons=("NO_IDLE_SLOT",))

    def cancel_session(
        self,
        project_id: str,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        reason: str,
    ) -> None:
        assert (session_id is None) != (request_id is None)
        self._record(
            "cancel_session", (project_id, session_id or request_id, reason)
        )

    def report_progress(
        self, project_id: str, session_id: str, input_bytes: int
    ) -> None:
        self._record("report_progress", (project_id, session_id, input_bytes))

    def address_leader(self, leader_epoch: int) -> None:
        # Nothing is sent, so the broker may be away.
        self.leader_epoch = leader_epoch

    def get_sessions(self, session_ids) -> list[objects.SessionView]:
        self._record("get_sessions", tuple(session_ids))
        return [
            self.sessions[one] for one in session_ids if one in self.sessions
        ]

    def changed_sessions(
        self, revisions, host_uuid
    ) -> tuple[list[objects.SessionView], list[str]]:
        assert host_uuid == HOST
        self._record("changed_sessions", tuple(revisions))
        known = self.sessions
        changed = [
            known[one]
            for one, revision in revisions.items()
            if one in known and known[one].revision != revision
        ]
        return changed, [one for one in revisions if one not in known]

    def _hang(self) -> None:
        if not self.answers.is_set():
            # Longer than anybody waits for what it asks.
            self.answers.wait(2 * TIMEOUT_S)
            self.let_go += 1

    def accelerators_after(
        self, name: str
    ) -> list[objects.AcceleratorProfile]:
        self._record("accelerators_after", name)
        self._hang()
        found = [one for one in self.profiles if one.name > name]
        return sorted(found, key=lambda one: one.name)

    def pool_counts(self) -> dict[str, typing.Any]:
        self._record("pool_counts", None)
        self._hang()
        return {
            "strategy": "wra",
            "sessions": {"QUEUED": 3},
            "slots": capacity.of_hosts(self.hosts),
        }

    def pool_hosts(self, after: str) -> dict[str, typing.Any]:
        self._record("pool_hosts", after)
        self._hang()
        left = [one for one in self.hosts if one["uuid"] > after]
        page = bounds.fitting(left)
        is_last = len(page) == len(left)
        more = {} if is_last else {"next": page[-1]["uuid"]}
        return {"hosts": page, **more}

    def usable_groups(
        self, project_id: str, name: str, *, host_uuid: str
    ) -> list[objects.GroupView]:
        assert host_uuid == HOST
        self._record("usable_groups", (project_id, name))
        return [one for one in self.groups if name in (one.name, one.group_id)]

    def attach_client(self, client: objects.AttachClient) -> None:
        self._record("attach_client", client)
        if self.refusal:
            raise exception.GroupRefused("no", code=self.refusal)

    def detach_client(
        self, project_id: str, *, group_id: str, client_id: str
    ) -> None:
        self._record("detach_client", (project_id, group_id, client_id))
        if self.refusal:
            raise exception.GroupRefused("no", code=self.refusal)

    def named(self, name: str) -> list[typing.Any]:
        with self._condition:
            return [value for called, value in self.calls if called == name]

    def wait_for(self, name: str, test: Callable[[T], object]) -> T:
        """Wait for a call whose value passes a test, and return the value."""
        found: list[T] = []

        def check() -> bool:
            found[:] = [
                value
                for called, value in self.calls
                if called == name and test(value)
            ]
            return bool(found)

        with self._condition:
            if not self._condition.wait_for(check, TIMEOUT_S):
                raise AssertionError(
                    f"no such {name}; the last calls: {self.calls[-5:]}"
                )
        return found[-1]

    def wait_for_slot(
        self, slot: int, test: Callable[[objects.SlotReport], object]
    ) -> objects.SlotReport:
        """Wait for a report in which a slot passes a test."""
        report = self.wait_for(
            "report", lambda one: test(one.devices[0].slots[slot])
        )
        return report.devices[0].slots[slot]


def profile(name: str) -> objects.AcceleratorProfile:
    return objects.AcceleratorProfile(
        name=name,
        peak_bytes_per_s=1e9,
        return_ratio=1.0,
        stateless=True,
        core=name,
    )


class StillServer:
    """An RPC server for tests that call the agent's endpoint themselves."""

    def __init__(self) -> None:
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def wait(self) -> None:
        assert not self.running


class _Agent(service.Agent):
    """Hears what tests say to its endpoint, and nothing else."""

    def _make_server(self) -> StillServer:
        return StillServer()


class Host:
    """A host with one board of two slots, and the agents that run on it."""

    def __init__(self, directory: pathlib.Path, **changes: object) -> None:
        self.conductor = FakeConductor()
        self.front_door = str(directory / "door.sock")
        self.settings = agent_settings.AgentSettings(
            **{
                "host_uuid": HOST,
                "host_name": "host1",
                "state_path": str(directory / "state"),
                "driver_name": "emulator",
                "driver_path": "fpgapool.drivers.emulator:EmulatorDriver",
                "driver_settings": {"boards_file": write_boards(directory)},
                "front_door_sockets": {PROJECT: self.front_door},
                "data_address": "127.0.0.1",
                "tls": False,
                "chunk_bytes": 4096,
                # Only changes cause reports, unless a test says otherwise.
                "report_interval_s": 60.0,
                "workers_outlive_agent": False,
                "nic_bytes_per_s": 1e9,
                **changes,
            }
        )
        self.agents: list[service.Agent] = []

    def start(self) -> service.Agent:
        agent = _Agent(self.settings, self.conductor)
        self.agents.append(agent)
        agent.start()
        return agent

    def stop(self) -> None:
        """End the agents and all workers."""
        for agent in self.agents:
            agent.stop()
        if self.settings.workers_outlive_agent:
            self._end_workers()

    def _end_workers(self) -> None:
        """Have an agent take the workers over that ends them."""
        self.conductor.calls.clear()
        self.settings = dataclasses.replace(
            self.settings, workers_outlive_agent=False
        )
        agent = self.start()
        for slot in (0, 1):
            self.conductor.wait_for_slot(
                slot, lambda one: one.state != "starting"
            )
        agent.stop()


BOARDS = {
    "unlimited": True,
    "boards": [
        {
            "name": "board0",
            "model": "emulated",
            "dma_bytes_per_s": 2.1e9,
            "programming_time_s": 0.0,
            "shape": "medium",
            "slots": 2,
        }
    ],
}


def write_boards(directory: pathlib.Path) -> str:
    file = directory / "boards.yaml"
    file.write_text(yaml.safe_dump(BOARDS))
    return str(file)


def assign(
    agent: service.Agent,
    generation: int,
    slot: int = 0,
    epoch: int = 1,
    **changes: object,
) -> None:
    request = objects.AssignRequest(
        **{
            "host_uuid": HOST,
            "device": "board0",
            "slot": slot,
            "session_id": f"session-{generation}",
            "generation": generation,
            "project_id": PROJECT,
            "accelerator": "copy",
            "bitstream": "builtin:copy",
            "connect_timeout_s": 30.0,
            "resume_grace_s": 10.0,
            "claimed_bytes": 1000,
            "local": True,
            **changes,
        }
    )
    agent.manager.assign({}, epoch, request.to_primitive())


def release(
    agent: service.Agent, generation: int, slot: int = 0, epoch: int = 1
) -> None:
    agent.manager.release(
        {},
        epoch,
        "board0",
        slot,
        f"session-{generation}",
        generation,
        "CLIENT_GONE",
    )


def tell(agent: service.Agent, *views: objects.SessionView) -> None:
    agent.manager.session_changed(
        {}, 1, [view.to_primitive() for view in views]
    )


def view(
    request_id: str, state: str, revision: int, **changes: object
) -> objects.SessionView:
    return objects.SessionView(
        **{
            "session_id": f"session-of-{request_id}",
            "request_id": request_id,
            "project_id": PROJECT,
            "state": state,
            "accelerator": "copy",
            "claimed_bytes": 1000,
            "revision": revision,
            **changes,
        }
    )


class Client:
    """A program at the front door, on the level of messages."""

    def __init__(self, path: str) -> None:
        self.sock = channel.connect_unix(path)
        self.sock.settimeout(TIMEOUT_S)
        self._decoder = messages.MessageDecoder()
        self._received: list[messages.Message] = []
        self.fds: list[int] = []
        self._number = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        channel.close_fds(self.fds)

    def request(self, operation: str, **members: object) -> messages.Message:
        self._number += 1
        self.sock.sendall(
            messages.encode(
                messages.request(self._number, operation, **members)
            )
        )
        return self.next(lambda one: one.get("id") == self._number)

    def open(self, request_id: str, **members: object) -> messages.Message:
        return self.request(
            "open",
            request_id=request_id,
            **{"accelerator": "copy", "size_bytes": 1000, **members},
        )

    def event(self) -> dict[str, typing.Any]:
        message = self.next(lambda one: one.get("event") == "session")
        session: dict[str, typing.Any] = message["session"]
        return session

    def next(
        self, test: Callable[[messages.Message], bool]
    ) -> messages.Message:
        while True:
            for message in self._received:
                if test(message):
                    self._received.remove(message)
                    return message
            data, fds, _flags, _address = socket.recv_fds(self.sock, 65536, 4)
            if not data:
                raise EOFError("the front door closed the connection")
            self.fds += fds
            self._received += self._decoder.feed(data)

    def is_closed(self) -> bool:
        """Wait for the end of the connection."""
        while True:
            try:
                if not self.sock.recv(65536):
                    return True
            except ConnectionResetError:
                return True


@contextlib.contextmanager
def running_host(directory: pathlib.Path, **changes: object) -> Iterator[Host]:
    host = Host(directory, **changes)
    try:
        yield host
    finally:
        host.stop()
