# SPDX-License-Identifier: Apache-2.0

"""Send whole files through a group, which receives them as tasks."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import math
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import BinaryIO

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client.groups import group as groups
from fpgapool.client.sessions import blocks
from fpgapool.client.transfers import bars
from fpgapool.client.transfers import files
from fpgapool.client.transfers import transfer
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes

#: Limit for a task's data, unless the accelerator needs longer pieces.
PIECE_BYTES = 1024 * 1024
# Tasks in progress per member, so that no member waits for this program.
_TASKS_PER_MEMBER = 4


@dataclasses.dataclass(frozen=True)
class GroupReport:
    """The results of a transfer through a group.

    :ivar ran_s: seconds from the first task until the last output was written.
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
    source: files.Path | BinaryIO,
    destination: files.Path | BinaryIO,
    *,
    params: Mapping[str, Any] | None = None,
    size_bytes: int | None = None,
    progress: bars.Progress | bool | None = None,
    timeout_s: float | None = None,
    arguments: Mapping[int, Any] | None = None,
    chunk_multiple_bytes: int = 1,
) -> GroupReport:
    """Send a file through a group into another file.

    The file is divided into tasks; the output is the same as from a session.
    The output file appears only when it is complete, as with
    :func:`fpgapool.client.run_file`.

    :param group: an open group, whose accelerator must be stateless.
    :param source: path or binary file object, read from its current position.
    :param destination: path of the output, or binary file object to which
        output is written as it arrives.
    :param progress: see :func:`fpgapool.client.run_stream`.
    :param timeout_s: time limit for the whole call.
    :param arguments: see :meth:`fpgapool.client.Group.run`.
    :param chunk_multiple_bytes: the length of every task, except the last, is
        a multiple of this.
    :raises errors.InvalidRequest: with code ``ACCELERATOR_NOT_STATELESS`` if
        the accelerator is not known to be stateless; otherwise as
        :func:`run_file`.
    :raises errors.TaskFailed: if a task fails.
    :raises errors.OperationTimeout: if ``timeout_s`` is exceeded.
    :raises OSError: if a file cannot be read or written; the error names it.
    """
    deadline_s = checks.deadline(timeout_s)
    # Hash the arguments once, not for each task.
    known = blocks.checked_arguments(arguments)
    piece_bytes = _piece_bytes(group.profile, chunk_multiple_bytes)
    ends = transfer.opened(source, destination, size_bytes)
    name = str(group.profile.get("name", "group"))
    with (
        ends as (read, written, length),
        bars.reporting(progress, name) as tell,
    ):
        started_s = time.monotonic()
        done_bytes = output_bytes = tasks = 0

        def check() -> None:
            group.check()
            transfer.left_s(deadline_s)

        pieces = _pieces(read, length, piece_bytes, check)
        for input_bytes, result in _results(
            group, pieces, params, known, deadline_s
        ):
            files.write_all(written, memoryview(result))
            tasks += 1
            done_bytes += input_bytes
            output_bytes += len(result)
            if tell is not None:
                tell(done_bytes, length)
        files.check_end(read, check)
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
    profile: Mapping[str, Any], chunk_multiple_bytes: int = 1
) -> int:
    """Return the length of each task's input, except the last."""
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
    source: BinaryIO,
    size_bytes: int,
    piece_bytes: int,
    check: Callable[[], object] = lambda: None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a stream, each with its offset.

    :param check: called while there is no data; an exception ends the wait.
    """
    # An empty input is also sent as a task, because it may have output.
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
                    "the input is shorter than the specified size",
                )
            piece += read
        yield offset, bytes(piece)


def _results(
    group: groups.Group,
    pieces: Iterable[tuple[int, bytes]],
    params: Mapping[str, Any] | None,
    arguments: Mapping[int, blocks.Block],
    deadline_s: float | None,
) -> Iterator[tuple[int, bytes]]:
    """Run a task for each piece.

    :returns: the length and the output of each piece, in order.
    """
    tasks: collections.deque[tuple[int, concurrent.futures.Future[Any]]] = (
        collections.deque()
    )

    def first() -> tuple[int, bytes]:
        input_bytes, future = tasks.popleft()
        try:
            return input_bytes, future.result(channel.remaining_s(deadline_s))
        except concurrent.futures.TimeoutError:
            raise errors.OperationTimeout(
                "the time limit was exceeded"
            ) from None

    for offset, piece in pieces:
        future = group.submit(
            piece, params=params, offset=offset, arguments=arguments
        )
        tasks.append((len(piece), future))
        if len(tasks) >= _TASKS_PER_MEMBER * max(group.members, 1):
            yield first()
    while tasks:
        yield first()
