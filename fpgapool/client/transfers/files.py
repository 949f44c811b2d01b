# SPDX-License-Identifier: Apache-2.0

"""Open, check and replace the files of a transfer."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import select
import stat
import typing
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import BinaryIO

from fpgapool.client import errors
from fpgapool.vocabulary import codes

Path: typing.TypeAlias = str | os.PathLike[str]

# Excludes decompressing streams: seeking would decompress the data twice.
_QUICK_TO_SEEK = (io.FileIO, io.BufferedReader, io.BufferedRandom, io.BytesIO)
# How often to call the check while waiting for a pipe.
_LOOK_S = 0.5


def write_all(stream: BinaryIO, data: memoryview) -> None:
    """Write all data to a stream that may accept only part of it at once."""
    while data:
        data = data[stream.write(data) :]


def size_of(stream: BinaryIO) -> int:
    """Return the size of a stream, from its current position.

    :raises errors.InvalidRequest: with code ``INVALID_SIZE``, if the size is
        unknown.
    """
    cause = None
    try:
        position = stream.tell()
        end = stream.seek(0, os.SEEK_END)
        # Files in /proc have more data than their size, files in /sys less.
        known = not (_is_character_device(stream) or stream.read(1))
        if known and end and isinstance(stream, io.FileIO):
            known = bool(os.pread(stream.fileno(), 1, end - 1))
        stream.seek(position)
    except (AttributeError, OSError) as exc:
        known, cause = False, exc
    if not known:
        raise errors.InvalidRequest(
            codes.INVALID_SIZE,
            "the size of the input is unknown; specify size_bytes",
        ) from cause
    return end - position


def check_size(stream: BinaryIO, size_bytes: int) -> None:
    """Reject a stream of the wrong size before reading anything.

    :param stream: measured from its current position. If finding the size is
        impossible or slow, only :func:`check_end` finds a mismatch.
    :raises errors.InvalidRequest: with code ``SIZE_MISMATCH``.
    """
    if not isinstance(stream, _QUICK_TO_SEEK):
        return
    try:
        has_bytes = size_of(stream)
    except errors.InvalidRequest:
        return
    if has_bytes != size_bytes:
        raise errors.InvalidRequest(
            codes.SIZE_MISMATCH,
            f"the input is {has_bytes} bytes, but {size_bytes} were specified",
        )


def check_end(stream: BinaryIO, check: Callable[[], object]) -> None:
    """Reject a stream that continues after the specified size.

    A device without an end may continue, and so may a pipe or a socket that
    the caller opened, because the rest belongs to the caller.

    :param check: called while waiting for a pipe; an exception ends the wait.
    :raises errors.InvalidRequest: with code ``SIZE_MISMATCH``.
    """
    if _is_character_device(stream):
        return
    seekable = getattr(stream, "seekable", lambda: False)()
    if not seekable:
        if not isinstance(stream, Input):
            return
        await_data(stream, check)
    more = stream.read(1)
    if more:
        if seekable:
            stream.seek(-len(more), os.SEEK_CUR)
        raise errors.InvalidRequest(
            codes.SIZE_MISMATCH,
            "the input is longer than the specified size, or has grown",
        )


def _is_character_device(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError):
        return False


def await_data(stream: BinaryIO, check: Callable[[], object]) -> None:
    """Wait for data from a pipe, because reading cannot be interrupted.

    :param stream: if it is not an :class:`io.FileIO`, this does not wait,
        because data may already be in a buffer.
    :param check: called repeatedly while waiting; an exception ends the wait.
    """
    if isinstance(stream, io.FileIO):
        _await_event(stream, select.POLLIN, check)


def _await_event(
    stream: io.FileIO, event: int, check: Callable[[], object] = lambda: None
) -> None:
    poller = select.poll()
    poller.register(stream.fileno(), event)
    while not poller.poll(_LOOK_S * 1000):
        check()


class _Named(io.FileIO):
    """A file that always blocks, and whose errors name it.

    It is unbuffered, so that data goes directly into the worker's buffers.

    :param label: name in errors; None means the path.
    :raises OSError: if it cannot be opened.
    """

    def __init__(
        self, file: Path | int, label: str | None, closefd: bool, mode: str
    ) -> None:
        self._label = str(file) if label is None else label
        with _naming(self._label):
            super().__init__(file, mode, closefd)

    def _blocking(
        self, act: Callable[[Any], Any], argument: Any, event: int
    ) -> Any:
        with _naming(self._label):
            while (done := act(argument)) is None:
                _await_event(self, event)
            return done


class Input(_Named):
    def __init__(
        self, file: Path | int, label: str | None = None, closefd: bool = True
    ) -> None:
        super().__init__(file, label, closefd, "r")

    def readinto(self, buffer: Any) -> int | None:
        found: int = self._blocking(super().readinto, buffer, select.POLLIN)
        return found

    def read(self, size: int | None = -1) -> Any:
        return self._blocking(super().read, size, select.POLLIN)


class Output(_Named):
    def __init__(
        self,
        file: Path | int,
        label: str | None = None,
        closefd: bool = True,
        mode: str = "w",
    ) -> None:
        super().__init__(file, label, closefd, mode)

    def write(self, data: Any) -> int | None:
        found: int = self._blocking(super().write, data, select.POLLOUT)
        return found


@contextlib.contextmanager
def _naming(label: str) -> Iterator[None]:
    """Use the caller's name for a file in errors."""
    try:
        yield
    except OSError as exc:
        if exc.errno is None:
            raise
        raise OSError(exc.errno, exc.strerror, label) from None


def opened_output(
    destination: Path | BinaryIO,
) -> contextlib.AbstractContextManager[BinaryIO]:
    """Open a path with :func:`replacing`; return a stream unchanged."""
    if isinstance(destination, str | os.PathLike):
        return replacing(destination)
    return contextlib.nullcontext(destination)


@contextlib.contextmanager
def replacing(path: Path, like: Path | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` at the end.

    :param path: path of the file; a pipe or device is written to directly.
    :param like: file whose permissions and time of change it gets; None for
        those of the file that it replaces, and the present time.
    :raises OSError: if it cannot be written; the error names the path.
    """
    label = str(path)
    if _is_special(path):
        with Output(path) as stream:
            yield stream
        return
    with _naming(label):
        # Replace the target of a symbolic link, not the link itself.
        target = os.path.realpath(path)
    directory, name = os.path.split(target)
    # File systems limit names to 255 bytes.
    start = os.fsdecode(os.fsencode(name)[:200])
    partial = os.path.join(directory, f".{start}.{secrets.token_hex(6)}.part")
    try:
        found = None if like is None else os.stat(like)
        with Output(partial, label, mode="x") as stream:
            if found is not None:
                # Nobody else may read the output of a private file.
                os.chmod(partial, stat.S_IMODE(found.st_mode) & 0o777)
            yield stream
        with _naming(label):
            if found is not None:
                os.utime(partial, ns=(found.st_atime_ns, found.st_mtime_ns))
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(partial, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _is_special(path: Path) -> bool:
    """Return whether a path names something other than a regular file."""
    if not os.path.basename(path):
        # The path ends with a slash or is empty, so it does not name a file.
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
