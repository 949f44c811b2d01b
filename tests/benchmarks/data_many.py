# SPDX-License-Identifier: Apache-2.0

"""Several sessions at once, each with a client process and a worker."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from multiprocessing import pool as pools
from multiprocessing import synchronize

from fpgapool import client
from tests.benchmarks import measure
from tests.benchmarks import slot
from tests.benchmarks import usage
from tests.harness import slots

TITLE = "Sessions at once"
SERVICES = True
#: Values may be 0 or less.
DIFFERENCES = True

_COUNTS = (1, 2, 4, 8)
_CORE = "aes"
_ALL_CHUNKS = 256
_TINY_COUNTS = (1, 2)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """What all together move, and the processor time that it takes."""
    for transport in ("tcp", "shm"):
        for count in _TINY_COUNTS if plan.tiny else _COUNTS:
            runs = _measure(transport, count, plan)
            name = f"{transport}, {count} at once"
            yield measure.Row(name, "MB/s", [run.sample for run in runs])
            for place, part in enumerate(_PARTS):
                yield measure.Row(
                    f"{name}: {part}",
                    "CPU s/GB",
                    [run.share(place) for run in runs],
                )


_PARTS = (
    "clients, user",
    "clients, system",
    "workers, user",
    "workers, system",
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    size_bytes: int
    wall_s: float
    clients: usage.Cpu
    workers: usage.Cpu

    @property
    def sample(self) -> measure.Sample:
        return self._sample(self.size_bytes / 1e6 / self.wall_s)

    def share(self, place: int) -> measure.Sample:
        parts = (
            self.clients.user_s,
            self.clients.system_s,
            self.workers.user_s,
            self.workers.system_s,
        )
        return self._sample(parts[place] / (self.size_bytes / 1e9))

    def _sample(self, value: float) -> measure.Sample:
        cpu_s = self.clients.total_s + self.workers.total_s
        return measure.Sample(value, self.wall_s, cpu_s)


def _measure(transport: str, count: int, plan: measure.Plan) -> list[_Run]:
    chunks = 2 if plan.tiny else _ALL_CHUNKS // count
    with contextlib.ExitStack() as stack:
        doors = [
            stack.enter_context(slot.opened(transport)) for _ in range(count)
        ]
        spawn = multiprocessing.get_context("spawn")
        tenants = stack.enter_context(
            spawn.Pool(count, _begin, (spawn.Barrier(count), chunks))
        )
        return [_run(tenants, doors, chunks) for _ in range(plan.repetitions)]


def _run(tenants: pools.Pool, doors: list[slots.Door], chunks: int) -> _Run:
    before = _workers(doors)
    results = tenants.map(_work, [door.path for door in doors], chunksize=1)
    return _Run(
        size_bytes=len(doors) * chunks * slot.CHUNK_BYTES,
        wall_s=max(end for _, end, _ in results)
        - min(start for start, _, _ in results),
        clients=sum((cpu for _, _, cpu in results), usage.Cpu()),
        workers=_workers(doors) - before,
    )


def _workers(doors: list[slots.Door]) -> usage.Cpu:
    return sum(
        (usage.Cpu.of(door.worker.process.pid) for door in doors), usage.Cpu()
    )


class _Tenant:
    """What one client process has."""

    barrier: synchronize.Barrier | threading.Barrier
    data: memoryview
    into: memoryview


def _begin(barrier: threading.Barrier, chunks: int) -> None:
    _Tenant.barrier = barrier
    _Tenant.data = slot.memory(chunks * slot.CHUNK_BYTES)
    _Tenant.into = slot.memory(chunks * slot.CHUNK_BYTES)


def _work(path: str) -> tuple[float, float, usage.Cpu]:
    """Use one session; return when it began and ended, and its cost."""
    # No client has two of the sessions while another has none.
    _Tenant.barrier.wait()
    before = usage.Cpu.of(os.getpid())
    end_s = 0.0

    def progress(done_bytes: int, size_bytes: int) -> None:
        nonlocal end_s
        end_s = time.monotonic()

    _, report = client.run_buffer(
        _CORE,
        _Tenant.data,
        into=_Tenant.into,
        params=slot.PARAMS[_CORE],
        front_door=path,
        progress=progress,
    )
    cpu = usage.Cpu.of(os.getpid()) - before
    return end_s - report.ran_s, end_s, cpu
