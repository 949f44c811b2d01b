# SPDX-License-Identifier: Apache-2.0

"""Servers that all processes of a test run use, for empty databases only.

Who lends them starts them and ends them. The others find them by a file, and
may have databases and virtual hosts of their own; a test that stops, kills or
pauses a server needs one of its own process.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import threading
import typing

from tests.services import kept
from tests.services import mariadb
from tests.services import postgresql
from tests.services import process
from tests.services import rabbitmq

#: The environment variable that names the file.
VARIABLE = "FPGAPOOL_TEST_SERVERS"


class Lender(process.Workspace):
    """The workspace of servers that others may use."""

    def __init__(self) -> None:
        super().__init__()
        self.file = self.path / "servers.json"
        self._ports: dict[str, int] = {}
        self._pids: dict[str, int] = {}
        self._starting = threading.Lock()

    def port(self, purpose: str) -> int:
        """Choose a port, which is told to the others."""
        self._ports[purpose] = super().port(purpose)
        return self._ports[purpose]

    def watch(self, name: str, pgid: int) -> None:
        """Have a process group killed at the end, and tell the others."""
        super().watch(name, pgid)
        self._pids[name] = pgid

    def start(self) -> None:
        """Start the servers, all at once, and tell the others of them.

        :raises ServiceError: if one does not start.
        """
        servers: list[process.Service] = [
            rabbitmq.RabbitMQ(self),
            mariadb.MariaDB(self),
            postgresql.PostgreSQL(self),
        ]
        with self._starting, concurrent.futures.ThreadPoolExecutor() as pool:
            started = [pool.submit(server.start) for server in servers]
        for each in started:
            each.result()
        self.publish()

    def close(self) -> None:
        """Kill what runs and remove the directory."""
        # Whoever makes a server's files would make them anew meanwhile.
        with self._starting:
            super().close()

    def publish(self) -> None:
        """Write the file, of all servers that have been started."""
        table = {"ports": self._ports, "pids": self._pids}
        self.file.write_text(json.dumps(table))


class _Lent:
    """The process of a server that is not ours to end."""

    def __init__(self, name: str, pid: int) -> None:
        self._name = name
        self._survivor = kept.Survivor(pid)

    @property
    def pid(self) -> int:
        raise self._refusal()

    def poll(self) -> int | None:
        if self._survivor.poll() is None:
            return None
        raise process.ServiceError(
            f"{self._name}, which the processes share, has ended"
        )

    def wait(self, timeout: float | None = None) -> int:
        raise self._refusal()

    def send_signal(self, sig: int) -> None:
        raise self._refusal()

    def _refusal(self) -> process.ServiceError:
        return process.ServiceError(
            f"other processes use this {self._name}, too: who harms one asks"
            f" for the fixture own_{self._name}"
        )


class Borrower:
    """Lets this process use the servers of a lender.

    :param file: of :class:`Lender`, which has started them.
    """

    def __init__(self, file: pathlib.Path) -> None:
        table = json.loads(file.read_text())
        self._path = file.parent
        self._ports: dict[str, int] = table["ports"]
        self._pids: dict[str, int] = table["pids"]

    def adopt(self, service: process.Service) -> pathlib.Path:
        """Tell where a service lives."""
        return self._path / service.name

    def recall(self, name: str) -> process.Process:
        """Find the process of a service."""
        return _Lent(name, self._pids[name])

    def port(self, purpose: str) -> int:
        """Tell which port was chosen."""
        return self._ports[purpose]

    def watch(self, name: str, pgid: int) -> typing.NoReturn:
        """Refuse to start anything."""
        raise AssertionError(f"{name} is not ours to start")

    forget = watch
