# SPDX-License-Identifier: Apache-2.0

"""Recorded jobs in a CSV file.

The first line names the columns, in any order: ``arrival_s``, ``host``,
``accelerator``, ``size_bytes`` or ``run_s``, and optionally ``id``,
``tenant``, ``priority``, ``deadline_s`` and ``claimed_bytes``. Values of
``host`` and of the last four may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs.traces import rows
from fpgapool.vocabulary import names as vocabulary

_SIZE, _RUN = "size_bytes", "run_s"
_HOST = "host"
_NEEDED = ("arrival_s", _HOST, _SIZE, _RUN, "accelerator")
_MORE = ("priority", "deadline_s", "claimed_bytes")
#: The names of all columns.
COLUMNS = (*_NEEDED, "id", "tenant", *_MORE)


def read(
    text: str, source: str, renamed: Mapping[str, str], skips: bool
) -> Iterator[rows.Row]:
    """Yield the jobs.

    :param renamed: by column, what the file calls it. If any is given, other
        columns of the file are ignored.
    :param skips: whether jobs that lack a value are as if they did not run.
    :raises errors.InputError: if it is not such a table.
    """
    table = files.read_table(text, source)
    _, names = next(table, (1, []))
    if not names:
        raise errors.InputError(source, "", "is empty")
    _check_columns(names, source, renamed)
    found = {
        column: names.index(name)
        for column in COLUMNS
        if (name := renamed.get(column, column)) in names
    }
    needed = [
        column for column in _NEEDED if column in found and column != _HOST
    ]
    seen: dict[str, int] = {}
    for number, values in table:
        if len(values) != len(names):
            raise errors.InputError(
                source,
                f"line {number}",
                f"has {len(values)} values for {len(names)} columns",
            )
        cells = {column: values[at] for column, at in found.items()}
        line = rows.Line(source, number, cells, renamed)
        if skips and not all(cells[column] for column in needed):
            yield rows.Row(line.place, 0.0)
        else:
            yield _job(line, seen)


def _check_columns(
    names: list[str], source: str, renamed: Mapping[str, str]
) -> None:
    def refuse(reason: str) -> None:
        raise errors.InputError(source, "line 1", reason)

    for at, name in enumerate(names):
        if name in names[:at]:
            refuse(f"duplicate column {rows.shown(name)}")
        if name not in COLUMNS and not renamed:
            near = vocabulary.hint(name, COLUMNS) or ";"
            refuse(
                f"unknown column {rows.shown(name)}{near} known columns: "
                f"{', '.join(COLUMNS)}; --column NAME={rows.shown(name)} "
                "gives it one of these names"
            )
    for column, name in renamed.items():
        if name not in names:
            refuse(f"there is no column {rows.shown(name)} for {column}")
    found = {
        column for column in COLUMNS if renamed.get(column, column) in names
    }
    if {_SIZE, _RUN} <= found:
        refuse(f"has {_SIZE} and {_RUN}; only one of them may be given")
    optional = _SIZE if _RUN in found else _RUN
    missing = [
        column if column != _SIZE else f"{_SIZE} (or {_RUN})"
        for column in _NEEDED
        if column not in found and column != optional
    ]
    if missing:
        refuse(
            f"missing columns: {', '.join(missing)}; --column NAME=COLUMN "
            "tells which column of the file is one of them"
        )


def _job(line: rows.Line, seen: dict[str, int]) -> rows.Row:
    """Convert a line.

    :param seen: the ids so far, and their lines.
    """
    cells = line.values
    if "id" in cells:
        name = cells["id"]
        if not name:
            raise line.wrong("id", "is empty")
        if name in seen:
            raise line.wrong(
                "id",
                f"{rows.shown(name)} is used twice, first in line "
                f"{seen[name]}",
            )
        seen[name] = line.number
    if not cells["accelerator"]:
        raise line.wrong(
            "accelerator",
            "is empty; --skip-incomplete leaves such jobs out",
        )
    return rows.Row(
        line.place,
        line.moment_s("arrival_s"),
        run_s=line.number_of(_RUN, 0) if _RUN in cells else None,
        size_bytes=line.number_of(_SIZE) if _SIZE in cells else None,
        accelerator=cells["accelerator"],
        host=cells[_HOST],
        tenant=cells.get("tenant", ""),
        id=cells.get("id", ""),
        more={column: cells[column] for column in _MORE if cells.get(column)},
    )
