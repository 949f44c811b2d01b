# SPDX-License-Identifier: Apache-2.0

"""The memory for a session's data: private memory or shared buffers.

Every session gets new memory of one kind, whose pages are zero, and reuses it
until it ends. Callers hold the session's lock.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import heapq
import mmap
import queue
import time
import weakref

from fpgapool.common.channels import buffers as session_buffers
from fpgapool.common.channels import channel as channels
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes

LOG = ratelimit.RateLimitedLog(__name__)

#: Maximum time for which close() waits for threads that still use a piece.
CLOSE_S = 1.0

_NO_BYTES = memoryview(b"")
# Buffer number of a piece that is in no buffer yet.
_UNPLACED = -1


class Remains(enum.Enum):
    """How to clean up shared buffers when their session has ended."""

    #: Empty them: the client has nothing left to read.
    EMPTIED = "emptied"
    #: Keep them for a while: the client may read output, or reuse its input.
    KEPT = "kept for a while"
    #: Leave them to the client. The slot was revoked or has failed, so the
    #: client may use its input again elsewhere at any time.
    LEFT = "left to the client"


#: Codes of ends that clients can cause repeatedly, so their buffers are not
#: left to them without a time limit.
_CAUSED_BY_CLIENTS = frozenset(
    {
        codes.CONNECTION_LOST,
        codes.PREEMPTED,
        codes.RESUME_TIMEOUT,
        codes.YIELDED,
    }
)


def remains(code: str, unread: bool) -> Remains:
    """Return how to clean up a session's shared buffers.

    :param code: code with which the session has ended.
    :param unread: whether the client may have unread output.
    """
    if code in _CAUSED_BY_CLIENTS:
        return Remains.KEPT
    if code in codes.SLOT_LOST:
        return Remains.LEFT
    return Remains.KEPT if unread else Remains.EMPTIED


class Ranges:
    """Hands out ranges of memory, which are returned oldest first.

    The memory is divided into equal blocks. Ranges fill one block after
    another, and the next block is always the lowest free one. So a session
    whose data is short-lived uses only a few blocks, which are already mapped
    and in the CPU's cache; new pages are expensive.

    :param block_bytes: size of a block, which is the maximum size of a range.
    :param out_bytes: total size of ranges that can always be handed out.
    """

    def __init__(self, block_bytes: int, out_bytes: int) -> None:
        self._block_bytes = block_bytes
        # The ranges in two consecutive blocks are together longer than a
        # block. Two more blocks are needed, because part of the oldest may be
        # free again and the newest may be almost empty.
        count = 2 * -(-out_bytes // block_bytes) + 2
        self.capacity_bytes = count * block_bytes
        self._free = list(range(count))
        # Where each range ends, oldest first.
        self._ends: collections.deque[int] = collections.deque()
        # Number of ranges in each block. The newest range, if there is one, is
        # in the newest block.
        self._out = [0] * count
        self._newest = heapq.heappop(self._free)
        self._filled_bytes = 0

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def is_half_used(self) -> bool:
        """Whether less than half of the blocks are free."""
        return 2 * len(self._free) < len(self._out)

    def reserve(self, length_bytes: int) -> int | None:
        """Hand out a range.

        :returns: where it starts, or None if there is no room.
        """
        if self._filled_bytes + length_bytes > self._block_bytes:
            if not self._free:
                return None
            self._newest = heapq.heappop(self._free)
            self._filled_bytes = 0
        start = self._newest * self._block_bytes + self._filled_bytes
        self._filled_bytes += length_bytes
        self._ends.append(start + length_bytes)
        self._out[self._newest] += 1
        return start

    def shrink(self, start: int, length_bytes: int) -> None:
        """Give back the end of the newest range.

        :param length_bytes: the length to keep; 0 gives back the whole range.
        """
        if length_bytes:
            self._ends[-1] = start + length_bytes
            self._filled_bytes = start % self._block_bytes + length_bytes
        else:
            self.drop()

    def release(self) -> None:
        """Take back the oldest range."""
        block = self._block_of(self._ends.popleft())
        self._out[block] -= 1
        if self._out[block]:
            return
        if block == self._newest:
            self._filled_bytes = 0
        else:
            heapq.heappush(self._free, block)

    def drop(self) -> None:
        """Undo the newest :meth:`reserve`."""
        self._ends.pop()
        self._out[self._newest] -= 1
        if not self._ends:
            self._filled_bytes = 0
            return
        end = self._ends[-1]
        block = self._block_of(end)
        if block != self._newest:
            heapq.heappush(self._free, self._newest)
            self._newest = block
        self._filled_bytes = end - block * self._block_bytes

    def _block_of(self, end: int) -> int:
        return (end - 1) // self._block_bytes

    def clear(self) -> None:
        while self._ends:
            self.release()


@dataclasses.dataclass(frozen=True, slots=True)
class Unread:
    """Buffers that a session's client may still be reading."""

    fds: list[int]


