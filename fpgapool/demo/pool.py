# SPDX-License-Identifier: Apache-2.0

"""The pool of the demo."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import uuid
from collections.abc import Iterator
from collections.abc import Sequence

import msgspec

from fpgapool.demo import errors
from fpgapool.sim import allinone
from fpgapool.sim import errors as sim_errors
from fpgapool.sim import plots

#: The testbed: numbers of hosts, boards, and slots of each board.
HOSTS = 5
BOARDS = 3
SLOTS = 4
EMULATOR = "emulator"
#: Slots of each device of another driver: all hosts share one machine's.
DEVICE_SLOTS = 2
#: A pool for groups: boards, each in a host of its own, and slots of a board.
#: So few slots hardly wait for the DMA pipe that they share.
GROUP_BOARDS = 4
GROUP_SLOTS = 2

#: Rate of all boards' DMA pipes together, before rates are scaled.
BYTES_PER_S = BOARDS * 2.1e9

#: The default thresholds fit a mean of 400 MB, and begin at 20 MB.
_FIRST_THRESHOLD_SHARE = 20 / 400

#: The longest directory that leaves room for the path of a group's socket.
_LONGEST_DIRECTORY_BYTES = 107 - len(
    f"/run/state/node{GROUP_BOARDS}/desks/{uuid.UUID(int=0)}/control.sock"
)


class Pool(allinone.Pool, frozen=True):
    """A pool that is ready."""

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
    """Options of the pool.

    :ivar rate_scale: factor of all modelled rates.
    :ivar strategy: name of the scheduler's strategy.
    :ivar mean_bytes: of the jobs; sets the scheduler's thresholds.
    :ivar driver: ``emulator``, or another one, whose rates are not modelled.
    """

    rate_scale: float
    strategy: str
    mean_bytes: float
    driver: str = EMULATOR

    @property
    def first_threshold_bytes(self) -> int:
        """Return the size up to which jobs go first."""
        return math.ceil(self.mean_bytes * _FIRST_THRESHOLD_SHARE)


@contextlib.contextmanager
def running(directory: pathlib.Path, tuning: Tuning) -> Iterator[Pool]:
    """Run a pool; it ends with this process, even if that is killed.

    :param directory: for its sockets and its state; is made if needed.
    :param tuning: its options.
    :raises DemoError: if it does not start.
    """
    options = [f"--hosts={HOSTS}", f"--boards={BOARDS}"]
    if tuning.driver == EMULATOR:
        options += [f"--slots={SLOTS}", f"--rate-scale={tuning.rate_scale}"]
    else:
        options += [f"--slots={DEVICE_SLOTS}", "--unlimited"]
        options += [f"--driver={tuning.driver}"]
    options += [f"--strategy={tuning.strategy}"]
    configuration = (
        "[scheduler]\n"
        f"first_threshold_bytes = {tuning.first_threshold_bytes}\n"
    )
    with _running(directory, options, configuration) as made:
        yield made


@contextlib.contextmanager
def running_groups(
    directory: pathlib.Path, rate_scale: float, period_s: float
) -> Iterator[Pool]:
    """Run a pool for groups, with an API, as :func:`running` does.

    :param rate_scale: factor of all modelled rates.
    :param period_s: how often sizes of groups are looked at; agents report
        twice as often.
    :raises DemoError: if it does not start, or the directory's path is too
        long.
    """
    if len(os.fsencode(directory)) > _LONGEST_DIRECTORY_BYTES:
        raise errors.DemoError(
            errors.POOL_FAILED,
            f"the paths of sockets in {directory} would be too long; set"
            " TMPDIR to a shorter directory",
        )
    options = [f"--hosts={GROUP_BOARDS}", f"--boards={GROUP_BOARDS}"]
    options += [f"--slots={GROUP_SLOTS}", f"--rate-scale={rate_scale}"]
    options += ["--api-port=0"]
    configuration = (
        f"[scheduler]\nelasticity_period_s = {period_s}\n"
        f"[agent]\nreport_interval_s = {period_s / 2}\n"
    )
    with _running(directory, options, configuration) as made:
        yield made


@contextlib.contextmanager
def _running(
    directory: pathlib.Path, options: Sequence[str], configuration: str
) -> Iterator[Pool]:
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(
                allinone.running(directory, options, configuration)
            )
        except sim_errors.SystemFailed as error:
            raise errors.DemoError(errors.POOL_FAILED, str(error)) from error
        yield Pool(**msgspec.structs.asdict(made))
