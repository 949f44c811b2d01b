# SPDX-License-Identifier: Apache-2.0

"""One schedule; each job has the colour of the host that it came from."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim.outcomes import metrics
from fpgapool.sim.plots import schedule
from fpgapool.sim.plots import style

_NO_ORIGIN = "no host"

_ROW_IN = 0.30

#: The fraction of the picture that each character in a bar needs.
_CHARACTER_SHARE = 0.0075


def draw_timeline(
    results: Sequence[metrics.JobResult],
    path: pathlib.Path,
    *,
    slots: Iterable[schedule.SlotName] = (),
    title: str = "Slots over time",
    subtitle: str = "",
    end_s: float | None = None,
) -> None:
    """Draw each job in its slot, and how many jobs waited, as a PNG file.

    :param slots: slots that get a row even if they had no job.
    :param end_s: where the time axis ends; None: at the end of the last job.
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
    figure, timeline, queue = schedule.make_axes(
        max(len(rows), 2) * _ROW_IN, 0.135
    )
    end_s = end_s or max(job.finish_s for job in results)
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
