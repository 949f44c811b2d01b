# SPDX-License-Identifier: Apache-2.0

"""Caches clients' blocks in a worker's memory, so they are sent only once.

A block belongs to one application of one project. Its name is a digest of its
data, so no client can put different data in its place. A block's memory is
zeroed when the block is removed, which happens to all blocks when the slot is
scrubbed.
"""

from __future__ import annotations

import dataclasses
import threading
import typing
from collections.abc import Callable

from fpgapool.agent.worker.data import processing
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes


class _Key(typing.NamedTuple):
    """Identifies a block of an application."""

    project_id: str
    application: str
    block_id: bytes
    length_bytes: int


class BlockCounts(typing.NamedTuple):
    """The counts of a cache since its process started.

    :ivar misses: number of blocks that clients had to send.
    :ivar kept_bytes: total size of the blocks that are cached now.
    """

    hits: int = 0
    misses: int = 0
    evicted: int = 0
    kept_bytes: int = 0


class BlockCache:
    """The blocks of a slot.

    :param capacity_bytes: limit for the total size of blocks; 0 to keep none.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._shelf: blocks.Shelf[_Key] = blocks.Shelf(capacity_bytes)
        self._memory: dict[_Key, bytearray] = {}
        # Increased for each holder of the slot, to end the access of earlier
        # ones.
        self._epoch = 0
        self._hits = self._misses = self._evicted = 0

    @property
    def counts(self) -> BlockCounts:
        return BlockCounts(
            self._hits, self._misses, self._evicted, self._shelf.kept_bytes
        )

    def open(self, project_id: str, application: str) -> Blocks:
        """Give access to an application's blocks, until :meth:`wipe`."""
        return Blocks(self, self._epoch, project_id, application)

    def wipe(self, but_project_id: str | None = None) -> None:
        """Zero and forget blocks.
        :param but_project_id: project whose blocks are kept; by default, all
            blocks are removed and all access ends.
        """
        with self._lock:
            if but_project_id is None:
                self._epoch += 1
            for key in self._shelf.drop_all(
                lambda key: key.project_id != but_project_id
            ):
                _zero(self._memory.pop(key))

    def _find(self, epoch: int, key: _Key) -> memoryview | None:
        with self._lock:
            if epoch != self._epoch or not self._shelf.use(key):
                return None
            self._hits += 1
            self._shelf.pin(key)
            return memoryview(self._memory[key])

    def _unpin(self, key: _Key) -> None:
        with self._lock:
            self._shelf.unpin(key)

    def _keep(
        self, epoch: int, key: _Key, memory: frames.Buffer, lasting: bool
    ) -> None:
        with self._lock:
            self._misses += 1
            going = None
            if epoch == self._epoch and not self._shelf.use(key):
                going = self._shelf.add(key, key.length_bytes, lasting)
            if not isinstance(memory, bytearray):
                return
            if going is None:
                _zero(memory)
                return
            self._evicted += len(going)
            for one in going:
                _zero(self._memory.pop(one))
            self._memory[key] = memory


def _zero(memory: bytearray) -> None:
    memory[:] = bytes(len(memory))


@dataclasses.dataclass(eq=False)
class Blocks:
    """The blocks of one application in a cache.

    :meth:`BlockCache.open` creates it. Found blocks are pinned until
    :meth:`release`.
    """

    cache: BlockCache
    epoch: int
    project_id: str
    application: str

    def __post_init__(self) -> None:
        self._pinned: list[_Key] = []

    def _key(self, reference: blocks.Reference) -> _Key:
        return _Key(self.project_id, self.application, *reference[:2])

    def find(self, reference: blocks.Reference) -> memoryview | None:
        """Return a cached block, or None if the client must send its data."""
        key = self._key(reference)
        found = self.cache._find(self.epoch, key)
        if found is not None:
            self._pinned.append(key)
        return found

    def keep(self, reference: blocks.Reference, data: frames.Buffer) -> None:
        """Verify the data of a block, and cache a copy if there is room.

        :param data: the received data, which the client may still change.
        :raises processing.Failure: ``BLOCK_DAMAGED`` if the data is wrong.
        """
        fits = reference.length_bytes <= self.cache.capacity_bytes
        memory = bytearray(data) if fits else data
        if not reference.names(memory):
            raise _damaged(reference)
        self.cache._keep(
            self.epoch,
            self._key(reference),
            memory,
            bool(reference.argument),
        )

    def release(self) -> None:
        pinned, self._pinned = self._pinned, []
        for key in pinned:
            self.cache._unpin(key)


