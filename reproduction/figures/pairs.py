# SPDX-License-Identifier: Apache-2.0

"""Figures 7 and 8: two hosts share their boards, or do not.

Chen's system schedules each node on its own: shortest job first, and no job
leaves its host. FPGAPooling has the same jobs run on both boards.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
from collections.abc import Callable
from collections.abc import Sequence

import msgspec
import numpy as np

from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import metrics
from reproduction.figures import charts
from reproduction.figures import clusters
from reproduction.figures import figure

MEANS_MB = (100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
SEEDS = tuple(range(1, 21))
RETURN_RATIOS = (0.0, 1.0)
HOSTS = 2
JOBS_PER_HOST = 100
#: Of each host. With jobs of 800 MB, a board's DMA pipe carries just as much.
ARRIVALS_PER_S = 2.1e9 / 800e6
#: Standard deviation of the sizes by their mean.
DEVIATION = 0.25
#: A smaller change counts as none.
NOTICEABLE_PERCENT = 1.0
#: Not a strategy: each host works alone, shortest job first.
APART = "apart"

METRICS = {"act": "ACT", "tct95": "TCT(95)"}


@dataclasses.dataclass(frozen=True)
class PairRun:
    """The jobs of two hosts that both have a board.

    :ivar strategy: its name, or :data:`APART`.
    :ivar seed: of the jobs, and of the strategy's choices.
    """

    strategy: str
    mean_mb: float
    return_ratio: float
    seed: int
    jobs_per_host: int = JOBS_PER_HOST

    def measure(self) -> metrics.Metrics:
        """Simulate."""
        cluster = workloads.make_cluster(HOSTS, HOSTS, self.return_ratio)
        jobs = workloads.make_jobs(
            workloads.Workload(
                sizes=_gaussian(self.mean_mb),
                load=load(self.mean_mb),
                jobs_per_host=self.jobs_per_host,
            ),
            cluster,
            self.seed,
        )
        parts = self._apart(jobs) if self.strategy == APART else [jobs]
        if self.strategy == APART:
            cluster = workloads.make_cluster(1, 1, self.return_ratio)
        strategy = "sjf" if self.strategy == APART else self.strategy
        options = clusters.make_options(strategy, scenarios.SHORT_TAIL)
        done = [
            clusters.simulate(
                clusters.make_scenario(cluster, options, part), self.seed
            )
            for part in parts
        ]
        return metrics.measure_columns(
            metrics.Columns(*map(np.concatenate, zip(*done, strict=True)))
        )

    @staticmethod
    def _apart(jobs: list[scenarios.JobSpec]) -> list[list[scenarios.JobSpec]]:
        """Return the jobs of each host, as if it were the only one."""
        return [
            [
                msgspec.structs.replace(job, host=0)
                for job in jobs
                if job.host == host
            ]
            for host in range(HOSTS)
        ]


def load(mean_mb: float) -> float:
    """Return arriving bytes in units of the DMA pipes' rate."""
    return ARRIVALS_PER_S * mean_mb * 1e6 / 2.1e9


@functools.cache
def _gaussian(mean_mb: float) -> distributions.SizeDistribution:
    """Return Gaussian sizes; no quantile of these is below 0."""
    return clusters.gaussian(mean_mb * 1e6, DEVIATION * mean_mb * 1e6)


@dataclasses.dataclass(frozen=True)
class Point:
    """Pooling against none for jobs of one size, over all seeds.

    :ivar apart: means of metrics without pooling.
    :ivar pooled: means of metrics with it.
    :ivar act: by how many percent ACT got shorter: overall, and the extremes
        of single seeds.
    """

    mean_mb: float
    return_ratio: float
    apart: dict[str, float]
    pooled: dict[str, float]
    act: gains.Spread
    tct95: gains.Spread


def compare(measure: figure.Measure, strategy: str) -> list[Point]:
    """Simulate a strategy, and the hosts apart from each other."""
    places = list(itertools.product(RETURN_RATIOS, MEANS_MB))

    def runs(which: str, return_ratio: float, mean: float) -> list[PairRun]:
        # Apart, no job leaves its host, and no host sends data.
        ratio = 0.0 if which == APART else return_ratio
        return [PairRun(which, mean, ratio, seed) for seed in SEEDS]

    found = measure(
        [
            run
            for place in places
            for which in (APART, strategy)
            for run in runs(which, *place)
        ]
    )
    return [
        _point(
            mean,
            return_ratio,
            [found[run] for run in runs(APART, return_ratio, mean)],
            [found[run] for run in runs(strategy, return_ratio, mean)],
        )
        for return_ratio, mean in places
    ]


def change_percent(
    before: Sequence[float], after: Sequence[float]
) -> gains.Spread:
    """Return by how many percent the mean of times got shorter.

    :param before: a time for each seed.
    :param after: a time for each of the same seeds.
    :returns: the change of the means; the extremes are of single seeds.
    """
    single = [
        100 * (1 - new / old) for old, new in zip(before, after, strict=True)
    ]
    mean_before = statistics.fmean(before)
    ratio = statistics.fmean(after) / mean_before
    # For a ratio of means: the deviation of each seed from it.
    _, half = gains.confidence(
        [
            (new - ratio * old) / mean_before
            for old, new in zip(before, after, strict=True)
        ]
    )
    overall = 100 * (1 - ratio)
    return gains.Spread(
        overall,
        min(single),
        max(single),
        overall - 100 * half,
        overall + 100 * half,
    )


