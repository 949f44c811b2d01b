# SPDX-License-Identifier: Apache-2.0

"""Start the installed commands, whose libraries and terminal may be missing.

Every command is installed with the client library, but an extra installs the
command's own libraries. If they are missing, the command names the extra
instead of printing a traceback.

Standard output and error may be closed, full, or without a reader. Output that
cannot be written is dropped, and the command continues. If standard output was
affected, the exit code reports a failure. A reader that has left, such as
``head``, has read all that it wants: the command then ends without a message.
"""

from __future__ import annotations

import collections.abc
import contextlib
import errno
import functools
import importlib
import io
import os
import select
import sys
import typing

from fpgapool.vocabulary import codes

FAILURE = 1
#: Exit code that shells report for a process that SIGINT ended.
INTERRUPTED = 130
#: Exit code that shells report for a process that SIGPIPE ended.
UNREAD = 141


class _Stream(io.FileIO):
    """Standard output or error; drops output that cannot be written.

    :ivar failure: why output was dropped, or None.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: typing.Any) -> int | None:
        if self.failure is None:
            try:
                while (written_bytes := super().write(data)) is None:
                    # The descriptor is non-blocking; wait for its reader.
                    select.select([], [self], [])
                return written_bytes
            except OSError as exc:
                self.failure = exc
        return len(data)


def failed(program: str, error: object, status: int) -> int:
    """Print to standard error why a command failed; return its exit code."""
    print(f"{program}: {error}", file=sys.stderr)
    return status


def guarded(program: str, command: collections.abc.Callable[[], int]) -> int:
    """Run a command whose standard streams may be closed, full or broken.

    :returns: the exit code; a failure if standard output could not be written,
        and :data:`UNREAD` if its reader has left.
    """
    _fill_descriptors()
    output, messages = _Stream(1), _Stream(2)
    sys.stdout = _text(sys.stdout, output, "strict")
    sys.stderr = _text(sys.stderr, messages, "backslashreplace")
    try:
        status = command()
    except KeyboardInterrupt:
        # A user can press Ctrl-C even during the imports.
        print(f"{program}: CANCELLED: interrupted", file=sys.stderr)
        status = INTERRUPTED
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else bool(exc.code)
        if isinstance(exc.code, str):
            print(exc.code, file=sys.stderr)
    sys.stdout.flush()
    if output.failure is None:
        return status
    if is_unread(output.failure):
        return status or UNREAD
    print(
        f"{program}: {codes.FILE_ERROR}: standard output:"
        f" {output.failure.strerror}",
        file=sys.stderr,
    )
    return status or FAILURE


def is_unread(error: OSError) -> bool:
    """Return whether a write failed because the reader has left."""
    return error.errno == errno.EPIPE


def _fill_descriptors() -> None:
    """Open the null device for each standard stream that is closed.

    Otherwise, the next file opened would get the descriptor, and messages
    would be written to it. Writing to standard output still fails.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() returns the lowest free descriptor: this one.
            os.open(os.devnull, os.O_RDONLY if descriptor == 1 else os.O_RDWR)
            os.set_inheritable(descriptor, True)


def _text(
    former: typing.TextIO | None, raw: _Stream, errors: str
) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(former, "encoding", "utf-8"),
        errors=getattr(former, "errors", errors),
        line_buffering=getattr(former, "line_buffering", True)
        or getattr(former, "write_through", False),
    )


def discard_unread() -> None:
    """Drop output that is not read, instead of waiting for a reader."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            descriptor = stream.fileno()
            poller = select.poll()
            poller.register(descriptor, select.POLLOUT)
            if not poller.poll(0):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)


def _main(program: str, name: str, extra: str) -> int:
    try:
        command = importlib.import_module(f"fpgapool.cmd.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "fpgapool").split(".")[0] == "fpgapool":
            raise
        print(
            f"{program}: {error.name} is not installed; "
            f"pip install 'fpgapool[{extra}]'",
            file=sys.stderr,
        )
        return FAILURE
    status: int = command.main()
    return status


def _command(name: str, extra: str) -> collections.abc.Callable[[], int]:
    """Return a function that starts a command.

    :param extra: the extra that installs the command's libraries.
    """
    program = f"fpgapool-{name.replace('_', '-')}"
    main = functools.partial(_main, program, name, extra)
    return functools.partial(guarded, program, main)


# The entry points in pyproject.toml.
agent = _command("agent", extra="server")
allinone = _command("allinone", extra="allinone")
conductor = _command("conductor", extra="server")
dev = _command("dev", extra="allinone")
manage = _command("manage", extra="server")
run = _command("run", extra="cli")
sim = _command("sim", extra="sim")
status = _command("status", extra="server")
yarn_labels = _command("yarn_labels", extra="cli")
