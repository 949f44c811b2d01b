# SPDX-License-Identifier: Apache-2.0

"""Files that programs read from and write to."""

from __future__ import annotations

import collections.abc
import contextlib
import os
import secrets
import shutil
import stat
import typing

from fpgapool.client import errors
from fpgapool.vocabulary import codes

Path: typing.TypeAlias = str | os.PathLike[str]


def write_all(stream: typing.BinaryIO, data: memoryview) -> None:
    """Write to a stream that may take less than it is given."""
    while data:
        data = data[stream.write(data) :]


def size_of(stream: typing.BinaryIO) -> int:
    """Return how much a stream has from its position on.

    :raises errors.InvalidRequest: code ``INVALID_SIZE``, if it cannot say.
    """
    try:
        position = stream.tell()
        end = stream.seek(0, os.SEEK_END)
        stream.seek(position)
    except (AttributeError, OSError) as exc:
        raise errors.InvalidRequest(
            codes.INVALID_SIZE,
            "the size of the input is unknown; give size_bytes",
        ) from exc
    return end - position


@contextlib.contextmanager
def replacing(path: Path) -> collections.abc.Iterator[typing.BinaryIO]:
    """Open a temporary file that replaces ``path`` at the end.

    :raises OSError: if it cannot be written.
    """
    # Replaces the target of a symbolic link, not the link.
    target = os.path.realpath(path)
    if _is_special(target):
        with open(target, "wb", buffering=0) as stream:
            yield stream
        return
    directory, name = os.path.split(target)
    partial = os.path.join(
        directory, f".{name[:200]}.{secrets.token_hex(6)}.part"
    )
    try:
        with open(partial, "xb", buffering=0) as stream:
            yield stream
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, partial)
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _is_special(path: str) -> bool:
    """Whether it is a pipe, a device or a directory, which is not replaced."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
