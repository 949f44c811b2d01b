# SPDX-License-Identifier: Apache-2.0

"""One group, for benchmarks: its desk, its members, and clients.

``python -m tests.benchmarks.group`` is a client that keeps its window full.
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator

from fpgapool.client.groups import group as client_groups
from fpgapool.protocol import groups
from tests.benchmarks import plain_relay
from tests.functional.groupdesk import harness
from tests.functional.worker import harness as workers

_HOST = "h"


class Pool(harness.DeskProcess):
    """A desk and its members, each a process."""

    def __init__(
        self,
        directory: pathlib.Path,
        members: int,
        clients: int,
        **settings: object,
    ) -> None:
        self._clients: list[subprocess.Popen[bytes]] = []
        self._settings = settings
        super().__init__(
            directory, members, clear_between="projects", **settings
        )
        try:
            self.admit(*(f"client-{number}" for number in range(clients)))
            self.join(*range(members))
        except BaseException:
            self.close()
            raise

    def start_member(self, slot: int, generation: int = 1) -> None:
        worker = workers.WorkerProcess(
            self.directory,
            worker_id=f"board0.{slot}",
            slot=slot,
            control_socket=str(self.directory / f"{slot}.sock"),
            data_socket=str(self.directory / f"{slot}.data.sock"),
            log_file=str(self.directory / f"{slot}.log"),
            **self._settings,
        )
        self.members[slot] = worker.process
        agent = worker.connect(introduced=True)
        agent.join(self.path["member"], generation)

    @property
    def pids(self) -> list[int]:
        """Those of the desk, the members and the clients."""
        processes = (self.process, *self.members.values(), *self._clients)
        return [process.pid for process in processes]

    def open(self, number: int) -> client_groups.Group:
        """Open the group as one of the clients."""
        return harness.open_group(self, f"client-{number}")

    def client(self, number: int, length_bytes: int) -> plain_relay.Client:
        """Start a client in a process of its own."""
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", __name__, self.path["data"], f"client-{number}"),
                *(str(self.slots), str(length_bytes)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._clients.append(process)
        return plain_relay.Client(process)

    def close(self) -> None:
        """End all processes."""
        for process in self._clients:
            process.kill()
            process.communicate()
        super().close()


@contextlib.contextmanager
def opened(members: int, clients: int, **settings: object) -> Iterator[Pool]:
    """Start a group, and end it.

    :param settings: of the desk and of the workers, besides their defaults.
    """
    # Paths of sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="fpgapool-") as name,
        workers.closed_channels(),
    ):
        with Pool(pathlib.Path(name), members, clients, **settings) as pool:
            yield pool


def _main(path: str, client_id: str, members: str, length_bytes: str) -> None:
    data = bytes(int(length_bytes))
    host = groups.Host(_HOST, int(members), (("local", "", 0),), None)
    desk = types.SimpleNamespace(path={"data": path})
    door = harness.GivenDoor(host, **{_HOST: desk})
    with client_groups.group_open(client_id, front_door=door) as group:
        group.run(data)
        plain_relay.tell()
        for line in sys.stdin:
            for _ in group.map(data for _ in range(int(line))):
                pass
            plain_relay.tell()


if __name__ == "__main__":
    _main(*sys.argv[1:])
