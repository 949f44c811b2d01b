# SPDX-License-Identifier: Apache-2.0

"""Files through a group, task by task."""

from __future__ import annotations

import collections
import collections.abc
import concurrent.futures
import contextlib
import dataclasses
import math
import os
import time
import typing

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client.groups import group as groups
from fpgapool.client.sessions import blocks
from fpgapool.client.transfers import files
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes

#: Input, and output, of a task, unless the accelerator needs longer pieces.
PIECE_BYTES = 1024 * 1024

# Tasks under way for each member, so that none waits for this program.
_TASKS_PER_MEMBER = 4


@dataclasses.dataclass(frozen=True)
class GroupReport:
    """The results of a transfer through a group.

    :ivar ran_s: from the first task until the last output was written.
    :ivar bytes_per_s: input per second of ``ran_s``.
    :ivar members: of the group, at the end.
    """

    group_id: str
    members: int
    tasks: int
    ran_s: float
    input_bytes: int
    output_bytes: int
    bytes_per_s: float


def run_group_file(
    group: groups.Group,
    source: files.Path | typing.BinaryIO,
    destination: files.Path | typing.BinaryIO,
    *,
    params: collections.abc.Mapping[str, typing.Any] | None = None,
    size_bytes: int | None = None,
    progress: collections.abc.Callable[[int, int], object] | None = None,
    timeout_s: float | None = None,
    arguments: collections.abc.Mapping[int, typing.Any] | None = None,
    chunk_multiple_bytes: int = 1,
) -> GroupReport:
    """Send a file through a group into another file.

    The file is divided into tasks; the output is that of a session. It appears
    under its name when it is complete, as with
    :func:`fpgapool.client.run_file`.

    :param group: open; its accelerator must be stateless.
    :param source: path, or binary file object that is read from its current
        position.
    :param destination: path of the output, or binary file object that is
        written to as the output comes.
    :param params: of the accelerator.
    :param size_bytes: see :func:`fpgapool.client.run_file`.
    :param progress: called with the input bytes done and all of them.
    :param timeout_s: time limit of everything together.
    :param arguments: see :meth:`fpgapool.client.Group.run`.
    :param chunk_multiple_bytes: tasks but the last are multiples of this, too,
        for an accelerator where it depends on ``params``.
    :returns: the report.
    :raises errors.InvalidRequest: with code ``ACCELERATOR_NOT_STATELESS`` if
        the accelerator is not, or not known to be, ``INVALID_SIZE`` if the
        size of the input is unknown, ``SIZE_MISMATCH`` if it is not
        ``size_bytes``.
    :raises errors.TaskFailed: if a task has no result.
    :raises errors.OperationTimeout: if ``timeout_s`` passes.
    :raises OSError: if a file cannot be read or written; it names the file.
    """
    deadline_s = channel.deadline_after(checks.seconds(timeout_s, "timeout_s"))
    # Their names are made once.
    known = blocks.checked_arguments(arguments)
    piece_bytes = _piece_bytes(group.profile, chunk_multiple_bytes)
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            source = stack.enter_context(files.Input(source))
        if size_bytes is None:
            size_bytes = files.size_of(source)
        checks.size(size_bytes, may_be_zero=True)
        files.check_size(source, size_bytes)
        output = stack.enter_context(files.opened_output(destination))
        started_s = time.monotonic()
        done_bytes = output_bytes = tasks = 0

        def check() -> None:
            group.check()
            if channel.remaining_s(deadline_s) == 0:
                raise errors.OperationTimeout("time limit passed")

        pieces = _pieces(source, size_bytes, piece_bytes, check)
        for input_bytes, result in _results(
            group, pieces, params, known, deadline_s
        ):
            files.write_all(output, memoryview(result))
            tasks += 1
            done_bytes += input_bytes
            output_bytes += len(result)
            if progress is not None:
                progress(done_bytes, size_bytes)
        files.check_end(source, check)
        ran_s = time.monotonic() - started_s
    return GroupReport(
        group_id=group.group_id,
        members=group.members,
        tasks=tasks,
        ran_s=ran_s,
        input_bytes=done_bytes,
        output_bytes=output_bytes,
        bytes_per_s=done_bytes / max(ran_s, 1e-9),
    )


def _piece_bytes(
    profile: collections.abc.Mapping[str, typing.Any],
    chunk_multiple_bytes: int = 1,
) -> int:
    """Return the input of each task but the last."""
    if not profile.get("stateless"):
        name = profile.get("name", "of the group")
        raise errors.InvalidRequest(
            codes.ACCELERATOR_NOT_STATELESS,
            f"the accelerator {name} is not stateless, so a file cannot be"
            " divided into tasks; use a session",
        )
    multiple_bytes = math.lcm(
        profile["chunk_multiple_bytes"], chunk_multiple_bytes
    )
    longest_bytes = int(PIECE_BYTES / max(profile["return_ratio"], 1.0))
    return max(longest_bytes // multiple_bytes, 1) * multiple_bytes


def _pieces(
    source: typing.BinaryIO,
    size_bytes: int,
    piece_bytes: int,
    check: collections.abc.Callable[[], object] = lambda: None,
) -> collections.abc.Iterator[tuple[int, bytes]]:
    """Yield the pieces of a stream, each with its offset.

    :param check: called while there is no data; what it raises ends the wait.
    """
    # An empty input is a task, too: it may have output.
    for offset in range(0, max(size_bytes, 1), piece_bytes):
        wanted_bytes = min(piece_bytes, size_bytes - offset)
        piece = bytearray()
        while len(piece) < wanted_bytes:
            files.await_data(source, check)
            # Streams may return less than requested.
            read = source.read(wanted_bytes - len(piece))
            if not read:
                raise errors.InvalidRequest(
                    codes.SIZE_MISMATCH,
                    "the input ended before the announced size",
                )
            piece += read
        yield offset, bytes(piece)


def _results(
    group: groups.Group,
    pieces: collections.abc.Iterable[tuple[int, bytes]],
    params: collections.abc.Mapping[str, typing.Any] | None,
    arguments: collections.abc.Mapping[int, blocks.Block],
    deadline_s: float | None,
) -> collections.abc.Iterator[tuple[int, bytes]]:
    """Run a task for each piece.

    :returns: the length of each piece, and its output, in their order.
    """
    tasks: collections.deque[
        tuple[int, concurrent.futures.Future[typing.Any]]
    ] = collections.deque()

    def first() -> tuple[int, bytes]:
        input_bytes, future = tasks.popleft()
        try:
            return input_bytes, future.result(channel.remaining_s(deadline_s))
        except concurrent.futures.TimeoutError:
            raise errors.OperationTimeout("time limit passed") from None

    for offset, piece in pieces:
        future = group.submit(
            piece, params=params, offset=offset, arguments=arguments
        )
        tasks.append((len(piece), future))
        if len(tasks) >= _TASKS_PER_MEMBER * max(group.members, 1):
            yield first()
    while tasks:
        yield first()
