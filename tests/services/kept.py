# SPDX-License-Identifier: Apache-2.0

"""Servers that go on when the program that started them ends.

Their directory records which ports they were given and which processes were
started, so that a later program finds them again and ends them, and nothing
else: a number may belong to another process by then, so that the time when it
began counts too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import typing
from collections.abc import Iterator

from fpgapool.common.channels import descriptors
from tests.services import process

#: Tells that a directory is one of servers; locked by whoever has it.
MARKER = "ministack.lock"
_STOP_LIMIT_S = 60.0
_KILL_LIMIT_S = 30.0
# Fields of /proc/PID/stat that follow the name of the program.
_SESSION_FIELD = 3
_START_TIME_FIELD = 19


@dataclasses.dataclass(frozen=True)
class Identity:
    """A process that no later one can be mistaken for.

    :param pid: its number, which is that of its session too.
    :param start_ticks: when it began, in clock ticks since the boot.
    """

    pid: int
    start_ticks: int
    boot_id: str


class Survivor:
    """A process that another program started; see :class:`process.Process`.

    :raises ProcessLookupError: if there is none.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return None as long as it lives; how it ended is not known."""
        return 0 if self._ended_within(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        :param timeout: in seconds; None means without limit.
        :raises subprocess.TimeoutExpired: if it lives longer.
        """
        if not self._ended_within(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return 0

    def _ended_within(self, limit_s: float | None) -> bool:
        return descriptors.is_readable(self._descriptor, limit_s)

    def send_signal(self, sig: int) -> None:
        """Send it a signal; harmless after its end."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, sig)

    def close(self) -> None:
        """Have nothing to do with it any more."""
        os.close(self._descriptor)


def _boot_id() -> str:
    path = pathlib.Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip()


def _stat_field(pid: int, number: int) -> int | None:
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and brackets.
    return int(text.rpartition(b")")[2].split()[number])


def identify(pid: int) -> Identity:
    """Tell what distinguishes a process from later ones.

    :raises ProcessLookupError: if there is none.
    """
    start_ticks = _stat_field(pid, _START_TIME_FIELD)
    if start_ticks is None:
        raise ProcessLookupError(pid)
    return Identity(pid, start_ticks, _boot_id())


def find(identity: Identity) -> Survivor | None:
    """Find a process if it still lives."""
    try:
        survivor = Survivor(identity.pid)
    except ProcessLookupError:
        return None
    # Asked after it was opened: it is this one or none.
    with contextlib.suppress(ProcessLookupError):
        if identify(identity.pid) == identity and survivor.poll() is None:
            return survivor
    survivor.close()
    return None


def _processes() -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            yield int(entry)


def _directory_of(pid: int) -> pathlib.Path | None:
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/cwd"))
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return None


class Directory:
    """Where servers live, for any number of programs one after the other.

    Only one program at a time has it: the next one waits.

    :param create: make it if it is not there.
    :raises ServiceError: if it holds something else.
    """

    def __init__(self, path: pathlib.Path, *, create: bool = False) -> None:
        self.path = path.resolve()
        if create:
            self._create()
        elif not is_one(self.path):
            raise process.ServiceError(f"{self.path} holds no servers")
        self._lock = (self.path / MARKER).open("a")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if not self._lock_counts():
            self.close()
            raise process.ServiceError(f"{self.path} has just been removed")
        self._runs = self.path / "run"
        self._runs.mkdir(exist_ok=True)
        self._ports_path = self.path / "ports.json"

    def _lock_counts(self) -> bool:
        # Whoever had it before may have removed it.
        try:
            present = (self.path / MARKER).stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(self._lock.fileno()), present)

    def _create(self) -> None:
        # A server that runs as another user has to reach its own directory.
        self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
        # It may be removed as a whole one day.
        if not is_one(self.path) and any(self.path.iterdir()):
            raise process.ServiceError(
                f"{self.path} is neither empty nor a directory of servers"
            )

    def close(self) -> None:
        """Let another program have it; the servers go on."""
        self._lock.close()

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def adopt(self, service: process.Service) -> pathlib.Path:
        """Give a service its directory.

        :returns: with what the service left there.
        """
        directory = self.path / service.name
        directory.mkdir(mode=0o755, exist_ok=True)
        return directory

    def ports(self) -> dict[str, int]:
        """Return all ports that were chosen, by purpose."""
        if not self._ports_path.exists():
            return {}
        found: dict[str, int] = json.loads(self._ports_path.read_text())
        return found

    def port(self, purpose: str) -> int:
        """Choose a port, which stays the same for the same purpose."""
        ports = self.ports()
        while purpose not in ports:
            candidate = process.free_port()
            if candidate not in ports.values():
                ports[purpose] = candidate
                _write(self._ports_path, ports)
        return ports[purpose]

    def watch(self, name: str, pgid: int) -> None:
        """Record the process that leads a group."""
        _write(self._run_path(name), dataclasses.asdict(identify(pgid)))

    def forget(self, name: str, pgid: int) -> None:
        """Remove the record of a group that has ended."""
        self._run_path(name).unlink(missing_ok=True)

    def _run_path(self, name: str) -> pathlib.Path:
        return self._runs / f"{name}.json"

    def recall(self, name: str) -> Survivor | None:
        """Find a service that runs; clean up behind one that has crashed."""
        identity = self._recorded(name)
        if identity is None:
            return None
        survivor = find(identity)
        if survivor is None:
            self._end_session(identity)
            self.forget(name, identity.pid)
        return survivor

    def _recorded(self, name: str) -> Identity | None:
        path = self._run_path(name)
        if not path.exists():
            return None
        return Identity(**json.loads(path.read_text()))

    def end_all(self) -> list[str]:
        """Have all services end in order, or by force where that fails.

        They are told at the same time, the last one that was started first.

        :returns: names of those that were running.
        """
        paths = sorted(
            self._runs.glob("*.json"),
            key=lambda path: path.stat().st_mtime_ns,
            reverse=True,
        )
        running = {
            path.stem: survivor
            for path in paths
            if (survivor := self.recall(path.stem)) is not None
        }
        for survivor in running.values():
            survivor.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + _STOP_LIMIT_S
        for name, survivor in running.items():
            self._await_end(name, survivor, deadline_s)
        return list(running)

    def _await_end(
        self, name: str, survivor: Survivor, deadline_s: float
    ) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            survivor.wait(max(0, deadline_s - time.monotonic()))
        _kill(survivor)
        # Recorded, but gone: what it left behind is ended.
        self.recall(name)

    def remove(self) -> None:
        """Remove it with all data; nothing may be running.

        :raises OSError: if something in it cannot be removed.
        """
        # Last, so that what is left of an interrupted removal can be removed.
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != MARKER:
                entry.unlink()
        (self.path / MARKER).unlink()
        self.path.rmdir()

    def _end_session(self, identity: Identity) -> None:
        # Its leader has ended; children of it may be left.
        while members := list(self._members(identity)):
            for survivor in members:
                _kill(survivor)

    def _members(self, identity: Identity) -> Iterator[Survivor]:
        if identity.boot_id != _boot_id():
            return
        for pid in _processes():
            if _stat_field(pid, _SESSION_FIELD) != identity.pid:
                continue
            with contextlib.suppress(ProcessLookupError):
                survivor = Survivor(pid)
                if survivor.poll() is None and self._is_inside(pid):
                    yield survivor
                else:
                    survivor.close()

    def _is_inside(self, pid: int) -> bool:
        # The leader's number may have become that of another session.
        directory = _directory_of(pid)
        return directory is not None and directory.is_relative_to(self.path)


def _kill(survivor: Survivor) -> None:
    survivor.send_signal(signal.SIGKILL)
    try:
        # Its ports are free when it has ended, and not before.
        survivor.wait(_KILL_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise process.ServiceError(
            f"process {survivor.pid} does not end"
        ) from error
    survivor.close()


def is_one(path: pathlib.Path) -> bool:
    """Tell whether a directory is one of servers.

    :param path: the directory; it need not be there.
    """
    return (path / MARKER).is_file()


def _write(path: pathlib.Path, document: typing.Any) -> None:
    # Whoever is interrupted leaves the old file or the new one.
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document, indent=2) + "\n")
    fresh.replace(path)
