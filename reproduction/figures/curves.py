# SPDX-License-Identifier: Apache-2.0

"""How much strategies gain over FIFO along an axis, as in Figures 10 to 12.

A row of panels per return ratio, a column per metric.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.sim.outcomes import gains
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes

#: All results travel back, or no results do.
RETURN_RATIOS = (1.0, 0.0)
#: The panels' titles, by metric.
_PANELS = {
    "act": "ACT, times shorter",
    "tct95": "TCT(95), times shorter",
    "sar": "SAR, times larger",
    "dlr": "DLR, %",
}
_STYLES = {
    "fifo": ("#666666", (0, (1, 2)), ""),
    "sjf": ("#CC79A7", ":", "^"),
    "wa": ("#E69F00", "-.", "s"),
    "ra": ("#009E73", "--", "D"),
    "wra": ("#1B4F8A", "-", "o"),
}
_ROW_IN = 2.75
_TOP_IN = 1.45
_BOTTOM_IN = 0.6
_GAP_IN = 0.55


@dataclasses.dataclass(frozen=True)
class Axis:
    """The x axis.

    :ivar label: with unit.
    :ivar column: its name in the table, with unit.
    :ivar values: in order.
    """

    label: str
    column: str
    values: Sequence[float]


class Claim(typing.NamedTuple):
    """A claim, mostly of the paper.

    :ivar text: follows "that", with the numbers found here.
    :ivar holds: whether the simulations show it.
    """

    text: str
    holds: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """One of the figures.

    :ivar name: of its files.
    :ivar heading: its name in the sentence.
    :ivar axis: its x axis.
    :ivar make_run: of x, return ratio, strategy and seed.
    :ivar strategies: all but the baseline.
    :ivar metrics: a panel each: ``act``, ``tct95``, ``sar`` or ``dlr``.
    :ivar return_ratios: a row of panels each.
    :ivar seeds: of the runs at each point.
    :ivar title: of the picture.
    :ivar subtitle: the settings, for the picture.
    :ivar settings: the settings, for the sentence.
    :ivar claims: the claims about a return ratio.
    """

    name: str
    heading: str
    axis: Axis
    make_run: Callable[[float, float, str, int], experiments.ClusterRun]
    strategies: Sequence[str] = experiments.STRATEGIES
    metrics: Sequence[str] = ("act", "tct95", "sar", "dlr")
    return_ratios: Sequence[float] = RETURN_RATIOS
    seeds: Sequence[int] = experiments.SEEDS
    title: str
    subtitle: str
    settings: str
    claims: Callable[[Curves, float], Sequence[Claim]]


def make(
    plan: Plan, out_dir: pathlib.Path, measure: experiments.Measure
) -> str:
    """Write a figure's files; see the package."""
    found = Curves(plan, measure)
    found.write(out_dir / f"{plan.name}.csv")
    found.draw(out_dir / f"{plan.name}.png")
    return _sentence(plan, found)


def _sentence(plan: Plan, found: Curves) -> str:
    """Say which claims hold with each return ratio, and which do not."""
    by_ratio = {
        ratio: plan.claims(found, ratio) for ratio in plan.return_ratios
    }
    verdict = experiments.verdict(
        [claim.holds for some in by_ratio.values() for claim in some]
    )
    parts = []
    for ratio, some in by_ratio.items():
        true = [claim.text for claim in some if claim.holds]
        false = [claim.text for claim in some if not claim.holds]
        texts = []
        if true:
            texts.append("it is so that " + ", that ".join(true))
        if false:
            texts.append("it is not so that " + ", that ".join(false))
        parts.append(f"with return ratio {ratio:g} {', but '.join(texts)}")
    return f"{plan.heading} {verdict} ({plan.settings}): {'; '.join(parts)}."


