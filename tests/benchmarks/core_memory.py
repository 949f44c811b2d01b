# SPDX-License-Identifier: Apache-2.0

"""How much memory a waiting job takes in the core."""

from __future__ import annotations

import gc
import multiprocessing
import pathlib
import resource
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import pools

TITLE = "Memory of a waiting job"
UNIT = "bytes"

_STRATEGIES = ("fifo", "wra")


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """What a process grows by, for each job, with the job itself."""
    count = 2_000 if plan.tiny else 1_000_000
    repetitions = 1 if plan.tiny else min(plan.repetitions, 3)
    for strategy in _STRATEGIES:
        size = pools.Size(hosts=2500 if not plan.tiny else 25, waiting=count)
        yield measure.Row(
            name=f"{strategy}, memory: {size}",
            unit=UNIT,
            samples=[_sample(strategy, size) for _ in range(repetitions)],
        )


def _sample(strategy: str, size: pools.Size) -> measure.Sample:
    # A process of its own: memory that was freed before would not count.
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as processes:
        return processes.apply(_grow, (strategy, size))


def _grow(strategy: str, size: pools.Size) -> measure.Sample:
    pool = pools.FullPool(strategy, pools.Size(size.hosts, waiting=0))
    gc.collect()
    before = _resident_bytes()
    with measure.stopwatch() as watch:
        pool.fill(size.waiting)
    gc.collect()
    grown = _resident_bytes() - before
    return measure.Sample(grown / size.waiting, watch.wall_s, watch.cpu_s)


def _resident_bytes() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
