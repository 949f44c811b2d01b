# SPDX-License-Identifier: Apache-2.0

"""Tables of a run: for a terminal, and for the documentation."""

from __future__ import annotations

import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Sequence

if typing.TYPE_CHECKING:
    from tests.scale import run as runs

_MIB = 1 << 20


def text(found: runs.Findings) -> str:
    """Return all that was found."""
    lines = [str(found.options), ""]
    phases = list(found.costs)
    lines += _aligned(
        [
            ["process", *(f"{one}, ms/s" for one in phases), "MiB"],
            *_cost_rows(found),
        ]
    )
    lines += ["", *(f"{t}: {s:.2f} s" for t, s in found.times_s.items())]
    lines += [
        f"{one.title}: {one.time_s:.3f} s, {one.cpu_s:.3f} s of processor"
        f" time, {one.size_bytes} bytes"
        for one in found.readings
    ]
    lines += ["", f"clients: {dict(found.counts)}"]
    lines += [f"problems: {len(found.problems)}", *found.problems]
    return "\n".join(lines)


def _cost_rows(found: runs.Findings) -> list[list[str]]:
    names = list(dict.fromkeys(n for c in found.costs.values() for n in c))
    rows = []
    for name in names:
        costs = [one.get(name) for one in found.costs.values()]
        most = max(one.memory_bytes for one in costs if one)
        cells = [f"{1000 * one.cpu:.0f}" if one else "" for one in costs]
        rows.append([name, *cells, f"{most / _MIB:.0f}"])
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        for row in rows
    ]


def documentation(found: runs.Findings) -> str:
    """Return the sizing table of the documentation, in RST."""
    phases = list(found.costs)
    options = found.options
    title = (
        f"{options.agents:,} agents with {options.slots} slots,"
        f" {options.waiting:,} waiting sessions"
    )
    lines = [
        f".. csv-table:: {title}",
        "   :header: Process, "
        + ", ".join(f'"{one}, ms/s"' for one in phases)
        + ", MiB",
        "",
    ]
    lines += [_csv(row) for row in _cost_rows(found)]
    lines += ["", ".. csv-table:: Times", "   :header: What, Seconds", ""]
    lines += [_csv([t, f"{s:.2f}"]) for t, s in found.times_s.items()]
    return "\n".join(lines) + "\n"


def _csv(cells: Iterable[str]) -> str:
    return "   " + ", ".join(f'"{one}"' for one in cells)


def save(run: runs.Run, out: pathlib.Path) -> None:
    """Write the tables and all logs."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.txt").write_text(text(run.findings) + "\n")
    (out / "sizing.rst").write_text(documentation(run.findings))
    for daemon in (*run.cloud.daemons(), run.api):
        (out / f"{daemon.name}.log").write_text(daemon.log())