class Memory(abc.ABC):
    """The memory that a session needs.

    :ivar fds: file descriptors to pass to the client if the memory is shared.
    """

    def __init__(self) -> None:
        self.fds: list[int] = []

    @property
    def is_short_of_output(self) -> bool:
        """Whether output occupies most of the room, even if it is short."""
        return False

    @abc.abstractmethod
    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        """Return the memory for the next piece of input."""

    def return_input(self) -> None:
        """Take back the oldest piece of input."""
        return

    def clear_input(self) -> None:
        return

    @abc.abstractmethod
    def take_output(
        self, length_bytes: int, source: memoryview
    ) -> memoryview | None:
        """Return room for a call's output, or None if there is none now.

        :param source: the oldest unprocessed input, which is itself the room
            if output replaces input.
        """

    @abc.abstractmethod
    def keep_output(self, length_bytes: int) -> list[stream.Piece]:
        """Keep the start of the oldest room as output; the rest becomes free.

        Only shared memory can have more than one room. The last piece has the
        flag ``TASK_END``.
        """

    def place_output(self, piece: stream.Piece) -> bool:
        """Put the oldest unsent piece where the client can read it.

        :returns: whether it is there now.
        """
        return True

    @abc.abstractmethod
    def release_output(self, piece: stream.Piece) -> None:
        """Take back the oldest kept piece."""

    @abc.abstractmethod
    def close(self, remains: Remains = Remains.EMPTIED) -> Unread | None:
        """Release the memory and the system's resources.

        No thread may still use the memory.

        :returns: buffers kept for the client, to be emptied later, or None.
        """


class PrivateMemory(Memory):
    """Memory of the worker, for clients that send and receive bytes.

    :param window_bytes: number of bytes that may be in use in each direction.
    """

    def __init__(
        self, chunk_bytes: int, window_bytes: int, max_output_bytes: int
    ) -> None:
        super().__init__()
        self._chunk_bytes = chunk_bytes
        self._input_blocks = Ranges(chunk_bytes, window_bytes)
        self._output_blocks = Ranges(
            max(chunk_bytes, max_output_bytes), window_bytes
        )
        self._input = session_buffers.blank(self._input_blocks.capacity_bytes)
        self._output = session_buffers.blank(
            self._output_blocks.capacity_bytes
        )
        self._output_start = 0

    @property
    def is_short_of_output(self) -> bool:
        # If output is much shorter than its reservation, a block stays mostly
        # unused.
        return self._output_blocks.is_half_used

    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        start = self._input_blocks.reserve(length_bytes)
        assert start is not None, "credits limit the input"
        return self._input[start : start + length_bytes]

    def return_input(self) -> None:
        self._input_blocks.release()

    def clear_input(self) -> None:
        self._input_blocks.clear()

    def take_output(
        self, length_bytes: int, source: memoryview
    ) -> memoryview | None:
        start = self._output_blocks.reserve(max(1, length_bytes))
        if start is None:
            return None
        self._output_start = start
        return self._output[start : start + length_bytes]

    def keep_output(self, length_bytes: int) -> list[stream.Piece]:
        self._output_blocks.shrink(self._output_start, length_bytes)
        end = self._output_start + length_bytes
        return [
            stream.Piece(
                self._output[start : min(start + self._chunk_bytes, end)],
                0,
                frames.TASK_END if start + self._chunk_bytes >= end else 0,
            )
            for start in range(self._output_start, end, self._chunk_bytes)
        ]

    def release_output(self, piece: stream.Piece) -> None:
        if piece.flags & frames.TASK_END:
            self._output_blocks.release()

    def close(self, remains: Remains = Remains.EMPTIED) -> Unread | None:
        self._input = self._output = _NO_BYTES
        return None


