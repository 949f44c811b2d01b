# SPDX-License-Identifier: Apache-2.0

"""Figures 10 to 12 are alike: what strategies gain over FIFO along an axis.

A row of panels per return ratio, a column per metric.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import tables
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes

#: All results travel back, or none.
RETURN_RATIOS = (1.0, 0.0)
#: The panels' titles, by metric.
_PANELS = {
    "act": "ACT, times shorter",
    "tct95": "TCT(95), times shorter",
    "sar": "SAR, times larger",
    "dlr": "DLR, %",
}
_NAMES = {
    "fifo": "FIFO",
    "sjf": "SJF",
    "wa": "WA",
    "ra": "RA",
    "wra": "WRA",
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
    """What goes along the x axis.

    :ivar label: with unit.
    :ivar column: its name in the table, with unit.
    :ivar values: in order.
    """

    label: str
    column: str
    values: Sequence[float]


class Claim(typing.NamedTuple):
    """Something that the paper says.

    :ivar text: as it follows "that", with the numbers found here.
    :ivar holds: whether it is so here.
    """

    text: str
    holds: bool


def sentence(
    number: int, settings: str, claims: Callable[[float], Sequence[Claim]]
) -> str:
    """What holds of a figure with each return ratio, and what does not.

    :param settings: in words.
    :param claims: of a return ratio.
    """
    by_ratio = {ratio: claims(ratio) for ratio in RETURN_RATIOS}
    all_claims = [claim for some in by_ratio.values() for claim in some]
    if all(claim.holds for claim in all_claims):
        verdict = "holds"
    elif any(claim.holds for claim in all_claims):
        verdict = "holds in part"
    else:
        verdict = "does not hold"
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
    return f"Figure {number} {verdict} ({settings}): {'; '.join(parts)}."


class Curves:
    """What was gained, to be looked up, written and drawn.

    :ivar axis: of x.
    :ivar strategies: all but the baseline.
    """

    def __init__(
        self,
        measure: experiments.Measure,
        axis: Axis,
        make_run: Callable[[float, float, str, int], experiments.ClusterRun],
        strategies: Sequence[str],
        seeds: Sequence[int],
    ) -> None:
        """Simulate.

        :param make_run: of x, return ratio, strategy and seed.
        """
        self.axis = axis
        self.strategies = strategies

        def maker(
            x: float, return_ratio: float
        ) -> Callable[[str, int], experiments.ClusterRun]:
            return lambda *rest: make_run(x, return_ratio, *rest)

        self._gains = experiments.gains(
            measure,
            {
                (x, return_ratio): maker(x, return_ratio)
                for return_ratio in RETURN_RATIOS
                for x in axis.values
            },
            strategies,
            seeds,
        )

    def gain(
        self, x: float, return_ratio: float, strategy: str
    ) -> experiments.Gain:
        """At one point."""
        return self._gains[(x, return_ratio), strategy]

    def line(
        self, metric: str, return_ratio: float, strategy: str
    ) -> list[float]:
        """One metric along the axis: factors over FIFO, but DLR itself."""
        some = [self.gain(x, return_ratio, strategy) for x in self.axis.values]
        if metric == "dlr":
            return [each.means["dlr"] for each in some]
        return [getattr(each, metric).mean for each in some]

    def span(
        self, metric: str, return_ratio: float, strategy: str
    ) -> tuple[float, float]:
        """The smallest and the largest along the axis."""
        values = self.line(metric, return_ratio, strategy)
        return min(values), max(values)

    def is_ahead(
        self,
        metrics: Sequence[str],
        return_ratio: float,
        better: Sequence[str],
        worse: Sequence[str],
    ) -> bool:
        """Whether each of some is above each of others along the axis."""
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

    def draw(
        self,
        path: pathlib.Path,
        metrics: Sequence[str],
        title: str,
        subtitle: str,
    ) -> None:
        """Draw some of the metrics.

        :param metrics: of ``act``, ``tct95``, ``sar`` and ``dlr``.
        """
        rows = len(RETURN_RATIOS)
        height_in = _TOP_IN + _BOTTOM_IN + rows * _ROW_IN + _GAP_IN
        figure = style.make_figure(height_in)
        grid = figure.subplots(
            rows,
            len(metrics),
            sharex=True,
            squeeze=False,
            gridspec_kw={
                "left": 0.06,
                "right": 0.985,
                "bottom": _BOTTOM_IN / height_in,
                "top": 1 - _TOP_IN / height_in,
                "hspace": _GAP_IN / _ROW_IN,
                "wspace": 0.2,
            },
        )
        for row, return_ratio in enumerate(RETURN_RATIOS):
            for column, metric in enumerate(metrics):
                axes = grid[row][column]
                self._draw_panel(axes, metric, return_ratio)
                axes.set_title(
                    _PANELS[metric],
                    fontsize=10,
                    fontweight="bold",
                    color=style.INK,
                    loc="left",
                )
                if row == rows - 1:
                    axes.set_xlabel(self.axis.label, fontsize=9)
            grid[row][0].set_ylabel(
                f"return ratio {return_ratio:g}", fontsize=10
            )
        handles, labels = grid[0][-1].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="center left",
            bbox_to_anchor=(0.008, 1 - 0.92 / height_in),
            ncols=len(handles),
            frameon=False,
            fontsize=9.5,
            handlelength=3.4,
        )
        style.write_texts(figure, title, subtitle)
        style.save(figure, path)

    def _draw_panel(
        self, axes: mpl_axes.Axes, metric: str, return_ratio: float
    ) -> None:
        style.prepare_axes(axes)
        axes.grid(axis="y", color=style.GRID, linewidth=0.6)
        for strategy in (experiments.BASELINE, *self.strategies):
            colour, line, marker = _STYLES[strategy]
            values = self.line(metric, return_ratio, strategy)
            if metric == "dlr":
                values = [100 * value for value in values]
            elif metric in ("act", "tct95"):
                spreads = [
                    getattr(self.gain(x, return_ratio, strategy), metric)
                    for x in self.axis.values
                ]
                axes.fill_between(
                    self.axis.values,
                    [spread.low for spread in spreads],
                    [spread.high for spread in spreads],
                    color=colour,
                    alpha=0.15,
                    linewidth=0,
                )
            axes.plot(
                self.axis.values,
                values,
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=4.5,
                label=_NAMES[strategy],
            )
        axes.set_ylim(bottom=0)
