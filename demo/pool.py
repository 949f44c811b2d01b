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

from demo import allinone
from demo import errors
from demo import warming
from fpgapool import client
from fpgapool.common.channels import channel
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

#: For each session before times are measured: on a small machine many devices
#: may compile their kernels at the same time.
_WARM_UP_TIMEOUT_S = 300.0

#: The longest directory that leaves room for the path of a group's socket, as
#: ``fpgapool-allinone`` counts it.
_LONGEST_DIRECTORY_BYTES = channel.MAX_UNIX_PATH_BYTES - len(
    f"/run/state/node99/desks/{uuid.UUID(int=0)}/control.sock"
)


class Pool(allinone.Pool, frozen=True):
    """A pool that is ready."""

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts."""
        return list(self.front_doors)

    @property
    def page_url(self) -> str:
        """The address of its live page."""
        return f"{self.api_url}/ui/"

    def slots(self) -> list[plots.SlotName]:
        """Return the rows of its pictures."""
        return [
            plots.SlotName(host, f"board{board}", number)
            for host, boards in self.boards.items()
            for board in range(boards)
            for number in range(self.slots_per_board)
        ]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A pool to start.

    :ivar driver: ``emulator``, or another one, whose rates are not modelled.
    :ivar rate_scale: factor of all modelled rates.
    :ivar options: further ones of the pool's command.
    :ivar configuration: of the pool.
    """

    hosts: int
    boards: int
    slots: int
    driver: str
    rate_scale: float
    options: Sequence[str]
    configuration: str

    @property
    def is_emulated(self) -> bool:
        """Whether rates are modelled."""
        return self.driver == EMULATOR

    def __str__(self) -> str:
        boards, scaled = f"this machine's {self.driver} devices", ""
        if self.is_emulated:
            boards = "emulated boards"
            scaled = f", all modelled rates scaled by {self.rate_scale:g}"
        return (
            f"a pool of {self.hosts} hosts, {self.boards} of them with"
            f" {boards}, each with {self.slots} slots{scaled}"
        )


def for_jobs(
    strategy: str,
    mean_bytes: float,
    rate_scale: float,
    driver: str = EMULATOR,
) -> Plan:
    """Return the testbed.

    :param strategy: name of the scheduler's strategy.
    :param mean_bytes: of the jobs; sets the scheduler's thresholds.
    """
    threshold_bytes = math.ceil(mean_bytes * _FIRST_THRESHOLD_SHARE)
    return Plan(
        HOSTS,
        BOARDS,
        SLOTS if driver == EMULATOR else DEVICE_SLOTS,
        driver,
        rate_scale,
        [f"--strategy={strategy}", "--api-port=0"],
        f"[scheduler]\nfirst_threshold_bytes = {threshold_bytes}\n",
    )


def for_groups(
    period_s: float, rate_scale: float, driver: str = EMULATOR
) -> Plan:
    """Return a pool for groups.

    :param period_s: how often sizes of groups are looked at; agents report
        twice as often.
    """
    return Plan(
        GROUP_BOARDS,
        GROUP_BOARDS,
        GROUP_SLOTS,
        driver,
        rate_scale,
        [],
        f"[scheduler]\nelasticity_period_s = {period_s}\n"
        f"[agent]\nreport_interval_s = {period_s / 2}\n",
    )


@contextlib.contextmanager
def running(directory: pathlib.Path, plan: Plan) -> Iterator[Pool]:
    """Run a pool; it ends with this process, even if that is killed.

    :param directory: for its sockets and its state; is made if needed.
    :raises DemoError: if it does not start, or the directory's path is too
        long.
    """
    length = len(os.fsencode(directory))
    if length > _LONGEST_DIRECTORY_BYTES:
        raise errors.DemoError(
            errors.POOL_FAILED,
            f"the paths of sockets in {directory} would be too long; set"
            " TMPDIR to a shorter directory",
        )
    rates = [f"--driver={plan.driver}", "--unlimited"]
    if plan.is_emulated:
        rates = [f"--rate-scale={plan.rate_scale}"]
    options = [
        f"--hosts={plan.hosts}",
        f"--boards={plan.boards}",
        f"--slots={plan.slots}",
        "--api-port=0",
        *rates,
        *plan.options,
    ]
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(
                allinone.running(directory, options, plan.configuration)
            )
        except sim_errors.SystemFailed as error:
            raise errors.DemoError(errors.POOL_FAILED, str(error)) from error
        yield Pool(**msgspec.structs.asdict(made))


def warm_up(testbed: Pool, works: Sequence[warming.Work]) -> int:
    """Use each accelerator once in every slot, before times are measured.

    :returns: the number of sessions.
    :raises DemoError: if one fails.
    """
    front_door = next(iter(testbed.front_doors.values()))
    try:
        return warming.warm_up(
            works, len(testbed.slots()), front_door, _WARM_UP_TIMEOUT_S
        )
    except client.FpgapoolError as error:
        raise errors.DemoError(
            errors.POOL_FAILED, f"a slot failed its first job: {error}"
        ) from error
