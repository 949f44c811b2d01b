# SPDX-License-Identifier: Apache-2.0

"""Colours, panels, texts and legends that all pictures share."""

from __future__ import annotations

import itertools
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

# Okabe and Ito's palette without its black, then lighter colours. Colour-blind
# readers can distinguish them, and dark text is readable on all of them.
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
# Okabe and Ito's colours that are dark enough for lines.
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

#: Line patterns, for readers who cannot see colours.
PATTERNS = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)))

WIDTH_IN = 12.0
_TOP_IN, _GAP_IN, _BOTTOM_IN = 1.35, 0.42, 0.55
_DPI = 130


def make_figure(height_in: float) -> mpl_figure.Figure:
    from matplotlib import figure as mpl_figure
    from matplotlib.backends import backend_agg

    figure = mpl_figure.Figure(figsize=(WIDTH_IN, height_in))
    # pyplot has global state; this works in any thread.
    backend_agg.FigureCanvasAgg(figure)
    return figure


def make_panels(
    height_in: float,
    shape: tuple[int, int],
    *,
    left: float,
    bottom: float,
    top: float,
    right: float = 0.985,
    gaps: tuple[float, float] = (0.0, 0.0),
    **sharing: typing.Any,
) -> tuple[mpl_figure.Figure, typing.Any]:
    """Return a figure with panels, and the panels as a matrix.

    :param left: margin, as a fraction of the figure, like the next three.
    :param gaps: gaps between rows and between columns, as fractions of a
        panel.
    :param sharing: ``sharex`` and ``sharey``, as in matplotlib.
    """
    figure = make_figure(height_in)
    grid = figure.subplots(
        *shape,
        squeeze=False,
        gridspec_kw={
            "left": left,
            "right": right,
            "bottom": bottom,
            "top": top,
            "hspace": gaps[0],
            "wspace": gaps[1],
        },
        **sharing,
    )
    return figure, grid


def make_rows(
    names: Sequence[str], panel_in: float, left: float
) -> tuple[mpl_figure.Figure, typing.Any]:
    """Return a figure with a row of two panels over time for each name.

    :param panel_in: height of a panel in inches.
    """
    count = len(names)
    height_in = _TOP_IN + count * (panel_in + _GAP_IN) - _GAP_IN + _BOTTOM_IN
    figure, panels = make_panels(
        height_in,
        (count, 2),
        left=left,
        bottom=_BOTTOM_IN / height_in,
        top=1 - _TOP_IN / height_in,
        gaps=(_GAP_IN / panel_in, 0.13),
        sharex=True,
        sharey="col",
    )
    for name, row in zip(names, panels, strict=True):
        for axes in row:
            prepare_axes(axes, "both")
            name_panel(axes, name, pad=4)
    for axes in panels[-1]:
        axes.set_xlabel("seconds since the start", fontsize=9, color=INK)
    return figure, panels


def save(figure: mpl_figure.Figure, path: pathlib.Path) -> None:
    """Write a figure in the format that the file's extension names.

    :raises OSError: if it cannot be written.
    """
    kind = path.suffix.removeprefix(".").lower()
    figure.savefig(path, format=kind, dpi=_DPI)


def colours_of(names: Iterable[str]) -> dict[str, str]:
    return dict(zip(names, itertools.cycle(_COLOURS), strict=False))


def lines_of(names: Iterable[str]) -> dict[str, str]:
    """Choose a colour for the line of each name."""
    return dict(zip(names, itertools.cycle(_LINE_COLOURS), strict=False))


def prepare_axes(
    axes: mpl_axes.Axes, grid: typing.Literal["x", "y", "both"] = "x"
) -> None:
    """Remove frame and ticks, and draw a thin grid."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, colors=INK, labelsize=8.5)
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def name_panel(
    axes: mpl_axes.Axes, text: str, size: float = 10.5, **options: typing.Any
) -> None:
    axes.set_title(
        text,
        fontsize=size,
        fontweight="bold",
        color=INK,
        loc="left",
        **options,
    )


def add_legend(
    figure: mpl_figure.Figure,
    handles: Sequence[typing.Any],
    size: float = 9.5,
    **options: typing.Any,
) -> None:
    """Explain colours and lines in a row below the title."""
    figure.legend(
        handles=handles,
        loc="center left",
        bbox_to_anchor=(0.008, 1 - 0.92 / figure.get_figheight()),
        ncols=len(handles),
        frameon=False,
        fontsize=size,
        **options,
    )


def write_texts(figure: mpl_figure.Figure, title: str, subtitle: str) -> None:
    """Write a title, and a line below it, at the top of a figure."""
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
    """Explain colours and hatching below the title."""
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
    add_legend(
        figure,
        handles,
        9,
        handlelength=1.6,
        handleheight=1.1,
        columnspacing=1.4,
    )