def _point(
    mean_mb: float,
    return_ratio: float,
    apart: Sequence[metrics.Metrics],
    pooled: Sequence[metrics.Metrics],
) -> Point:
    act, tct95 = (
        change_percent(
            [getattr(each, name) for each in apart],
            [getattr(each, name) for each in pooled],
        )
        for name in ("act_s", "tct95_s")
    )
    return Point(
        mean_mb,
        return_ratio,
        gains.means(apart),
        gains.means(pooled),
        act,
        tct95,
    )


# -- figures ---------------------------------------------------------------

_HEADER = (
    *("mean_mb", "load", "return_ratio", "seeds"),
    *("apart_act_s", "apart_tct95_s", "act_s", "tct95_s", "dlr"),
    *(
        f"{metric}_improvement_percent{end}"
        for metric in METRICS
        for end in clusters.SPREAD_ENDS
    ),
)


def _row(point: Point) -> tuple[object, ...]:
    return (
        *(point.mean_mb, load(point.mean_mb), point.return_ratio, len(SEEDS)),
        *(point.apart["act_s"], point.apart["tct95_s"]),
        *(point.pooled[name] for name in ("act_s", "tct95_s", "dlr")),
        *(*point.act, *point.tct95),
    )


def _claims(
    points: Sequence[Point],
    sign: int,
    paper: dict[tuple[str, str], str],
    holds: Callable[[str, int, int], bool],
) -> list[figure.Claim]:
    """Return the claims on both metrics with each return ratio.

    :param sign: 1: pooling makes times shorter; -1: longer.
    :param paper: by metric and its name, what the paper says.
    :param holds: of a metric, how many sizes change so, and their number.
    """
    claims = []
    for ratio, (metric, name) in itertools.product(RETURN_RATIOS, paper):
        some = [
            getattr(point, metric)
            for point in points
            if point.return_ratio == ratio
        ]
        changed = [sign * each.mean >= NOTICEABLE_PERCENT for each in some]
        other = [sign * each.mean <= -NOTICEABLE_PERCENT for each in some]
        most = max(sign * each.mean for each in some)
        single = max(
            sign * (each.high if sign > 0 else each.low) for each in some
        )
        words = ("shorter", "longer")[::sign]
        claims.append(
            figure.Claim(
                f"with return ratio {ratio:g} {name} is {words[0]}",
                paper[metric, name],
                f"{words[0]} at {sum(changed)} and {words[1]} at {sum(other)} "
                f"of {len(some)} sizes, by up to {most:.0f} % ({single:.0f} % "
                f"in single runs); less than {NOTICEABLE_PERCENT:g} % counts "
                "as none",
                holds(metric, sum(changed), len(some)),
            )
        )
    return claims


def _picture(points: Sequence[Point], title: str, log: str) -> charts.Picture:
    return charts.Picture(
        title=title,
        subtitle=f"2 hosts with a board each, {JOBS_PER_HOST} jobs per host, "
        f"{ARRIVALS_PER_S:.2f} jobs/s per host (load 1 at 800 MB), Gaussian "
        f"sizes (deviation {100 * DEVIATION:.0f} %); {len(SEEDS)} seeds, "
        "bars: 95 % intervals.",
        panels=[
            [
                charts.Panel(
                    title=f"{name}, % shorter than without pooling",
                    xlabel="mean size, MB",
                    log=log,
                    levels=[("", 0.0)],
                    series=[
                        charts.Series(
                            label=f"return ratio {ratio:g}",
                            x=MEANS_MB,
                            spreads=[
                                getattr(point, metric)
                                for point in points
                                if point.return_ratio == ratio
                            ],
                            style={"marker": "o", "markersize": 5},
                        )
                        for ratio in RETURN_RATIOS
                    ],
                )
                for metric, name in METRICS.items()
            ]
        ],
        sharey=True,
    )


FIGURES = (
    figure.Figure(
        name="7",
        subject="Figure 7 (two boards under WRA, or SJF on each host)",
        run=lambda measure: compare(measure, "wra"),
        header=_HEADER,
        rows=lambda points: map(_row, points),
        claims=lambda points: _claims(
            points,
            1,
            {
                ("act", "ACT"): "generally, by up to 45 %",
                ("tct95", "TCT(95)"): "generally, by up to 56 %",
            },
            lambda _, changed, count: 2 * changed > count,
        ),
        picture=lambda points: _picture(
            points,
            "Figure 7: WRA on both boards against SJF on each host alone",
            "",
        ),
    ),
    figure.Figure(
        name="8",
        subject="Figure 8 (SJF over both boards, or on each host; half "
        "of the bytes then cross the network)",
        run=lambda measure: compare(measure, "sjf"),
        header=_HEADER,
        rows=lambda points: map(_row, points),
        claims=lambda points: _claims(
            points,
            -1,
            {("act", "ACT"): "at all sizes", ("tct95", "TCT(95)"): "longer"},
            lambda metric, changed, count: (
                changed == count if metric == "act" else changed > 0
            ),
        ),
        picture=lambda points: _picture(
            points,
            "Figure 8: SJF over both boards against SJF on each host alone",
            "symlog",
        ),
    ),
)
