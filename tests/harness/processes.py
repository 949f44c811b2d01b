# SPDX-License-Identifier: Apache-2.0

"""The pool's daemons as processes, and what the system knows of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
import threading
import typing
from collections.abc import Iterator

from tests.harness import waiting
from tests.services import process

ROOT = pathlib.Path(__file__).parents[2]

_WORKER_MODULE = b"fpgapool.agent.worker"
_DESK_MODULE = b"fpgapool.agent.groupdesk"
_READ_ATTEMPTS = 100
_READ_INTERVAL_S = 0.01


@dataclasses.dataclass(frozen=True)
class Release:
    """Where the code of a release is, and what runs it."""

    python: str
    tree: pathlib.Path


#: The code that is tested.
PRESENT = Release(sys.executable, ROOT)


class Daemon(process.Service):
    """A command of the pool in a process group of its own.

    :meth:`start` does not wait until it serves, so that several of them
    come up at the same time.

    :param name: for its directory and for messages.
    :param workspace: where it lives and who cleans up after it.
    """

    def __init__(
        self, name: str, workspace: process.Workspace, module: str
    ) -> None:
        super().__init__(name, workspace)
        self.module = module
        #: Whose code it runs, from its next start on.
        self.release = PRESENT
        self._log_start = 0
        self.config_path = self.directory / "fpgapool.conf"
        #: What it finds in its environment besides what all daemons do.
        self.variables: dict[str, str] = {}
        #: A command that runs it, and a module that runs its module.
        self.prefix: list[str] = []
        self.wrappers: list[str] = []

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            *self.prefix,
            self.release.python,
            "-m",
            *self.wrappers,
            self.module,
            "--config-file",
            str(self.config_path),
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {
            **super().environment(),
            "HOME": str(self.directory),
            "PYTHONPATH": str(self.release.tree),
            "PYTHONUNBUFFERED": "1",
            **self.variables,
        }

    def start(self) -> None:
        """Start it; again is harmless."""
        if not self.running:
            self._log_start = len(self.log())
        super().start()

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on: none of its own."""
        return ()

    def is_ready(self) -> bool:
        """Tell that there is no need to wait here."""
        return True

    @property
    def serving(self) -> bool:
        """Whether it runs and is not paused."""
        return self.running and not self._paused

    @property
    def pid(self) -> int:
        """Its process number."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """Return all that it has printed, workers' output included."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(errors="replace")

    def present_log(self) -> str:
        """Return what it has printed since it was started last."""
        return self.log()[self._log_start :]

    def wait_for_log(self, text: str) -> None:
        """Wait until it has logged something since its last start."""
        waiting.wait_until(
            lambda: text in self.present_log(),
            f"{self.name} logs {text!r}",
        )


@dataclasses.dataclass(frozen=True)
class Child:
    """A process of an agent, found by what its command line says."""

    pid: int

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.pid, signal.SIGKILL)


@dataclasses.dataclass(frozen=True)
class Worker(Child):
    """The worker of a slot."""

    device: str
    slot: int


@dataclasses.dataclass(frozen=True)
class Desk(Child):
    """The desk of a group."""

    group_id: str


def find_workers(state_dir: pathlib.Path) -> list[Worker]:
    """Find the workers of a host.

    :param state_dir: the host's directory; no other host's workers have it
        on their command line.
    """
    found = [
        Worker(pid, document["device"], document["slot"])
        for pid, document in _children(_WORKER_MODULE)
        if document.get("state_dir") == str(state_dir)
    ]
    return sorted(found, key=lambda one: (one.device, one.slot, one.pid))


def find_desks(state_dir: pathlib.Path) -> list[Desk]:
    """Find the desks of a host.

    :param state_dir: the host's directory, which has their sockets.
    """
    found = [
        Desk(pid, document["group_id"])
        for pid, document in _children(_DESK_MODULE)
        if str(document.get("control_socket")).startswith(f"{state_dir}/")
    ]
    return sorted(found, key=lambda one: (one.group_id, one.pid))


def _children(
    module: bytes,
) -> Iterator[tuple[int, dict[str, typing.Any]]]:
    """Find the processes of a module, each with its settings."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal():
            document = _settings_of(entry, module)
            if document is not None:
                yield int(entry.name), document


def _settings_of(
    entry: pathlib.Path, module: bytes
) -> dict[str, typing.Any] | None:
    for _ in range(_READ_ATTEMPTS):
        try:
            # A worker's helper has the worker's command line.
            if (entry / "comm").read_bytes() == b"fpgapool-helper\n":
                return None
            line = (entry / "cmdline").read_bytes().rstrip(b"\0")
            arguments = line.split(b"\0")
            if module not in arguments:
                return None
            document = json.loads(arguments[-1])
        except OSError:
            return None
        except ValueError:
            # A process that begins or ends shows half of its command line.
            threading.Event().wait(_READ_INTERVAL_S)
            continue
        # Tests of the command line give it anything.
        return document if isinstance(document, dict) else None
    return None


def kill_children(state_dir: pathlib.Path) -> None:
    """End all workers and desks of a host and wait until they are gone."""

    def none_left() -> bool:
        left = [*find_workers(state_dir), *find_desks(state_dir)]
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                one.kill()
        return not left

    waiting.wait_until(none_left, f"the processes of {state_dir} end")


def descriptor_count(pid: int) -> int:
    """Return how many files a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def thread_count(pid: int) -> int:
    """Return how many threads a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))
