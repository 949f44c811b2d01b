# SPDX-License-Identifier: Apache-2.0

"""Use of a cluster over time, a row of two panels per strategy."""

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
_GAP_IN = 0.42
_TOP_IN = 1.35
_BOTTOM_IN = 0.55


def draw_utilisation(
    courses: Mapping[str, observation.Course],
    path: pathlib.Path,
    *,
    slot_count: int,
    subtitle: str = "",
) -> None:
    """Draw busy slots and bytes/s of each strategy as a PNG file.

    :param courses: by strategy.
    :param path: of the file.
    :param slot_count: number of slots.
    :param subtitle: a line below the title.
    :raises ValueError: if there are no strategies.
    :raises OSError: if the file cannot be written.
    """
    if not courses:
        raise ValueError("there is nothing to draw")
    count = len(courses)
    height_in = _TOP_IN + count * (_PANEL_IN + _GAP_IN) - _GAP_IN + _BOTTOM_IN
    figure, panels = style.make_panels(
        height_in,
        (count, 2),
        left=0.065,
        bottom=_BOTTOM_IN / height_in,
        top=1 - _TOP_IN / height_in,
        gaps=(_GAP_IN / _PANEL_IN, 0.13),
        sharex=True,
        sharey="col",
    )
    for row, (name, course) in enumerate(courses.items()):
        _draw_slots(panels[row, 0], course, slot_count)
        _draw_rates(panels[row, 1], course)
        for axes in panels[row]:
            style.prepare_axes(axes, "both")
            style.name_panel(axes, name, pad=4)
    for axes in panels[-1]:
        axes.set_xlabel("seconds since the start", fontsize=9, color=style.INK)
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
        patches.Patch(facecolor=style.LIGHT, label="slots that a job has"),
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
