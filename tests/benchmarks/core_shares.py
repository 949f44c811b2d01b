# SPDX-License-Identifier: Apache-2.0

"""What a decision costs while projects share the pool fairly."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import pools

TITLE = "Cost of a decision with fair shares"
UNIT = "µs"
FLOOR = "without shares"

_STRATEGIES = ("fifo", "wra")
_PROJECTS = (10, 1000, 5000)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each strategy, with more and more projects that all wait."""
    size = pools.Size(3, 20) if plan.tiny else pools.Size(500, 20_000)
    count = 10 if plan.tiny else 3000
    for strategy in _STRATEGIES:
        floor = _make(strategy, size, 0, count)
        for projects in _PROJECTS:
            pool = _make(strategy, size, projects, count)
            samples, floor_samples = [], []
            for _ in range(plan.repetitions):
                samples.append(_cost(pool, count))
                floor_samples.append(_cost(floor, count))
            yield measure.Row(
                name=f"{strategy}: {size}, {projects:,} projects",
                unit=UNIT,
                samples=samples,
                floor=FLOOR,
                floor_samples=floor_samples,
            )


def _make(
    strategy: str, size: pools.Size, projects: int, count: int
) -> pools.FullPool:
    pool = pools.FullPool(strategy, size, sharing_projects=projects)
    pool.decide(pool.source.make(count))
    return pool


def _cost(pool: pools.FullPool, count: int) -> measure.Sample:
    jobs = pool.source.make(count)
    gc.collect()
    with measure.stopwatch() as watch:
        decisions = pool.decide(jobs)
    return watch.cost_us(decisions)
