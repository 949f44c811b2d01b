# SPDX-License-Identifier: Apache-2.0

"""Runs ``fpgapool-allinone`` as a process of another program."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec

from fpgapool.common.channels import descriptors

START_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 30.0

_PROGRAM = "fpgapool.cmd.allinone"
_LOG_LINES = 10


class NotStarted(Exception):
    """A pool did not start; the message has the end of its output."""


class Pool(msgspec.Struct, frozen=True):
    """A pool that is ready.

    :ivar front_doors: socket of each host's front door.
    :ivar boards: number of boards of each host.
    :ivar slots_per_board: the same for all boards.
    :ivar api_url: of its REST API; None: it has none.
    """

    front_doors: dict[str, str]
    boards: dict[str, int]
    slots_per_board: int
    api_url: str | None = None


@contextlib.contextmanager
def running(
    directory: pathlib.Path,
    options: Sequence[str],
    configuration: str,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Pool]:
    """Run a pool; it ends with this process, even if that is killed.

    :param directory: for its files; is made if needed.
    :param options: of the program's command line.
    :param configuration: content of its configuration file.
    :param environment: of the process; None means this process's own.
    :raises NotStarted: if it does not start.
    """
    directory.mkdir(exist_ok=True)
    log_path = directory / "pool.log"
    config_path = directory / "pool.conf"
    config_path.write_text(configuration)
    read_fd, write_fd = os.pipe()
    # The pool ends when this program closes the reading end.
    with open(read_fd, "rb", buffering=0) as ready:
        command = [sys.executable, "-m", _PROGRAM, *options]
        command += [f"--config-file={config_path}"]
        command += [f"--run-dir={directory / 'run'}", f"--ready-fd={write_fd}"]
        try:
            with log_path.open("wb") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(write_fd,),
                    env=environment,
                    # Ctrl-C must reach this program only, which ends its
                    # clients first.
                    start_new_session=True,
                )
        finally:
            os.close(write_fd)
        try:
            line = descriptors.read_line(ready, START_TIMEOUT_S)
            if not line.endswith(b"\n"):
                raise NotStarted(with_log("the pool did not start", log_path))
            yield msgspec.json.decode(line, type=Pool)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # The pool's workers end with it.
        process.kill()
        process.wait()


def with_log(text: str, path: pathlib.Path) -> str:
    """Return a message with the last lines of a log."""
    lines = path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    return "\n    ".join([f"{text}:", *lines]) if lines else text
