# SPDX-License-Identifier: Apache-2.0

"""Start, stop, kill and pause a server that belongs to the test run."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Iterator

from tests.services import guardian

LOOPBACK = "127.0.0.1"
# Debian keeps servers where an unprivileged user's PATH does not look.
SEARCH_PATH = os.pathsep.join(
    (os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin")
)
_POLL_INTERVAL_S = 0.05
_START_LIMIT_S = 90.0
_STOP_LIMIT_S = 60.0
_LOG_TAIL_LINES = 30


class ServiceError(Exception):
    """A server is missing, or did not start or stop as it should."""


def find_program(name: str, package: str, *candidates: str) -> str:
    """Find a program of a server.

    :param name: looked up on the path.
    :param package: what to install where it is missing.
    :param candidates: absolute paths that are preferred to the path.
    :raises ServiceError: where there is none.
    """
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        raise ServiceError(
            f"{name} is not installed: install the package {package}, or run"
            " 'make test', which does"
        )
    return found


def _candidate_ports() -> Iterator[int]:
    # Below the range from which the kernel takes the ports of outgoing
    # connections: a stopped server finds its port free when it comes back.
    first, count = 15000, 17000
    # Processes that run tests side by side look in ranges of their own.
    share = count // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    first += share * int(worker.removeprefix("gw"))
    offset = os.getpid() * 97
    for number in range(share):
        yield first + (offset + number) % share


_ports = _candidate_ports()


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on a loopback port now.

    :returns: whether binding to it works.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Choose a loopback port that nothing in this run was given before.

    :raises ServiceError: if none is left.
    """
    for port in _ports:
        if port_is_free(port):
            return port
    raise ServiceError("no free TCP port is left on the loopback device")


class Process(typing.Protocol):
    """What is done with a process; a ``subprocess.Popen`` is one."""

    @property
    def pid(self) -> int:
        """Its number, which is that of its group and session too."""

    def poll(self) -> int | None:
        """Return None as long as it lives."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        :param timeout: in seconds; None means without limit.
        :raises subprocess.TimeoutExpired: if it lives longer.
        """

    def send_signal(self, sig: int) -> None:
        """Send it a signal; harmless after its end."""


class Keeper(typing.Protocol):
    """Gives servers a place to live in and cares for their end."""

    def adopt(self, service: "Service") -> pathlib.Path:
        """Take responsibility for the end of a service."""

    def recall(self, name: str) -> Process | None:
        """Find the process of a service that an earlier run left running."""

    def port(self, purpose: str) -> int:
        """Choose a port, which stays the same for the same purpose.

        :param purpose: unique among those of this keeper.
        """

    def watch(self, name: str, pgid: int) -> None:
        """Note that a process group was started, which has to end."""

    def forget(self, name: str, pgid: int) -> None:
        """Take back :meth:`watch`: the group has ended."""


