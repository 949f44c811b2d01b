# SPDX-License-Identifier: Apache-2.0

"""Files of job sizes: one in bytes per line, or a CSV column of them."""

from __future__ import annotations

import csv
import io
import math
import pathlib
from collections.abc import Iterator

from fpgapool.sim import errors
from fpgapool.sim import files

_COLUMN = "size_bytes"


def read(path: pathlib.Path) -> list[float]:
    """Read sizes.

    Without a column of the name ``size_bytes`` each line is a size; ``#``
    begins a comment there.

    :param path: of the file.
    :returns: in bytes, in the order of the file, at least one.
    :raises errors.InputError: if it cannot be read or says something that
        is no size; names file and line.
    """
    source = str(path)
    text = files.read_text(path)
    first = text.split("\n", 1)[0]
    is_table = _COLUMN in [name.strip() for name in first.split(",")]
    values = _of_table(text, source) if is_table else _of_lines(text)
    sizes = [_size(value, f"line {line}", source) for line, value in values]
    if not sizes:
        raise errors.InputError(source, "", "there are no sizes")
    return sizes


def _of_lines(text: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(text.splitlines(), 1):
        value = content.partition("#")[0].strip()
        if value:
            yield line, value


def _of_table(text: str, source: str) -> Iterator[tuple[int, str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        place = [name.strip() for name in next(reader)].index(_COLUMN)
        for values in reader:
            if any(map(str.strip, values)):
                value = values[place] if place < len(values) else ""
                yield reader.line_num, value.strip()
    except csv.Error as error:
        raise errors.InputError(
            source, f"line {reader.line_num}", str(error)
        ) from error


def _size(text: str, place: str, source: str) -> float:
    try:
        size_bytes = float(text)
    except ValueError:
        raise errors.InputError(
            source, place, f"{text!r} is not a number"
        ) from None
    if not (math.isfinite(size_bytes) and size_bytes > 0):
        raise errors.InputError(
            source, place, f"{text} is not a finite number above 0"
        )
    return size_bytes