class Announced:
    """The references to blocks in the input of one connection.

    :param shared: whether the session's input is in shared buffers.
    :param miss: requests the block of a task from the client.
    :param arguments: references to the arguments that the core already has.
    """

    def __init__(
        self,
        kept: Blocks,
        max_bytes: int,
        shared: bool,
        set_argument: Callable[[int, memoryview], None],
        miss: Callable[[int], None],
        arguments: dict[int, blocks.Reference],
    ) -> None:
        self._kept = kept
        self._max_bytes = max_bytes
        self._place = frames.SHM if shared else 0
        self._set_argument = set_argument
        self._miss = miss
        self._arguments = arguments
        # The reference whose data is expected next.
        self._expected: tuple[int, blocks.Reference] | None = None
        # The task with a missing block, until the client resends it.
        self._missed: int | None = None
        self._found: memoryview | None = None

    @property
    def pending(self) -> bool:
        """Whether the current piece needs :meth:`fill` or :meth:`check`."""
        return self._found is not None or self._expected is not None

    def take(
        self, channel: channels.Channel, header: frames.FrameHeader
    ) -> frames.FrameHeader | None:
        """Process an INPUT frame.

        :returns: the header of a piece of input, or None if there is none.
        :raises frames.ProtocolError: if the frame is not allowed here.
        :raises processing.Failure: if its data or an argument is invalid.
        """
        if header.flags & frames.BLOCK:
            payload = channels.recv_payload(channel, header)
            reference = blocks.Reference.decode(payload, self._max_bytes)
            return self._take_reference(header, reference)
        if self._missed is not None:
            channels.recv_payload(channel, header)
            return None
        if self._expected is None:
            return header
        task_id, reference = self._expected
        if header.task_id != task_id:
            raise _missing()
        if not reference.argument:
            if header.payload_length_bytes != reference.length_bytes:
                raise _damaged(reference)
            return header
        self._expected = None
        data = channels.recv_payload(channel, header)
        self._kept.keep(reference, data)
        self._argue(reference, memoryview(data))
        return None

    def _take_reference(
        self, header: frames.FrameHeader, reference: blocks.Reference
    ) -> frames.FrameHeader | None:
        brings_data = bool(header.flags & frames.TASK_MORE)
        if self._missed is not None:
            if self._missed != header.task_id or not brings_data:
                return None
            self._missed = None
        if self._expected is not None:
            raise _missing()
        if brings_data:
            self._expected = header.task_id, reference
            return None
        data = self._kept.find(reference)
        if data is None:
            self._missed = header.task_id
            self._miss(header.task_id)
            return None
        if reference.argument:
            self._argue(reference, data)
            self._kept.release()
            return None
        self._found = data
        return header._replace(
            flags=header.flags & frames.END | self._place,
            payload_length_bytes=reference.length_bytes,
        )

    def _argue(self, reference: blocks.Reference, data: memoryview) -> None:
        # A client that resumes may send an argument that the core already has.
        if self._arguments.get(reference.argument) != reference:
            self._set_argument(reference.argument, data)
            self._arguments[reference.argument] = reference

    def fill(self, place: memoryview) -> bool:
        """Copy the found block into a piece of input.

        :returns: False if no block was found, so the client sends the data.
        """
        found, self._found = self._found, None
        if found is None:
            return False
        place[:] = found
        self._kept.release()
        return True

    def check(self, data: memoryview) -> None:
        """Verify input that a reference has announced, and cache a copy."""
        if self._expected is not None:
            _, reference = self._expected
            self._expected = None
            self._kept.keep(reference, data)


def _missing() -> frames.ProtocolError:
    return frames.ProtocolError(
        frames.PROTOCOL_ERROR,
        "a block reference is not followed by the block's data",
    )


def _damaged(reference: blocks.Reference) -> processing.Failure:
    number = reference.argument
    what = f"argument {number}" if number else "the input"
    return processing.Failure(
        codes.BLOCK_DAMAGED, f"the data of {what} does not match its reference"
    )