class InPlaceMemory(Memory):
    """Memory of the worker in which output replaces the input.

    It is for cores that work in place: the worker receives, processes and
    sends each byte in the same place, which is then more likely to be in the
    CPU's cache.

    :param window_bytes: number of bytes that may be in use in each direction.
    """

    def __init__(self, chunk_bytes: int, window_bytes: int) -> None:
        super().__init__()
        self._window_bytes = window_bytes
        # Pieces of both directions; unprocessed ones are newer than processed
        # ones.
        self._blocks = Ranges(chunk_bytes, 2 * window_bytes)
        self._memory = session_buffers.blank(self._blocks.capacity_bytes)
        self._unprocessed = 0
        self._processed: collections.deque[int] = collections.deque()
        self._processed_bytes = 0
        self._room = _NO_BYTES

    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        start = self._blocks.reserve(length_bytes)
        assert start is not None, "credits limit the input"
        self._unprocessed += 1
        return self._memory[start : start + length_bytes]

    def clear_input(self) -> None:
        for _ in range(self._unprocessed):
            self._blocks.drop()
        self._unprocessed = 0

    def take_output(
        self, length_bytes: int, source: memoryview
    ) -> memoryview | None:
        if self._processed_bytes + len(source) > self._window_bytes:
            return None
        self._room = source
        return source

    def keep_output(self, length_bytes: int) -> list[stream.Piece]:
        if not length_bytes:
            return []
        self._unprocessed -= 1
        self._processed.append(length_bytes)
        self._processed_bytes += length_bytes
        return [stream.Piece(self._room, 0, frames.TASK_END)]

    def release_output(self, piece: stream.Piece) -> None:
        # The piece may be only part of the output, so do not use its length.
        self._processed_bytes -= self._processed.popleft()
        self._blocks.release()

    def close(self, remains: Remains = Remains.EMPTIED) -> Unread | None:
        self._memory = self._room = _NO_BYTES
        return None


