# SPDX-License-Identifier: Apache-2.0

"""Results of many runs, in a CSV file that grows with each run."""

from __future__ import annotations

import csv
import io
import pathlib
import typing
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim import files

Rows = dict[tuple[str, ...], list[float]]


def read(
    path: pathlib.Path, keys: Sequence[str], values: Sequence[str]
) -> Rows:
    """Read the results so far.

    :param path: if this file does not exist, there are no results.
    :raises errors.InputError: if it cannot be read, or has unexpected columns.
    """
    if not path.exists():
        return {}
    columns = [*keys, *values]
    text = files.read_text(path)
    # If the program was killed while it wrote a line, only the end of that
    # line is missing.
    lines = text[: text.rfind("\n") + 1].splitlines()
    rows: Rows = {}
    for number, row in enumerate(csv.reader(lines), 1):
        try:
            if number == 1:
                if row != columns:
                    raise ValueError("has unexpected columns")
                continue
            if len(row) != len(columns):
                raise ValueError("has the wrong number of columns")
            rows[tuple(row[: len(keys)])] = [
                float(cell) for cell in row[len(keys) :]
            ]
        except ValueError as error:
            raise errors.InputError(
                str(path), f"line {number}", str(error)
            ) from error
    return rows


class Journal:
    """The results so far, in a file that grows with each new result.

    :raises errors.InputError: if the file cannot be used.
    """

    def __init__(
        self, path: pathlib.Path, keys: Sequence[str], values: Sequence[str]
    ) -> None:
        self.path = path
        self.rows = read(path, keys, values)
        lines = [_line([*keys, *values])]
        lines += [_line([*key, *row]) for key, row in self.rows.items()]
        files.write(path, "".join(lines).encode())
        self._file = path.open("a", encoding="utf-8")

    def add(self, key: tuple[str, ...], row: Sequence[float]) -> None:
        """Add the result of a run; it survives an interruption."""
        self.rows[key] = list(row)
        self._file.write(_line([*key, *row]))
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _line(cells: Sequence[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
