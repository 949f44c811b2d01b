# SPDX-License-Identifier: Apache-2.0

"""Runs ``fpgapool-allinone`` as a process of another program."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec

from fpgapool.common.channels import descriptors

#: Until all slots are ready.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
# The pool itself gives up, and says why; it first has to load its modules.
_LOADING_S = 30.0

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
    start_timeout_s: float = START_TIMEOUT_S,
    on_interrupt: Callable[[], None] = lambda: None,
) -> Iterator[Pool]:
    """Run a pool; it ends with this process, even if that is killed.

    :param directory: for its files; is made if needed.
    :param options: of the program's command line.
    :param configuration: content of its configuration file.
    :param environment: of the process; None means this process's own.
    :param start_timeout_s: how long the pool may take until it is ready.
    :param on_interrupt: called when KeyboardInterrupt stops the pool, which
        may take seconds; further interrupts do not shorten it.
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
        command += [f"--start-timeout-s={start_timeout_s}"]
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
            line = descriptors.read_line(ready, start_timeout_s + _LOADING_S)
            if not line.endswith(b"\n"):
                raise NotStarted(with_log("the pool did not start", log_path))
            yield msgspec.json.decode(line, type=Pool)
        except KeyboardInterrupt:
            on_interrupt()
            raise
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Wait until the pool has ended, even if the user presses Ctrl-C again."""
    process.terminate()
    ends_s = time.monotonic() + STOP_TIMEOUT_S
    interrupt: KeyboardInterrupt | None = None
    while process.returncode is None:
        try:
            process.wait(max(ends_s - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            # The pool's workers end with it.
            process.kill()
            ends_s += STOP_TIMEOUT_S
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def with_log(text: str, path: pathlib.Path) -> str:
    """Return a message with the last lines of a log, none of them twice."""
    read = path.read_text(errors="replace").splitlines()
    lines = [one for one, _ in itertools.groupby(read)][-_LOG_LINES:]
    return "\n    ".join([f"{text}:", *lines]) if lines else text
