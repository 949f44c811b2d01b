# SPDX-License-Identifier: Apache-2.0

"""Simulated clusters of any size: what the paper's figures simulate.

Every second host has a board of 4 slots, all results are sent back, and 0.8
times as many bytes arrive as the boards' DMA pipes carry, exponential sizes
with a mean of 400 MB.
"""

from __future__ import annotations

import dataclasses

from fpgapool.sim import simulation
from fpgapool.sim.engines import compiling
from fpgapool.sim.inputs import families
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import schedules
from reproduction.figures import clusters

_LOAD = 0.8
_RETURN_RATIO = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How large a simulation is.

    :ivar jobs_per_host: of each host, on average in the same time.
    """

    hosts: int
    jobs_per_host: int

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return self.hosts * self.jobs_per_host

    @property
    def events(self) -> int:
        """How often a job comes or ends."""
        return 2 * self.jobs

    def __str__(self) -> str:
        return f"{self.hosts:,} hosts, {self.jobs:,} jobs"


def make(
    size: Size,
    strategy: str,
    *,
    return_ratio: float = _RETURN_RATIO,
    seed: int = 1,
) -> scenarios.Scenario:
    """Make a scenario of one strategy."""
    cluster = workloads.make_cluster(size.hosts, size.hosts // 2, return_ratio)
    workload = workloads.Workload(
        sizes=families.parse(clusters.EXPONENTIAL, "sizes"),
        load=_LOAD,
        jobs_per_host=size.jobs_per_host,
    )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=cluster,
        strategies={
            strategy: clusters.make_options(strategy, scenarios.SHORT_TAIL)
        },
        jobs=workloads.make_jobs(workload, cluster, seed),
    )


def run(
    scenario: scenarios.Scenario, *, engine: str = "fluid", seed: int = 1
) -> list[schedules.JobOutcome]:
    """Simulate a scenario's only strategy."""
    [strategy] = scenario.strategies
    return simulation.run(scenario, strategy, engine=engine, seed=seed)


def warm_up(engine: str = "fluid") -> None:
    """Have compiled what large simulations compile."""
    compiling.pays(compiling.PLAIN_STEPS + 1)
    run(make(Size(2, 2), "wra"), engine=engine)
