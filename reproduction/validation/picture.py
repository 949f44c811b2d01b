# SPDX-License-Identifier: Apache-2.0

"""Figure 6: completion times by size, simulated and real."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence

from reproduction.figures import charts
from reproduction.validation import differences

_COLOURS = {"real system": "#222222", "fluid": "#0072B2", "chunk": "#E69F00"}


def class_name(row: differences.Difference) -> str:
    """Return the sizes of a class, in MB."""
    if row.high_bytes == math.inf:
        return f"≥ {row.low_bytes / 1e6:.0f} MB"
    return f"{row.low_bytes / 1e6:.0f}–{row.high_bytes / 1e6:.0f} MB"


def draw(
    found: Sequence[differences.Comparison],
    subtitle: str,
    path: pathlib.Path,
) -> None:
    """Draw a panel for each mode.

    :raises OSError: if it cannot be written.
    """
    charts.draw(
        charts.Picture(
            title="Figure 6: the simulator and the real system",
            subtitle=subtitle,
            panels=[[_panel(each) for each in found]],
            gap_in=0.4,
            sharey="row",
            colours=_COLOURS,
        ),
        path,
    )


def _panel(comparison: differences.Comparison) -> charts.Panel:
    rows = comparison.classes
    return charts.Panel(
        title=f"{comparison.mode}: {comparison.worst:.1%} over all jobs ≥ "
        f"{differences.GOAL_MIN_BYTES / 1e6:.0f} MB",
        xlabel="size, MB",
        ylabel="mean completion time, s",
        categories=[
            f"{class_name(row).removesuffix(' MB')}\n{row.jobs} jobs"
            for row in rows
        ],
        series=[
            charts.Series(label="real system", y=[row.real_s for row in rows]),
            *(
                charts.Series(
                    label=engine,
                    y=[row.simulated_s[engine] for row in rows],
                    texts=[f"{100 * row.of(engine):+.0f} %" for row in rows],
                )
                for engine in comparison.total.simulated_s
            ),
        ],
    )
