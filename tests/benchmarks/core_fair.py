# SPDX-License-Identifier: Apache-2.0

"""What fair shares between projects cost the core."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import pools

TITLE = "Decisions with fair shares"
UNIT = "decisions/s"
FLOOR = "without shares"

_SIZE = pools.Size(hosts=500, waiting=20_000)
_TINY = pools.Size(hosts=3, waiting=20)
_PROJECTS = (1, 10, 1000)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Two strategies, each with few and many projects."""
    for strategy in ("fifo", "wra"):
        for projects in _PROJECTS:
            yield _beside_unshared(strategy, projects, plan)


def _beside_unshared(
    strategy: str, projects: int, plan: measure.Plan
) -> measure.Row:
    size, count = (_TINY, 10) if plan.tiny else (_SIZE, 5000)
    unshared = pools.FullPool(strategy, size)
    shared = pools.FullPool(strategy, size, sharing_projects=projects)
    samples, floor_samples = [], []
    for _ in range(plan.repetitions):
        samples.append(_sample(shared, count))
        floor_samples.append(_sample(unshared, count))
    return measure.Row(
        name=f"{strategy}: {size}, {projects:,} projects",
        unit=UNIT,
        samples=samples,
        floor=FLOOR,
        floor_samples=floor_samples,
    )


def _sample(pool: pools.FullPool, count: int) -> measure.Sample:
    jobs = pool.source.make(count)
    with measure.stopwatch() as watch:
        decisions = pool.decide(jobs)
    return watch.rate(decisions)
