# SPDX-License-Identifier: Apache-2.0

"""Figures 13 and 14: WRA and WA with other thresholds than the best.

A map over q and k1 for each strategy and metric.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import gains
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes

STRATEGIES = ("wra", "wa")
LOAD = 1.5
RETURN_RATIO = 1.0

_METRICS = {"act": "ACT", "tct95": "TCT(95)"}
#: Figures in cells darker than this share of the scale are white.
_DARK = 0.55


@dataclasses.dataclass(frozen=True)
class Plan:
    """One of the figures.

    :ivar number: of the figure.
    :ivar sizes: as :class:`.experiments.ClusterRun` has them.
    :ivar sizes_name: in words.
    :ivar best: the thresholds that the paper calls optimal.
    :ivar seeds: of the runs of each cell.
    :ivar qs: values of q.
    :ivar k1s: values of k1.
    :ivar least_act: the paper's smallest factor by which ACT is shorter.
    :ivar least_tct95: the paper's smallest factor of TCT.
    """

    number: int
    sizes: str
    sizes_name: str
    best: scenarios.Queues
    qs: Sequence[float]
    k1s: Sequence[int]
    least_act: float
    least_tct95: float
    seeds: Sequence[int] = experiments.SEEDS


#: Over exponential sizes, and over a bounded power law.
FIGURE13, FIGURE14 = (
    Plan(
        number=13,
        sizes=experiments.EXPONENTIAL,
        sizes_name="exponential",
        best=scenarios.SHORT_TAIL,
        qs=(1.1, 1.2, 1.41, 1.7, 2.0),
        k1s=(1, 5, 10, 15),
        least_act=1.98,
        least_tct95=2.20,
        seeds=experiments.MANY_SEEDS,
    ),
    Plan(
        number=14,
        sizes=experiments.POWER_LAW,
        sizes_name="power-law",
        best=scenarios.LONG_TAIL,
        qs=(1.2, 1.5, 1.8, 2.1, 2.4),
        k1s=(1, 4, 7, 10),
        least_act=3.85,
        least_tct95=1.82,
    ),
)


def make(
    plan: Plan, out_dir: pathlib.Path, measure: experiments.Measure
) -> str:
    """Write a figure's files; see the package."""
    found = _Maps(plan, measure)
    name = f"figure{plan.number}"
    tables.write(
        out_dir / f"{name}.csv",
        ("q", "k1", "strategy", *experiments.GAIN_HEADER),
        [
            (f"{q:g}", k1, strategy, *experiments.cells_of(gain))
            for ((q, k1), strategy), gain in found.gains.items()
            if strategy != experiments.BASELINE
        ],
    )
    _draw(found, out_dir / f"{name}.png")
    return _judge(found)


class _Maps:
    """The results, to be looked up."""

    def __init__(self, plan: Plan, measure: experiments.Measure) -> None:
        self.plan = plan
        self.gains = experiments.measure_gains(
            measure,
            {(q, k1): self._maker(q, k1) for q in plan.qs for k1 in plan.k1s},
            STRATEGIES,
            plan.seeds,
        )

    def _maker(
        self, q: float, k1: int
    ) -> Callable[[str, int], experiments.ClusterRun]:
        queues = dataclasses.replace(self.plan.best, q=q, k1=k1)

        def make_run(strategy: str, seed: int) -> experiments.ClusterRun:
            # FIFO has no queues: one run of it serves all of them.
            is_baseline = strategy == experiments.BASELINE
            return experiments.ClusterRun(
                strategy,
                self.plan.sizes,
                LOAD,
                RETURN_RATIO,
                seed,
                self.plan.best if is_baseline else queues,
            )

        return make_run

    def rows(self, strategy: str, metric: str) -> list[list[gains.Spread]]:
        """Return factors over FIFO, a row per q, a column per k1."""
        return [
            [
                getattr(self.gains[(q, k1), strategy], metric)
                for k1 in self.plan.k1s
            ]
            for q in self.plan.qs
        ]

    def all_of(self, strategy: str, metric: str) -> list[float]:
        """Return the means of all of a map's factors."""
        return [one.mean for row in self.rows(strategy, metric) for one in row]


# -- results --------------------------------------------------------------


