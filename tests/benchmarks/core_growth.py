# SPDX-License-Identifier: Apache-2.0

"""How the cost of a decision grows with the queue and with the pool."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import pools

TITLE = "Cost of a decision"
UNIT = "µs"
WAITING = "jobs that wait, 10,000 slots"
SLOTS = "slots, 100,000 jobs that wait"

_STRATEGIES = ("fifo", "wra")
_WAITING = (1_000, 10_000, 100_000, 1_000_000)
_HOSTS = (25, 250, 2_500, 25_000)
_TINY_HOSTS = (2, 4)
_TINY_WAITING = (10, 20)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """A curve over the jobs that wait, and one over the slots."""
    hosts = _TINY_HOSTS if plan.tiny else _HOSTS
    waiting = _TINY_WAITING if plan.tiny else _WAITING
    middle_hosts, middle_waiting = (3, 15) if plan.tiny else (2500, 100_000)
    for strategy in _STRATEGIES:
        for count in waiting:
            size = pools.Size(middle_hosts, count)
            name = f"{strategy}, longer queue: {size}"
            point = measure.Point(strategy, WAITING, count)
            yield _row(name, size, point, plan)
        for count in hosts:
            size = pools.Size(count, middle_waiting)
            name = f"{strategy}, larger pool: {size}"
            point = measure.Point(strategy, SLOTS, size.slots)
            yield _row(name, size, point, plan)


def _row(
    name: str, size: pools.Size, point: measure.Point, plan: measure.Plan
) -> measure.Row:
    count = 10 if plan.tiny else 20_000
    pool = pools.FullPool(point.curve, size)
    pool.decide(pool.source.make(count))
    samples = []
    for _ in range(plan.repetitions):
        jobs = pool.source.make(count)
        # The pools of the rows before are not this one's to clear away.
        gc.collect()
        with measure.stopwatch() as watch:
            decisions = pool.decide(jobs)
        samples.append(watch.cost_us(decisions))
    return measure.Row(name, UNIT, samples, point=point)
