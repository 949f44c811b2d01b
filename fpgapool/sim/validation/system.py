# SPDX-License-Identifier: Apache-2.0

"""The real system: a pool and its clients, each a process of its own."""

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

from fpgapool.common import descriptors
from fpgapool.sim import errors
from fpgapool.sim import scenario as scenarios
from fpgapool.sim.validation import experiments
from fpgapool.sim.validation import tenant

START_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 30.0
#: From when all clients are ready to when they begin: what they have tried
#: the pool with is given back meanwhile.
_BEGIN_S = 2.0

_POOL = "fpgapool.cmd.allinone"
_TENANT = tenant.__name__
#: A chunk of the data plane, scaled as all sizes are, costs the processors
#: what a whole one does; smaller ones than this would cost too much.
_CHUNK_BYTES = 4 * 2**20
_SMALLEST_CHUNK_BYTES = 65536
_SLOTS = experiments.BOARDS * experiments.SLOTS
_MEMORY = pathlib.Path("/dev/shm")
_LOG_LINES = 10


@dataclasses.dataclass(frozen=True)
class Run:
    """All jobs, done once.

    :ivar times: of the jobs, by their ids.
    :ivar busy: share of this machine's processors that was used meanwhile,
        by whomever, but for what gives way (``nice``).
    """

    times: dict[int, tenant.Times]
    busy: float


class _Pool(msgspec.Struct, frozen=True):
    """What the pool says when it is ready."""

    front_doors: dict[str, str]


def run(scenario: scenarios.Scenario, scale: float, timeout_s: float) -> Run:
    """Have the jobs of a scenario done by a fresh pool.

    :param scenario: of :mod:`fpgapool.sim.validation.experiments`.
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
    """Memory if there is such a thing, unless the user wants it elsewhere.

    The pool's database waits for the disk whenever a session changes, and so
    for whoever else writes to it, now and then for most of a second.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    return _MEMORY


# -- the pool --------------------------------------------------------------


@contextlib.contextmanager
def _pool(directory: pathlib.Path, scale: float) -> Iterator[_Pool]:
    """It ends with this process, however that ends."""
    log_path = directory / "pool.log"
    read_fd, write_fd = os.pipe()
    # The reading end stays open as long as the pool shall live.
    with open(read_fd, "rb", buffering=0) as ready:
        try:
            process = _start_pool(directory, scale, write_fd, log_path)
        finally:
            os.close(write_fd)
        try:
            line = descriptors.read_line(ready, START_TIMEOUT_S)
            if not line.endswith(b"\n"):
                raise errors.SystemFailed(
                    _with_log("the pool did not start", log_path)
                )
            yield msgspec.json.decode(line, type=_Pool)
        finally:
            _stop(process)


def _start_pool(
    directory: pathlib.Path,
    scale: float,
    write_fd: int,
    log_path: pathlib.Path,
) -> subprocess.Popen[bytes]:
    chunk_bytes = max(_SMALLEST_CHUNK_BYTES, round(_CHUNK_BYTES * scale))
    config_path = directory / "pool.conf"
    config_path.write_text(f"[agent]\nchunk_bytes = {chunk_bytes}\n")
    command = [sys.executable, "-m", _POOL]
    command += [
        f"--hosts={experiments.HOSTS}",
        f"--boards={experiments.BOARDS}",
        f"--slots={experiments.SLOTS}",
        f"--rate-scale={scale!r}",
        f"--strategy={experiments.POLICY}",
        f"--config-file={config_path}",
        f"--run-dir={directory / 'run'}",
        f"--ready-fd={write_fd}",
    ]
    with log_path.open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(write_fd,),
            # Ctrl-C is for this program, which ends the clients first.
            start_new_session=True,
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # What it started goes with it.
        process.kill()
        process.wait()


def _with_log(text: str, path: pathlib.Path) -> str:
    lines = path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    return "\n    ".join([f"{text}:", *lines]) if lines else text


# -- its clients -----------------------------------------------------------


def _orders(
    scenario: scenarios.Scenario,
    scale: float,
    timeout_s: float,
    front_doors: Mapping[str, str],
) -> dict[str, tenant.Order]:
    """By host, for all that jobs come from."""
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
                # One does it for all.
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
        """Start one; it gets itself ready meanwhile."""
        with self._log_path(host).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", _TENANT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._processes[host] = process
        self._tell(host, msgspec.json.encode(order))

    def run(self) -> Run:
        """Let all begin at once and wait until they are done."""
        for host, process in self._processes.items():
            assert process.stdout is not None
            if process.stdout.readline() != tenant.READY:
                raise self._failed(host)
        start_s = time.monotonic() + _BEGIN_S
        before = _processor_times()
        for host in self._processes:
            self._tell(host, repr(start_s).encode())
        times: dict[int, tenant.Times] = {}
        for host, process in self._processes.items():
            assert process.stdout is not None
            document = process.stdout.read()
            if process.wait():
                raise self._failed(host)
            found = msgspec.json.decode(document, type=list[tenant.Times])
            times.update((each.id, each) for each in found)
        return Run(times, _busy_share(before, _processor_times()))

    def _tell(self, host: str, line: bytes) -> None:
        stream = self._processes[host].stdin
        assert stream is not None
        try:
            stream.write(line + b"\n")
            stream.flush()
        except BrokenPipeError as error:
            raise self._failed(host) from error

    def _failed(self, host: str) -> errors.SystemFailed:
        return errors.SystemFailed(
            _with_log(f"the client on {host} failed", self._log_path(host))
        )

    def _log_path(self, host: str) -> pathlib.Path:
        return self._directory / f"{host}.log"

    def stop(self) -> None:
        """End those that still run."""
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
    """Of all processors: user, nice, system, idle, waiting for disks, …"""
    with open("/proc/stat", encoding="ascii") as file:
        return [int(word) for word in file.readline().split()[1:9]]


def _busy_share(before: list[int], after: list[int]) -> float:
    spent = [late - early for early, late in zip(before, after, strict=True)]
    # What runs with the least priority gives way.
    free = spent[1] + spent[3] + spent[4]
    return 1.0 - free / max(1, sum(spent))
