# SPDX-License-Identifier: Apache-2.0

"""The interface of a session's data flow, wherever it is processed.

Input stays in its buffer until it is acknowledged.
"""

from __future__ import annotations

import collections
import mmap
import threading
import typing
from collections.abc import Callable

from fpgapool.client import connection as connections
from fpgapool.client import view as views
from fpgapool.client import waiting
from fpgapool.common import channel
from fpgapool.protocol import stream

Stopped = waiting.Stopped


def blank(length_bytes: int) -> memoryview:
    """Make memory that is only allocated when written: small jobs stay small.

    :param length_bytes: its length.
    :returns: zeros, writable.
    """
    if not length_bytes:
        return memoryview(bytearray())
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return memoryview(mmap.mmap(-1, length_bytes, flags))


class Piece(stream.Piece):
    """Input of one task.

    :ivar data: the input; the caller may replace it before sending.
    :ivar shared: its shared buffers, None if it is elsewhere.
    :ivar input_crc32: see :class:`checksums.Sent`.
    :ivar origin: the same input in the caller's own memory, which no slot can
        empty; None if there is none.
    """

    __slots__ = ("input_crc32", "origin", "shared")

    input_crc32: int

    def __init__(
        self,
        number: int,
        data: memoryview,
        shared: connections.SharedBuffers | None,
    ) -> None:
        # Not the base's: one call less for every piece.
        self.data = data
        self.number = number
        self.flags = 0
        self.shared = shared
        self.origin: memoryview | None = None

    def keep(self) -> None:
        """Copy the input, so that it outlives its buffer.

        :raises OSError: if there is not enough memory.
        """
        if self.origin is None:
            self.data = memoryview(bytes(self.data))
        else:
            self.data = self.origin
        self.shared = None


class Output(typing.NamedTuple):
    """A piece of output.

    :ivar data: valid until the next call of :meth:`DataFlow.receive`.
    :ivar last: whether the task gives no more output.
    """

    data: memoryview
    last: bool


class DataFlow:
    """Takes input and gives output; one thread sends, one receives.

    :param chunk_bytes: longest piece.
    :param window_bytes: how many unacknowledged bytes may be sent.
    :param chunk_multiple_bytes: all pieces but the last are multiples of it.
    :param buffers: number of buffers, each for a piece.
    :param start_bytes: position of the first byte.

    :ivar stateless: whether the offset alone determines a piece's processing.
    :ivar checksum: whether the data is checked end to end.
    :ivar received_bytes: output that has arrived.
    :ivar ended: whether the last output has arrived.
    :ivar closed: members of CLOSED, once it has come.
    :ivar cpu_energy_j: estimated energy of this machine's processor, if it
        computes; None: unknown.
    :ivar reconnects: how often a broken connection was replaced …
    :ivar reopens: … and a lost slot.
    :ivar fallback_reason: why the CPU computes, and no slot ever will: the
        code of the pool's failure; None if a slot does or may.
    """

    view: views.SessionView
    transport: str
    cpu_energy_j: float | None = None
    received_bytes: int
    stateless = False
    checksum = False
    reconnects = 0
    reopens = 0
    fallback_reason: str | None = None

    def __init__(
        self,
        chunk_bytes: int,
        window_bytes: int,
        chunk_multiple_bytes: int,
        buffers: int,
        start_bytes: int = 0,
    ) -> None:
        self.chunk_bytes = chunk_bytes
        self.window_bytes = window_bytes
        self.chunk_multiple_bytes = chunk_multiple_bytes
        self.ended = False
        self.closed: dict[str, typing.Any] | None = None
        self._input: stream.Outbound[Piece] = stream.Outbound(
            stream.CLIENT, start_bytes, window_bytes
        )
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._stopped = False
        self._own: list[memoryview | None] = [None] * buffers
        self._free = collections.deque(range(buffers))

    @property
    def shared(self) -> connections.SharedBuffers | None:
        """The shared buffers in use, None if there are none."""
        return None

    @property
    def idle(self) -> bool:
        """Whether everything that was sent is acknowledged."""
        return not self._input.kept

    @property
    def acknowledged_bytes(self) -> int:
        """Input whose output has arrived completely."""
        return self._input.acknowledged_bytes

    def piece(self, number: int) -> Piece:
        """Make a piece of a buffer.

        :param number: of the buffer, which must not be in use.
        :returns: a piece with the whole buffer, ``chunk_bytes`` long.
        """
        shared = self.shared
        if shared is not None:
            buffer = shared.input(number)[: self.chunk_bytes]
        else:
            buffer = self._own[number] or blank(self.chunk_bytes)
            self._own[number] = buffer
        return Piece(number, buffer, shared)

    def take(self, number: int) -> None:
        """Take a particular free buffer.

        :param number: of the buffer.
        """
        with self._lock:
            self._free.remove(number)

    def reserve(
        self, length_bytes: int, *, filled: bool, deadline_s: float | None
    ) -> Piece:
        """Wait until the window has room, and take a free buffer.

        :param length_bytes: how much will be sent.
        :param filled: False if the caller brings the data in its own memory
            when there are no shared buffers; none is allocated then.
        :param deadline_s: absolute deadline.
        :returns: a piece to fill and to pass to :meth:`send`.
        :raises Stopped: if the flow was stopped.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        with self._lock:
            self._wait_for(
                lambda: (
                    bool(self._free) and self._input.has_room(length_bytes)
                ),
                deadline_s,
            )
            number = self._free.popleft()
        if not filled and self.shared is None:
            return Piece(number, memoryview(b""), None)
        return self.piece(number)

    def _wait_for(
        self, ready: Callable[[], bool], deadline_s: float | None
    ) -> None:
        """Wait, with the lock, as :meth:`reserve`."""
        while self._stopped or not ready():
            self._check()
            if not self._changed.wait(channel.remaining_s(deadline_s)):
                raise channel.DeadlineExceeded("deadline passed")

    def _check(self) -> None:
        if self._stopped:
            raise Stopped

    def send(
        self,
        piece: Piece,
        *,
        end: bool,
        deadline_s: float | None,
        release_output: bool = False,
    ) -> None:
        """Send one piece; the receiver handles a broken connection.

        :param piece: the input; its data must not change until it is
            acknowledged.
        :param end: whether it is the last one.
        :param deadline_s: absolute deadline.
        :param release_output: also give the output received so far back to
            the worker.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        raise NotImplementedError

    def receive(
        self, place: memoryview, deadline_s: float | None
    ) -> Output | None:
        """Receive the next frame; gives back the output received before.

        :param place: where to put output that comes in the stream; at least
            ``chunk_bytes`` long.
        :param deadline_s: absolute deadline.
        :returns: output, or None if the frame brought none.
        :raises errors.SessionFailed: if the session has ended or cannot be
            resumed; :class:`errors.ChecksumMismatch` if data was changed on
            its way.
        :raises errors.Cancelled: if cancelled.
        :raises channel.DeadlineExceeded: if the deadline passes.
        :raises frames.ProtocolError: if the worker breaks the protocol.
        """
        raise NotImplementedError

    def close(self, place: memoryview, deadline_s: float | None) -> None:
        """Tell the worker that the session is over, and wait for its reply.

        A connection that breaks meanwhile is no error: all requested output
        has arrived. Parameters and errors are those of :meth:`receive`.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Make every thread in the flow return soon, now and later."""
        with self._lock:
            self._stopped = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Ask the pool to revoke the slot, if there is one; never raises."""

    def hang_up(self) -> None:
        """Close the connections; no other thread may be in the flow."""
        raise NotImplementedError