class SharedMemory(Memory):
    """Two memfds with buffers of equal size, mapped by worker and client.

    Their sizes are sealed, so that a client cannot crash the worker by
    truncating them. They are emptied at the end, because a client may keep its
    mappings, whose pages are charged to the worker. Until then, the byte after
    the buffers is 1.

    :param buffer_bytes: size of a buffer, and maximum size of a piece.
    :param buffers: number of buffers for each direction.
    """

    def __init__(
        self, buffer_bytes: int, buffers: int, max_output_bytes: int = 0
    ) -> None:
        super().__init__()
        self._buffer_bytes = buffer_bytes
        # Maximum number of buffers that one call's output reserves. A client
        # returns buffers once it holds a quarter of them, so this many are
        # enough for output of any length.
        self._most_taken = -(-buffers // 4)
        # Memory for output that is longer than a buffer.
        self._scratch = session_buffers.blank(
            max_output_bytes if max_output_bytes > buffer_bytes else 0
        )
        # For each reservation, oldest first: its buffers, and whether its
        # output goes to the scratch memory.
        self._taken: collections.deque[tuple[list[int], bool]] = (
            collections.deque()
        )
        # Number of pieces in the scratch memory that have no buffer yet.
        self._unplaced = 0
        self._free = list(range(buffers))
        length_bytes = buffer_bytes * buffers + 1
        opened: list[int] = []
        try:
            for name in ("fpgapool-input", "fpgapool-output"):
                opened.append(session_buffers.make(name, length_bytes))
            maps = [mmap.mmap(fd, length_bytes) for fd in opened]
        except OSError:
            channels.close_fds(opened)
            raise
        self.fds = opened
        for mapped in maps:
            mapped[-1] = 1
        self._input, self._output = (memoryview(mapped) for mapped in maps)
        self._unmapped: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._maps = [weakref.ref(one, self._unmapped.put) for one in maps]

    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        start = aux * self._buffer_bytes
        return self._input[start : start + length_bytes]

    def take_output(
        self, length_bytes: int, source: memoryview
    ) -> memoryview | None:
        needed = max(1, -(-length_bytes // self._buffer_bytes))
        is_scratch = needed > 1
        needed = min(needed, self._most_taken)
        # There is only one scratch memory; its pieces get buffers before new
        # output.
        if (
            needed > len(self._free)
            or self._unplaced
            or (is_scratch and any(scratch for _, scratch in self._taken))
        ):
            return None
        # Take the lowest buffers, so that a session with few small pieces
        # stays in the CPU's cache.
        self._free.sort()
        taken = self._free[:needed]
        self._taken.append((taken, is_scratch))
        del self._free[:needed]
        if not is_scratch:
            return self._buffer(taken[0], self._buffer_bytes)
        return self._scratch[:length_bytes]

    def keep_output(self, length_bytes: int) -> list[stream.Piece]:
        taken, is_scratch = self._taken.popleft()
        if is_scratch:
            self._free += taken
            starts = range(0, length_bytes, self._buffer_bytes)
            self._unplaced = len(starts)
            memory = self._scratch[:length_bytes]
            return [
                stream.Piece(
                    memory[start : start + self._buffer_bytes],
                    _UNPLACED,
                    frames.TASK_END if start == starts[-1] else 0,
                )
                for start in starts
            ]
        if not length_bytes:
            self._free += taken
            return []
        view = self._buffer(taken[0], length_bytes)
        return [stream.Piece(view, taken[0], frames.TASK_END)]

    def place_output(self, piece: stream.Piece) -> bool:
        if piece.number == _UNPLACED:
            if not self._free:
                return False
            number = min(self._free)
            self._free.remove(number)
            view = self._buffer(number, len(piece.data))
            view[:] = piece.data
            piece.data, piece.number = view, number
            self._unplaced -= 1
        return True

    def release_output(self, piece: stream.Piece) -> None:
        self._free.append(piece.number)

    def close(self, remains: Remains = Remains.EMPTIED) -> Unread | None:
        """Unmap the buffers, and wait briefly until that is done."""
        fds, self.fds = self.fds, []
        unread = Unread(fds) if remains is Remains.KEPT and fds else None
        self._input = self._output = self._scratch = _NO_BYTES
        if remains is Remains.EMPTIED:
            session_buffers.discard(fds)
        elif unread is None:
            channels.close_fds(fds)
        # A mapping ends with its last piece, which a thread may still be
        # using.
        deadline_s = time.monotonic() + CLOSE_S
        for _ in self._maps:
            try:
                self._unmapped.get(
                    timeout=max(0.0, deadline_s - time.monotonic())
                )
            except queue.Empty:
                LOG.warning(
                    "shared buffers are still mapped after their session"
                )
                break
        self._maps = []
        return unread

    def _buffer(self, number: int, length_bytes: int) -> memoryview:
        start = number * self._buffer_bytes
        return self._output[start : start + length_bytes]
