#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Pictures of schedules. matplotlib is loaded when one is drawn."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import typing
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim import metrics

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
_NO_ORIGIN = "no host"
_REMOTE_HATCH = "////"
_INK = "#222222"
_MUTED = "#666666"
_BAND = "#F1F3F5"

_WIDTH_IN = 12.0
_ROW_IN = 0.30
_QUEUE_IN = 1.1
_GAP_IN = 0.2
_TOP_IN = 1.2
_BOTTOM_IN = 0.55
_BAR_ROWS = 0.78
_DPI = 130

#: Text in a bar takes that much of its length for each character.
_CHARACTER_SHARE = 0.0075


@dataclasses.dataclass(frozen=True, slots=True)
class SlotName:
    """A row of the timeline.

    :ivar host: name of the host.
    :ivar device: name of the device.
    :ivar number: of the slot in its device.
    """

    host: str
    device: str
    number: int


def draw_timeline(
    results: Sequence[metrics.JobResult],
    path: pathlib.Path,
    *,
    slots: Iterable[SlotName] = (),
    title: str = "Slots over time",
    subtitle: str = "",
) -> None:
    """Draw who had which slot when, and how many waited, as a PNG file.

    :param results: the jobs, one bar each.
    :param path: of the file.
    :param slots: slots that get a row even if no job had them, for the idle
        ones.
    :param title: what it is.
    :param subtitle: a line below it.
    :raises ValueError: if there are no jobs.
    :raises OSError: if the file cannot be written.
    """
    if not results:
        raise ValueError("there are no jobs to draw")
    from matplotlib.backends import backend_agg

    rows = sorted({_slot_of(job) for job in results} | set(slots), key=_order)
    origins = sorted({_origin_of(job) for job in results}, key=_natural)
    colours = dict(zip(origins, itertools.cycle(_COLOURS), strict=False))
    figure, timeline, queue = _make_figure(len(rows))
    # Nothing global as pyplot has it: this may run in any thread.
    backend_agg.FigureCanvasAgg(figure)
    end_s = max(job.finish_s for job in results)
    _draw_rows(timeline, rows)
    _draw_bars(timeline, results, rows, colours, end_s)
    _draw_queue(queue, results, end_s)
    _write_texts(figure, title, subtitle)
    _draw_legend(figure, results, colours)
    figure.savefig(path, format="png", dpi=_DPI)


def _slot_of(job: metrics.JobResult) -> SlotName:
    return SlotName(job.host, job.device, job.slot)


def _order(slot: SlotName) -> tuple[list[str], list[str], int]:
    return _natural(slot.host), _natural(slot.device), slot.number


def _natural(name: str) -> list[str]:
    """Return a key that sorts node2 before node10."""
    return [
        part.zfill(20) if part.isdecimal() else part
        for part in re.split(r"(\d+)", name)
    ]


def _origin_of(job: metrics.JobResult) -> str:
    return _NO_ORIGIN if job.origin is None else job.origin


def _make_figure(
    rows: int,
) -> tuple[mpl_figure.Figure, mpl_axes.Axes, mpl_axes.Axes]:
    from matplotlib import figure as mpl_figure

    rows_in = max(rows, 2) * _ROW_IN
    height_in = _TOP_IN + rows_in + _GAP_IN + _QUEUE_IN + _BOTTOM_IN
    figure = mpl_figure.Figure(figsize=(_WIDTH_IN, height_in))
    grid = figure.add_gridspec(
        2,
        1,
        height_ratios=(rows_in, _QUEUE_IN),
        left=0.135,
        right=0.985,
        top=1 - _TOP_IN / height_in,
        bottom=_BOTTOM_IN / height_in,
        # A share of the mean height of both.
        hspace=2 * _GAP_IN / (rows_in + _QUEUE_IN),
    )
    timeline = figure.add_subplot(grid[0])
    queue = figure.add_subplot(grid[1], sharex=timeline)
    for axes in (timeline, queue):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0, colors=_INK, labelsize=8.5)
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, timeline, queue


