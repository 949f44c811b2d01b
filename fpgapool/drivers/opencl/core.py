# SPDX-License-Identifier: Apache-2.0

"""A session in a slot of an OpenCL device.

Each call's input is split into pieces. While the kernels compute one piece,
the next one is transferred to the device, and the previous one's output is
transferred back.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import dataclasses
import functools
import math
import typing

from fpgapool.drivers import base
from fpgapool.drivers.opencl import waiting

if typing.TYPE_CHECKING:
    from fpgapool.drivers.opencl import runner as runners

#: Pieces in flight: one being transferred to the device, one being computed,
#: and one being transferred back.
LANES = 3
#: While the device computes one chunk, the worker sends the previous one's
#: output and starts the next.
_MAX_STARTED = 2
#: Number of input lengths for which the room for output is cached.
_MAX_LENGTHS = 64
#: Time in which a piece is computed at the accelerator's peak rate: far longer
#: than a launch takes, and far shorter than a chunk takes.
PIECE_S = 1e-3
MIN_PIECE_BYTES = 256 * 1024
MAX_PIECE_BYTES = 4 * 1024 * 1024


def piece_bytes(profile: base.Profile, unified: bool) -> int:
    """Return how long pieces should be before they are fitted to blocks."""
    if unified:
        return MAX_PIECE_BYTES
    wanted = int(profile.peak_bytes_per_s * PIECE_S)
    return min(max(wanted, MIN_PIECE_BYTES), MAX_PIECE_BYTES)


class Cancelled(Exception):
    """The session was cancelled."""


class OpenCLCore(base.Core):
    """Runs the kernels of one session.

    :param hang_min_s: time that every command may take.
    :param hang_factor: additional time that a command may take, as a multiple
        of the time that the largest input in every lane takes at peak rate.
    """

    def __init__(
        self,
        runner: runners.Runner,
        profile: base.Profile,
        waiter: waiting.Waiter,
        hang_min_s: float,
        hang_factor: float,
    ) -> None:
        self.runner = runner
        block_bytes = runner.binding.block_bytes
        most_bytes = runner.max_input_bytes
        self._piece_bytes = most_bytes - most_bytes % block_bytes
        self._multiple_bytes = math.lcm(
            block_bytes, profile.chunk_multiple_bytes
        )
        self._stateless = profile.stateless
        waiter.set_limit(
            hang_min_s
            + hang_factor * LANES * most_bytes / profile.peak_bytes_per_s
        )
        self._lanes: list[runners.Lane] = []
        # Unused report buffers of lanes in the caller's memory: such a lane
        # exists for only one piece.
        self._reports: list[typing.Any] = []
        # Pieces in flight, oldest first.
        self._begun: collections.deque[_Begun] = collections.deque()
        self._room_bytes: dict[int, int] = {}
        self._cancelled = False

    @property
    def chunk_multiple_bytes(self) -> int | None:
        return self._multiple_bytes

    @property
    def reusable(self) -> bool:
        return self._stateless

    def set_argument(self, number: int, data: memoryview) -> None:
        self.runner.set_argument(number, data)

    @property
    def max_started(self) -> int:
        # If a kernel reports the output's length, the next chunk must wait.
        return 1 if self.runner.binding.reports else _MAX_STARTED

    def max_output_bytes(self, input_bytes: int) -> int:
        room_bytes = self._room_bytes.get(input_bytes)
        if room_bytes is None:
            if len(self._room_bytes) >= _MAX_LENGTHS:
                self._room_bytes.clear()
            room_bytes = self._compute_room(input_bytes)
            self._room_bytes[input_bytes] = room_bytes
        return room_bytes

    def _compute_room(self, input_bytes: int) -> int:
        runner = self.runner
        if not input_bytes:
            return runner.max_output_bytes(0)
        whole, rest_bytes = divmod(input_bytes, self._piece_bytes)
        room_bytes = runner.max_output_bytes(rest_bytes) if rest_bytes else 0
        if whole:
            room_bytes += whole * runner.max_output_bytes(self._piece_bytes)
        return room_bytes

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        return self.start(chunk_in, chunk_out, offset_bytes)()

    def start(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> collections.abc.Callable[[], int]:
        if offset_bytes % self.runner.binding.block_bytes:
            raise base.InvalidInput("a piece of input starts within a block")
        chunk = _Chunk()
        try:
            self._start(chunk, chunk_in, chunk_out, offset_bytes)
        except BaseException:
            # Wait for started pieces, which use the caller's memory.
            with contextlib.suppress(base.DriverError):
                self._collect(chunk)
            raise
        return functools.partial(self._collect, chunk)

    def _start(
        self,
        chunk: _Chunk,
        chunk_in: memoryview,
        chunk_out: memoryview,
        offset_bytes: int,
    ) -> None:
        for start in range(0, len(chunk_in), self._piece_bytes):
            if len(self._begun) == LANES:
                self._collect_oldest()
            if self._cancelled:
                raise Cancelled
            piece = chunk_in[start : start + self._piece_bytes]
            room_bytes = self.max_output_bytes(len(piece))
            written_bytes = chunk.written_bytes
            room = chunk_out[written_bytes : written_bytes + room_bytes]
            self._begin(chunk, piece, room, offset_bytes + start)

    def _begin(
        self,
        chunk: _Chunk,
        piece: memoryview,
        room: memoryview,
        offset_bytes: int,
    ) -> None:
        runner = self.runner
        lane = None
        uploaded = []
        if runner.uses_memory_of_caller:
            report = self._reports.pop() if self._reports else None
            lane = runner.lane_over(report, piece, room)
        if lane is None:
            lane = self._lanes.pop() if self._lanes else runner.lane()
            uploaded.append(runner.upload(lane, piece))
        launched = runner.launch(lane, offset_bytes, uploaded)
        event, output_bytes = runner.download(lane, room, [launched])
        self._begun.append(_Begun(chunk, lane, event))
        chunk.begun += 1
        chunk.written_bytes += output_bytes

    def _collect(self, chunk: _Chunk) -> int:
        """Wait for the output of a chunk and of all earlier ones."""
        while chunk.begun:
            self._collect_oldest()
        if chunk.fault is not None:
            raise chunk.fault
        return chunk.written_bytes

    def _collect_oldest(self) -> None:
        """Wait for the output of the oldest piece."""
        begun = self._begun.popleft()
        begun.chunk.begun -= 1
        lane = begun.lane
        try:
            self.runner.collect(lane, begun.event)
        except base.DriverError as fault:
            begun.chunk.fault = fault
            return
        if not lane.is_of_caller:
            self._lanes.append(lane)
        elif lane.report:
            self._reports.append(lane.report)

    def finish(self, chunk_out: memoryview) -> int:
        return self.runner.finish(chunk_out)

    @property
    def has_snapshots(self) -> bool:
        return bool(self.runner.binding.initial_state)

    def snapshot(self) -> bytes:
        return self.runner.state()

    def restore(self, snapshot: bytes, offset_bytes: int) -> None:
        try:
            self.runner.restore(snapshot, offset_bytes)
        except ValueError:
            raise base.InvalidInput(
                "the checkpoint has the wrong length"
            ) from None

    def cancel(self) -> None:
        # Only set a flag: running commands must finish first, because they use
        # the caller's memory.
        self._cancelled = True


@dataclasses.dataclass(slots=True)
class _Chunk:
    """The input of one call.

    :ivar begun: number of its pieces in flight.
    :ivar written_bytes: length of the output of its pieces so far.
    """

    begun: int = 0
    written_bytes: int = 0
    fault: base.DriverError | None = None


class _Begun(typing.NamedTuple):
    chunk: _Chunk
    lane: runners.Lane
    event: typing.Any
