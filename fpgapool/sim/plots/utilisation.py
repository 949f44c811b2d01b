# SPDX-License-Identifier: Apache-2.0

"""Use of a cluster over time, with two panels per strategy."""

from __future__ import annotations

import pathlib
import typing
from collections.abc import Mapping

import numpy as np

from fpgapool.sim.plots import observation
from fpgapool.sim.plots import overview
from fpgapool.sim.plots import style

if typing.TYPE_CHECKING:
    from matplotlib import axes as mpl_axes
    from matplotlib import figure as mpl_figure

_PANEL_IN = 1.35


def draw_utilisation(
    courses: Mapping[str, observation.Course],
    path: pathlib.Path,
    *,
    slot_count: int,
    subtitle: str = "",
) -> None:
    """Draw busy slots and bytes/s of each strategy as a PNG file.

    :raises ValueError: if there are no strategies.
    :raises OSError: if the file cannot be written.
    """
    if not courses:
        raise ValueError("there is nothing to draw")
    figure, panels = style.make_rows(list(courses), _PANEL_IN, 0.065)
    for course, (slots, rates) in zip(courses.values(), panels, strict=True):
        _draw_slots(slots, course, slot_count)
        _draw_rates(rates, course)
    _set_limits(panels, courses, slot_count)
    style.write_texts(figure, "Utilisation over time", subtitle)
    _draw_legend(figure)
    style.save(figure, path)


def _edges_s(course: observation.Course) -> np.ndarray[typing.Any, typing.Any]:
    return np.arange(course.busy_slots.size + 1) * course.bin_s


def _draw_slots(
    axes: mpl_axes.Axes, course: observation.Course, slot_count: int
) -> None:
    axes.stairs(
        course.busy_slots,
        _edges_s(course),
        fill=True,
        color=style.LIGHT,
        linewidth=0,
    )
    axes.axhline(slot_count, color=style.INK, linewidth=0.8, linestyle=":")
    axes.locator_params(axis="y", integer=True, nbins=5)
    axes.set_ylabel("busy slots", fontsize=9, color=style.INK)


def _draw_rates(axes: mpl_axes.Axes, course: observation.Course) -> None:
    edges_s = _edges_s(course)
    local = course.local_bytes_per_s / 1e9
    both = local + course.remote_bytes_per_s / 1e9
    axes.stairs(local, edges_s, fill=True, color=overview.LOCAL_COLOUR)
    axes.stairs(
        both,
        edges_s,
        baseline=local,
        fill=True,
        color=overview.REMOTE_COLOUR,
    )
    axes.set_ylabel("input, GB/s", fontsize=9, color=style.INK)


def _set_limits(
    panels: np.ndarray[typing.Any, typing.Any],
    courses: Mapping[str, observation.Course],
    slot_count: int,
) -> None:
    end_s = max(each.busy_slots.size * each.bin_s for each in courses.values())
    most = max(
        float((each.local_bytes_per_s + each.remote_bytes_per_s).max())
        for each in courses.values()
    )
    panels[0, 0].set_xlim(0, end_s)
    panels[0, 0].set_ylim(0, slot_count * 1.08)
    panels[0, 1].set_ylim(0, most / 1e9 * 1.08)


def _draw_legend(figure: mpl_figure.Figure) -> None:
    from matplotlib import lines
    from matplotlib import patches

    handles: list[typing.Any] = [
        patches.Patch(facecolor=style.LIGHT, label="slots with a job"),
        lines.Line2D(
            [], [], color=style.INK, linestyle=":", label="all slots"
        ),
        patches.Patch(
            facecolor=overview.LOCAL_COLOUR, label="input of local jobs"
        ),
        patches.Patch(
            facecolor=overview.REMOTE_COLOUR,
            label="input of remote jobs, on top",
        ),
    ]
    style.add_legend(figure, handles, 9)
