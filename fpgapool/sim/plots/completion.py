# SPDX-License-Identifier: Apache-2.0

"""Distributions of completion times under several strategies."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np

from fpgapool.sim.outcomes import metrics
from fpgapool.sim.plots import style

_HEIGHT_IN = 6.0
_LEFT = 0.065
_BOTTOM_IN = 0.6
_TOP_IN = 0.95
_TAIL = 0.95


def draw_completions(
    completions_s: Mapping[str, metrics.Floats],
    path: pathlib.Path,
    *,
    subtitle: str = "",
) -> None:
    """Draw the distribution of completion times as a PNG file.

    :raises ValueError: if there are no strategies, or one has no jobs.
    :raises OSError: if the file cannot be written.
    """
    if not completions_s or not all(
        each.size for each in completions_s.values()
    ):
        raise ValueError("there are no jobs to draw")
    figure = style.make_figure(_HEIGHT_IN)
    axes = figure.add_axes(
        (
            _LEFT,
            _BOTTOM_IN / _HEIGHT_IN,
            0.985 - _LEFT,
            1 - (_BOTTOM_IN + _TOP_IN) / _HEIGHT_IN,
        )
    )
    style.prepare_axes(axes, "both")
    colours = style.lines_of(completions_s)
    for at, (name, values) in enumerate(completions_s.items()):
        axes.plot(
            np.sort(values),
            np.arange(1, values.size + 1) / values.size,
            color=colours[name],
            linestyle=style.PATTERNS[at % len(style.PATTERNS)],
            linewidth=1.8,
            drawstyle="steps-post",
            label=name,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axhline(_TAIL, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.annotate(
        "95 %: TCT(95)",
        (0, _TAIL),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=8.5,
        color=style.MUTED,
    )
    axes.set_ylim(0, 1.005)
    axes.set_xlabel(
        "completion time (arrival to finish), s, logarithmic",
        fontsize=9,
        color=style.INK,
    )
    axes.set_ylabel("share of jobs", fontsize=9, color=style.INK)
    axes.legend(
        loc="lower right", fontsize=10, frameon=False, handlelength=3.2
    )
    style.write_texts(figure, "Completion times", subtitle)
    style.save(figure, path)
