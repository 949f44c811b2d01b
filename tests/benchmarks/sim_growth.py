# SPDX-License-Identifier: Apache-2.0

"""How the cost of a simulated event grows with the cluster, and what of it.

An event is a job that comes or a job that ends. Each run has a process of its
own, whose memory is counted as a whole: Python, libraries, jobs and all.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import sim_clusters
from tests.benchmarks import usage

TITLE = "Simulating larger clusters, wra, 100 jobs of each host"

_STRATEGY = "wra"
_JOBS_PER_HOST = 100
_HOSTS = (100, 316, 1_000)
#: Only if asked for, and each once.
_LARGE_HOSTS = (3_162, 10_000)
_TINY_HOSTS = (2, 4)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """For each size: the time per event, of a run, and the memory of it."""
    sizes = [
        sim_clusters.Size(hosts, 3 if plan.tiny else _JOBS_PER_HOST)
        for hosts in _hosts(plan)
    ]
    samples = [_measure(size, plan) for size in sizes]
    for place, (quantity, unit) in enumerate(
        (("time per event", "µs"), ("time", "s"), ("peak memory", "MiB"))
    ):
        for size, found in zip(sizes, samples, strict=True):
            yield measure.Row(
                f"{quantity}: {size}",
                unit,
                [sample[place] for sample in found],
                point=measure.Point(
                    quantity, f"hosts, {quantity}", size.hosts
                ),
            )


def _hosts(plan: measure.Plan) -> tuple[int, ...]:
    if plan.tiny:
        return _TINY_HOSTS
    return _HOSTS + _LARGE_HOSTS if plan.large else _HOSTS


def _measure(
    size: sim_clusters.Size, plan: measure.Plan
) -> list[tuple[measure.Sample, ...]]:
    once = plan.tiny or size.hosts in _LARGE_HOSTS
    spawn = multiprocessing.get_context("spawn")
    found = []
    for _ in range(1 if once else plan.repetitions):
        with spawn.Pool(1) as processes:
            found.append(processes.apply(_run, (size,)))
    return found


def _run(size: sim_clusters.Size) -> tuple[measure.Sample, ...]:
    sim_clusters.warm_up()
    scenario = sim_clusters.make(size, _STRATEGY)
    with measure.stopwatch() as watch:
        sim_clusters.run(scenario)
    peak_mib = usage.peak_memory_bytes(os.getpid()) / 2**20
    return (
        watch.cost_us(size.events),
        measure.Sample(watch.cpu_s, watch.wall_s, watch.cpu_s),
        measure.Sample(peak_mib, watch.wall_s, watch.cpu_s),
    )
