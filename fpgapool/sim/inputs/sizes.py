# SPDX-License-Identifier: Apache-2.0

"""Files of job sizes: one size in bytes per line, or a CSV column."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator

from fpgapool.sim import errors
from fpgapool.sim import files

_COLUMN = "size_bytes"


def read(path: pathlib.Path) -> list[float]:
    """Read sizes.

    Without a column named ``size_bytes``, each line is a size, and ``#``
    starts a comment.

    :returns: at least one size in bytes, in the order of the file.
    :raises errors.InputError: if it cannot be read, or a value is not a size;
        the error names file and line.
    """
    source = str(path)
    text = files.read_text(path)
    first = text.split("\n", 1)[0]
    is_table = _COLUMN in [name.strip() for name in first.split(",")]
    values = _of_table(text, source) if is_table else _of_lines(text)
    sizes = [_size(value, f"line {line}", source) for line, value in values]
    if not sizes:
        raise errors.InputError(source, "", "contains no sizes")
    return sizes


def _of_lines(text: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(text.splitlines(), 1):
        value = content.partition("#")[0].strip()
        if value:
            yield line, value


def _of_table(text: str, source: str) -> Iterator[tuple[int, str]]:
    rows = files.read_table(text, source)
    _, names = next(rows)
    place = names.index(_COLUMN)
    for line, values in rows:
        yield line, values[place] if place < len(values) else ""


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
