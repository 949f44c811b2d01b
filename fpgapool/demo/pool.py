# SPDX-License-Identifier: Apache-2.0

"""The pool of the demo: fpgapool-allinone in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from fpgapool.common import descriptors
from fpgapool.demo import errors
from fpgapool.sim import plots

START_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 30.0

#: The testbed: as many hosts, boards and slots of each board.
HOSTS = 5
BOARDS = 3
SLOTS = 4

#: What the boards' DMA pipes carry together before rates are scaled.
BYTES_PER_S = BOARDS * 2.1e9

_MODULE = "fpgapool.cmd.allinone"
#: The default thresholds are made for a mean of 400 MB and begin at 20 MB.
_FIRST_THRESHOLD_SHARE = 20 / 400


@dataclasses.dataclass(frozen=True)
class Pool:
    """A pool that is ready.

    :ivar front_doors: socket of each host's front door.
    :ivar boards: how many boards each host has.
    :ivar slots_per_board: the same for all boards.
    """

    front_doors: dict[str, str]
    boards: dict[str, int]
    slots_per_board: int

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts."""
        return list(self.front_doors)

    def slots(self) -> list[plots.SlotName]:
        """Return the rows of its pictures."""
        return [
            plots.SlotName(host, f"board{board}", number)
            for host, boards in self.boards.items()
            for board in range(boards)
            for number in range(self.slots_per_board)
        ]


@dataclasses.dataclass(frozen=True)
class Tuning:
    """What the pool is told.

    :ivar rate_scale: factor of all modelled rates.
    :ivar strategy: name of the scheduler's strategy.
    :ivar mean_bytes: of the jobs; the scheduler's thresholds follow it.
    """

    rate_scale: float
    strategy: str
    mean_bytes: float

    @property
    def first_threshold_bytes(self) -> int:
        """Jobs up to this size go first."""
        return math.ceil(self.mean_bytes * _FIRST_THRESHOLD_SHARE)


@contextlib.contextmanager
def running(directory: pathlib.Path, tuning: Tuning) -> Iterator[Pool]:
    """Run a pool; it ends with this process, however that ends.

    :param directory: for its sockets and its state.
    :param tuning: what it is told.
    :raises DemoError: if it does not start.
    """
    log_path = directory / "pool.log"
    read_fd, write_fd = os.pipe()
    # The reading end stays open as long as the pool shall live.
    with open(read_fd, "rb", buffering=0) as ready:
        try:
            process = _start(directory, tuning, write_fd, log_path)
        finally:
            os.close(write_fd)
        try:
            line = descriptors.read_line(ready, START_TIMEOUT_S)
            yield _pool_of(line, log_path)
        finally:
            _stop(process)


def _start(
    directory: pathlib.Path,
    tuning: Tuning,
    write_fd: int,
    log_path: pathlib.Path,
) -> subprocess.Popen[bytes]:
    directory.mkdir(exist_ok=True)
    config_path = directory / "pool.conf"
    config_path.write_text(
        "[scheduler]\n"
        f"first_threshold_bytes = {tuning.first_threshold_bytes}\n"
    )
    command = [sys.executable, "-m", _MODULE]
    command += [f"--hosts={HOSTS}", f"--boards={BOARDS}", f"--slots={SLOTS}"]
    command += [f"--rate-scale={tuning.rate_scale}"]
    command += [f"--strategy={tuning.strategy}"]
    command += [f"--config-file={config_path}"]
    command += [f"--run-dir={directory / 'run'}", f"--ready-fd={write_fd}"]
    with open(log_path, "wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(write_fd,),
            # Ctrl-C is for the demo, which ends its jobs first.
            start_new_session=True,
        )


def _pool_of(line: bytes, log_path: pathlib.Path) -> Pool:
    if not line.endswith(b"\n"):
        tail = log_path.read_text(errors="replace").splitlines()[-10:]
        raise errors.DemoError(
            errors.POOL_FAILED,
            "the pool did not start:\n    " + "\n    ".join(tail),
        )
    document = json.loads(line)
    return Pool(
        front_doors=document["front_doors"],
        boards=document["boards"],
        slots_per_board=document["slots_per_board"],
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # Its workers go with it.
        process.kill()
        process.wait()
