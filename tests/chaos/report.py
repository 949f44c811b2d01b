# SPDX-License-Identifier: Apache-2.0

"""Tables of runs: for people, for programs and for the documentation.

``python -m tests.chaos.report DIRECTORY...`` prints one table of several runs,
in the form of the documentation.
"""

from __future__ import annotations

import collections
import dataclasses
import io
import json
import pathlib
import sys
import typing
from collections.abc import Iterable
from collections.abc import Sequence

import rich.console
import rich.table

from tests.chaos import budgets
from tests.chaos import faults
from tests.chaos import measure

_WIDTH = 160
_DOCUMENT = "faults.rst"
_RESULTS = "results.json"

COLUMNS = (
    "Fault",
    "Times",
    "Lasted s",
    "Down s (max)",
    "Recovery s (max)",
    "Jobs",
    "Went on",
    "Refused",
    "Lost queued",
    "Lost stateless",
    "Lost stateful",
)
BUDGET_COLUMNS = (
    "Project",
    "Unit",
    "Period",
    "Action",
    "State",
    "Looks",
    "Charged",
    "Charged ÷ used (min)",
    "(max)",
)


def _mean_and_max(values_s: Sequence[float]) -> str:
    if not values_s:
        return "–"
    return f"{measure.mean(values_s):.1f} ({max(values_s):.1f})"


def cells(row: measure.Row) -> list[str]:
    """Return a line of the table."""
    recovery = _mean_and_max(row.recovery_s)
    if row.unrecovered:
        recovery += f", {row.unrecovered} not seen"
    return [
        row.title,
        str(row.times),
        f"{measure.mean(row.lasted_s) or 0.0:.1f}",
        _mean_and_max(row.down_s),
        recovery,
        str(row.jobs),
        str(row.moved),
        str(row.refused),
        str(row.lost_queued),
        str(row.lost_stateless),
        str(row.lost_stateful),
    ]


def together(
    runs: Iterable[Iterable[dict[str, typing.Any]]],
) -> list[measure.Row]:
    """Add up the rows of several runs.

    :param runs: the rows of each, as in their ``results.json``.
    :returns: a row for each kind of fault, in the order of their names.
    """
    found: dict[str, measure.Row] = {}
    for rows in runs:
        for row in rows:
            total = found.setdefault(row["title"], measure.Row(row["title"]))
            for name, value in row.items():
                before = getattr(total, name)
                if isinstance(value, dict):
                    total.codes = dict(
                        collections.Counter(before)
                        + collections.Counter(value)
                    )
                elif name != "title":
                    setattr(total, name, before + value)
    return [found[title] for title in sorted(found)]


def text(rows: Iterable[measure.Row], title: str) -> str:
    """Return the table for people."""
    return _drawn(title, COLUMNS, map(cells, rows))


def of_budgets(rows: Iterable[budgets.Row]) -> str:
    """Return the table of budgets for people."""
    return _drawn(
        "Budgets",
        BUDGET_COLUMNS,
        (
            [
                *(row.project_id, row.unit, row.period, row.action),
                *(row.state, str(row.looks), f"{row.charged:.1f}"),
                *(f"{row.least:.6f}", f"{row.most:.6f}"),
            ]
            for row in rows
        ),
    )


def _drawn(
    title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]
) -> str:
    table = rich.table.Table(title=title)
    for number, name in enumerate(columns):
        table.add_column(
            name, justify="right" if number else "left", no_wrap=not number
        )
    for line in lines:
        table.add_row(*line)
    console = rich.console.Console(width=_WIDTH, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rst(rows: Iterable[measure.Row]) -> str:
    """Return the table for the documentation."""
    tests = {kind.title: kind.test for kind in faults.KINDS}
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for line in (
        [*COLUMNS, "Alone in"],
        *([*cells(row), _literal(tests.get(row.title, ""))] for row in rows),
    ):
        for number, cell in enumerate(line):
            mark = "-" if number else "* -"
            lines.append(f"   {mark:>3} {cell}".rstrip())
    return "\n".join(lines) + "\n"


def _literal(name: str) -> str:
    return f"``{name}``" if name else ""


def write(
    directory: pathlib.Path,
    rows: Sequence[measure.Row],
    of_projects: Sequence[budgets.Row],
    about: dict[str, typing.Any],
) -> None:
    """Write all tables.

    :param about: what else is to be known of the run.
    """
    document = {
        **about,
        "faults": [dataclasses.asdict(row) for row in rows],
        "budgets": [dataclasses.asdict(row) for row in of_projects],
    }
    (directory / _RESULTS).write_text(json.dumps(document, indent=2))
    of_faults = text(rows, f"seed {about['seed']}")
    (directory / "table.txt").write_text(of_faults + of_budgets(of_projects))
    (directory / _DOCUMENT).write_text(rst(rows))


def main(directories: Sequence[str]) -> None:
    """Print one table of several runs."""
    documents = [
        json.loads((pathlib.Path(one) / _RESULTS).read_text())
        for one in directories
    ]
    sys.stdout.write(rst(together(one["faults"] for one in documents)))


if __name__ == "__main__":
    main(sys.argv[1:])
