# SPDX-License-Identifier: Apache-2.0

"""Figures 7 and 8 are alike: two hosts share their boards, or do not.

Chen's system schedules each node on its own: shortest job first, and no job
leaves its host. FPGAPooling has the same jobs run on both boards.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import statistics
import typing
from collections.abc import Iterable
from collections.abc import Sequence

import msgspec
import numpy as np

from fpgapool.core import distributions
from fpgapool.sim import metrics
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import workloads
from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import tables
from fpgapool.sim.plots import style

MEANS_MB = (100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
SEEDS = tuple(range(1, 21))
RETURN_RATIOS = (0.0, 1.0)
HOSTS = 2
JOBS_PER_HOST = 100
#: Of each host. With jobs of 800 MB that is what a board's DMA pipe carries.
ARRIVALS_PER_S = 2.1e9 / 800e6
#: Standard deviation of the sizes by their mean.
DEVIATION = 0.25
#: Less is called no change.
NOTICEABLE_PERCENT = 1.0
#: No strategy: each host for itself, shortest job first.
APART = "apart"

_QUANTILES = 1000
METRICS = {"act": "ACT", "tct95": "TCT(95)"}
_LINES: dict[float, tuple[str, str, str]] = {
    0.0: ("#1B4F8A", "-", "o"),
    1.0: ("#D55E00", "--", "s"),
}
_HEIGHT_IN = 5.2
_LOG_TICKS = (-1000, -300, -100, -30, -10, 0, 10)
_HEADER = (
    "mean_mb",
    "load",
    "return_ratio",
    "seeds",
    "apart_act_s",
    "apart_tct95_s",
    "act_s",
    "tct95_s",
    "dlr",
    "act_improvement_percent",
    "act_improvement_percent_smallest",
    "act_improvement_percent_largest",
    "tct95_improvement_percent",
    "tct95_improvement_percent_smallest",
    "tct95_improvement_percent_largest",
)


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
        cluster = experiments.make_cluster(HOSTS, HOSTS, self.return_ratio)
        jobs = workloads.make_jobs(
            workloads.Workload(
                sizes=_gaussian(self.mean_mb),
                load=load(self.mean_mb),
                accelerators=dict.fromkeys(workloads.PEAKS_BYTES_PER_S, 1.0),
                jobs_per_host=self.jobs_per_host,
            ),
            cluster,
            self.seed,
        )
        parts = self._apart(jobs) if self.strategy == APART else [jobs]
        if self.strategy == APART:
            cluster = experiments.make_cluster(1, 1, self.return_ratio)
        strategy = "sjf" if self.strategy == APART else self.strategy
        policy = experiments.make_policy(strategy, experiments.SHORT_TAIL)
        done = [
            experiments.simulate(
                experiments.make_scenario(cluster, policy, part), self.seed
            )
            for part in parts
        ]
        return metrics.measure_columns(
            metrics.Columns(*map(np.concatenate, zip(*done, strict=True)))
        )

    @staticmethod
    def _apart(jobs: list[scenarios.JobSpec]) -> list[list[scenarios.JobSpec]]:
        """The jobs of each host, as if it were the only one."""
        return [
            [
                msgspec.structs.replace(job, host=0)
                for job in jobs
                if job.host == host
            ]
            for host in range(HOSTS)
        ]


def load(mean_mb: float) -> float:
    """Bytes that arrive, in units of what the DMA pipes carry."""
    return ARRIVALS_PER_S * mean_mb * 1e6 / 2.1e9


@functools.cache
def _gaussian(mean_mb: float) -> distributions.SizeDistribution:
    """Gaussian sizes; no quantile of these is below 0."""
    normal = statistics.NormalDist(mean_mb * 1e6, DEVIATION * mean_mb * 1e6)
    return distributions.Empirical(
        [normal.inv_cdf((at + 0.5) / _QUANTILES) for at in range(_QUANTILES)]
    )


class Change(typing.NamedTuple):
    """By how many percent times got shorter: overall, and of single seeds."""

    mean: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Point:
    """Pooling against none for jobs of one size, over all seeds.

    :ivar apart: means of metrics without pooling.
    :ivar pooled: means of metrics with it.
    """

    mean_mb: float
    return_ratio: float
    apart: dict[str, float]
    pooled: dict[str, float]
    act: Change
    tct95: Change


def compare(measure: experiments.Measure, strategy: str) -> list[Point]:
    """Simulate a strategy, and the hosts apart from each other."""
    places = list(itertools.product(RETURN_RATIOS, MEANS_MB))

    def runs(which: str, return_ratio: float, mean: float) -> list[PairRun]:
        # Nothing is sent where nothing leaves its host.
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


def _point(
    mean_mb: float,
    return_ratio: float,
    apart: Sequence[metrics.Metrics],
    pooled: Sequence[metrics.Metrics],
) -> Point:
    act, tct95 = (
        _change(
            [getattr(each, name) for each in apart],
            [getattr(each, name) for each in pooled],
        )
        for name in ("act_s", "tct95_s")
    )
    return Point(
        mean_mb, return_ratio, _means(apart), _means(pooled), act, tct95
    )


def _means(some: Sequence[metrics.Metrics]) -> dict[str, float]:
    return {
        name: statistics.fmean(getattr(each, name) for each in some)
        for name in ("act_s", "tct95_s", "dlr")
    }


def _change(apart: Sequence[float], pooled: Sequence[float]) -> Change:
    single = [
        100 * (1 - after / before)
        for before, after in zip(apart, pooled, strict=True)
    ]
    overall = 100 * (1 - statistics.fmean(pooled) / statistics.fmean(apart))
    return Change(overall, min(single), max(single))


def write(points: Iterable[Point], path: pathlib.Path) -> None:
    """Write all numbers as a table."""
    tables.write(
        path,
        _HEADER,
        [
            (
                f"{point.mean_mb:g}",
                f"{load(point.mean_mb):.4g}",
                f"{point.return_ratio:g}",
                len(SEEDS),
                f"{point.apart['act_s']:.6g}",
                f"{point.apart['tct95_s']:.6g}",
                f"{point.pooled['act_s']:.6g}",
                f"{point.pooled['tct95_s']:.6g}",
                f"{point.pooled['dlr']:.6g}",
                *(f"{value:.4g}" for value in (*point.act, *point.tct95)),
            )
            for point in points
        ],
    )


def better(
    points: Iterable[Point], metric: str, return_ratio: float
) -> list[Point]:
    """Those at which pooling shortens times by a percent or more."""
    return [
        point
        for point in points
        if point.return_ratio == return_ratio
        and getattr(point, metric).mean >= NOTICEABLE_PERCENT
    ]


def worse(
    points: Iterable[Point], metric: str, return_ratio: float
) -> list[Point]:
    """Those at which pooling makes times longer by a percent or more."""
    return [
        point
        for point in points
        if point.return_ratio == return_ratio
        and getattr(point, metric).mean <= -NOTICEABLE_PERCENT
    ]


def draw(
    points: Sequence[Point],
    path: pathlib.Path,
    title: str,
    *,
    logarithmic: bool = False,
) -> None:
    """Draw the change of both metrics by size.

    :param logarithmic: whether the y axis is beyond ± 10 %.
    """
    from matplotlib import ticker

    figure = style.make_figure(_HEIGHT_IN)
    grid = figure.subplots(
        1,
        len(METRICS),
        sharey=True,
        gridspec_kw={
            "left": 0.065,
            "right": 0.985,
            "bottom": 0.115,
            "top": 0.73,
            "wspace": 0.07,
        },
    )
    for axes, (metric, name) in zip(grid, METRICS.items(), strict=True):
        style.prepare_axes(axes)
        axes.grid(axis="y", color=style.GRID, linewidth=0.6)
        axes.axhline(0, color=style.INK, linewidth=1)
        for return_ratio, (colour, line, marker) in _LINES.items():
            some = [
                point for point in points if point.return_ratio == return_ratio
            ]
            axes.plot(
                [point.mean_mb for point in some],
                [getattr(point, metric).mean for point in some],
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=5,
                label=f"return ratio {return_ratio:g}",
            )
        axes.set_title(
            f"{name}, % shorter than without pooling",
            fontsize=10.5,
            fontweight="bold",
            color=style.INK,
            loc="left",
        )
        axes.set_xlabel("mean size, MB", fontsize=9)
    if logarithmic:
        grid[0].set_yscale("symlog", linthresh=10)
        grid[0].set_yticks(
            _LOG_TICKS, [f"{tick:g}".replace("-", "−") for tick in _LOG_TICKS]
        )
        grid[0].yaxis.set_minor_locator(ticker.NullLocator())
        grid[0].set_ylabel(
            "improvement, % (logarithmic beyond ± 10)", fontsize=9
        )
    else:
        grid[0].set_ylabel("improvement, %", fontsize=9)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="center left",
        bbox_to_anchor=(0.008, 1 - 0.92 / _HEIGHT_IN),
        ncols=len(handles),
        frameon=False,
        fontsize=9.5,
        handlelength=3.4,
    )
    style.write_texts(
        figure,
        title,
        f"2 hosts with a board each, {JOBS_PER_HOST} jobs per host, "
        f"{ARRIVALS_PER_S:.2f} jobs/s per host (load 1 at 800 MB), Gaussian "
        f"sizes (deviation {100 * DEVIATION:.0f} %); {len(SEEDS)} seeds.",
    )
    style.save(figure, path)
