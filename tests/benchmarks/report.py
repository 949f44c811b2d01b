# SPDX-License-Identifier: Apache-2.0

"""What becomes of rows: a table, JSON and a picture."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import rich.table

from tests.benchmarks import measure

FORMAT = "fpgapool-benchmarks/1"


def table(
    title: str,
    rows: Sequence[measure.Row],
    before: Mapping[str, float] | None = None,
) -> rich.table.Table:
    """Make a table.

    :param before: medians of an earlier run by the names of their rows.
    """
    made = rich.table.Table(title=title, title_justify="left")
    made.add_column("what")
    for name in ("median", "least", "most"):
        made.add_column(name, justify="right")
    made.add_column("unit")
    made.add_column("floor")
    made.add_column("times the floor", justify="right")
    made.add_column("CPU", justify="right")
    if before is not None:
        made.add_column("was", justify="right")
    for row in rows:
        cells = [
            row.name,
            number(row.median),
            number(min(row.values)),
            number(max(row.values)),
            row.unit,
            _floor(row),
            _ratio(row),
            f"{100 * row.cpu_share:.0f} %",
        ]
        if before is not None:
            was = before.get(row.name)
            cells.append("" if was is None else number(was))
        made.add_row(*cells)
    return made


def number(value: float) -> str:
    """Write a number with three digits, or as a whole one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _floor(row: measure.Row) -> str:
    if row.floor is None:
        return ""
    median = statistics.median(sample.value for sample in row.floor_samples)
    return f"{number(median)} ({row.floor})"


def _ratio(row: measure.Row) -> str:
    if row.floor is None:
        return ""
    least, most = min(row.ratios), max(row.ratios)
    median = statistics.median(row.ratios)
    return f"{number(median)} ({number(least)} to {number(most)})"


def save(rows: Sequence[measure.Row], path: pathlib.Path) -> None:
    """Write rows as JSON.

    :raises ValueError: if two of them have the same name, by which runs are
        compared.
    """
    names = [row.name for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"rows with the same name: {sorted(names)}")
    document = {
        "format": FORMAT,
        "at": datetime.datetime.now(datetime.UTC).isoformat("T", "seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "rows": [
            dataclasses.asdict(row) | {"median": row.median} for row in rows
        ],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def load_medians(path: pathlib.Path) -> dict[str, float]:
    """Read the medians that :func:`save` wrote, by the names of the rows.

    :raises ValueError: if it did not write the file.
    """
    document: dict[str, Any] = json.loads(path.read_text())
    if document.get("format") != FORMAT:
        raise ValueError(f"{path} is no file of these benchmarks")
    return {row["name"]: row["median"] for row in document["rows"]}


def draw(title: str, rows: Sequence[measure.Row], path: pathlib.Path) -> None:
    """Draw rows as a PNG file: as curves if all are points, else as bars."""
    from matplotlib import figure as mpl_figure
    from matplotlib.backends import backend_agg

    figure = mpl_figure.Figure(layout="constrained")
    backend_agg.FigureCanvasAgg(figure)
    if all(row.point for row in rows):
        _draw_curves(figure, rows)
    else:
        _draw_bars(figure, rows)
    figure.suptitle(title)
    figure.savefig(path, format="png", dpi=110)


def _draw_curves(figure: Any, rows: Sequence[measure.Row]) -> None:
    points = [(row.point, row) for row in rows if row.point is not None]
    axes_names = list(dict.fromkeys(point.axis for point, _ in points))
    figure.set_size_inches(6 * len(axes_names), 4.5)
    all_axes = figure.subplots(1, len(axes_names), squeeze=False)[0]
    for axes, name in zip(all_axes, axes_names, strict=True):
        curves: dict[str, list[tuple[float, measure.Row]]] = {}
        for point, row in points:
            if point.axis == name:
                curves.setdefault(point.curve, []).append((point.x, row))
        for curve, members in curves.items():
            _draw_curve(axes, curve, members)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(name)
        axes.set_ylabel(
            next(row.unit for point, row in points if point.axis == name)
        )
        axes.grid(alpha=0.3)
        axes.legend()


def _draw_curve(
    axes: Any, name: str, members: Sequence[tuple[float, measure.Row]]
) -> None:
    medians = [row.median for _, row in members]
    axes.errorbar(
        [x for x, _ in members],
        medians,
        yerr=(
            [row.median - min(row.values) for _, row in members],
            [max(row.values) - row.median for _, row in members],
        ),
        marker="o",
        capsize=3,
        label=name,
    )


def _draw_bars(figure: Any, rows: Sequence[measure.Row]) -> None:
    units = list(dict.fromkeys(row.unit for row in rows))
    figure.set_size_inches(10, 1.5 + 0.4 * len(rows) + 0.5 * len(units))
    heights = [sum(row.unit == unit for row in rows) for unit in units]
    all_axes = figure.subplots(
        len(units), 1, squeeze=False, height_ratios=heights
    )[:, 0]
    for axes, unit in zip(all_axes, units, strict=True):
        shown = [row for row in rows if row.unit == unit]
        names = [row.name for row in shown]
        axes.barh(
            names,
            [row.median for row in shown],
            xerr=(
                [row.median - min(row.values) for row in shown],
                [max(row.values) - row.median for row in shown],
            ),
            color="#56B4E9",
            capsize=3,
        )
        for row in shown:
            if row.floor is not None:
                floors = [sample.value for sample in row.floor_samples]
                axes.plot(statistics.median(floors), row.name, "k|", ms=14)
        axes.invert_yaxis()
        axes.set_xlabel(f"{unit} (a stroke: the floor)")
