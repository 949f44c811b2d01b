# SPDX-License-Identifier: Apache-2.0

"""Clients' blocks in a worker's memory, so that they need not come again.

A block belongs to one application of one project. Its name is a digest of it:
no client can put other data in its place. The memory is zeroed when a block
goes, and nothing outlives the scrub of the slot.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable

from fpgapool.agent.worker.data import processing
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes


class _Key(typing.NamedTuple):
    """A block of an application."""

    project_id: str
    application: str
    block_id: bytes
    length_bytes: int


class Counts(typing.NamedTuple):
    """The figures of a cache since its process began.

    :ivar hits: references to kept blocks.
    :ivar misses: referred blocks that had to be sent.
    :ivar evicted: blocks that went to make room.
    :ivar kept_bytes: length of all blocks, now.
    """

    hits: int = 0
    misses: int = 0
    evicted: int = 0
    kept_bytes: int = 0


class Cache:
    """The blocks of a slot.

    :param capacity_bytes: of all blocks; 0: none are kept.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._shelf: blocks.Shelf[_Key] = blocks.Shelf(capacity_bytes)
        self._memory: dict[_Key, bytearray] = {}
        # Of the holder that may keep blocks.
        self._epoch = 0
        self._hits = self._misses = self._evicted = 0

    @property
    def counts(self) -> Counts:
        """The figures so far."""
        return Counts(
            self._hits, self._misses, self._evicted, self._shelf.kept_bytes
        )

    def open(self, project_id: str, application: str) -> Blocks:
        """Give access to the blocks of an application, until :meth:`wipe`."""
        return Blocks(self, self._epoch, project_id, application)

    def wipe(self, but_project_id: str | None = None) -> None:
        """Zero and forget all blocks, and end all access.

        :param but_project_id: keep those of this project.
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


class Blocks:
    """The blocks of one application in a cache.

    Made by :meth:`Cache.open`. What is found stays until :meth:`release`.
    """

    def __init__(
        self, cache: Cache, epoch: int, project_id: str, application: str
    ) -> None:
        self._cache = cache
        self._epoch = epoch
        self._project_id = project_id
        self._application = application
        self._pinned: list[_Key] = []

    def _key(self, reference: blocks.Reference) -> _Key:
        return _Key(self._project_id, self._application, *reference[:2])

    def find(self, reference: blocks.Reference) -> memoryview | None:
        """Return a kept block; None: its data has to come."""
        key = self._key(reference)
        found = self._cache._find(self._epoch, key)
        if found is not None:
            self._pinned.append(key)
        return found

    def keep(self, reference: blocks.Reference, data: frames.Buffer) -> None:
        """Check the data of a block, and keep a copy if there is room.

        :param data: that has come for the reference. A client may be changing
            it.
        :raises processing.Failure: ``BLOCK_DAMAGED`` if it is not the
            announced data; it is not kept.
        """
        fits = reference.length_bytes <= self._cache.capacity_bytes
        memory = bytearray(data) if fits else data
        if not reference.names(memory):
            raise _damaged(reference)
        self._cache._keep(
            self._epoch,
            self._key(reference),
            memory,
            bool(reference.argument),
        )

    def release(self) -> None:
        """Let what was found be evicted again."""
        pinned, self._pinned = self._pinned, []
        for key in pinned:
            self._cache._unpin(key)


class Announced:
    """The references in the input that comes over one connection.

    :param kept: the blocks of the session.
    :param max_bytes: longest block.
    :param shared: whether the session's input is in shared buffers.
    :param set_argument: gives the core an argument.
    :param miss: tells the client that the block of a task has to come.
    :param arguments: that the session's core has.
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
        # The data of this one comes next.
        self._expected: tuple[int, blocks.Reference] | None = None
        # Until this task comes again, the client does not know of the miss.
        self._missed: int | None = None
        self._found: memoryview | None = None

    @property
    def pending(self) -> bool:
        """Whether the present piece needs :meth:`fill` or :meth:`check`."""
        return self._found is not None or self._expected is not None

    def take(
        self, channel: channels.Channel, header: frames.FrameHeader
    ) -> frames.FrameHeader | None:
        """Take an INPUT frame.

        :returns: the header of a piece of input; None if it brings none.
        :raises frames.ProtocolError: if it has no place here.
        :raises processing.Failure: if its data, or an argument, is wrong.
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
        # A client that resumes cannot know whether it arrived.
        if self._arguments.get(reference.argument) != reference:
            self._set_argument(reference.argument, data)
            self._arguments[reference.argument] = reference

    def fill(self, place: memoryview) -> bool:
        """Fill a piece of input with the block that was found.

        :returns: False if there is none: the client sends the piece.
        """
        found, self._found = self._found, None
        if found is None:
            return False
        place[:] = found
        self._kept.release()
        return True

    def check(self, data: memoryview) -> None:
        """Check input that was announced, and keep a copy.

        :raises processing.Failure: if it is not what was announced.
        """
        if self._expected is not None:
            _, reference = self._expected
            self._expected = None
            self._kept.keep(reference, data)


def _missing() -> frames.ProtocolError:
    return frames.ProtocolError(
        frames.PROTOCOL_ERROR, "the data of a reference is missing"
    )


def _damaged(reference: blocks.Reference) -> processing.Failure:
    what = f"argument {reference.argument}" if reference.argument else "input"
    return processing.Failure(
        codes.BLOCK_DAMAGED, f"{what} differs from its reference"
    )