def _draw_rows(axes: mpl_axes.Axes, rows: Sequence[SlotName]) -> None:
    axes.set_yticks(
        range(len(rows)), [f"{row.device} · {row.number}" for row in rows]
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="x", labelbottom=False)
    position = 0
    hosts = itertools.groupby(rows, key=lambda row: row.host)
    for index, (host, slots) in enumerate(hosts):
        first, position = position, position + len(list(slots))
        if index % 2 == 0:
            axes.axhspan(first - 0.5, position - 0.5, color=_BAND, zorder=0)
        axes.text(
            -0.085,
            (first + position - 1) / 2,
            host,
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=10.5,
            fontweight="bold",
            color=_INK,
        )


def _draw_bars(
    axes: mpl_axes.Axes,
    results: Sequence[metrics.JobResult],
    rows: Sequence[SlotName],
    colours: dict[str, str],
    end_s: float,
) -> None:
    positions = {row: position for position, row in enumerate(rows)}
    for job in results:
        length_s = job.finish_s - job.start_s
        position = positions[_slot_of(job)]
        axes.barh(
            position,
            length_s,
            left=job.start_s,
            height=_BAR_ROWS,
            color=colours[_origin_of(job)],
            hatch=None if job.local else _REMOTE_HATCH,
            edgecolor="white",
            linewidth=0.8,
            zorder=2,
        )
        if length_s > len(job.job_id) * _CHARACTER_SHARE * end_s:
            _write_in_bar(axes, job, position)


def _write_in_bar(
    axes: mpl_axes.Axes, job: metrics.JobResult, position: int
) -> None:
    # Digits alone cannot be read on the hatch.
    axes.text(
        (job.start_s + job.finish_s) / 2,
        position,
        job.job_id,
        ha="center",
        va="center",
        fontsize=7.5,
        color=_INK,
        zorder=3,
        bbox={
            "boxstyle": "round,pad=0.12",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.75,
        },
    )


def _draw_queue(
    axes: mpl_axes.Axes, results: Sequence[metrics.JobResult], end_s: float
) -> None:
    times_s, counts = _waiting_over_time(results, end_s)
    axes.fill_between(
        times_s, counts, step="post", color="#B0B7BF", linewidth=0, zorder=2
    )
    axes.set_xlim(0, end_s * 1.005)
    axes.set_ylim(0, max(1, *counts) * 1.12)
    axes.locator_params(axis="y", integer=True, nbins=4)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_ylabel("jobs\nwaiting", fontsize=9, color=_INK)
    axes.set_xlabel("seconds since the start", fontsize=9, color=_INK)


def _waiting_over_time(
    results: Sequence[metrics.JobResult], end_s: float
) -> tuple[list[float], list[int]]:
    """Return when the number of waiting jobs changes, and to what."""
    changes = sorted(
        [(job.arrival_s, 1) for job in results]
        + [(job.start_s, -1) for job in results]
    )
    times_s, counts = [0.0], [0]
    for time_s, change in changes:
        times_s.append(time_s)
        counts.append(counts[-1] + change)
    return [*times_s, end_s], [*counts, 0]


def _write_texts(figure: mpl_figure.Figure, title: str, subtitle: str) -> None:
    height_in = figure.get_figheight()
    figure.text(
        0.015,
        1 - 0.3 / height_in,
        title,
        fontsize=14,
        fontweight="bold",
        color=_INK,
        va="center",
    )
    figure.text(
        0.015,
        1 - 0.6 / height_in,
        subtitle,
        fontsize=9,
        color=_MUTED,
        va="center",
    )


def _draw_legend(
    figure: mpl_figure.Figure,
    results: Sequence[metrics.JobResult],
    colours: dict[str, str],
) -> None:
    from matplotlib import patches

    handles = [
        patches.Patch(facecolor=colour, label=f"from {origin}")
        for origin, colour in colours.items()
    ]
    for label, hatch in (("local", None), ("remote", _REMOTE_HATCH)):
        handles.append(
            patches.Patch(
                facecolor="#9AA0A6",
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
