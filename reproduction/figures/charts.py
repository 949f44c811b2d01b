# SPDX-License-Identifier: Apache-2.0

"""Pictures as data: panels of bars, lines and maps, and what draws them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim.outcomes import gains
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes

_TOP_IN, _BOTTOM_IN, _RIGHT_IN = 1.5, 0.6, 0.18
_GAP_IN = 0.62
#: Bars of one category take this share of its room.
_BARS = 0.84
#: Texts in cells darker than this share of the scale are white.
_DARK = 0.55
_FRAME = "#D55E00"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series:
    """Values with one label, and so one colour.

    :ivar x: None: bars, one for each of the panel's categories.
    :ivar spreads: bars of 95 % intervals, in place of ``y``.
    :ivar halves: half of the 95 % interval of each vertical bar's value.
    :ivar step: the value holds up to the next one.
    :ivar stacked: bars begin at the ends of the series before.
    :ivar marks: what another source has for each bar.
    :ivar texts: a pattern for the value of each bar, or the texts.
    """

    label: str
    y: Sequence[float] = ()
    x: Sequence[float] | None = None
    spreads: Sequence[gains.Spread] = ()
    halves: Sequence[float] = ()
    factor: float = 1.0
    step: bool = False
    stacked: bool = False
    marks: Sequence[float | None] = ()
    texts: str | Sequence[str] = ""
    style: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """One coordinate system.

    :ivar categories: names of the places of bars.
    :ivar horizontal: bars lie, and the first one is above.
    :ivar levels: dotted lines, by the label whose colour they have.
    :ivar band: a part of the y axis.
    :ivar log: ``x``, ``y``, ``symlog`` or nothing.
    :ivar ticks: values of x with a tick.
    :ivar cells: in place of series: a map of values and texts, by row; the
        categories are its columns, ``rows`` its rows.
    :ivar framed: column and row of a cell.
    """

    title: str
    series: Sequence[Series] = ()
    xlabel: str = ""
    ylabel: str = ""
    categories: Sequence[str] = ()
    horizontal: bool = False
    levels: Sequence[tuple[str, float]] = ()
    band: tuple[float, float] | None = None
    log: str = ""
    ticks: Sequence[float] = ()
    cells: Sequence[Sequence[tuple[float, str]]] = ()
    rows: Sequence[str] = ()
    framed: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A whole figure.

    :ivar row_in: height of a row in inches.
    :ivar colours: by label; others get one.
    """

    title: str
    subtitle: str
    panels: Sequence[Sequence[Panel]]
    row_in: float = 2.9
    left_in: float = 0.75
    gap_in: float = 0.75
    colours: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sharex: bool | typing.Literal["col"] = False
    sharey: bool | typing.Literal["row"] = False


def draw(picture: Picture, path: pathlib.Path) -> None:
    """Write a picture as a PNG file.

    :raises OSError: if it cannot be written.
    """
    rows, columns = len(picture.panels), len(picture.panels[0])
    height_in = _TOP_IN + _BOTTOM_IN + rows * picture.row_in
    height_in += (rows - 1) * _GAP_IN
    width_in = style.WIDTH_IN - picture.left_in - _RIGHT_IN
    column_in = (width_in - (columns - 1) * picture.gap_in) / columns
    figure, grid = style.make_panels(
        height_in,
        (rows, columns),
        left=picture.left_in / style.WIDTH_IN,
        right=1 - _RIGHT_IN / style.WIDTH_IN,
        bottom=_BOTTOM_IN / height_in,
        top=1 - _TOP_IN / height_in,
        gaps=(_GAP_IN / picture.row_in, picture.gap_in / column_in),
        sharex=picture.sharex,
        sharey=picture.sharey,
    )
    panels = list(itertools.chain.from_iterable(picture.panels))
    colours = _colours(picture, panels)
    handles: dict[str, typing.Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=True):
        _draw_panel(axes, panel, colours)
        for handle, label in zip(
            *axes.get_legend_handles_labels(), strict=True
        ):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        style.add_legend(figure, list(handles.values()), handlelength=3.0)
    style.write_texts(figure, picture.title, picture.subtitle)
    style.save(figure, path)


def _colours(picture: Picture, panels: Sequence[Panel]) -> dict[str, str]:
    some = [each for panel in panels for each in panel.series]
    labels = dict.fromkeys(each.label for each in some)
    has_bars = any(each.x is None for each in some)
    chosen = style.colours_of(labels) if has_bars else style.lines_of(labels)
    return {**chosen, **picture.colours}


def _draw_panel(
    axes: mpl_axes.Axes, panel: Panel, colours: Mapping[str, str]
) -> None:
    if panel.cells:
        _draw_map(axes, panel)
    else:
        bars = [each for each in panel.series if each.x is None]
        grid: typing.Literal["x", "y", "both"] = (
            "both" if not bars else "x" if panel.horizontal else "y"
        )
        style.prepare_axes(axes, grid)
        _draw_bars(axes, panel, bars, colours)
        for at, each in enumerate(one for one in panel.series if one.x):
            _draw_line(axes, each, colours[each.label], at)
        for label, level in panel.levels:
            axes.axhline(
                level, color=colours.get(label, style.INK), linestyle=":"
            )
        if panel.band is not None:
            axes.axhspan(*panel.band, color=style.BAND, zorder=0)
        _set_scales(axes, panel)
    style.name_panel(axes, panel.title, 10)
    axes.set_xlabel(panel.xlabel, fontsize=9)
    axes.set_ylabel(panel.ylabel, fontsize=9)


