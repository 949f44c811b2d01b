# SPDX-License-Identifier: Apache-2.0

"""Simulations of the paper's cluster, and how they compare.

Unless a figure says otherwise, there are 100 hosts, 50 of them with a board of
4 slots, and 50 jobs from each host. Slots are chosen and offered at random.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from fpgapool.sim import simulation
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import families
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results
from reproduction.figures import figure

#: Figures compare the other strategies with this one.
BASELINE = "fifo"
#: The paper's strategies, in its order.
STRATEGIES = ("sjf", "wa", "ra", "wra")
SEEDS = (1, 2, 3)
#: For figures whose differences are small.
MANY_SEEDS = tuple(range(1, 11))
#: The ends of columns of spreads, in the order of their members.
SPREAD_ENDS = ("", "_smallest", "_largest", "_95_low", "_95_high")

EXPONENTIAL = "exponential:s0_bytes=20e6,mean_bytes=400e6"
POWER_LAW = "power-law:s0_bytes=20e6,smax_bytes=10e9,alpha=1.1"

_REMOTE_LIMIT = 2
_SKIP_LIMIT = 5
_STRATEGY = "strategy"
_QUANTILES = 1000


def gaussian(
    mean_bytes: float, deviation_bytes: float, least_bytes: float = -math.inf
) -> distributions.SizeDistribution:
    """Return Gaussian sizes as a thousand quantiles.

    :param least_bytes: replaces quantiles that are smaller.
    """
    normal = statistics.NormalDist(mean_bytes, deviation_bytes)
    return distributions.Empirical(
        [
            max(least_bytes, normal.inv_cdf((at + 0.5) / _QUANTILES))
            for at in range(_QUANTILES)
        ]
    )


def make_options(
    strategy: str, queues: scenarios.Queues
) -> scenarios.StrategyOptions:
    """Return the paper's options; a strategy ignores those of others."""
    return scenarios.StrategyOptions(
        strategy=strategy,
        remote_limit=_REMOTE_LIMIT,
        skip_limit=_SKIP_LIMIT,
        slot_choice="random",
        offer_order="random",
        **dataclasses.asdict(queues),
    )


def make_scenario(
    cluster: scenarios.Cluster,
    options: scenarios.StrategyOptions,
    jobs: list[scenarios.JobSpec],
) -> scenarios.Scenario:
    """Make a scenario of one strategy, for :func:`simulate`."""
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=cluster,
        strategies={_STRATEGY: options},
        jobs=jobs,
    )


def simulate(scenario: scenarios.Scenario, seed: int) -> metrics.Columns:
    """Run a scenario of one strategy."""
    outcomes = simulation.run(scenario, _STRATEGY, seed=seed)
    return results.columns(scenario, outcomes)


@dataclasses.dataclass(frozen=True)
class ClusterRun:
    """One strategy on one cluster with one workload.

    :ivar sizes: as :func:`fpgapool.sim.inputs.families.parse` takes them.
    :ivar load: see :class:`fpgapool.sim.inputs.workloads.Workload`.
    :ivar seed: of the jobs, and of the strategy's choices.
    :ivar queues: only strategies with queues use them.
    :ivar warm_up: the share of the jobs, the first ones, that do not count.
    """

    strategy: str
    sizes: str
    load: float
    return_ratio: float
    seed: int
    queues: scenarios.Queues = scenarios.SHORT_TAIL
    hosts: int = 100
    boards: int = 50
    jobs_per_host: int = 50
    warm_up: float = 0.0

    def measure(self) -> metrics.Metrics:
        """Simulate."""
        cluster = workloads.make_cluster(
            self.hosts, self.boards, self.return_ratio
        )
        workload = workloads.Workload(
            sizes=families.parse(self.sizes, "sizes"),
            load=self.load,
            jobs_per_host=self.jobs_per_host,
        )
        scenario = make_scenario(
            cluster,
            make_options(self.strategy, self.queues),
            workloads.make_jobs(workload, cluster, self.seed),
        )
        jobs = simulate(scenario, self.seed)
        # They are in the order of their arrivals.
        first = int(self.warm_up * jobs.arrivals_s.size)
        return metrics.measure_columns(
            jobs.of(np.arange(first, jobs.arrivals_s.size))
        )


# -- comparisons -----------------------------------------------------------

#: Columns of :func:`cells_of`.
GAIN_HEADER = (
    "seeds",
    *gains.MEANS,
    *(
        f"{name}_improvement{end}"
        for name in ("act", "tct95")
        for end in SPREAD_ENDS
    ),
    "sar_improvement",
    "dlr_improvement",
)


def cells_of(gain: gains.Gain) -> tuple[object, ...]:
    """Return a gain as cells of a table, see :data:`GAIN_HEADER`."""
    return (
        gain.seeds,
        *(gain.means[name] for name in gains.MEANS),
        *gain.act,
        *gain.tct95,
        gain.sar.mean,
        gain.dlr.mean,
    )


def measure_gains(
    measure: figure.Measure,
    wanted: Mapping[typing.Any, Callable[[str, int], ClusterRun]],
    strategies: Sequence[str],
    seeds: Sequence[int],
) -> dict[tuple[typing.Any, str], gains.Gain]:
    """Compare strategies with the baseline, and the baseline with itself.

    :param wanted: by any key, a function that makes the run of a strategy
        and a seed.
    """
    names = (BASELINE, *strategies)
    runs = {
        (key, strategy): [make(strategy, seed) for seed in seeds]
        for key, make in wanted.items()
        for strategy in names
    }
    found = measure([run for some in runs.values() for run in some])
    return {
        (key, strategy): gains.compare(
            [found[run] for run in runs[key, BASELINE]],
            [found[run] for run in runs[key, strategy]],
        )
        for key, strategy in runs
    }
