# SPDX-License-Identifier: Apache-2.0

"""Numbers of a figure, as a CSV file."""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim import files


def write(
    path: pathlib.Path,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    """Write a table.

    :param path: of the file.
    :param header: names of the columns, with units.
    :param rows: a value for each column.
    :raises fpgapool.sim.errors.InputError: if it cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    files.write(path, text.getvalue().encode())
