# SPDX-License-Identifier: Apache-2.0

"""Simulations of the paper's cluster, and how they compare.

100 hosts, 50 of them with a board of 4 slots, and 50 jobs from each host, if
a figure does not say otherwise; slots are chosen and offered at random.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import families
from fpgapool.sim import metrics
from fpgapool.sim import results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import simulation
from fpgapool.sim import workloads

#: What the others are compared with.
BASELINE = "fifo"
#: The paper's strategies, in its order.
STRATEGIES = ("sjf", "wa", "ra", "wra")
SEEDS = (1, 2, 3)

EXPONENTIAL = "exponential:s0_bytes=20e6,mean_bytes=400e6"
POWER_LAW = "power-law:s0_bytes=20e6,smax_bytes=10e9,alpha=1.1"

_REMOTE_LIMIT = 2
_SKIP_LIMIT = 5
_POLICY = "policy"


class Run(typing.Protocol):
    """A simulation that is wanted; equal ones have equal results."""

    def measure(self) -> metrics.Metrics:
        """Simulate."""

    def __hash__(self) -> int:
        """Runs are keys."""


RunT = typing.TypeVar("RunT", bound=Run)


class Measure(typing.Protocol):
    """Whoever has simulations done, in whatever processes."""

    def __call__(
        self, runs: Sequence[RunT], /
    ) -> Mapping[RunT, metrics.Metrics]:
        """What comes out of each."""


@dataclasses.dataclass(frozen=True)
class Queues:
    """Parameters of thresholds, see :mod:`fpgapool.core.thresholds`."""

    E_bytes: float = 20e6
    q: float = 1.41
    k1: int = 5
    k2: int = 16
    queues: int = 20


#: For sizes that are about exponential, and for heavy tails.
SHORT_TAIL = Queues()
LONG_TAIL = Queues(E_bytes=26e6, q=1.8, k1=10, k2=11)


def make_policy(strategy: str, queues: Queues) -> scenarios.Policy:
    """The paper's options; strategies ignore what is not theirs."""
    return scenarios.Policy(
        strategy=strategy,
        remote_limit=_REMOTE_LIMIT,
        skip_limit=_SKIP_LIMIT,
        slot_choice="random",
        offer_order="random",
        E_bytes=queues.E_bytes,
        q=queues.q,
        k1=queues.k1,
        k2=queues.k2,
        queues=queues.queues,
    )


def make_cluster(
    hosts: int, boards: int, return_ratio: float
) -> scenarios.Cluster:
    """A cluster with the defaults of the scenario format."""
    return scenarios.Cluster(
        hosts=hosts,
        fpga_hosts=workloads.spread_boards(hosts, boards),
        accelerators={
            name: scenarios.AcceleratorProfile(peak, return_ratio)
            for name, peak in workloads.PEAKS_BYTES_PER_S.items()
        },
    )


def make_scenario(
    cluster: scenarios.Cluster,
    policy: scenarios.Policy,
    jobs: list[scenarios.JobSpec],
) -> scenarios.Scenario:
    """A scenario of one policy, for :func:`simulate`."""
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=cluster,
        policies={_POLICY: policy},
        jobs=jobs,
    )


def simulate(scenario: scenarios.Scenario, seed: int) -> metrics.Columns:
    """Run a scenario of one policy."""
    outcomes = simulation.run(scenario, _POLICY, seed=seed)
    return results.columns(scenario, outcomes)


@dataclasses.dataclass(frozen=True)
class ClusterRun:
    """One strategy on one cluster with one workload.

    :ivar strategy: its name.
    :ivar sizes: as :func:`fpgapool.sim.families.parse` takes them.
    :ivar load: see :class:`fpgapool.sim.workloads.Workload`.
    :ivar return_ratio: of all accelerators.
    :ivar seed: of the jobs, and of the strategy's choices.
    :ivar queues: counts only for strategies that have queues.
    """

    strategy: str
    sizes: str
    load: float
    return_ratio: float
    seed: int
    queues: Queues = SHORT_TAIL
    hosts: int = 100
    boards: int = 50
    jobs_per_host: int = 50

    def measure(self) -> metrics.Metrics:
        """Simulate."""
        cluster = make_cluster(self.hosts, self.boards, self.return_ratio)
        workload = workloads.Workload(
            sizes=families.parse(self.sizes, "sizes"),
            load=self.load,
            accelerators=dict.fromkeys(workloads.PEAKS_BYTES_PER_S, 1.0),
            jobs_per_host=self.jobs_per_host,
        )
        scenario = make_scenario(
            cluster,
            make_policy(self.strategy, self.queues),
            workloads.make_jobs(workload, cluster, self.seed),
        )
        return metrics.measure_columns(simulate(scenario, self.seed))


