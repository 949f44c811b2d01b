# SPDX-License-Identifier: Apache-2.0

"""Whether thresholds that a model prefers are better in simulations, too."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np

from fpgapool.core import distributions
from fpgapool.sim import metrics
from fpgapool.sim import results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import simulation
from fpgapool.sim import workloads

#: Strategies that have thresholds.
STRATEGIES = ("wa", "wra")
_PRODUCTION = "least_busy"


@dataclasses.dataclass(frozen=True)
class Trial:
    """What is simulated.

    :ivar sizes: of the jobs.
    :ivar load: see :class:`.workloads.Workload`.
    :ivar hosts: of the cluster.
    :ivar boards: spread evenly over the hosts.
    :ivar slots: of each board.
    :ivar jobs_per_host: from each host.
    :ivar return_ratio: of all accelerators.
    """

    sizes: distributions.SizeDistribution
    load: float
    hosts: int
    boards: int
    slots: int
    jobs_per_host: int
    return_ratio: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One strategy with two sets of thresholds on the same jobs.

    :ivar default: with the default ones.
    :ivar tuned: with the tuned ones.
    """

    strategy: str
    seed: int
    default: metrics.Metrics
    tuned: metrics.Metrics


@dataclasses.dataclass(frozen=True)
class Summary:
    """All seeds of a strategy, means over them.

    :ivar act: how many times shorter the mean completion time is with the
        tuned thresholds: geometric mean over the seeds.
    :ivar act_range: smallest and largest of any seed.
    :ivar tct95: the same of the tail.
    :ivar tct95_range: the same of the tail.
    """

    strategy: str
    default_act_s: float
    tuned_act_s: float
    default_tct95_s: float
    tuned_tct95_s: float
    act: float
    act_range: tuple[float, float]
    tct95: float
    tct95_range: tuple[float, float]

    @property
    def is_better(self) -> bool:
        """Whether the mean got shorter, and the tail did not grow by more."""
        return self.act > 1 and self.act * self.tct95 >= 1


def compare(
    trial: Trial,
    thresholds_bytes: Sequence[float],
    seeds: Sequence[int],
) -> Iterator[Comparison]:
    """Simulate tuned and default thresholds.

    :param thresholds_bytes: the tuned ones.
    :param seeds: of the jobs, and of random choices.
    :returns: a comparison of each strategy for each seed.
    :raises ValueError: if there cannot be such a cluster or workload.
    """
    cluster = scenarios.Cluster(
        hosts=trial.hosts,
        fpga_hosts=workloads.spread_boards(trial.hosts, trial.boards),
        slots_per_device=trial.slots,
        accelerators={
            name: scenarios.AcceleratorProfile(peak, trial.return_ratio)
            for name, peak in workloads.PEAKS_BYTES_PER_S.items()
        },
    )
    workload = workloads.Workload(
        sizes=trial.sizes,
        load=trial.load,
        accelerators=dict.fromkeys(workloads.PEAKS_BYTES_PER_S, 1.0),
        jobs_per_host=trial.jobs_per_host,
    )
    for seed in seeds:
        scenario = scenarios.Scenario(
            format="fpgapool-scenario/1",
            cluster=cluster,
            policies=_policies(thresholds_bytes),
            jobs=workloads.make_jobs(workload, cluster, seed),
        )
        for strategy in STRATEGIES:
            yield Comparison(
                strategy,
                seed,
                *(
                    _measure(scenario, f"{strategy}-{which}", seed)
                    for which in ("default", "tuned")
                ),
            )


def _policies(
    thresholds_bytes: Sequence[float],
) -> dict[str, scenarios.Policy]:
    return {
        f"{strategy}-{which}": scenarios.Policy(
            strategy=strategy,
            thresholds_bytes=thresholds,
            slot_choice=_PRODUCTION,
            offer_order=_PRODUCTION,
        )
        for strategy in STRATEGIES
        for which, thresholds in (
            ("default", None),
            ("tuned", tuple(thresholds_bytes)),
        )
    }


def _measure(
    scenario: scenarios.Scenario, policy: str, seed: int
) -> metrics.Metrics:
    outcomes = simulation.run(scenario, policy, seed=seed)
    return metrics.measure_columns(results.columns(scenario, outcomes))


def summarise(comparisons: Sequence[Comparison]) -> list[Summary]:
    """Put the seeds of each strategy together."""
    return [
        _summary(
            strategy,
            [each for each in comparisons if each.strategy == strategy],
        )
        for strategy in STRATEGIES
    ]


def _summary(strategy: str, comparisons: Sequence[Comparison]) -> Summary:
    gains = [
        metrics.improvement(each.default, each.tuned) for each in comparisons
    ]
    acts = [gain.act for gain in gains]
    tails = [gain.tct95 for gain in gains]
    return Summary(
        strategy=strategy,
        default_act_s=_mean([each.default.act_s for each in comparisons]),
        tuned_act_s=_mean([each.tuned.act_s for each in comparisons]),
        default_tct95_s=_mean([each.default.tct95_s for each in comparisons]),
        tuned_tct95_s=_mean([each.tuned.tct95_s for each in comparisons]),
        act=_geometric_mean(acts),
        act_range=(min(acts), max(acts)),
        tct95=_geometric_mean(tails),
        tct95_range=(min(tails), max(tails)),
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _geometric_mean(values: list[float]) -> float:
    return math.exp(_mean([math.log(value) for value in values]))
