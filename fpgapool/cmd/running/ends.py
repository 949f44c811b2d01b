# SPDX-License-Identifier: Apache-2.0

"""The input and output of ``fpgapool-run``."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from typing import BinaryIO
from typing import TextIO
from typing import cast

from fpgapool import client
from fpgapool.client.transfers import files
from fpgapool.cmd.running import arguments as command_line
from fpgapool.vocabulary import codes

#: Limit for input of unknown size.
MAX_SPOOLED_BYTES = 1 << 30

_PIECE_BYTES = 1 << 20
#: The name of standard output in errors.
_OUTPUT_LABEL = "standard output"
# Names of standard input and output that --in and --out accept.
_STANDARD = {
    "/dev/stdin": command_line.STANDARD,
    "/dev/stdout": command_line.STANDARD,
}


class _StandardOutput(files.Output):
    """Standard output; other programs' output in it must not be truncated."""

    def tell(self) -> int:
        """Fail, which keeps the client from seeking and truncating."""
        raise io.UnsupportedOperation("tell")


def source_of(path: str | None) -> str:
    """Return the input that the user named, or ``-`` for a pipe.

    :raises command_line.UsageError: if there is neither.
    """
    return _named(path, "--in", sys.stdin)


def destination_of(path: str | None) -> str:
    """Return the output that the user named, or ``-`` for a pipe.

    :returns: its path, or ``-`` if the path leads to standard output.
    :raises command_line.UsageError: if there is neither, or it is a directory.
    """
    if path is not None and _is_standard_output(path):
        return command_line.STANDARD
    if path is not None and os.path.isdir(path):
        raise command_line.UsageError(
            f"the output {path} is a directory; --out takes a file"
        )
    return _named(path, "--out", sys.stdout)


def _named(path: str | None, option: str, standard: TextIO | None) -> str:
    if path is not None:
        return _STANDARD.get(path, path)
    descriptor = _descriptor(standard)
    # Reject a terminal, and /dev/null, which daemons have.
    if descriptor is None or stat.S_ISCHR(os.fstat(descriptor).st_mode):
        raise command_line.UsageError(
            f"{option} is required, as there is no pipe; in a chain the file"
            " comes after the last stage"
        )
    return command_line.STANDARD


def _is_standard_output(path: str) -> bool:
    """Return whether a path, such as /dev/fd/1, is standard output."""
    descriptor = _descriptor(sys.stdout)
    if descriptor is None:
        return False
    try:
        found = os.stat(path)
    except OSError:
        return False
    # In /dev/null, messages and output do not mix.
    return os.path.samestat(found, os.fstat(descriptor)) and not (
        os.path.samestat(found, os.stat(os.devnull))
    )


def _descriptor(standard: TextIO | None) -> int | None:
    """Return a stream's descriptor; None if it was closed or replaced."""
    try:
        return None if standard is None else standard.fileno()
    except (OSError, ValueError):
        return None


def open_source(
    name: str, size_bytes: int | None, stack: contextlib.ExitStack
) -> tuple[BinaryIO, int]:
    """Open the input.

    :param size_bytes: ``--size-bytes``; None means all input. Input of
        unknown size is copied to a temporary file.
    :raises client.InvalidRequest: with code ``INVALID_SIZE``, if the input is
        too large to be copied.
    :raises OSError: if it cannot be read or copied.
    """
    if name == command_line.STANDARD:
        name = "standard input"
        descriptor = _descriptor(sys.stdin)
        if descriptor is None:
            raise command_line.UsageError("standard input is closed")
        source = files.Input(descriptor, name, closefd=False)
    else:
        source = files.Input(name)
    stream = cast(BinaryIO, stack.enter_context(source))
    if size_bytes is not None:
        return stream, size_bytes
    try:
        return stream, files.size_of(stream)
    except client.InvalidRequest:
        stream = _spooled(stream, name, stack)
    return stream, files.size_of(stream)


def size_of(name: str) -> int:
    """Return the size of the input without reading it.

    :raises command_line.UsageError: if it is unknown.
    :raises OSError: if there is no such file.
    """
    if name != command_line.STANDARD and stat.S_ISREG(os.stat(name).st_mode):
        with (
            files.Input(name) as source,
            contextlib.suppress(client.InvalidRequest),
        ):
            return files.size_of(cast(BinaryIO, source))
    raise command_line.UsageError(
        "--dry-run does not read the input; specify --size-bytes"
    )


def _spooled(
    stream: BinaryIO, name: str, stack: contextlib.ExitStack
) -> BinaryIO:
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="fpgapool-run-")
    os.unlink(path)
    label = f"{tempfile.gettempdir()} (copy of {name}; see --size-bytes)"
    spool = stack.enter_context(files.Output(descriptor, label, mode="r+"))
    piece = memoryview(bytearray(_PIECE_BYTES))
    left_bytes = MAX_SPOOLED_BYTES
    while read_bytes := stream.readinto(piece):  # type: ignore[attr-defined]
        left_bytes -= read_bytes
        if left_bytes < 0:
            raise client.InvalidRequest(
                codes.INVALID_SIZE,
                f"{name}: input of unknown size is limited to "
                f"{MAX_SPOOLED_BYTES} bytes; specify --size-bytes",
            )
        files.write_all(cast(BinaryIO, spool), piece[:read_bytes])
    spool.seek(0)
    return cast(BinaryIO, spool)


def open_destination(
    name: str, like: str | None, stack: contextlib.ExitStack
) -> str | BinaryIO:
    """Return the output: a path, a new file, or standard output.

    :param like: path of a file whose mode and time the output gets.
    """
    if name != command_line.STANDARD:
        if like is None:
            return name
        return stack.enter_context(files.replacing(name, like))
    descriptor = _descriptor(sys.stdout)
    if descriptor is None:
        raise command_line.UsageError("standard output is closed")
    sys.stdout.flush()
    stream = _StandardOutput(descriptor, _OUTPUT_LABEL, closefd=False)
    return cast(BinaryIO, stack.enter_context(stream))


def failed_at_standard_output(error: OSError) -> bool:
    """Return whether it was standard output that could not be written."""
    return error.filename == _OUTPUT_LABEL