def _set_scales(axes: mpl_axes.Axes, panel: Panel) -> None:
    if panel.log == "symlog":
        axes.set_yscale("symlog", linthresh=10)
    elif panel.log:
        getattr(axes, f"set_{panel.log}scale")("log")
    if panel.ticks:
        axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        axes.minorticks_off()
    values = [
        value
        for each in panel.series
        for value in (*each.y, *(one.mean for one in each.spreads))
    ]
    if panel.log in ("", "x") and not panel.horizontal and min(values) >= 0:
        axes.set_ylim(bottom=0)


def bar(spread: gains.Spread) -> tuple[float, float]:
    """Return how far the 95 % interval reaches below and above the mean.

    :returns: zeros for a single seed, which has no interval.
    """
    if not math.isfinite(spread.interval_high):
        return 0.0, 0.0
    return (
        spread.mean - spread.interval_low,
        spread.interval_high - spread.mean,
    )


def _draw_line(
    axes: mpl_axes.Axes, series: Series, colour: str, at: int
) -> None:
    options = {
        "color": colour,
        "label": series.label,
        "linestyle": style.PATTERNS[at % len(style.PATTERNS)],
        **series.style,
    }
    assert series.x is not None
    if series.spreads:
        bars = [bar(each) for each in series.spreads]
        axes.errorbar(
            series.x,
            [series.factor * each.mean for each in series.spreads],
            yerr=[
                [series.factor * each[end] for each in bars] for end in (0, 1)
            ],
            elinewidth=1.1,
            capsize=2.5,
            **options,
        )
    elif series.step:
        axes.step(series.x, series.y, where="post", **options)
    else:
        axes.plot(series.x, series.y, **options)


def _draw_bars(
    axes: mpl_axes.Axes,
    panel: Panel,
    bars: Sequence[Series],
    colours: Mapping[str, str],
) -> None:
    if not bars:
        return
    groups = sum(not each.stacked for each in bars)
    width = _BARS / groups
    group = -1
    begins: Sequence[float] = ()
    for series in bars:
        group += not series.stacked
        if not series.stacked:
            begins = [0.0] * len(series.y)
        places = [
            at + width * (group - (groups - 1) / 2)
            for at in range(len(series.y))
        ]
        put = axes.barh if panel.horizontal else axes.bar
        put(
            places,
            series.y,
            0.95 * width,
            begins,
            color=colours[series.label],
            label=series.label,
        )
        ends = [one + own for one, own in zip(begins, series.y, strict=True)]
        if series.halves:
            axes.errorbar(
                places, ends, series.halves, fmt="none", ecolor=style.INK
            )
        _write_on_bars(axes, panel, series, places, ends)
        begins = ends
    ticks = range(len(panel.categories))
    if panel.horizontal:
        axes.set_yticks(ticks, panel.categories, fontsize=8.5)
        if axes.get_ylim()[0] < axes.get_ylim()[1]:
            axes.invert_yaxis()
    else:
        axes.set_xticks(ticks, panel.categories)


def _write_on_bars(
    axes: mpl_axes.Axes,
    panel: Panel,
    series: Series,
    places: Sequence[float],
    ends: Sequence[float],
) -> None:
    texts = series.texts
    if isinstance(texts, str):
        texts = [texts.format(value) for value in series.y] if texts else []
    for place, end, text in zip(places, ends, texts, strict=False):
        if panel.horizontal:
            axes.text(end, place, f" {text}", va="center", fontsize=8)
        else:
            axes.text(place, end, text, ha="center", va="bottom", fontsize=7.5)
    marked = [
        (place, mark)
        for place, mark in zip(places, series.marks, strict=False)
        if mark is not None
    ]
    if marked:
        at, values = zip(*marked, strict=True)
        axes.plot(
            *((values, at) if panel.horizontal else (at, values)),
            linestyle="",
            marker="|" if panel.horizontal else "_",
            markersize=11,
            color=style.INK,
            label="reference",
        )


def _draw_map(axes: mpl_axes.Axes, panel: Panel) -> None:
    from matplotlib import patches

    values = [[value for value, _ in row] for row in panel.cells]
    low, high = min(map(min, values)), max(map(max, values))
    axes.imshow(values, cmap="Blues", aspect="auto", origin="lower")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=style.INK, labelsize=9)
    axes.set_xticks(range(len(panel.categories)), panel.categories)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    for at_row, row in enumerate(panel.cells):
        for column, (value, text) in enumerate(row):
            axes.text(
                column,
                at_row,
                text,
                ha="center",
                va="center",
                fontsize=9,
                color="white"
                if value - low > _DARK * (high - low)
                else style.INK,
            )
    if panel.framed is not None:
        column, at_row = panel.framed
        axes.add_patch(
            patches.Rectangle(
                (column - 0.48, at_row - 0.48),
                0.96,
                0.96,
                fill=False,
                edgecolor=_FRAME,
                linewidth=2,
            )
        )
