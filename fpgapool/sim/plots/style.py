# SPDX-License-Identifier: Apache-2.0

"""What the pictures have in common: colours, texts and the file."""

from __future__ import annotations

import itertools
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Mapping

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

# Okabe and Ito's palette without its black, then lighter ones: told apart by
# colour-blind readers, too, and dark text is readable on all of them.
_COLOURS = (
    "#56B4E9",
    "#E69F00",
    "#009E73",
    "#F0E442",
    "#CC79A7",
    "#D55E00",
    "#8DA0CB",
    "#A6D854",
    "#BDBDBD",
)
# Dark enough for lines; Okabe and Ito's, too.
_LINE_COLOURS = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
)
REMOTE_HATCH = "////"
INK = "#222222"
MUTED = "#666666"
BAND = "#F1F3F5"
GRID = "#DDDDDD"
NEUTRAL = "#9AA0A6"
LIGHT = "#B0B7BF"

WIDTH_IN = 12.0
_DPI = 130


def make_figure(height_in: float) -> mpl_figure.Figure:
    """Return an empty figure.

    :param height_in: its height in inches.
    """
    from matplotlib import figure as mpl_figure
    from matplotlib.backends import backend_agg

    figure = mpl_figure.Figure(figsize=(WIDTH_IN, height_in))
    # Nothing global as pyplot has it: this may run in any thread.
    backend_agg.FigureCanvasAgg(figure)
    return figure


def save(figure: mpl_figure.Figure, path: pathlib.Path) -> None:
    """Write a figure as a PNG file.

    :param figure: it.
    :param path: of the file.
    :raises OSError: if it cannot be written.
    """
    figure.savefig(path, format="png", dpi=_DPI)


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Choose a colour for each name.

    :param names: in the order of the legend.
    """
    return dict(zip(names, itertools.cycle(_COLOURS), strict=False))


def lines_of(names: Iterable[str]) -> dict[str, str]:
    """Choose a colour for the line of each name.

    :param names: in the order of the legend.
    """
    return dict(zip(names, itertools.cycle(_LINE_COLOURS), strict=False))


def prepare_axes(axes: mpl_axes.Axes) -> None:
    """Take away what only distracts.

    :param axes: to draw on.
    """
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, colors=INK, labelsize=8.5)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def write_texts(figure: mpl_figure.Figure, title: str, subtitle: str) -> None:
    """Write what it is, and a line below it.

    :param figure: where to write, at its top.
    :param title: what it is.
    :param subtitle: the line.
    """
    height_in = figure.get_figheight()
    figure.text(
        0.015,
        1 - 0.3 / height_in,
        title,
        fontsize=14,
        fontweight="bold",
        color=INK,
        va="center",
    )
    figure.text(
        0.015,
        1 - 0.6 / height_in,
        subtitle,
        fontsize=9,
        color=MUTED,
        va="center",
    )


def draw_legend(figure: mpl_figure.Figure, colours: Mapping[str, str]) -> None:
    """Explain colours and hatch, below the texts.

    :param figure: where to draw.
    :param colours: by what they stand for.
    """
    from matplotlib import patches

    handles = [
        patches.Patch(facecolor=colour, label=label)
        for label, colour in colours.items()
    ]
    for label, hatch in (("local", None), ("remote", REMOTE_HATCH)):
        handles.append(
            patches.Patch(
                facecolor=NEUTRAL,
                edgecolor="white",
                hatch=hatch,
                label=f"{label} data",
            )
        )
    figure.legend(
        handles=handles,
        loc="center left",
        bbox_to_anchor=(0.008, 1 - 0.92 / figure.get_figheight()),
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        handlelength=1.6,
        handleheight=1.1,
        columnspacing=1.4,
    )