def _judge(found: _Maps) -> str:
    plan = found.plan
    wra_act, wra_tct95, wa_act, wa_tct95 = (
        found.all_of(strategy, metric)
        for strategy in STRATEGIES
        for metric in _METRICS
    )
    ahead_act, ahead_tct95 = (
        sum(ours > theirs for ours, theirs in zip(wra, wa, strict=True))
        for wra, wa in ((wra_act, wa_act), (wra_tct95, wa_tct95))
    )
    count = len(wra_act)
    is_robust = (
        min(wra_act) >= plan.least_act and min(wra_tct95) >= plan.least_tct95
    )
    is_ahead = 2 * ahead_act > count and 2 * ahead_tct95 > count
    verdict = experiments.verdict(
        [is_ahead, is_robust, min(wra_act) >= plan.least_act]
    )
    return (
        f"Figure {plan.number} {verdict} ({plan.sizes_name} sizes, load "
        f"{LOAD:g}, results sent back): whatever q and k1 are, WRA improves "
        f"ACT over FIFO by {min(wra_act):.2f} to {max(wra_act):.2f} times "
        f"(the paper: at least {plan.least_act:g}) and TCT by "
        f"{min(wra_tct95):.2f} to {max(wra_tct95):.2f} times (the paper: at "
        f"least {plan.least_tct95:g}), and it is ahead of WA "
        f"({min(wa_act):.2f} to {max(wa_act):.2f} and {min(wa_tct95):.2f} to "
        f"{max(wa_tct95):.2f} times) in ACT at {ahead_act} and in TCT at "
        f"{ahead_tct95} of {count} settings; {_best_text(found)}."
    )


def _best_text(found: _Maps) -> str:
    plan = found.plan
    rows = found.rows("wra", "act")
    best, q, k1 = max(
        (factor.mean, q, k1)
        for q, row in zip(plan.qs, rows, strict=True)
        for k1, factor in zip(plan.k1s, row, strict=True)
    )
    at_q, at_k1 = plan.qs.index(plan.best.q), plan.k1s.index(plan.best.k1)
    named = rows[at_q][at_k1].mean
    return (
        f"q = {plan.best.q:g}, k1 = {plan.best.k1}, which the paper calls "
        f"optimal, gives {named:.2f}, the best of these, q = {q:g}, k1 = "
        f"{k1}, {best:.2f}"
    )


def _draw(found: _Maps, path: pathlib.Path) -> None:
    plan = found.plan
    figure, grid = style.make_panels(
        8.2,
        (len(_METRICS), len(STRATEGIES)),
        left=0.055,
        right=0.99,
        bottom=0.07,
        top=0.85,
        gaps=(0.3, 0.13),
    )
    for row, (metric, metric_name) in enumerate(_METRICS.items()):
        # One scale for both strategies, so that shades can be compared.
        both = [
            one
            for strategy in STRATEGIES
            for one in found.all_of(strategy, metric)
        ]
        for column, strategy in enumerate(STRATEGIES):
            axes = grid[row][column]
            _draw_map(
                axes, plan, found.rows(strategy, metric), min(both), max(both)
            )
            style.name_panel(
                axes,
                f"{strategy.upper()}: {metric_name}, times shorter than FIFO",
            )
            if row == len(_METRICS) - 1:
                axes.set_xlabel(
                    "k1 (queues with geometric thresholds at the start)",
                    fontsize=9,
                )
            if column == 0:
                axes.set_ylabel("q (ratio of thresholds)", fontsize=9)
    best = plan.best
    style.write_texts(
        figure,
        f"Figure {plan.number}: WRA and WA with other thresholds, "
        f"{plan.sizes_name} sizes",
        f"K = {best.queues}, k2 = {best.k2}, E = {best.E_bytes / 1e6:g} MB; "
        f"100 hosts, 50 boards, 50 jobs per host, load {LOAD:g}, return ratio "
        f"{RETURN_RATIO:g}, C = 2, D = 5; {len(plan.seeds)} seeds, ±: 95 % "
        f"intervals. Framed: the paper's optimum, q = {best.q:g}, k1 = "
        f"{best.k1}.",
    )
    style.save(figure, path)


def _draw_map(
    axes: mpl_axes.Axes,
    plan: Plan,
    rows: list[list[gains.Spread]],
    low: float,
    high: float,
) -> None:
    from matplotlib import patches

    axes.imshow(
        [[factor.mean for factor in row] for row in rows],
        cmap="Blues",
        vmin=low,
        vmax=high,
        aspect="auto",
        origin="lower",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=style.INK, labelsize=9)
    axes.set_xticks(range(len(plan.k1s)), [str(k1) for k1 in plan.k1s])
    axes.set_yticks(range(len(plan.qs)), [f"{q:g}" for q in plan.qs])
    for at_q, row in enumerate(rows):
        for at_k1, factor in enumerate(row):
            is_dark = factor.mean - low > _DARK * (high - low)
            half = sum(factor.bar()) / 2
            axes.text(
                at_k1,
                at_q,
                f"{factor.mean:.2f}" + (f" ± {half:.2f}" if half else ""),
                ha="center",
                va="center",
                fontsize=9.5,
                color="white" if is_dark else style.INK,
            )
    axes.add_patch(
        patches.Rectangle(
            (
                plan.k1s.index(plan.best.k1) - 0.48,
                plan.qs.index(plan.best.q) - 0.48,
            ),
            0.96,
            0.96,
            fill=False,
            edgecolor="#D55E00",
            linewidth=2,
        )
    )
