# SPDX-License-Identifier: Apache-2.0

"""Figures 7 and 8: two hosts share their boards, or do not.

Chen's system schedules each node on its own: shortest job first, and no job
leaves its host. FPGAPooling has the same jobs run on both boards.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterable
from collections.abc import Sequence

import msgspec
import numpy as np

from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables

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
_LINES: dict[float, tuple[str, str, str]] = {
    0.0: ("#1B4F8A", "-", "o"),
    1.0: ("#D55E00", "--", "s"),
}
_LOG_TICKS = (-1000, -300, -100, -30, -10, 0, 10)
_HEADER = (
    *("mean_mb", "load", "return_ratio", "seeds"),
    *("apart_act_s", "apart_tct95_s", "act_s", "tct95_s", "dlr"),
    *(
        f"{metric}_improvement_percent{end}"
        for metric in METRICS
        for end in experiments.SPREAD_ENDS
    ),
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
        options = experiments.make_options(strategy, scenarios.SHORT_TAIL)
        done = [
            experiments.simulate(
                experiments.make_scenario(cluster, options, part), self.seed
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
    return workloads.gaussian(mean_mb * 1e6, DEVIATION * mean_mb * 1e6)


@dataclasses.dataclass(frozen=True)
class Point:
    """Pooling against none for jobs of one size, over all seeds.

    :ivar apart: means of metrics without pooling.
    :ivar pooled: means of metrics with it.
    :ivar act: by how many percent ACT got shorter: overall, and the extremes
        of single seeds.
    :ivar tct95: the same of TCT(95).
    """

    mean_mb: float
    return_ratio: float
    apart: dict[str, float]
    pooled: dict[str, float]
    act: gains.Spread
    tct95: gains.Spread


def compare(measure: experiments.Measure, strategy: str) -> list[Point]:
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


def _point(
    mean_mb: float,
    return_ratio: float,
    apart: Sequence[metrics.Metrics],
    pooled: Sequence[metrics.Metrics],
) -> Point:
    act, tct95 = (
        gains.change_percent(
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


def count_changed(
    points: Iterable[Point], return_ratio: float, sign: int
) -> list[int]:
    """Count, for each of :data:`METRICS`, the sizes that pooling changes.

    :param sign: 1: times get shorter by a percent or more; -1: longer.
    """
    some = [point for point in points if point.return_ratio == return_ratio]
    return [
        sum(
            sign * getattr(point, metric).mean >= NOTICEABLE_PERCENT
            for point in some
        )
        for metric in METRICS
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

    figure, [grid] = style.make_panels(
        5.2,
        (1, len(METRICS)),
        left=0.065,
        bottom=0.115,
        top=0.73,
        gaps=(0.0, 0.07),
        sharey=True,
    )
    for axes, (metric, name) in zip(grid, METRICS.items(), strict=True):
        style.prepare_axes(axes, "both")
        axes.axhline(0, color=style.INK, linewidth=1)
        for return_ratio, (colour, line, marker) in _LINES.items():
            some = [
                point for point in points if point.return_ratio == return_ratio
            ]
            style.draw_spreads(
                axes,
                [point.mean_mb for point in some],
                [getattr(point, metric) for point in some],
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=5,
                label=f"return ratio {return_ratio:g}",
            )
        style.name_panel(axes, f"{name}, % shorter than without pooling")
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
    handles, _ = grid[0].get_legend_handles_labels()
    style.add_legend(figure, handles, handlelength=3.4)
    style.write_texts(
        figure,
        title,
        f"2 hosts with a board each, {JOBS_PER_HOST} jobs per host, "
        f"{ARRIVALS_PER_S:.2f} jobs/s per host (load 1 at 800 MB), Gaussian "
        f"sizes (deviation {100 * DEVIATION:.0f} %); {len(SEEDS)} seeds, "
        "bars: 95 % intervals.",
    )
    style.save(figure, path)
