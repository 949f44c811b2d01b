# SPDX-License-Identifier: Apache-2.0

"""How long it takes to simulate the cluster of the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import sim_clusters

TITLE = "Simulating the paper's cluster, a run in one process"
UNIT = "s"

_STRATEGIES = ("fifo", "sjf", "wa", "ra", "wra", "era")
_FULL = sim_clusters.Size(hosts=100, jobs_per_host=50)
_TINY = sim_clusters.Size(hosts=4, jobs_per_host=3)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each strategy with the fluid engine, and one with the other one."""
    for strategy in _STRATEGIES:
        yield _row(strategy, "fluid", plan)
    yield _row("wra", "chunk", plan)


def _row(strategy: str, engine: str, plan: measure.Plan) -> measure.Row:
    size = _TINY if plan.tiny else _FULL
    scenario = sim_clusters.make(size, strategy)
    sim_clusters.warm_up(engine)
    samples = []
    for _ in range(plan.repetitions):
        with measure.stopwatch() as watch:
            sim_clusters.run(scenario, engine=engine)
        samples.append(measure.Sample(watch.cpu_s, watch.wall_s, watch.cpu_s))
    return measure.Row(f"{strategy}, {engine}: {size}", UNIT, samples)
