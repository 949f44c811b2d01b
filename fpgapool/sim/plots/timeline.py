# SPDX-License-Identifier: Apache-2.0

"""One schedule, its jobs coloured by the hosts that they came from."""

from __future__ import annotations

import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim import metrics
from fpgapool.sim.plots import schedule
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

_NO_ORIGIN = "no host"

_ROW_IN = 0.30
_QUEUE_IN = 1.1
_GAP_IN = 0.2
_TOP_IN = 1.2
_BOTTOM_IN = 0.55

#: Text in a bar takes that much of the picture for each character.
_CHARACTER_SHARE = 0.0075


def draw_timeline(
    results: Sequence[metrics.JobResult],
    path: pathlib.Path,
    *,
    slots: Iterable[schedule.SlotName] = (),
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
    rows = schedule.rows_of(results, slots)
    origins = sorted(
        {_origin_of(job) for job in results}, key=schedule.natural
    )
    colours = style.colours_of(origins)
    figure, timeline, queue = _make_figure(len(rows))
    end_s = max(job.finish_s for job in results)
    schedule.draw_rows(timeline, rows)
    schedule.draw_bars(
        timeline, results, rows, lambda job: colours[_origin_of(job)]
    )
    schedule.write_in_bars(timeline, results, rows, _CHARACTER_SHARE * end_s)
    schedule.draw_queue(queue, results, end_s)
    schedule.label_time(queue)
    style.write_texts(figure, title, subtitle)
    style.draw_legend(
        figure, {f"from {name}": colour for name, colour in colours.items()}
    )
    style.save(figure, path)


def _origin_of(job: metrics.JobResult) -> str:
    return _NO_ORIGIN if job.origin is None else job.origin


def _make_figure(
    rows: int,
) -> tuple[mpl_figure.Figure, mpl_axes.Axes, mpl_axes.Axes]:
    rows_in = max(rows, 2) * _ROW_IN
    height_in = _TOP_IN + rows_in + _GAP_IN + _QUEUE_IN + _BOTTOM_IN
    figure = style.make_figure(height_in)
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
        style.prepare_axes(axes)
    return figure, timeline, queue
