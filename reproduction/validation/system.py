# SPDX-License-Identifier: Apache-2.0

"""Runs jobs in the real system: a process for the pool and each client."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Mapping

import msgspec

from demo import allinone
from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from reproduction.validation import experiments
from reproduction.validation import tenant

#: Time between the clients' being ready and their first jobs: meanwhile they
#: give back the slots with which they tried the pool.
_BEGIN_S = 2.0

_TENANT = tenant.__name__
#: Chunks of the data plane are scaled as all sizes are. A small chunk costs
#: the processors as much as a large one, so that there is a smallest one.
_CHUNK_BYTES = 4 * 2**20
_SMALLEST_CHUNK_BYTES = 65536
_SLOTS = experiments.BOARDS * experiments.SLOTS
_MEMORY = pathlib.Path("/dev/shm")


@dataclasses.dataclass(frozen=True)
class Run:
    """The results of all jobs.

    :ivar times: of the jobs, by their ids.
    :ivar busy: share of this machine's processors that all programs used
        meanwhile, except those that give way (``nice``).
    """

    times: dict[int, tenant.Times]
    busy: float


def run(scenario: scenarios.Scenario, scale: float, timeout_s: float) -> Run:
    """Run the jobs of a scenario in a fresh pool.

    :param scenario: of :mod:`reproduction.validation.experiments`.
    :param scale: factor of all sizes and rates.
    :param timeout_s: for each job.
    :raises errors.SystemFailed: if a process fails or takes too long.
    """
    with tempfile.TemporaryDirectory(
        prefix="fpgapool-", dir=_parent_directory()
    ) as name:
        directory = pathlib.Path(name)
        with _pool(directory, scale) as pool:
            orders = _orders(scenario, scale, timeout_s, pool.front_doors)
            with _tenants(directory, orders) as tenants:
                return tenants.run()


def _parent_directory() -> pathlib.Path | None:
    """Return a directory in memory, or None for the usual one.

    The pool's database waits for the disk whenever a session changes, now and
    then for most of a second if other programs write to the disk.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    return _MEMORY


# -- the pool --------------------------------------------------------------


def _pool(
    directory: pathlib.Path, scale: float
) -> contextlib.AbstractContextManager[allinone.Pool]:
    chunk_bytes = max(_SMALLEST_CHUNK_BYTES, round(_CHUNK_BYTES * scale))
    options = [
        f"--hosts={experiments.HOSTS}",
        f"--boards={experiments.BOARDS}",
        f"--slots={experiments.SLOTS}",
        f"--rate-scale={scale!r}",
        f"--strategy={experiments.STRATEGY}",
    ]
    return allinone.running(
        directory, options, f"[agent]\nchunk_bytes = {chunk_bytes}\n"
    )


# -- its clients -----------------------------------------------------------


def _orders(
    scenario: scenarios.Scenario,
    scale: float,
    timeout_s: float,
    front_doors: Mapping[str, str],
) -> dict[str, tenant.Order]:
    """Return orders by host, for all hosts that jobs come from."""
    orders: dict[str, tenant.Order] = {}
    for number, (host, front_door) in enumerate(front_doors.items()):
        tasks = [
            tenant.Task(
                job.id,
                job.accelerator,
                experiments.scaled_bytes(job, scale),
                job.arrival_s,
            )
            for job in scenario.jobs
            if job.host == number
        ]
        if tasks:
            orders[host] = tenant.Order(
                front_door,
                timeout_s,
                tasks,
                # One client warms up all slots.
                warm_slots=0 if orders else _SLOTS,
            )
    return orders


class _Tenants:
    """Client processes, one per host.

    :param directory: for their logs.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, host: str, order: tenant.Order) -> None:
        """Start a client, which gets itself ready."""
        with self._log_path(host).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", _TENANT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._processes[host] = process
        self._send(host, msgspec.json.encode(order))

    def run(self) -> Run:
        """Let all clients begin at once, and wait for their results."""
        for host, process in self._processes.items():
            assert process.stdout is not None
            if process.stdout.readline() != tenant.READY:
                raise self._failed(host)
        start_s = time.monotonic() + _BEGIN_S
        before = _processor_times()
        for host in self._processes:
            self._send(host, repr(start_s).encode())
        times: dict[int, tenant.Times] = {}
        for host, process in self._processes.items():
            assert process.stdout is not None
            document = process.stdout.read()
            if process.wait():
                raise self._failed(host)
            found = msgspec.json.decode(document, type=list[tenant.Times])
            times.update((each.id, each) for each in found)
        return Run(times, _busy_share(before, _processor_times()))

    def _send(self, host: str, line: bytes) -> None:
        stream = self._processes[host].stdin
        assert stream is not None
        try:
            stream.write(line + b"\n")
            stream.flush()
        except BrokenPipeError as error:
            raise self._failed(host) from error

    def _failed(self, host: str) -> errors.SystemFailed:
        return errors.SystemFailed(
            allinone.with_log(
                f"the client on {host} failed", self._log_path(host)
            )
        )

    def _log_path(self, host: str) -> pathlib.Path:
        return self._directory / f"{host}.log"

    def stop(self) -> None:
        """End the clients that still run."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def _tenants(
    directory: pathlib.Path, orders: Mapping[str, tenant.Order]
) -> Iterator[_Tenants]:
    tenants = _Tenants(directory)
    try:
        for host, order in orders.items():
            tenants.start(host, order)
        yield tenants
    finally:
        tenants.stop()


# -- this machine ----------------------------------------------------------


def _processor_times() -> list[int]:
    """Return times of all processors: user, nice, system, idle, iowait, …"""
    with open("/proc/stat", encoding="ascii") as file:
        return [int(field) for field in file.readline().split()[1:9]]


def _busy_share(before: list[int], after: list[int]) -> float:
    spent = [late - early for early, late in zip(before, after, strict=True)]
    # Programs of low priority give way.
    free = spent[1] + spent[3] + spent[4]
    return 1.0 - free / max(1, sum(spent))
