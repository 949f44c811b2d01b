# SPDX-License-Identifier: Apache-2.0

"""Several schedules of the same jobs, in colours for the kinds of jobs."""

from __future__ import annotations

import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim.outcomes import metrics
from fpgapool.sim.plots import schedule
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

_NO_KIND = "any kind"

_ROW_IN = 0.20
_QUEUE_IN = 0.65
_GAP_IN = 0.12
_NAME_IN = 0.40
_TOP_IN = 1.15
_TIME_IN = 0.55
_METRICS_NAME_IN = 0.35
_METRIC_IN = 0.24
_BOTTOM_IN = 0.15
_LEFT = 0.135
_RIGHT = 0.985
_METRIC_GAP = 0.03

#: Member, and name with unit.
_METRICS = (
    ("act_s", "ACT, s  (less is better)"),
    ("tct95_s", "TCT(95), s  (less)"),
    ("sar", "SAR  (more)"),
    ("dlr", "DLR  (more)"),
    ("makespan_s", "makespan, s  (less)"),
)
#: Of the last schedule, which the picture is about.
_LAST_COLOUR = "#3B6EA5"

Schedules = Mapping[str, Sequence[metrics.JobResult]]


class _Layout:
    """Positions in the picture, in inches from its top.

    :param rows: of each schedule.
    :param count: of schedules.
    """

    def __init__(self, rows: int, count: int) -> None:
        self._rows_in = max(rows, 2) * _ROW_IN
        self._panel_in = _NAME_IN + self._rows_in + _GAP_IN + _QUEUE_IN
        self._metrics_top_in = (
            _TOP_IN + count * self._panel_in + _TIME_IN + _METRICS_NAME_IN
        )
        self._metrics_in = count * _METRIC_IN
        self.height_in = self._metrics_top_in + self._metrics_in + _BOTTOM_IN
        self.figure = style.make_figure(self.height_in)

    def y(self, from_top_in: float) -> float:
        """Convert inches from the top to the figure's share."""
        return 1 - from_top_in / self.height_in

    def name_y(self, index: int) -> float:
        """Return the height of a schedule's name."""
        return self.y(_TOP_IN + index * self._panel_in + 0.62 * _NAME_IN)

    def timeline(self, index: int) -> mpl_axes.Axes:
        """Return axes for the slots of a schedule."""
        top_in = _TOP_IN + index * self._panel_in + _NAME_IN
        return self._axes(top_in, self._rows_in)

    def queue(self, index: int, beside: mpl_axes.Axes) -> mpl_axes.Axes:
        """Return axes for the queue of a schedule."""
        bottom_in = _TOP_IN + (index + 1) * self._panel_in
        axes = self._axes(bottom_in - _QUEUE_IN, _QUEUE_IN)
        axes.sharex(beside)
        return axes

    def metric(self, index: int) -> mpl_axes.Axes:
        """Return axes for one of the metrics."""
        width = (_RIGHT - _LEFT + _METRIC_GAP) / len(_METRICS)
        return self._axes(
            self._metrics_top_in,
            self._metrics_in,
            _LEFT + index * width,
            width - _METRIC_GAP,
        )

    def _axes(
        self,
        top_in: float,
        length_in: float,
        left: float = _LEFT,
        width: float = _RIGHT - _LEFT,
    ) -> mpl_axes.Axes:
        bottom = self.y(top_in + length_in)
        height = length_in / self.height_in
        axes = self.figure.add_axes((left, bottom, width, height))
        style.prepare_axes(axes)
        return axes


def draw_comparison(
    schedules: Schedules,
    path: pathlib.Path,
    *,
    slots: Iterable[schedule.SlotName] = (),
    title: str = "The same jobs",
    subtitle: str = "",
) -> None:
    """Draw schedules on one axis of time, and their metrics, as a PNG file.

    :param schedules: the jobs of each, by its name; the last one is
        compared with the others.
    :param path: of the file.
    :param slots: slots that get a row even if no job had them.
    :param title: of the picture.
    :param subtitle: a line below it.
    :raises ValueError: if there are no schedules, or one has no jobs.
    :raises OSError: if the file cannot be written.
    """
    if not schedules or not all(schedules.values()):
        raise ValueError("there are no jobs to draw")
    jobs = [job for results in schedules.values() for job in results]
    rows = schedule.rows_of(jobs, slots)
    colours = style.colours_of(sorted({_kind_of(job) for job in jobs}))
    layout = _Layout(len(rows), len(schedules))
    queues = _draw_schedules(layout, schedules, rows, colours)
    schedule.label_time(queues[-1])
    _draw_metrics(layout, schedules)
    style.write_texts(layout.figure, title, subtitle)
    style.draw_legend(layout.figure, colours)
    style.save(layout.figure, path)


def _kind_of(job: metrics.JobResult) -> str:
    return _NO_KIND if job.kind is None else job.kind


def _draw_schedules(
    layout: _Layout,
    schedules: Schedules,
    rows: Sequence[schedule.SlotName],
    colours: Mapping[str, str],
) -> list[mpl_axes.Axes]:
    jobs = [job for results in schedules.values() for job in results]
    end_s = max(job.finish_s for job in jobs)
    first = layout.timeline(0)
    queues = []
    most = 0
    for index, (name, results) in enumerate(schedules.items()):
        timeline = first if index == 0 else layout.timeline(index)
        if timeline is not first:
            timeline.sharex(first)
        queue = layout.queue(index, first)
        schedule.draw_rows(timeline, rows)
        schedule.draw_bars(
            timeline, results, rows, lambda job: colours[_kind_of(job)]
        )
        most = max(most, schedule.draw_queue(queue, results, end_s))
        queue.tick_params(axis="x", labelbottom=False)
        _write_name(layout.figure, name, layout.name_y(index))
        _mark_end(timeline, max(job.finish_s for job in results))
        queues.append(queue)
    for queue in queues:
        # One scale, so that the queues can be compared.
        queue.set_ylim(0, max(1, most) * 1.12)
    return queues


def _write_name(figure: mpl_figure.Figure, name: str, y: float) -> None:
    figure.text(
        _LEFT,
        y,
        name,
        fontsize=11.5,
        fontweight="bold",
        color=style.INK,
        va="center",
    )


def _mark_end(axes: mpl_axes.Axes, end_s: float) -> None:
    axes.axvline(end_s, color=style.INK, linewidth=1, linestyle=":", zorder=3)
    axes.annotate(
        f"all done after {end_s:.1f} s",
        (end_s, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=style.INK,
    )


def _draw_metrics(layout: _Layout, schedules: Schedules) -> None:
    measured = {
        name: metrics.measure(results) for name, results in schedules.items()
    }
    names = list(measured)
    colours = [style.LIGHT] * (len(names) - 1) + [_LAST_COLOUR]
    for index, (member, label) in enumerate(_METRICS):
        axes = layout.metric(index)
        values = [getattr(each, member) for each in measured.values()]
        axes.barh(names, values, height=0.68, color=colours)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])
        # Room for the value at the longest bar.
        axes.set_xlim(0, (max(values) or 1) * 1.35)
        if index:
            axes.set_yticks([])
        axes.set_title(label, fontsize=9, color=style.INK, loc="left", pad=4)
        for position, value in enumerate(values):
            axes.annotate(
                f"{value:.2f}",
                (value, position),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=style.INK,
            )
