# SPDX-License-Identifier: Apache-2.0

"""Running the command, and finding what it leaves."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import typing
import urllib.request
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool import client
from fpgapool.common.channels import descriptors

LIMIT_S = 60

SMALL = ("--hosts=2", "--boards=1", "--slots=2", "--unlimited")


class Pool:
    """A pool in a process of its own.

    :param launcher: a command that runs another one.
    """

    def __init__(
        self,
        run_dir: pathlib.Path,
        *options: str,
        launcher: Sequence[str] = (),
    ) -> None:
        self.run_dir = run_dir
        ready_fd, write_fd = os.pipe()
        self.ready = os.fdopen(ready_fd, "rb", buffering=0)
        self.process = subprocess.Popen(
            [
                *launcher,
                *command("allinone", "--run-dir", str(run_dir), *options),
                f"--ready-fd={write_fd}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=(write_fd,),
            start_new_session=True,
        )
        os.close(write_fd)
        self.output = ""

    def wait_until_ready(self) -> dict[str, typing.Any]:
        """Return what the command tells."""
        line = descriptors.read_line(self.ready, LIMIT_S)
        assert line.endswith(b"\n"), self.read_output()
        return json.loads(line)

    def read_output(self) -> str:
        """Wait for the end and return all that was printed."""
        self.output += self.process.communicate(timeout=LIMIT_S)[0]
        return self.output

    def front_door(self, name: str = "front-door") -> str:
        """Return the path of a socket."""
        return str(self.run_dir / f"{name}.sock")

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is still there."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.read_output()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.ready.close()


class Site:
    """A pool with an API."""

    def __init__(self, pool: Pool, url: str) -> None:
        self.pool = pool
        self.url = url
        self.api = client.PoolApi.at(url)

    def shown(self, session_id: str) -> dict[str, typing.Any]:
        """Return a session as the API shows it."""
        request = urllib.request.Request(
            f"{self.url}/v1/sessions/{session_id}",
            headers={"OpenStack-API-Version": "fpgapool latest"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["session"]


def command(name: str, *options: str) -> list[str]:
    """Return the command line of one of the project's commands."""
    return [sys.executable, "-m", f"fpgapool.cmd.{name}", *options]


@contextlib.contextmanager
def short_directory() -> Iterator[pathlib.Path]:
    """Give a private directory whose name leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="fp-") as name:
        yield pathlib.Path(name)


@contextlib.contextmanager
def running_pool(
    *options: str, run_dir: pathlib.Path | None = None
) -> Iterator[Pool]:
    """Give a pool that is ready."""
    with contextlib.ExitStack() as stack:
        if run_dir is None:
            run_dir = stack.enter_context(short_directory())
        pool = Pool(run_dir, *(options or SMALL))
        stack.callback(pool.close)
        pool.wait_until_ready()
        yield pool


def ask_pool(path: str) -> dict[str, typing.Any]:
    """Return the pool's summary, as a front door tells it."""
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(LIMIT_S)
        door.connect(path)
        stream = door.makefile("rwb")
        for number, members in enumerate(
            ({"op": "hello", "version": 1}, {"op": "pool"})
        ):
            body = json.dumps({"id": number, **members}).encode()
            stream.write(struct.pack(">I", len(body)) + body)
            stream.flush()
            (length_bytes,) = struct.unpack(">I", stream.read(4))
            reply = json.loads(stream.read(length_bytes))
            assert reply["ok"], reply
        return reply["summary"]


class Processes:
    """All processes that name a path in their command line.

    They are held by descriptors, so that no number is taken for another's.

    :param path: for example the directory of a pool.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._fds = {
            pid: fd
            for pid in _pids_naming(path)
            if (fd := _pidfd(pid)) is not None
        }

    def __len__(self) -> int:
        return len(self._fds)

    def kill(self) -> None:
        """Kill them, and wait until they are gone."""
        for fd in self._fds.values():
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        self.wait_for_end()

    def wait_for_end(self) -> None:
        """Wait until none of them is left."""
        deadline_s = time.monotonic() + LIMIT_S
        for pid, fd in self._fds.items():
            left_s = max(0.0, deadline_s - time.monotonic())
            assert descriptors.is_readable(fd, left_s), f"{pid} goes on"
            os.close(fd)
        self._fds.clear()


def _pids_naming(path: pathlib.Path) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(path) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
