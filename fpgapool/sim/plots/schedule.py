# SPDX-License-Identifier: Apache-2.0

"""A schedule on its axes: which job had which slot, and how many waited."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim.outcomes import metrics
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

_QUEUE_IN = 1.1
_GAP_IN = 0.2
_TOP_IN = 1.2
_BOTTOM_IN = 0.55
_BAR_ROWS = 0.78
#: Position left of the axes, as a fraction of their width.
_HOST_X = -0.085


@dataclasses.dataclass(frozen=True, slots=True)
class SlotName:
    """A row of the timeline."""

    host: str
    device: str
    number: int


ColourOf = Callable[[metrics.JobResult], str]


def rows_of(
    results: Iterable[metrics.JobResult], slots: Iterable[SlotName]
) -> list[SlotName]:
    """Return the slots that get a row, in order."""
    return sorted({slot_of(job) for job in results} | set(slots), key=_order)


def slot_of(job: metrics.JobResult) -> SlotName:
    return SlotName(job.host, job.device, job.slot)


def _order(slot: SlotName) -> tuple[list[str], list[str], int]:
    return natural(slot.host), natural(slot.device), slot.number


def natural(name: str) -> list[str]:
    """Return a key that sorts node2 before node10."""
    return [
        part.zfill(20) if part.isdecimal() else part
        for part in re.split(r"(\d+)", name)
    ]


def make_axes(
    rows_in: float, left: float
) -> tuple[mpl_figure.Figure, mpl_axes.Axes, mpl_axes.Axes]:
    """Return a figure with axes for slots and, below, for the queue.

    :param rows_in: height of the slots in inches.
    :param left: margin, as a fraction of the figure.
    """
    height_in = _TOP_IN + rows_in + _GAP_IN + _QUEUE_IN + _BOTTOM_IN
    figure = style.make_figure(height_in)
    grid = figure.add_gridspec(
        2,
        1,
        height_ratios=(rows_in, _QUEUE_IN),
        left=left,
        right=0.985,
        top=1 - _TOP_IN / height_in,
        bottom=_BOTTOM_IN / height_in,
        # A fraction of the mean height of the two axes.
        hspace=2 * _GAP_IN / (rows_in + _QUEUE_IN),
    )
    slots = figure.add_subplot(grid[0])
    queue = figure.add_subplot(grid[1], sharex=slots)
    for axes in (slots, queue):
        style.prepare_axes(axes)
    return figure, slots, queue


def draw_rows(axes: mpl_axes.Axes, rows: Sequence[SlotName]) -> None:
    """Label the slots, and separate hosts."""
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
            axes.axhspan(
                first - 0.5, position - 0.5, color=style.BAND, zorder=0
            )
        axes.text(
            _HOST_X,
            (first + position - 1) / 2,
            host,
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=10.5,
            fontweight="bold",
            color=style.INK,
        )


def draw_bars(
    axes: mpl_axes.Axes,
    results: Sequence[metrics.JobResult],
    rows: Sequence[SlotName],
    colour_of: ColourOf,
) -> None:
    positions = {row: position for position, row in enumerate(rows)}
    for job in results:
        axes.barh(
            positions[slot_of(job)],
            job.finish_s - job.start_s,
            left=job.start_s,
            height=_BAR_ROWS,
            color=colour_of(job),
            hatch=None if job.local else style.REMOTE_HATCH,
            edgecolor="white",
            linewidth=0.8,
            zorder=2,
        )


def write_in_bars(
    axes: mpl_axes.Axes,
    results: Sequence[metrics.JobResult],
    rows: Sequence[SlotName],
    character_s: float,
) -> None:
    """Write the name of each job into its bar, where there is room.

    :param character_s: length of a bar with room for one character.
    """
    positions = {row: position for position, row in enumerate(rows)}
    for job in results:
        if job.finish_s - job.start_s <= len(job.job_id) * character_s:
            continue
        # On the hatching, digits need a background.
        axes.text(
            (job.start_s + job.finish_s) / 2,
            positions[slot_of(job)],
            job.job_id,
            ha="center",
            va="center",
            fontsize=7.5,
            color=style.INK,
            zorder=3,
            bbox={
                "boxstyle": "round,pad=0.12",
                "facecolor": "white",
                "edgecolor": "none",
                "alpha": 0.75,
            },
        )


def draw_queue(
    axes: mpl_axes.Axes, results: Sequence[metrics.JobResult], end_s: float
) -> int:
    """Draw the number of waiting jobs.

    :param end_s: where the time axis ends.
    :returns: the largest number of waiting jobs.
    """
    times_s, counts = _waiting_over_time(results, end_s)
    axes.fill_between(
        times_s, counts, step="post", color=style.LIGHT, linewidth=0, zorder=2
    )
    axes.set_xlim(0, end_s * 1.005)
    axes.set_ylim(0, max(1, *counts) * 1.12)
    axes.locator_params(axis="y", integer=True, nbins=4)
    axes.grid(axis="y", color=style.GRID, linewidth=0.6)
    axes.set_ylabel("jobs\nwaiting", fontsize=9, color=style.INK)
    return max(counts)


def label_time(axes: mpl_axes.Axes) -> None:
    axes.tick_params(axis="x", labelbottom=True)
    axes.set_xlabel("seconds since the start", fontsize=9, color=style.INK)


def _waiting_over_time(
    results: Sequence[metrics.JobResult], end_s: float
) -> tuple[list[float], list[int]]:
    """Return the times and values of the number of waiting jobs."""
    changes = sorted(
        [(job.arrival_s, 1) for job in results]
        + [(job.start_s, -1) for job in results]
    )
    times_s, counts = [0.0], [0]
    for time_s, change in changes:
        times_s.append(time_s)
        counts.append(counts[-1] + change)
    return [*times_s, end_s], [*counts, 0]
