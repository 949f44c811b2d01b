# SPDX-License-Identifier: Apache-2.0

"""Figure 6: completion times by size, simulated and real."""

from __future__ import annotations

import math
import pathlib
import typing
from collections.abc import Sequence

from fpgapool.sim.plots import style
from reproduction.validation import differences

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes

_HEIGHT_IN = 4.9
_TOP_IN = 1.5
_BOTTOM_IN = 0.65
_REAL = "real system"
_COLOURS = {_REAL: style.INK, "fluid": "#0072B2", "chunk": "#E69F00"}
_WIDTH = 0.8


def class_name(row: differences.Difference) -> str:
    """Return the sizes of a class, in MB.

    :param row: with or without an end.
    """
    if row.high_bytes == math.inf:
        return f"≥ {row.low_bytes / 1e6:.0f} MB"
    return f"{row.low_bytes / 1e6:.0f}–{row.high_bytes / 1e6:.0f} MB"


def draw(
    found: Sequence[differences.Comparison],
    subtitle: str,
    path: pathlib.Path,
) -> None:
    """Draw a panel for each mode.

    :param subtitle: a line about the runs.
    :param path: of the PNG file.
    :raises OSError: if it cannot be written.
    """
    figure, grid = style.make_panels(
        _HEIGHT_IN,
        (1, len(found)),
        left=0.055,
        bottom=_BOTTOM_IN / _HEIGHT_IN,
        top=1 - _TOP_IN / _HEIGHT_IN,
        gaps=(0.0, 0.06),
        sharey=True,
    )
    for axes, comparison in zip(grid[0], found, strict=True):
        _draw_panel(axes, comparison)
    # Room for the texts above the bars.
    low, high = grid[0][0].get_ylim()
    grid[0][0].set_ylim(low, 1.14 * high)
    grid[0][0].set_ylabel("mean completion time, s", fontsize=9.5)
    style.add_legend(figure, grid[0][0].get_legend_handles_labels()[0])
    style.write_texts(
        figure, "Figure 6: the simulator and the real system", subtitle
    )
    style.save(figure, path)


def _draw_panel(
    axes: mpl_axes.Axes, comparison: differences.Comparison
) -> None:
    style.prepare_axes(axes, "y")
    rows = comparison.classes
    engines = list(comparison.total.simulated_s)
    width = _WIDTH / (1 + len(engines))
    for at, name in enumerate((_REAL, *engines)):
        places = [
            place + (at - len(engines) / 2) * width
            for place in range(len(rows))
        ]
        values = [
            row.real_s if name == _REAL else row.simulated_s[name]
            for row in rows
        ]
        axes.bar(places, values, width, color=_COLOURS[name], label=name)
        if name != _REAL:
            for place, value, row in zip(places, values, rows, strict=True):
                axes.annotate(
                    f"{row.of(name):+.1%}".replace("-", "−"),
                    (place, value),
                    (0, 3),
                    textcoords="offset points",
                    rotation=90,
                    ha="center",
                    va="bottom",
                    fontsize=7.5,
                    color=style.INK,
                )
    axes.set_xticks(
        range(len(rows)),
        [
            f"{class_name(row).removesuffix(' MB')}\n{row.jobs} jobs"
            for row in rows
        ],
    )
    style.name_panel(
        axes,
        f"{comparison.mode}: {comparison.worst:.1%} over all jobs ≥ "
        f"{differences.GOAL_MIN_BYTES / 1e6:.0f} MB",
        10,
    )
    axes.set_xlabel("size, MB", fontsize=9)