class Curves:
    """The results, to be looked up, written and drawn."""

    def __init__(self, plan: Plan, measure: experiments.Measure) -> None:
        self.axis = plan.axis
        self._plan = plan

        def maker(
            x: float, return_ratio: float
        ) -> Callable[[str, int], experiments.ClusterRun]:
            return lambda *rest: plan.make_run(x, return_ratio, *rest)

        self._gains = experiments.measure_gains(
            measure,
            {
                (x, return_ratio): maker(x, return_ratio)
                for return_ratio in plan.return_ratios
                for x in plan.axis.values
            },
            plan.strategies,
            plan.seeds,
        )

    def gain(self, x: float, return_ratio: float, strategy: str) -> gains.Gain:
        """Return the gain at one point."""
        return self._gains[(x, return_ratio), strategy]

    def line(
        self, metric: str, return_ratio: float, strategy: str
    ) -> list[float]:
        """Return a metric along the axis: factors over FIFO, or DLR itself."""
        some = [self.gain(x, return_ratio, strategy) for x in self.axis.values]
        if metric == "dlr":
            return [each.means["dlr"] for each in some]
        return [getattr(each, metric).mean for each in some]

    def span(
        self, metric: str, return_ratio: float, strategy: str
    ) -> tuple[float, float]:
        """Return the smallest and the largest value along the axis."""
        values = self.line(metric, return_ratio, strategy)
        return min(values), max(values)

    def is_ahead(
        self,
        metrics: Sequence[str],
        return_ratio: float,
        better: Sequence[str],
        worse: Sequence[str],
    ) -> bool:
        """Return whether some strategies are above others along the axis."""
        return all(
            one > other
            for metric in metrics
            for ahead in better
            for behind in worse
            for one, other in zip(
                self.line(metric, return_ratio, ahead),
                self.line(metric, return_ratio, behind),
                strict=True,
            )
        )

    def write(self, path: pathlib.Path) -> None:
        """Write all numbers as a table."""
        tables.write(
            path,
            (
                self.axis.column,
                "return_ratio",
                "strategy",
                *experiments.GAIN_HEADER,
            ),
            [
                (
                    f"{x:g}",
                    f"{return_ratio:g}",
                    strategy,
                    *experiments.cells_of(gain),
                )
                for ((x, return_ratio), strategy), gain in self._gains.items()
            ],
        )

    def draw(self, path: pathlib.Path) -> None:
        """Draw the plan's metrics."""
        plan, metrics = self._plan, self._plan.metrics
        rows = len(plan.return_ratios)
        height_in = _TOP_IN + _BOTTOM_IN + rows * _ROW_IN + _GAP_IN
        figure, grid = style.make_panels(
            height_in,
            (rows, len(metrics)),
            left=0.06,
            bottom=_BOTTOM_IN / height_in,
            top=1 - _TOP_IN / height_in,
            gaps=(_GAP_IN / _ROW_IN, 0.2),
            sharex=True,
        )
        for row, return_ratio in enumerate(plan.return_ratios):
            for column, metric in enumerate(metrics):
                axes = grid[row][column]
                self._draw_panel(axes, metric, return_ratio)
                style.name_panel(axes, _PANELS[metric], 10)
                if row == rows - 1:
                    axes.set_xlabel(self.axis.label, fontsize=9)
            grid[row][0].set_ylabel(
                f"return ratio {return_ratio:g}", fontsize=10
            )
        handles, _ = grid[0][-1].get_legend_handles_labels()
        style.add_legend(figure, handles, handlelength=3.4)
        style.write_texts(
            figure,
            plan.title,
            f"{plan.subtitle}; {len(plan.seeds)} seeds, bars: 95 % intervals.",
        )
        style.save(figure, path)

    def _draw_panel(
        self, axes: mpl_axes.Axes, metric: str, return_ratio: float
    ) -> None:
        style.prepare_axes(axes, "both")
        for strategy in (experiments.BASELINE, *self._plan.strategies):
            colour, line, marker = _STYLES[strategy]
            some = [
                self.gain(x, return_ratio, strategy) for x in self.axis.values
            ]
            is_share = metric == "dlr"
            style.draw_spreads(
                axes,
                self.axis.values,
                [
                    each.dlr_itself if is_share else getattr(each, metric)
                    for each in some
                ],
                100 if is_share else 1,
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=4.5,
                label=strategy.upper(),
            )
        axes.set_ylim(bottom=0)
