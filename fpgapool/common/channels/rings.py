# SPDX-License-Identifier: Apache-2.0

"""Rings of records in memory that two processes share.

A *ring* has one writer and one reader. A *record* is a sequence of bytes that
the reader accesses in place. A *channel* is a ring in each direction, with a
doorbell for each side, which the other side rings only if this one sleeps.

The peer may be hostile. Each side keeps its own position in private memory and
checks the peer's values before using them. The peer may change a record while
it is read. So copy what you check, and use only the copy: a :class:`Record`
itself cannot be inspected.

Methods raise RingDamaged if the peer wrote invalid values. On each side, only
one thread may use a ring or channel. The module needs only the standard
library.
"""

from __future__ import annotations

import collections.abc
import contextlib
import errno
import fcntl
import mmap
import os
import select
import socket
import threading
import time
import typing

from fpgapool.common.channels import buffers
from fpgapool.common.channels import doorbells

Buffer: typing.TypeAlias = bytes | bytearray | memoryview | mmap.mmap

#: Minimum and maximum size of a ring.
MIN_RING_BYTES = 4096
MAX_RING_BYTES = 1 << 32

#: Value of ``room_bytes`` that waits until the peer has freed all records.
ALL = -1

#: Number of descriptors that the peer of a channel needs.
CHANNEL_FDS = 4

_PAGE_BYTES = 4096
_WORD_BYTES = 8
_NOT_WORDS = -_WORD_BYTES
_MAGIC = 0x3152_6C6F_6F70_6766

# Words of the first page. Writer and reader use separate cache lines.
_AT_MAGIC = 0
_AT_WRITTEN = 8
_AT_WRITER_WAITS = 9
_AT_READ = 16
_AT_READER_SLEEPS = 17

#: Written instead of a length if the record is at the start of the ring.
_SKIP = 0xFFFF_FFFF_FFFF_FFFF

# The parts of a record up to this length are joined, which is cheaper than
# writing each part.
_SMALL_BYTES = 4096

_ZEROS = bytes(64 * 1024)


class RingDamaged(ValueError):
    """The peer wrote invalid values into the ring."""


class Record:
    """A record in place, which the peer may be changing.

    Copy it with ``bytes(record)`` to inspect it. Only code that reads each
    byte once, and returns copies, may use the memory directly.
    """

    __slots__ = ("_memory",)

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory

    def __len__(self) -> int:
        return len(self._memory)

    def __bytes__(self) -> bytes:
        return bytes(self._memory)

    def view(self) -> memoryview:
        """Return the memory, to pass to a core or another ring, or to copy.

        Make no decisions based on its contents: they may change between reads.
        """
        return self._memory