def measure_one(run: Run) -> metrics.Metrics:
    """Simulate, in whatever process this is."""
    return run.measure()


# -- comparisons -----------------------------------------------------------


class Spread(typing.NamedTuple):
    """A factor over several seeds: geometric mean, smallest and largest."""

    mean: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Gain:
    """How a strategy did against another one on the same jobs.

    :ivar act: how many times shorter the average completion time is.
    :ivar tct95: how many times shorter its 95th percentile is.
    :ivar sar: how many times larger the slot access ratio is.
    :ivar dlr: how many times larger the data locality ratio is.
    :ivar means: of the metrics themselves over the seeds, by name.
    """

    seeds: int
    act: Spread
    tct95: Spread
    sar: Spread
    dlr: Spread
    means: Mapping[str, float]


_MEANS = ("act_s", "tct95_s", "sar", "dlr")
#: Columns of :func:`cells_of`.
GAIN_HEADER = (
    "seeds",
    *_MEANS,
    *(
        f"{name}_improvement{end}"
        for name in ("act", "tct95")
        for end in ("", "_smallest", "_largest")
    ),
    "sar_improvement",
    "dlr_improvement",
)


def compare(
    before: Sequence[metrics.Metrics], after: Sequence[metrics.Metrics]
) -> Gain:
    """Compare two strategies.

    :param before: the one that is to be improved on, by seed.
    :param after: the other one, for the same seeds.
    """
    factors = [
        metrics.improvement(old, new)
        for old, new in zip(before, after, strict=True)
    ]
    return Gain(
        seeds=len(factors),
        act=_spread([each.act for each in factors]),
        tct95=_spread([each.tct95 for each in factors]),
        sar=_spread([each.sar for each in factors]),
        dlr=_spread([each.dlr for each in factors]),
        means={
            name: math.fsum(getattr(each, name) for each in after)
            / len(factors)
            for name in _MEANS
        },
    )


def _spread(factors: Sequence[float]) -> Spread:
    low, high = min(factors), max(factors)
    if low > 0 and high < math.inf:
        logarithms = math.fsum(map(math.log, factors))
        return Spread(math.exp(logarithms / len(factors)), low, high)
    return Spread(math.fsum(factors) / len(factors), low, high)


def cells_of(gain: Gain) -> tuple[object, ...]:
    """A gain as cells of a table, see :data:`GAIN_HEADER`."""
    values = (
        *(gain.means[name] for name in _MEANS),
        *gain.act,
        *gain.tct95,
        gain.sar.mean,
        gain.dlr.mean,
    )
    return (gain.seeds, *(f"{value:.6g}" for value in values))


def gains(
    measure: Measure,
    wanted: Mapping[typing.Any, Callable[[str, int], ClusterRun]],
    strategies: Sequence[str],
    seeds: Sequence[int],
) -> dict[tuple[typing.Any, str], Gain]:
    """Compare strategies with the baseline, which is among the results.

    :param wanted: by any key, the run of a strategy and a seed.
    :returns: by key and strategy.
    """
    names = (BASELINE, *strategies)
    runs = {
        (key, strategy): [make(strategy, seed) for seed in seeds]
        for key, make in wanted.items()
        for strategy in names
    }
    found = measure([run for some in runs.values() for run in some])
    return {
        (key, strategy): compare(
            [found[run] for run in runs[key, BASELINE]],
            [found[run] for run in runs[key, strategy]],
        )
        for key, strategy in runs
    }
