# SPDX-License-Identifier: Apache-2.0

"""Files that programs read from and write to."""

from __future__ import annotations

import collections.abc
import contextlib
import io
import os
import secrets
import select
import shutil
import stat
import typing

from fpgapool.client import errors
from fpgapool.vocabulary import codes

Path: typing.TypeAlias = str | os.PathLike[str]

# Those that decompress would do it twice.
_QUICK_TO_SEEK = (
    io.FileIO,
    io.BufferedReader,
    io.BufferedRandom,
    io.BytesIO,
)
# How often it looks around while a pipe has no data.
_LOOK_S = 0.5


def write_all(stream: typing.BinaryIO, data: memoryview) -> None:
    """Write to a stream that may take less than it is given."""
    while data:
        data = data[stream.write(data) :]


def size_of(stream: typing.BinaryIO) -> int:
    """Return how much a stream has from its position on.

    :raises errors.InvalidRequest: code ``INVALID_SIZE``, if it cannot say.
    """
    cause = None
    try:
        position = stream.tell()
        end = stream.seek(0, os.SEEK_END)
        # Files of /proc have more there, those of /sys less.
        known = not (_is_character_device(stream) or stream.read(1))
        if known and end and isinstance(stream, io.FileIO):
            known = bool(os.pread(stream.fileno(), 1, end - 1))
        stream.seek(position)
    except (AttributeError, OSError) as exc:
        known, cause = False, exc
    if not known:
        raise errors.InvalidRequest(
            codes.INVALID_SIZE,
            "the size of the input is unknown; give size_bytes",
        ) from cause
    return end - position


def check_size(stream: typing.BinaryIO, size_bytes: int) -> None:
    """Refuse another size than the announced one before anything is read.

    :param stream: counts from its position on. Of a stream that cannot say
        how much it has, and of one that would have to read everything for
        that, only :func:`check_end` tells.
    :param size_bytes: the announced size.
    :raises errors.InvalidRequest: code ``SIZE_MISMATCH``.
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
            f"the input has {has_bytes} bytes; {size_bytes} were announced",
        )


def check_end(
    stream: typing.BinaryIO, check: collections.abc.Callable[[], object]
) -> None:
    """Refuse a stream that goes on after the announced size.

    A device without an end may go on, and so may a pipe or a socket that the
    caller has opened: the rest is the caller's.

    :param stream: read up to the announced size.
    :param check: called while a pipe neither ends nor goes on; what it raises
        ends the wait.
    :raises errors.InvalidRequest: code ``SIZE_MISMATCH``.
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
            "the input goes on after the announced size, or grew meanwhile",
        )


def _is_character_device(stream: typing.BinaryIO) -> bool:
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError):
        return False


def await_data(
    stream: typing.BinaryIO, check: collections.abc.Callable[[], object]
) -> None:
    """Wait for data of a pipe, as nothing interrupts reading from it.

    :param stream: not awaited unless it is an :class:`io.FileIO`: data of
        others may be in a buffer.
    :param check: called in between; what it raises ends the wait.
    """
    if isinstance(stream, io.FileIO):
        _await_event(stream, select.POLLIN, check)


def _await_event(
    stream: io.FileIO,
    event: int,
    check: collections.abc.Callable[[], object] = lambda: None,
) -> None:
    poller = select.poll()
    poller.register(stream.fileno(), event)
    while not poller.poll(_LOOK_S * 1000):
        check()


class Input(io.FileIO):
    """A file to read from; its errors name it.

    Unbuffered: data goes directly into the worker's buffers.

    :param file: path or descriptor.
    :param told: name for errors; None: the path.
    :param closefd: whether closing it closes a descriptor.
    :raises OSError: if it cannot be opened.
    """

    def __init__(
        self, file: Path | int, told: str | None = None, closefd: bool = True
    ) -> None:
        self._told = _name_of(file, told)
        with _naming(self._told):
            super().__init__(file, "r", closefd)

    def readinto(self, buffer: typing.Any) -> int | None:
        """See :meth:`io.RawIOBase.readinto`; waits also if others do not."""
        with _naming(self._told):
            while (read_bytes := super().readinto(buffer)) is None:
                _await_event(self, select.POLLIN)
            return read_bytes

    def read(self, size: int | None = -1) -> typing.Any:
        """See :meth:`io.RawIOBase.read`; waits also if others do not."""
        with _naming(self._told):
            while (data := super().read(size)) is None:
                _await_event(self, select.POLLIN)
            return data


class Output(io.FileIO):
    """A file to write to; its errors name it. Parameters as for the input.

    :param mode: see :class:`io.FileIO`.
    """

    def __init__(
        self,
        file: Path | int,
        told: str | None = None,
        closefd: bool = True,
        mode: str = "w",
    ) -> None:
        self._told = _name_of(file, told)
        with _naming(self._told):
            super().__init__(file, mode, closefd)

    def write(self, data: typing.Any) -> int | None:
        """See :meth:`io.RawIOBase.write`; waits also if others do not."""
        with _naming(self._told):
            while (written_bytes := super().write(data)) is None:
                _await_event(self, select.POLLOUT)
            return written_bytes


def _name_of(file: Path | int, told: str | None) -> str:
    return str(file) if told is None else told


@contextlib.contextmanager
def _naming(told: str) -> collections.abc.Iterator[None]:
    """Name a file in errors as the caller named it."""
    try:
        yield
    except OSError as exc:
        if exc.errno is None:
            raise
        raise OSError(exc.errno, exc.strerror, told) from None


def opened_output(
    destination: Path | typing.BinaryIO,
) -> contextlib.AbstractContextManager[typing.BinaryIO]:
    """Return :func:`replacing` of a path; of a stream the stream itself."""
    if isinstance(destination, str | os.PathLike):
        return replacing(destination)
    return contextlib.nullcontext(destination)


@contextlib.contextmanager
def replacing(path: Path) -> collections.abc.Iterator[typing.BinaryIO]:
    """Open a temporary file that replaces ``path`` at the end.

    :param path: of the file; a pipe or device is written to directly.
    :raises OSError: if it cannot be written; it names the path.
    """
    told = str(path)
    if _is_special(path):
        with Output(path) as stream:
            yield stream
        return
    with _naming(told):
        # Replaces the target of a symbolic link, not the link.
        target = os.path.realpath(path)
    directory, name = os.path.split(target)
    # File systems limit names to 255 bytes.
    start = os.fsdecode(os.fsencode(name)[:200])
    partial = os.path.join(directory, f".{start}.{secrets.token_hex(6)}.part")
    try:
        with Output(partial, told, mode="x") as stream:
            yield stream
        with _naming(told):
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(target, partial)
            os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _is_special(path: Path) -> bool:
    """Whether it is a pipe, a device or a directory, which is not replaced."""
    if not os.path.basename(path):
        # It ends with a slash, or is empty: there is no name for a file.
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