class Workspace:
    """A temporary directory and a guardian, which outlives this process.

    Used as a context manager; at the end everything that was started in it
    is gone, and so is the directory.
    """

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="fpgapool-test-"))
        # A server that runs as another user has to reach its own directory.
        self.path.chmod(0o711)
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", guardian.__file__],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._services: list[Service] = []
        self._tell("remove", self.path)

    def _tell(self, verb: str, argument: object) -> None:
        assert self._guardian.stdin is not None
        self._guardian.stdin.write(f"{verb} {argument}\n")
        self._guardian.stdin.flush()

    def adopt(self, service: "Service") -> pathlib.Path:
        """Take responsibility for the end of a service.

        :returns: a new directory for it.
        """
        self._services.append(service)
        directory = self.path / service.name
        directory.mkdir(mode=0o755)
        return directory

    def recall(self, name: str) -> None:
        """Tell that nothing is left of earlier runs."""

    def port(self, purpose: str) -> int:
        """Choose a port."""
        return free_port()

    def watch(self, name: str, pgid: int) -> None:
        """Have a process group killed at the end."""
        self._tell("watch", pgid)

    def forget(self, name: str, pgid: int) -> None:
        """Take back :meth:`watch`: the group has ended."""
        self._tell("forget", pgid)

    def close(self) -> None:
        """Kill what still runs and remove the directory."""
        for service in reversed(self._services):
            service.kill()
        self._guardian.communicate()

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Service:
    """A server process in a session of its own.

    Subclasses say how it is started and how to tell that it is ready. Its
    ports and its data stay the same over :meth:`stop`, :meth:`kill` and
    :meth:`start`.

    :param name: for its directory and for messages.
    :param workspace: where it lives and who cleans up after it.
    """

    stop_signal = signal.SIGTERM

    def __init__(self, name: str, workspace: Keeper) -> None:
        self.name = name
        self.workspace = workspace
        self.directory = workspace.adopt(self)
        self.log_path = self.directory / "output.log"
        self._process: Process | None = workspace.recall(name)
        self._paused = False

    def command(self) -> list[str]:
        """Return the command line that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return the server's whole environment."""
        return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8"}

    def is_ready(self) -> bool:
        """Tell whether the server answers clients. It may fail or block."""
        raise NotImplementedError

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        raise NotImplementedError

    @property
    def running(self) -> bool:
        """Whether the process lives; a paused one does."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers; again is harmless.

        :raises ServiceError: if it ends, or does not answer in time, or if
            another program has taken a port of it.
        """
        if self.running:
            return
        self._require_free_ports()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._paused = False
        self.workspace.watch(self.name, self._process.pid)
        self._await_ready()

    def _require_free_ports(self) -> None:
        # Else that program would be taken for the server.
        for port in self.ports():
            if not port_is_free(port):
                raise ServiceError(
                    f"{self.name} cannot start: another program listens on"
                    f" port {port}"
                )

    def _await_ready(self) -> None:
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not self.is_ready():
            if self._ended_within(_POLL_INTERVAL_S):
                self._fail("ended while it was starting")
            if time.monotonic() > deadline_s:
                self.kill()
                self._fail(f"did not answer within {_START_LIMIT_S:.0f} s")

    def _ended_within(self, limit_s: float) -> bool:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limit_s)
        return self._process.poll() is not None

    def _fail(self, what: str) -> None:
        raise ServiceError(f"{self.name} {what}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """Return the last lines of the server's output."""
        text = self.log_path.read_text(errors="replace")
        return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])

    def stop(self) -> None:
        """Have the server end in order; its data stays.

        :raises ServiceError: if it does not end in time.
        """
        if not self.running:
            return
        self.resume()
        assert self._process is not None
        self._process.send_signal(self.stop_signal)
        if not self._ended_within(_STOP_LIMIT_S):
            self.kill()
            self._fail(f"did not stop within {_STOP_LIMIT_S:.0f} s")
        self._collect()

    def kill(self) -> None:
        """End the server at once, as a crash would; its data stays."""
        if self._process is not None:
            self._collect()

    def _collect(self) -> None:
        assert self._process is not None
        # Also after an orderly end: children of the server may be left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.workspace.forget(self.name, self._process.pid)
        self._process = None
        self._await_free_ports()

    def _await_free_ports(self) -> None:
        # The process that listens need not be the one that was waited for.
        deadline_s = time.monotonic() + _STOP_LIMIT_S
        while not all(port_is_free(port) for port in self.ports()):
            if time.monotonic() > deadline_s:
                self._fail("still listens after its end")
            time.sleep(_POLL_INTERVAL_S)

    def pause(self) -> None:
        """Freeze the server: connections stay open and nothing answers."""
        assert self._process is not None
        pid = self._process.pid
        os.killpg(pid, signal.SIGSTOP)
        # Its other threads may answer until the last one has stopped.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._paused = True

    def resume(self) -> None:
        """Let a paused server go on; harmless if it is not paused."""
        if self._paused and self._process is not None:
            os.killpg(self._process.pid, signal.SIGCONT)
        self._paused = False

    def restart(self) -> None:
        """Stop in order and start again."""
        self.stop()
        self.start()

    def ensure_running(self) -> None:
        """Undo what a test did: resume and start where needed."""
        self.resume()
        self.start()
