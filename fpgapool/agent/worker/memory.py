#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Where a session's bytes are: private rings, or shared buffers.

Both kinds are made fresh for every session, so that their pages are zero,
and used over and over within it. Callers hold the session's lock.
"""

from __future__ import annotations

import collections
import dataclasses
import fcntl
import mmap
import os
import typing


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Output that fits one frame.

    :ivar view: its bytes.
    :ivar aux: number of its shared buffer, 0 without shared memory.
    :ivar last: whether it is the last one of what a call wrote.
    """

    view: memoryview
    aux: int
    last: bool


class Ring:
    """Hands out contiguous ranges of a block; the oldest comes back first.

    A reservation of n bytes fails only if more than ``capacity - 2n`` bytes
    are out. An empty ring starts at the front again: sessions of small
    pieces stay in the cache.

    :param capacity_bytes: size of the block.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._ranges: collections.deque[tuple[int, int]] = collections.deque()
        self._head = 0

    def __len__(self) -> int:
        return len(self._ranges)

    def reserve(self, length_bytes: int) -> int | None:
        """Hand out a range.

        :param length_bytes: its length, 1 at least.
        :returns: where it starts, None if there is no room.
        """
        if not self._ranges:
            self._head = 0
            limit = self._capacity_bytes
        elif self._head <= self._ranges[0][0]:
            limit = self._ranges[0][0]
        else:
            limit = self._capacity_bytes
            if (
                limit - self._head < length_bytes
                and length_bytes <= self._ranges[0][0]
            ):
                self._head = 0
                limit = self._ranges[0][0]
        if limit - self._head < length_bytes:
            return None
        start = self._head
        self._head += length_bytes
        self._ranges.append((start, length_bytes))
        return start

    def shrink(self, length_bytes: int) -> None:
        """Give back the end of the newest range.

        :param length_bytes: what is kept of it; 0 gives all of it back.
        """
        start, _ = self._ranges.pop()
        if length_bytes:
            self._ranges.append((start, length_bytes))
        self._head = start + length_bytes

    def release(self) -> None:
        """Take back the oldest range."""
        self._ranges.popleft()

    def clear(self) -> None:
        """Take back all ranges."""
        self._ranges.clear()


class Memory(typing.Protocol):
    """What a session needs of its memory.

    :ivar fds: descriptors to hand to the client, if it is shared.
    """

    fds: list[int]

    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        """Return where the next piece of input is or goes."""

    def return_input(self) -> None:
        """Take back the oldest piece of input."""

    def clear_input(self) -> None:
        """Take back all input."""

    def take_output(self, length_bytes: int) -> memoryview | None:
        """Return room for a call's output, None if there is none now."""

    def keep_output(self, length_bytes: int) -> list[Piece]:
        """Keep the front of the room taken last; the rest comes back."""

    def release_output(self, piece: Piece) -> None:
        """Take back the oldest kept piece."""

    def close(self) -> None:
        """Release what the system keeps open."""


class PrivateMemory:
    """Rings of the worker, for clients that send and receive bytes.

    :param chunk_bytes: longest piece.
    :param window_bytes: bytes that may be out in each direction.
    :param max_output_bytes: most that one call of the core may write.
    """

    def __init__(
        self, chunk_bytes: int, window_bytes: int, max_output_bytes: int
    ) -> None:
        self._chunk_bytes = chunk_bytes
        # Twice the largest range above the window: see Ring.
        input_bytes = window_bytes + 2 * chunk_bytes
        output_bytes = window_bytes + 2 * max_output_bytes
        self._input = memoryview(mmap.mmap(-1, input_bytes))
        self._output = memoryview(mmap.mmap(-1, output_bytes))
        self._input_ring = Ring(input_bytes)
        self._output_ring = Ring(output_bytes)
        self._output_start = 0
        self.fds: list[int] = []

    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        start = self._input_ring.reserve(length_bytes)
        assert start is not None, "credits bound what comes in"
        return self._input[start : start + length_bytes]

    def return_input(self) -> None:
        self._input_ring.release()

    def clear_input(self) -> None:
        self._input_ring.clear()

    def take_output(self, length_bytes: int) -> memoryview | None:
        start = self._output_ring.reserve(max(1, length_bytes))
        if start is None:
            return None
        self._output_start = start
        return self._output[start : start + length_bytes]

    def keep_output(self, length_bytes: int) -> list[Piece]:
        self._output_ring.shrink(length_bytes)
        end = self._output_start + length_bytes
        return [
            Piece(
                self._output[start : min(start + self._chunk_bytes, end)],
                0,
                start + self._chunk_bytes >= end,
            )
            for start in range(self._output_start, end, self._chunk_bytes)
        ]

    def release_output(self, piece: Piece) -> None:
        if piece.last:
            self._output_ring.release()

    def close(self) -> None:
        return


class SharedMemory:
    """Two memfds of equal buffers, mapped by the worker and its client.

    Their sizes are sealed, so a client cannot make the worker fault by
    truncating them.

    :param buffer_bytes: size of a buffer, the longest piece.
    :param buffers: number of buffers in each direction.

    :ivar fds: descriptors of the input and the output buffers.
    """

    def __init__(self, buffer_bytes: int, buffers: int) -> None:
        self._buffer_bytes = buffer_bytes
        self._buffers = buffers
        self._scratch = memoryview(b"")
        self._taken: list[int] = []
        self._free = list(range(buffers))
        length_bytes = buffer_bytes * buffers
        opened: list[int] = []
        try:
            for name in ("fpgapool-input", "fpgapool-output"):
                opened.append(_sealed_memfd(name, length_bytes))
            maps = [mmap.mmap(fd, length_bytes) for fd in opened]
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        self.fds = opened
        self._input, self._output = (memoryview(mapped) for mapped in maps)

    def take_input(self, aux: int, length_bytes: int) -> memoryview:
        start = aux * self._buffer_bytes
        return self._input[start : start + length_bytes]

    def return_input(self) -> None:
        return

    def clear_input(self) -> None:
        return

    def take_output(self, length_bytes: int) -> memoryview | None:
        needed = max(1, -(-length_bytes // self._buffer_bytes))
        if needed > len(self._free):
            return None
        # The lowest ones: few small pieces stay in the cache.
        self._free.sort()
        self._taken = self._free[:needed]
        del self._free[:needed]
        if needed == 1:
            return self._buffer(self._taken[0], self._buffer_bytes)
        if len(self._scratch) < length_bytes:
            self._scratch = memoryview(bytearray(length_bytes))
        return self._scratch[:length_bytes]

    def keep_output(self, length_bytes: int) -> list[Piece]:
        taken, self._taken = self._taken, []
        used = -(-length_bytes // self._buffer_bytes)
        self._free += taken[used:]
        pieces = []
        for number, buffer in enumerate(taken[:used]):
            start = number * self._buffer_bytes
            end = min(start + self._buffer_bytes, length_bytes)
            view = self._buffer(buffer, end - start)
            if len(taken) > 1:
                view[:] = self._scratch[start:end]
            pieces.append(Piece(view, buffer, number == used - 1))
        return pieces

    def release_output(self, piece: Piece) -> None:
        self._free.append(piece.aux)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def _buffer(self, number: int, length_bytes: int) -> memoryview:
        start = number * self._buffer_bytes
        return self._output[start : start + length_bytes]


def _sealed_memfd(name: str, length_bytes: int) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, length_bytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(fd)
        raise
    return fd
