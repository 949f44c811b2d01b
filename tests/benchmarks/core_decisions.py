# SPDX-License-Identifier: Apache-2.0

"""How many decisions the core makes in a second."""

from __future__ import annotations

import typing
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import plain
from tests.benchmarks import pools

TITLE = "Decisions of the scheduler"
UNIT = "decisions/s"
FLOOR = "rules word for word"

_Pool: typing.TypeAlias = pools.FullPool | plain.PlainPool

_FULL = pools.Size(hosts=2500, waiting=100_000)
#: What the floor can bear.
_SMALL = pools.Size(hosts=20, waiting=200)
_TINY = pools.Size(hosts=3, waiting=20)
_TINIEST = pools.Size(hosts=2, waiting=10)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each strategy in a large pool, and in a small one with its floor.

    Beside ``auto`` is ``wra``.
    """
    for strategy in pools.STRATEGIES:
        yield _alone(strategy, plan)
    yield _alone("wra", plan, together=10)
    yield _alone("wra", plan, together=100)
    for strategy in pools.STRATEGIES:
        yield _beside_floor(strategy, plan)
    yield _beside_wra(plan)


def _alone(
    strategy: str, plan: measure.Plan, together: int = 1
) -> measure.Row:
    size, count = (_TINY, 10) if plan.tiny else (_FULL, 20_000)
    at_once = f", {together} at once" if together > 1 else ""
    together = min(together, count)
    pool = pools.FullPool(strategy, size)
    # What has been waiting since the beginning is more even than usual.
    pool.decide(pool.source.make(count), together)
    samples = []
    for _ in range(plan.repetitions):
        jobs = pool.source.make(count)
        with measure.stopwatch() as watch:
            decisions = pool.decide(jobs, together)
        samples.append(watch.rate(decisions))
    return measure.Row(
        name=f"{strategy}: {size}{at_once}", unit=UNIT, samples=samples
    )


def _beside_floor(strategy: str, plan: measure.Plan) -> measure.Row:
    size = _TINIEST if plan.tiny else _SMALL
    count, floor_count = (10, 2) if plan.tiny else (5000, 20)
    pool = pools.FullPool(strategy, size), count
    floor = plain.PlainPool(strategy, size), floor_count
    return _beside(f"{strategy}: {size}", pool, FLOOR, floor, plan)


def _beside_wra(plan: measure.Plan) -> measure.Row:
    size, count = (_TINY, 10) if plan.tiny else (_FULL, 20_000)
    pool = pools.FullPool("auto", size), count
    floor = pools.FullPool("wra", size), count
    return _beside(f"auto: {size}", pool, "wra", floor, plan)


def _beside(
    name: str,
    pool: tuple[_Pool, int],
    floor_name: str,
    floor: tuple[_Pool, int],
    plan: measure.Plan,
) -> measure.Row:
    samples, floor_samples = [], []
    for _ in range(plan.repetitions):
        samples.append(_sample(*pool))
        floor_samples.append(_sample(*floor))
    return measure.Row(
        name=name,
        unit=UNIT,
        samples=samples,
        floor=floor_name,
        floor_samples=floor_samples,
    )


def _sample(pool: _Pool, count: int) -> measure.Sample:
    jobs = pool.source.make(count)
    with measure.stopwatch() as watch:
        decisions = pool.decide(jobs)
    return watch.rate(decisions)
