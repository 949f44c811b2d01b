# SPDX-License-Identifier: Apache-2.0

"""A desk's process, with members that echo, an agent, and a door to it."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import typing

from fpgapool.client.doors import groupdoor
from fpgapool.client.groups import group
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from tests.harness import waiting

ROOT = pathlib.Path(__file__).parents[3]
MEMBER = pathlib.Path(__file__).with_name("echo_member.py")
TIMEOUT_S = waiting.LIMIT_S
GROUP = "group-1"
SECRET = "5" * 64


class Agent:
    """The control connection."""

    def __init__(self, path: str) -> None:
        self._sock = waiting.wait_until(
            lambda: _dial(path), "the control socket"
        )
        self._sock.settimeout(TIMEOUT_S)
        self._decoder = messages.MessageDecoder()
        self._number = 0
        self.events: list[messages.Message] = []

    def ask(self, operation: str, **members: object) -> messages.Message:
        self._number += 1
        self._sock.sendall(
            messages.encode(
                messages.request(self._number, operation, **members)
            )
        )
        reply = None
        while reply is None:
            for message in self._decoder.feed(self._sock.recv(65536)):
                if message.get("id") == self._number:
                    reply = message
                else:
                    self.events.append(message)
        return reply

    def close(self) -> None:
        self._sock.close()


def _dial(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


class DeskProcess:
    """The desk of a host."""

    def __init__(
        self, directory: pathlib.Path, slots: int = 2, **settings: object
    ) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.slots = slots
        self.path = {
            name: str(directory / f"{name}.sock")
            for name in ("control", "data", "member")
        }
        self._document = {
            "group_id": GROUP,
            "slots": [["board0", slot] for slot in range(slots)],
            **{f"{name}_socket": path for name, path in self.path.items()},
            "log_file": str(directory / "desk.log"),
            **settings,
        }
        self.members: dict[int, subprocess.Popen[bytes]] = {}
        self.clients: list[dict[str, str]] = []
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.process = _python(
            "-m", "fpgapool.agent.groupdesk", json.dumps(self._document)
        )
        self.agent = Agent(self.path["control"])

    def restart(self) -> None:
        """Kill the process and start another one."""
        self.process.kill()
        self.process.wait()
        self.agent.close()
        self.start()

    def admit(self, *client_ids: str, project_id: str = "p") -> None:
        self.clients += [
            {
                "client_id": client_id,
                "project_id": project_id,
                "secret_sha256": hashlib.sha256(SECRET.encode()).hexdigest(),
            }
            for client_id in client_ids
        ]
        assert self.agent.ask("admit", clients=self.clients)["ok"]

    def keep(self, *client_ids: str, revision: int, **rules: str) -> None:
        """Admit these clients only, under these rules."""
        self.clients = []
        self.admit(*client_ids)
        assert self.agent.ask("keep", revision=revision, **rules)["ok"]

    def want(self, *slots: int, generation: int = 1, surplus: int = 0) -> None:
        reply = self.agent.ask(
            "members",
            members=[
                {"device": "board0", "slot": slot, "generation": generation}
                for slot in slots
            ],
            surplus=surplus,
        )
        assert reply["ok"], reply

    def start_member(self, slot: int, generation: int = 1) -> None:
        self.members[slot] = _python(
            str(MEMBER), self.path["member"], str(slot), str(generation)
        )

    def join(self, *slots: int) -> None:
        """Start members and wait until they serve."""
        self.want(*slots)
        for slot in slots:
            self.start_member(slot)
        self.await_states(dict.fromkeys(slots, "joined"))

    def states(self) -> dict[int, str]:
        members = self.agent.ask("status")["status"]["members"]
        return {one["slot"]: one["state"] for one in members}

    def await_states(self, wanted: dict[int, str]) -> None:
        waiting.wait_until(lambda: self.states() == wanted, f"states {wanted}")

    def kill_member(self, slot: int) -> None:
        process = self.members.pop(slot)
        process.kill()
        process.wait()

    def host(
        self, host_id: str = "h", members: int | None = None, tcp: bool = False
    ) -> groups.Host:
        status = self.agent.ask("status")["status"]
        endpoint = (
            ("data", "127.0.0.1", status["data_port"])
            if tcp
            else ("local", "", 0)
        )
        if members is None:
            members = len(self.members)
        return groups.Host(
            host_id, members, (endpoint,), status["certificate_sha256"]
        )

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self.agent.close()
        for process in (*self.members.values(), self.process):
            process.kill()
            process.wait()


def environment() -> dict[str, str]:
    """Return the environment of a process that runs this code."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _python(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], env=environment())


class GivenDoor:
    """Access given by hand.

    :param desks: by the ID of their host.
    """

    def __init__(self, *hosts: groups.Host, **desks: DeskProcess) -> None:
        self.desks = desks
        self.members_list = groups.MemberList(1, hosts)
        self.detached = False

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        return groupdoor.Access(GROUP, name, SECRET, self.members_list)

    def members(self, access: groupdoor.Access) -> groups.MemberList:
        return self.members_list

    def connect_local(
        self, access: groupdoor.Access, host_id: str
    ) -> socket.socket:
        return channels.connect_unix(self.desks[host_id].path["data"])

    def detach(self, access: groupdoor.Access) -> None:
        self.detached = True


def open_group(
    desk: DeskProcess, client_id: str = "c", tcp: bool = False, **options: int
) -> group.Group:
    """Open a group with one host."""
    door = GivenDoor(desk.host(tcp=tcp), h=desk)
    return group.group_open(client_id, front_door=door, **options)
