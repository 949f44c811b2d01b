# SPDX-License-Identifier: Apache-2.0

"""Sizes and queues of groups over time, with two panels per policy."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim.outcomes import group_results
from fpgapool.sim.plots import style

_PANEL_IN = 1.5


def draw_groups(
    courses: Mapping[str, group_results.Course],
    names: Sequence[str],
    path: pathlib.Path,
    *,
    title: str = "Groups over time",
    subtitle: str = "",
    queue_label: str = "waiting, slot-s",
) -> None:
    """Draw the members and the waiting work of each group as a PNG file.

    :raises OSError: if the file cannot be written.
    """
    from matplotlib import patches

    figure, panels = style.make_rows(list(courses), _PANEL_IN, 0.055)
    colours = style.colours_of(names)
    for course, (sizes, queues) in zip(courses.values(), panels, strict=True):
        sizes.stackplot(
            course.times_s,
            *course.members,
            colors=colours.values(),
            step="post",
            linewidth=0,
        )
        sizes.set_ylabel("members", fontsize=9, color=style.INK)
        for name, waiting_s in zip(names, course.waiting_s, strict=True):
            queues.plot(
                course.times_s, waiting_s, color=colours[name], linewidth=1.4
            )
        queues.set_ylabel(queue_label, fontsize=9, color=style.INK)
    for axes in panels[-1]:
        # All rows share their limits, which are known only after the last row.
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    style.write_texts(figure, title, subtitle)
    style.add_legend(
        figure,
        [
            patches.Patch(facecolor=colour, label=name)
            for name, colour in colours.items()
        ],
        9,
    )
    style.save(figure, path)
