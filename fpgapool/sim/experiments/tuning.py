# SPDX-License-Identifier: Apache-2.0

"""Simulations that confirm or refute a model's thresholds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results

#: Strategies that use thresholds.
STRATEGIES = ("wa", "wra")
_PRODUCTION = "least_busy"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One strategy with two sets of thresholds on the same jobs."""

    strategy: str
    seed: int
    default: metrics.Metrics
    tuned: metrics.Metrics


@dataclasses.dataclass(frozen=True)
class Summary:
    """The results of a strategy over all seeds.

    :ivar default: means of the metrics with the default thresholds, by name.
    :ivar gain: gain of the tuned thresholds over the default ones.
    """

    strategy: str
    default: Mapping[str, float]
    gain: gains.Gain

    @property
    def is_better(self) -> bool:
        """Whether the mean fell, and the tail grew by no larger factor."""
        act, tct95 = self.gain.act.mean, self.gain.tct95.mean
        return act > 1 and act * tct95 >= 1


def compare(
    cluster: scenarios.Cluster,
    workload: workloads.Workload,
    thresholds_bytes: Sequence[float],
    seeds: Sequence[int],
) -> Iterator[Comparison]:
    """Simulate tuned and default thresholds; the default ones are learnt.

    :returns: a comparison of each strategy for each seed.
    :raises ValueError: if the workload does not fit the cluster.
    """
    for seed in seeds:
        scenario = scenarios.Scenario(
            format=scenarios.FORMAT,
            cluster=cluster,
            strategies=_strategies(thresholds_bytes),
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


def _strategies(
    thresholds_bytes: Sequence[float],
) -> dict[str, scenarios.StrategyOptions]:
    return {
        f"{strategy}-{which}": scenarios.StrategyOptions(
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
    scenario: scenarios.Scenario, strategy: str, seed: int
) -> metrics.Metrics:
    outcomes = simulation.run(scenario, strategy, seed=seed)
    return metrics.measure_columns(results.columns(scenario, outcomes))


def summarise(comparisons: Sequence[Comparison]) -> list[Summary]:
    """Summarize the results of each strategy over all seeds."""
    summaries = []
    for strategy in STRATEGIES:
        some = [each for each in comparisons if each.strategy == strategy]
        default = [each.default for each in some]
        gain = gains.compare(default, [each.tuned for each in some])
        summaries.append(Summary(strategy, gains.means(default), gain))
    return summaries
