# SPDX-License-Identifier: Apache-2.0

"""Pieces of a session's input and output, and the buffers of the input.

Input stays in its buffer until it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.common.channels import buffers as memories
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import stream


class Piece(stream.Piece):
    """Input of one task.

    :ivar data: the input; the caller may replace it before sending.
    :ivar input_crc32: with checksums, CRC-32 of the slot's input up to here.
    :ivar shared: the shared buffers that hold it; None if it is elsewhere.
    :ivar origin: the same input in the caller's own memory, which no slot can
        clear; None if it is not there.
    """

    __slots__ = ("input_crc32", "origin", "shared")

    input_crc32: int

    def __init__(
        self,
        number: int,
        data: memoryview,
        shared: connections.SharedBuffers | None,
    ) -> None:
        # Do not call super().__init__(), which would take time for each piece.
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


class Output(NamedTuple):
    """A piece of output.

    :ivar data: valid until the next call of :meth:`.flow.Flow.receive`.
    :ivar last: whether this is the last output of the task.
    """

    data: memoryview
    last: bool


class Window:
    """The unacknowledged input and its buffers.

    :param opened: the worker's OPENED, with sizes and the input's offset.

    :ivar stopped: whether reserving buffers is refused from now on.
    :ivar wanted_bytes: for how much room a thread waits; None if none does.
    :ivar on_full: called before a thread waits; it may raise an error.
    """

    on_full: Callable[[], object] | None = None

    def __init__(self, opened: connections.Opened, buffers: int) -> None:
        self._chunk_bytes = opened.chunk_bytes
        self.input: stream.Outbound[Piece] = stream.Outbound(
            stream.CLIENT, opened.input_offset_bytes, opened.window_bytes
        )
        self.lock = waits.Condition()
        self.stopped = False
        self.wanted_bytes: int | None = None
        self._own: list[memoryview | None] = [None] * buffers
        # The last one was used most recently, so it is probably still in the
        # CPU's cache; others may never be used, and then need no memory.
        self._free = list(reversed(range(buffers)))

    def __len__(self) -> int:
        return len(self._own)

    @property
    def idle(self) -> bool:
        """Whether everything that was sent is acknowledged."""
        return not self.input.kept

    def own(self, number: int) -> memoryview:
        """Return a buffer in this process's own memory.

        :param number: number of the buffer, which must not be in use.
        """
        buffer = self._own[number] or memories.blank(self._chunk_bytes)
        self._own[number] = buffer
        return buffer

    def limit(self, count: int) -> None:
        """Use at most this many buffers; call before any is in use."""
        del self._free[:-count]

    def take(self, number: int) -> None:
        """Take a particular free buffer."""
        with self.lock:
            self._free.remove(number)

    def has_room(self, length_bytes: int) -> bool:
        """Return whether :meth:`reserve` would not wait."""
        with self.lock:
            return bool(self._free) and self.input.has_room(length_bytes)

    def reserve(self, length_bytes: int, deadline_s: float | None) -> int:
        """Wait until the window has room, and take a free buffer.

        :raises waiting.Stopped: if the flow was stopped.
        """
        with self.lock:
            while True:
                if self.stopped:
                    raise waiting.Stopped
                if self._free and self.input.has_room(length_bytes):
                    return self._free.pop()
                self.wanted_bytes = length_bytes
                try:
                    if self.on_full is not None:
                        self.on_full()
                    left_s = channel.remaining_s(deadline_s)
                    if not self.lock.wait(left_s):
                        raise channel.DeadlineExceeded("deadline passed")
                finally:
                    self.wanted_bytes = None

    def free(self, pieces: list[Piece]) -> None:
        """Release buffers of acknowledged pieces; call with the lock held."""
        for piece in pieces:
            self._free.append(piece.number)
        self.lock.notify_all()

    def finish(self) -> None:
        """Forget the kept input, because all of it was processed."""
        with self.lock:
            self.input.finish()
            self.lock.notify_all()

    def stop(self) -> None:
        """Refuse further reservations."""
        with self.lock:
            self.stopped = True
            self.lock.notify_all()
