# SPDX-License-Identifier: Apache-2.0

"""A schedule of any size: all slots as an image, and how many jobs waited."""

from __future__ import annotations

import math
import pathlib
import typing
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpgapool.sim.outcomes import metrics
from fpgapool.sim.plots import schedule
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

#: One dark and one light colour, which also differ in greyscale.
LOCAL_COLOUR = "#2F5D8C"
REMOTE_COLOUR = "#F0A63C"

_COLUMNS = 1300
_MOST_ROWS = 400
_LABELS = 25


def draw_overview(
    results: Sequence[metrics.JobResult],
    path: pathlib.Path,
    *,
    slots: Sequence[schedule.SlotName],
    title: str = "Slots over time",
    subtitle: str = "",
    end_s: float | None = None,
) -> None:
    """Draw what each slot did, and how many jobs waited, as a PNG file.

    A row is one slot or, with more than 400 slots, several consecutive ones.
    The colour of a point is the mean over its slots and its time: white is
    idle.

    :param end_s: where the time axis ends; None: at the end of the last job.
    :raises ValueError: if there are no jobs.
    :raises OSError: if the file cannot be written.
    """
    if not results:
        raise ValueError("there are no jobs to draw")
    names = schedule.rows_of(results, slots)
    per_row = math.ceil(len(names) / _MOST_ROWS)
    rows = math.ceil(len(names) / per_row)
    end_s = end_s or max(job.finish_s for job in results)
    rows_in = min(max(1.5, rows * 0.05), 9.0)
    figure, image, queue = schedule.make_axes(rows_in, 0.09)
    shares = _shares(results, names, per_row, end_s)
    image.imshow(
        _coloured(shares),
        aspect="auto",
        interpolation="nearest",
        extent=(0, end_s, len(names), 0),
    )
    _label_rows(image, names)
    image.grid(visible=False)
    image.tick_params(axis="x", labelbottom=False)
    schedule.draw_queue(queue, results, end_s)
    schedule.label_time(queue)
    style.write_texts(figure, title, subtitle)
    _draw_legend(figure, per_row)
    style.save(figure, path)


def _shares(
    results: Sequence[metrics.JobResult],
    names: Sequence[schedule.SlotName],
    per_row: int,
    end_s: float,
) -> npt.NDArray[np.float64]:
    """Return the shares of the slots' time for local and for remote jobs.

    They are by row and column of the picture.
    """
    places = {name: place // per_row for place, name in enumerate(names)}
    rows = math.ceil(len(names) / per_row)
    shares = np.zeros((2, rows, _COLUMNS))
    scale = _COLUMNS / end_s
    for job in results:
        row = shares[0 if job.local else 1, places[schedule.slot_of(job)]]
        begin, end = job.start_s * scale, job.finish_s * scale
        first, last = int(begin), min(int(end), _COLUMNS - 1)
        if first >= last:
            row[min(first, last)] += end - begin
            continue
        row[first] += first + 1 - begin
        row[first + 1 : last] += 1
        row[last] += end - last
    sizes = np.bincount(np.arange(len(names)) // per_row)
    return np.asarray(shares / sizes[:, np.newaxis])


def _coloured(
    shares: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    from matplotlib import colors

    local, remote = (
        np.array(colors.to_rgb(each)) for each in (LOCAL_COLOUR, REMOTE_COLOUR)
    )
    mixed = (
        1.0
        - shares[0][..., np.newaxis] * (1.0 - local)
        - shares[1][..., np.newaxis] * (1.0 - remote)
    )
    return np.asarray(np.clip(mixed, 0.0, 1.0))


def _label_rows(
    axes: mpl_axes.Axes, names: Sequence[schedule.SlotName]
) -> None:
    """Label as many hosts as there is room for."""
    firsts = [
        place
        for place, name in enumerate(names)
        if place == 0 or names[place - 1].host != name.host
    ]
    chosen = firsts[:: math.ceil(len(firsts) / _LABELS)]
    axes.set_yticks(
        [place + 0.5 for place in chosen],
        [names[place].host for place in chosen],
    )


def _draw_legend(figure: mpl_figure.Figure, per_row: int) -> None:
    from matplotlib import patches

    handles = [
        patches.Patch(facecolor=colour, edgecolor=style.MUTED, label=label)
        for label, colour in (
            ("local data", LOCAL_COLOUR),
            ("remote data", REMOTE_COLOUR),
            ("idle", "white"),
        )
    ]
    row = "a slot" if per_row == 1 else f"{per_row} slots"
    style.add_legend(figure, handles, 9)
    figure.text(
        0.985,
        1 - 0.92 / figure.get_figheight(),
        f"each row is {row}; the first slot of each host shows its name",
        fontsize=9,
        color=style.MUTED,
        ha="right",
        va="center",
    )