class Ring:
    """A ring, used by its writer or its reader.

    Positions count bytes since the ring was made. Lengths and records begin at
    multiples of 8 bytes, and no record crosses the end of the ring.

    :ivar fd: descriptor of the memory; -1 after :meth:`close_fd`.
    :ivar max_record_bytes: maximum size of a record: about half of the ring,
        so that it fits in an empty ring whatever the positions are.
    :ivar held: whether :meth:`get` has returned a record that is not freed.
    """

    def __init__(self, fd: int, size_bytes: int) -> None:
        self.fd = fd
        self.size_bytes = size_bytes
        self.max_record_bytes = size_bytes // 2 - _WORD_BYTES
        memory = memoryview(mmap.mmap(fd, _PAGE_BYTES + size_bytes))
        self._words = memory[:_PAGE_BYTES].cast("Q")
        self._data = memory[_PAGE_BYTES:]
        self._lengths = self._data.cast("Q")
        # Used as a memory fence: taking it is an atomic operation, so what
        # comes before is visible to the peer before what follows.
        self._lock = threading.Lock()
        self._record: Record | None = None
        self._taken_bytes = 0
        self._written = self._words[_AT_WRITTEN]
        self._read = self._words[_AT_READ]
        # The writer's position when the reader last read it.
        self._seen = self._read
        self._wiped = self._written

    @classmethod
    def create(cls, size_bytes: int) -> Ring:
        """Make an empty ring.

        :param size_bytes: rounded up to whole pages of 4096 bytes.
        :raises ValueError: if it is not from ``MIN_RING_BYTES`` to
            ``MAX_RING_BYTES``.
        """
        if not MIN_RING_BYTES <= size_bytes <= MAX_RING_BYTES:
            raise ValueError(
                f"the ring size must be from {MIN_RING_BYTES} to"
                f" {MAX_RING_BYTES} bytes, not {size_bytes}"
            )
        size_bytes = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
        # The size is sealed: if a peer could truncate it, reading it would
        # kill this process.
        fd = buffers.make("fpgapool-ring", _PAGE_BYTES + size_bytes)
        try:
            ring = cls(fd, size_bytes)
        except BaseException:
            os.close(fd)
            raise
        ring._words[_AT_MAGIC] = _MAGIC
        return ring

    @classmethod
    def attach(cls, fd: int) -> Ring:
        """Map a ring that another process made.

        :param fd: descriptor of its memory; the ring takes ownership.
        :raises RingDamaged: if it is not a ring, or its size could change; the
            caller then still owns the descriptor.
        """
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        except OSError as exc:
            if exc.errno != errno.EINVAL:
                raise
            seals = 0
        size_bytes = os.fstat(fd).st_size - _PAGE_BYTES
        if seals & buffers.SEALS != buffers.SEALS:
            raise RingDamaged("the size of the ring is not sealed")
        if (
            not MIN_RING_BYTES <= size_bytes <= MAX_RING_BYTES
            or size_bytes % _PAGE_BYTES
        ):
            raise RingDamaged(f"{size_bytes} bytes is not a valid ring size")
        ring = cls(fd, size_bytes)
        if ring._words[_AT_MAGIC] != _MAGIC:
            ring._unmap()
            raise RingDamaged("the memory is not a ring")
        if (ring._written | ring._read) % _WORD_BYTES:
            ring._unmap()
            raise RingDamaged("a position is not a multiple of 8")
        return ring

    def put(self, *parts: Buffer) -> bool:
        """Write a record.

        :param parts: buffers that together make the record.
        :returns: False if there is no room now.
        :raises ValueError: if the record is too large even for an empty ring.
        """
        if not self._write(parts):
            return False
        self._publish()
        return True

    def put_all(self, records: collections.abc.Sequence[Buffer]) -> int:
        """Write records that the reader sees all at once.

        :returns: how many were written; the ring had no room for the rest.
        :raises: the errors of :meth:`put`; earlier records are written.
        """
        count = 0
        try:
            for record in records:
                if not self._write((record,)):
                    break
                count += 1
        finally:
            if count:
                self._publish()
        return count

    def _write(self, parts: tuple[Buffer, ...]) -> bool:
        """Write a record that the reader does not see yet."""
        length_bytes = 0
        for part in parts:
            if type(part) is bytes:
                length_bytes += len(part)
            else:
                length_bytes += memoryview(part).nbytes
        place = self._place(length_bytes)
        if place is None:
            return False
        skip_bytes, at = place
        if skip_bytes:
            self._lengths[self._written % self.size_bytes // _WORD_BYTES] = (
                _SKIP
            )
        self._lengths[at // _WORD_BYTES] = length_bytes
        start = at + _WORD_BYTES
        if length_bytes <= _SMALL_BYTES:
            self._data[start : start + length_bytes] = b"".join(parts)
        else:
            for part in parts:
                view = _flat(part)
                end = start + len(view)
                self._data[start:end] = view
                start = end
        self._written += skip_bytes + _padded(length_bytes)
        return True

    def _publish(self) -> None:
        # A reader that sees the new position must also see the records.
        with self._lock:
            pass
        self._words[_AT_WRITTEN] = self._written

    def has_room(self, length_bytes: int) -> bool:
        """Whether :meth:`put` would write a record of this length now."""
        return self._place(length_bytes) is not None

    def wipe(self) -> bool:
        """Overwrite the records that the reader has freed.

        :returns: whether the reader has freed all records.
        """
        end = self._written - self._unread_bytes()
        start = max(self._wiped, self._written - self.size_bytes)
        self._wiped = end
        while start < end:
            at = start % self.size_bytes
            piece_bytes = min(end - start, self.size_bytes - at)
            _wipe(self._data[at : at + piece_bytes])
            start += piece_bytes
        return end == self._written

    def is_whole(self) -> bool:
        """Whether the ring is still in use, so that data read was intact."""
        # All earlier reads must happen before this check.
        with self._lock:
            pass
        return self._words[_AT_MAGIC] == _MAGIC

    def discard(self) -> None:
        """End the ring and release its memory in all processes."""
        self._words[_AT_MAGIC] = 0
        # The peer must see this before any record disappears.
        with self._lock:
            pass
        mapped = typing.cast(mmap.mmap, self._words.obj)
        mapped.madvise(mmap.MADV_REMOVE)

    def is_drained(self) -> bool:
        """Whether the reader has freed all records."""
        return not self._unread_bytes()

    def get(self) -> Record | None:
        """Return the oldest record that is not freed, in place, or None."""
        if self._record is None and (self._seen != self._read or self._look()):
            start, length_bytes, self._taken_bytes = self._oldest()
            self._record = Record(self._data[start : start + length_bytes])
        return self._record

    def take(self, count: int, max_bytes: int) -> list[bytes]:
        """Copy the oldest records and free them.

        Views of a record that :meth:`get` returned must not be used
        afterwards.

        :param count: maximum number of records.
        :param max_bytes: stop at a longer record, and leave it for
            :meth:`get`.
        :returns: the records, oldest first.
        :raises RingDamaged: as :meth:`get`, and if the peer has discarded the
            ring meanwhile; records copied so far are lost.
        """
        taken: list[bytes] = []
        data, held = self._data, self._record
        if held is not None:
            # get() has read and checked its length.
            if len(held) > max_bytes or not count:
                return taken
            taken.append(bytes(held))
            self._record = None
            self._read += self._taken_bytes
            count -= 1
        try:
            while count and (self._seen != self._read or self._look()):
                start, length_bytes, taken_bytes = self._oldest()
                if length_bytes > max_bytes:
                    break
                taken.append(bytes(data[start : start + length_bytes]))
                self._read += taken_bytes
                count -= 1
        finally:
            if taken:
                self._give_back()
                # _give_back() has a fence, so all records were read before
                # this check.
                if self._words[_AT_MAGIC] != _MAGIC:
                    raise RingDamaged("the ring was discarded")
        return taken

    def _look(self) -> bool:
        """Check whether the writer has written more."""
        seen = self._words[_AT_WRITTEN]
        if seen == self._read:
            return False
        if not self._read < seen <= self._read + self.size_bytes:
            raise RingDamaged("the writer's position is out of range")
        self._seen = seen
        # A fence: the records must not be read before the position.
        with self._lock:
            pass
        return True

    def _oldest(self) -> tuple[int, int, int]:
        """Find the oldest record; the ring must not be empty.

        :returns: its start, its length, and the number of bytes to free.
        """
        unread_bytes = self._seen - self._read
        at = self._read % self.size_bytes
        room_bytes = self.size_bytes - at
        length_bytes = self._lengths[at // _WORD_BYTES]
        taken_bytes = _padded(length_bytes)
        if length_bytes == _SKIP:
            if unread_bytes < room_bytes + _WORD_BYTES:
                raise RingDamaged("the writer skips beyond its position")
            at = 0
            length_bytes = self._lengths[0]
            taken_bytes = room_bytes + _padded(length_bytes)
            room_bytes = unread_bytes
        if taken_bytes > unread_bytes or taken_bytes > room_bytes:
            raise RingDamaged("a record extends beyond the writer's position")
        return at + _WORD_BYTES, length_bytes, taken_bytes

    def _give_back(self) -> None:
        # A fence: the writer must not overwrite the records before they have
        # been read.
        with self._lock:
            pass
        self._words[_AT_READ] = self._read

    @property
    def held(self) -> bool:
        return self._record is not None

    def is_empty(self) -> bool:
        """Whether all records are freed, including a held one."""
        return self._words[_AT_WRITTEN] == self._read

    def free(self, *, wipe: bool = False) -> None:
        """Free the record that :meth:`get` returned.

        Its views must not be used afterwards.
        """
        if self._record is None:
            raise ValueError("get() has returned no record")
        if wipe:
            _wipe(self._record.view())
        self._record = None
        self._read += self._taken_bytes
        self._give_back()

    def close(self) -> None:
        """Close the descriptor; the mapping ends with its last view."""
        self.close_fd()
        self._unmap()

    def close_fd(self) -> None:
        """Close the descriptor; the ring remains usable."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _place(self, length_bytes: int) -> tuple[int, int] | None:
        """Return bytes to skip and the place of the length; None: no room."""
        if length_bytes > self.max_record_bytes:
            raise ValueError(
                f"the record is {length_bytes} bytes, larger than the ring's"
                f" limit of {self.max_record_bytes}"
            )
        size_bytes = self.size_bytes
        needed_bytes = _padded(length_bytes)
        at = self._written % size_bytes
        skip_bytes = size_bytes - at
        if needed_bytes <= skip_bytes:
            skip_bytes = 0
        else:
            needed_bytes += skip_bytes
            at = 0
        if self._unread_bytes() + needed_bytes > size_bytes:
            return None
        return skip_bytes, at

    def _unread_bytes(self) -> int:
        """Return, for the writer, how many bytes the reader has not freed."""
        unread_bytes = self._written - self._words[_AT_READ]
        if not 0 <= unread_bytes <= self.size_bytes:
            raise RingDamaged("the reader's position is out of range")
        # No fence is needed: writes that depend on this position come later.
        return unread_bytes

    def _unmap(self) -> None:
        self._record = None
        self._words = self._lengths = self._data = memoryview(b"")

    def set(self, flag: int) -> None:
        """Set a flag that the peer reads."""
        self._words[flag] = 1
        # The flag must be visible before the caller checks the ring again.
        with self._lock:
            pass

    def clear(self, flag: int) -> bool:
        """Clear a flag; return whether it was set."""
        with self._lock:
            pass
        if not self._words[flag]:
            return False
        self._words[flag] = 0
        return True


class Channel:
    """One side of two rings and two doorbells.

    To wait, call the methods in this order::

        if channel.arm():
            ...  # wait until channel.fileno() is readable
        channel.disarm()
        ...  # get() and free() until get() returns None

    :ivar fds: descriptors that the peer passes to :meth:`attach`; empty after
        :meth:`forget_fds`.
    """

    def __init__(
        self, incoming: Ring, outgoing: Ring, bell: int, peers_bell: int
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._bell = doorbells.Bell(bell)
        self._peers_bell = doorbells.Bell(peers_bell)
        self._discards = False
        self.fds: list[int] = []
        self.max_record_bytes = outgoing.max_record_bytes
        #: Return the oldest record from the peer; see :meth:`Ring.get`.
        self.get = incoming.get
        #: Whether the peer has sent no further record; see
        #: :meth:`Ring.is_empty`.
        self.is_empty = incoming.is_empty
        #: Whether :meth:`put` would write now; see :meth:`Ring.has_room`.
        self.has_room = outgoing.has_room
        #: Whether the peer has freed all records; see
        #: :meth:`Ring.is_drained`.
        self.is_drained = outgoing.is_drained
        #: Whether the peer's ring is still in use; see :meth:`Ring.is_whole`.
        self.is_whole = incoming.is_whole

    @classmethod
    def create(
        cls,
        size_bytes: int,
        incoming_bytes: int | None = None,
        *,
        stranger: bool = False,
    ) -> Channel:
        """Make a channel.

        :param size_bytes: size of the ring to the peer.
        :param incoming_bytes: size of the ring from the peer; None: the same.
        :param stranger: whether the peer is untrusted. Its doorbell is then a
            socket: that is slower, but the peer cannot make writing to it
            block. :meth:`close` then also releases the memory, which is
            charged to this process even if only the peer still maps it.
        """
        with contextlib.ExitStack() as undo:
            outgoing = Ring.create(size_bytes)
            undo.callback(outgoing.close)
            incoming = Ring.create(incoming_bytes or size_bytes)
            undo.callback(incoming.close)
            bell = doorbells.make()
            undo.callback(os.close, bell)
            if stranger:
                peers_bell, heard = (
                    end.detach() for end in socket.socketpair()
                )
                undo.callback(os.close, peers_bell)
            else:
                peers_bell = heard = doorbells.make()
            undo.callback(os.close, heard)
            channel = cls(incoming, outgoing, bell, peers_bell)
            undo.pop_all()
        channel.fds = [outgoing.fd, incoming.fd, heard, bell]
        channel._discards = stranger
        return channel

    @classmethod
    def attach(cls, fds: collections.abc.Sequence[int]) -> Channel:
        """Attach to a channel that another process created.

        :param fds: the creator's :attr:`fds`, or duplicates of them. The
            channel takes ownership, and closes them if this fails.
        :raises RingDamaged: if they do not belong to a channel.
        """
        with contextlib.ExitStack() as undo:
            for fd in fds:
                undo.callback(_close, fd)
            if len(fds) != CHANNEL_FDS:
                raise RingDamaged(
                    f"{len(fds)} descriptors received, {CHANNEL_FDS} expected"
                )
            incoming, outgoing = (Ring.attach(fd) for fd in fds[:2])
            channel = cls(incoming, outgoing, fds[2], fds[3])
            undo.pop_all()
        # The mappings keep their own duplicates of the descriptors.
        incoming.close_fd()
        outgoing.close_fd()
        return channel

    def forget_fds(self) -> None:
        """Close the descriptors that only the peer needs.

        Call this after the peer has received them.
        """
        for fd in self.fds:
            if fd not in (self._bell.fd, self._peers_bell.fd):
                os.close(fd)
        self._incoming.fd = self._outgoing.fd = -1
        self.fds = []

    def fileno(self) -> int:
        """Return the descriptor that is readable when the peer has rung."""
        return self._bell.fd

    def put(self, *parts: Buffer) -> bool:
        """See :meth:`Ring.put`; rings if the peer sleeps."""
        if not self._outgoing.put(*parts):
            return False
        if self._outgoing.clear(_AT_READER_SLEEPS):
            self._peers_bell.ring()
        return True

    def put_all(self, records: collections.abc.Sequence[Buffer]) -> int:
        """See :meth:`Ring.put_all`; rings once if the peer sleeps."""
        count = self._outgoing.put_all(records)
        if count and self._outgoing.clear(_AT_READER_SLEEPS):
            self._peers_bell.ring()
        return count

    def take(self, count: int, max_bytes: int) -> list[bytes]:
        """See :meth:`Ring.take`; rings if the peer needs room."""
        taken = self._incoming.take(count, max_bytes)
        if taken and self._incoming.clear(_AT_WRITER_WAITS):
            self._peers_bell.ring()
        return taken

    def free(self, *, wipe: bool = False) -> None:
        """See :meth:`Ring.free`; rings if the peer needs room."""
        self._incoming.free(wipe=wipe)
        if self._incoming.clear(_AT_WRITER_WAITS):
            self._peers_bell.ring()

    def wipe(self) -> bool:
        """Overwrite records that the peer has freed; see :meth:`Ring.wipe`."""
        return self._outgoing.wipe()

    def arm(self, room_bytes: int | None = None) -> bool:
        """Request that the peer ring when it writes a record.

        :param room_bytes: also request it when there may be room for a record
            of this length or, for :data:`ALL`, when all records are freed.
        :returns: whether to wait; False if there already is room, or a record
            that is not held.
        """
        if room_bytes is None or not self._incoming.held:
            self._incoming.set(_AT_READER_SLEEPS)
        if room_bytes is not None:
            self._outgoing.set(_AT_WRITER_WAITS)
        return not self._is_ready(room_bytes)

    def disarm(self) -> None:
        """Silence the doorbell, after :meth:`arm` and perhaps a wait.

        :raises PeerGone: if this side's doorbell is a socket and the peer has
            closed its end. An eventfd does not show this, so its user must
            also watch a connection to the peer.
        """
        self._outgoing.clear(_AT_WRITER_WAITS)
        # A flag that is still set shows that the peer has not rung.
        if not self._incoming.clear(_AT_READER_SLEEPS):
            self._bell.silence()

    def wait(
        self, timeout_s: float | None = None, room_bytes: int | None = None
    ) -> bool:
        """Wait for a record, or for room.

        :param timeout_s: in seconds; None waits without limit.
        :returns: False if the timeout expired.
        """
        poller = select.poll()
        poller.register(self._bell.fd, select.POLLIN)
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if due_s is None else due_s - time.monotonic()
            if self.arm(room_bytes) and (left_s is None or left_s > 0):
                poller.poll(None if left_s is None else left_s * 1000)
            self.disarm()
            if self._is_ready(room_bytes):
                return True
            if left_s is not None and left_s <= 0:
                return False

    def _is_ready(self, room_bytes: int | None) -> bool:
        if room_bytes == ALL:
            return self._outgoing.is_drained()
        if room_bytes is not None and self._outgoing.has_room(room_bytes):
            return True
        if self._incoming.held:
            return room_bytes is None
        return not self._incoming.is_empty()

    def close(self) -> None:
        """Close all descriptors; the last view keeps the memory mapped."""
        self.forget_fds()
        for ring in (self._incoming, self._outgoing):
            if self._discards:
                ring.discard()
            ring.close()
        self._discards = False
        self._bell.close()
        self._peers_bell.close()


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def _flat(part: Buffer) -> Buffer:
    if type(part) is bytes:
        return part
    view = memoryview(part)
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B") if view.nbytes else b""


def _padded(length_bytes: int) -> int:
    return (length_bytes + 2 * _WORD_BYTES - 1) & _NOT_WORDS


def _wipe(record: memoryview) -> None:
    length_bytes = len(record)
    if length_bytes <= len(_ZEROS):
        record[:] = _ZEROS[:length_bytes]
        return
    for start in range(0, len(record), len(_ZEROS)):
        end = min(start + len(_ZEROS), len(record))
        record[start:end] = _ZEROS[: end - start]
