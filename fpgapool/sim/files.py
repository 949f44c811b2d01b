# SPDX-License-Identifier: Apache-2.0

"""Reads and writes files; a file is written completely or not at all."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import pathlib
import typing
import zlib
from collections.abc import Iterator

from fpgapool.client.transfers import files as client_files
from fpgapool.sim import errors

#: The largest file that is read; enough for a scenario of 2 million jobs.
MAX_BYTES = 256 * 2**20
#: How files begin that are compressed with gzip.
_GZIP = b"\x1f\x8b"


def write(path: pathlib.Path, content: bytes) -> None:
    """Write a file; readers see the old content or all of the new.

    :param path: a pipe or device is written to directly.
    :raises errors.InputError: if it cannot be written; the old content stays.
    """
    with replacing(path) as stream:
        client_files.write_all(stream, memoryview(content))


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[typing.BinaryIO]:
    """Open a file whose content is replaced at the end, as by :func:`write`.

    :raises errors.InputError: if it cannot be written; the old content stays.
    """
    try:
        with client_files.replacing(path) as stream:
            yield stream
    except OSError as error:
        raise unusable(path, error) from error


def read(path: pathlib.Path) -> bytes:
    """Read a file of up to :data:`MAX_BYTES`.

    :raises errors.InputError: if it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise unusable(path, error) from error
    check_size(path, len(content))
    return content


def check_size(path: pathlib.Path, size_bytes: int) -> None:
    """Check that a file is not too large to be read.

    :raises errors.InputError: if it is.
    """
    if size_bytes > MAX_BYTES:
        raise errors.InputError(
            str(path), "", f"is larger than {MAX_BYTES / 2**20:.0f} MiB"
        )


def read_text(path: pathlib.Path) -> str:
    """Read a file of UTF-8 text, which may be compressed with gzip.

    A byte order mark is ignored.

    :raises errors.InputError: if it cannot be read, or is too large.
    """
    content = read(path)
    if content.startswith(_GZIP):
        content = _unpack(path, content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.InputError(
            str(path),
            f"byte {error.start}",
            f"{error.reason}; the file must be UTF-8, and iconv converts it",
        ) from error


def _unpack(path: pathlib.Path, content: bytes) -> bytes:
    try:
        with gzip.open(io.BytesIO(content)) as file:
            # A small file may hold more than fits into memory.
            unpacked = file.read(MAX_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise errors.InputError(
            str(path), "", f"is not a complete gzip file: {error}"
        ) from error
    check_size(path, len(unpacked))
    return unpacked


def read_table(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty lines of a CSV file, with values stripped.

    :returns: line numbers, from 1, and their values.
    :raises errors.InputError: if it is not CSV.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for values in reader:
            stripped = [value.strip() for value in values]
            if any(stripped):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise errors.InputError(
            source, f"line {reader.line_num}", str(error)
        ) from error


def make_directory(path: pathlib.Path) -> None:
    """Create a directory and its parents, unless it exists.

    :raises errors.InputError: if it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(path, error) from error


def check_writable(path: pathlib.Path) -> None:
    """Check, before a long run, that a file can be written.

    :raises errors.InputError: if it cannot.
    """
    if path.is_dir():
        raise errors.InputError(str(path), "", "is a directory")
    if path.exists() and not path.is_file():
        # A pipe or device: no temporary file is needed next to it.
        return
    if not path.parent.is_dir():
        raise errors.InputError(
            str(path), "", f"there is no directory {path.parent}"
        )
    if not os.access(path.parent, os.W_OK):
        raise errors.InputError(
            str(path), "", f"the directory {path.parent} is not writable"
        )


def unusable(path: pathlib.Path, error: OSError) -> errors.InputError:
    """Convert a system error about a file to an input error."""
    return errors.InputError(str(path), "", error.strerror or str(error))
