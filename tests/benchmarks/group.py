# SPDX-License-Identifier: Apache-2.0

"""One group, for benchmarks: its desk, its members, and clients.

``python -m tests.benchmarks.group`` is a client that keeps its window full.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from fpgapool.client.doors import groupdoor
from fpgapool.client.groups import group as groups
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import groups as protocol
from tests.benchmarks import plain_relay
from tests.functional.worker import harness

_DEVICE = "board0"
_HOST = "host"


class Door:
    """Gives access to one desk of this host.

    :param path: of the desk's socket for clients.
    :param client_id: of the client; its secret is the same.
    :param members: how many the group has.
    """

    def __init__(self, path: str, client_id: str, members: int) -> None:
        self._path = path
        self._client_id = client_id
        host = protocol.Host(_HOST, members, (("local", "", 0),))
        self._members = protocol.MemberList(1, (host,))

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        return groupdoor.Access(
            name, self._client_id, self._client_id, self._members
        )

    def members(self, access: groupdoor.Access) -> protocol.MemberList:
        return self._members

    def connect_local(
        self, access: groupdoor.Access, host_id: str
    ) -> socket.socket:
        return channels.connect_unix(self._path)

    def detach(self, access: groupdoor.Access) -> None:
        return


class Pool:
    """A desk and its members, each a process."""

    def __init__(
        self,
        directory: pathlib.Path,
        members: int,
        clients: int,
        accelerator: str,
    ) -> None:
        self._accelerator = accelerator
        self._directory = directory
        self._members = members
        self._clients = [f"client-{number}" for number in range(clients)]
        self._stack = contextlib.ExitStack()
        self.pids: list[int] = []
        try:
            self._start_desk()
            for slot in range(members):
                self._start_worker(slot)
            self._let_join()
        except BaseException:
            self.close()
            raise

    def _path(self, name: str) -> str:
        return str(self._directory / name)

    def _start_desk(self) -> None:
        settings = {
            "group_id": "group",
            "slots": [[_DEVICE, slot] for slot in range(self._members)],
            "control_socket": self._path("desk.sock"),
            "data_socket": self._path("data.sock"),
            "member_socket": self._path("members.sock"),
            "clear_between": "projects",
            "log_file": self._path("desk.log"),
        }
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "fpgapool.agent.groupdesk"),
                json.dumps(settings),
            ]
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self.pids.append(process.pid)
        self._desk = harness.AgentEnd(
            harness.dial(self._path("desk.sock"), process)
        )
        self._stack.callback(self._desk.close)

    def _start_worker(self, slot: int) -> None:
        worker = harness.WorkerProcess(
            self._directory,
            worker_id=f"{_DEVICE}.{slot}",
            slot=slot,
            control_socket=self._path(f"{slot}.sock"),
            data_socket=self._path(f"{slot}.data.sock"),
            log_file=self._path(f"{slot}.log"),
        )
        self._stack.callback(worker.kill)
        self.pids.append(worker.process.pid)
        agent = worker.connect()
        self._stack.callback(agent.close)
        agent.assign(
            desk_socket=self._path("members.sock"),
            accelerator=self._accelerator,
            bitstream=f"builtin:{self._accelerator}",
        )
        agent.wait_state("active")

    def _let_join(self) -> None:
        self._desk.request(
            "members",
            members=[
                {"device": _DEVICE, "slot": slot, "generation": 1}
                for slot in range(self._members)
            ],
        )
        self._desk.request(
            "admit",
            clients=[
                {
                    "client_id": name,
                    "project_id": "project",
                    "secret_sha256": hashlib.sha256(name.encode()).hexdigest(),
                }
                for name in self._clients
            ],
        )

    def door(self, number: int) -> Door:
        """Return what gives access to one of the clients."""
        return Door(
            self._path("data.sock"), self._clients[number], self._members
        )

    def client(self, number: int, length_bytes: int) -> plain_relay.Client:
        """Start a client in a process of its own."""
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", __name__, self._path("data.sock")),
                *(self._clients[number], str(self._members)),
                str(length_bytes),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        self.pids.append(process.pid)
        return plain_relay.Client(process)

    def close(self) -> None:
        """End all processes."""
        self._stack.close()


@contextlib.contextmanager
def opened(
    members: int, clients: int, accelerator: str = "copy"
) -> Iterator[Pool]:
    """Start a group, and end it."""
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="fpgapool-") as name:
        pool = Pool(pathlib.Path(name), members, clients, accelerator)
        try:
            yield pool
        finally:
            pool.close()


def _main(path: str, client_id: str, members: str, length_bytes: str) -> None:
    data = bytes(int(length_bytes))
    door = Door(path, client_id, int(members))
    with groups.group_open("group", front_door=door) as group:
        group.run(data)
        plain_relay.tell()
        for line in sys.stdin:
            for _ in group.map(data for _ in range(int(line))):
                pass
            plain_relay.tell()


if __name__ == "__main__":
    _main(*sys.argv[1:])
