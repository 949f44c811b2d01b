# SPDX-License-Identifier: Apache-2.0

"""Rings and doorbells between the processes of a world.

A ring is a queue of records; it has the room of one in shared memory. What is
in it outlives the process that has written it, as memory does.
"""

from __future__ import annotations

import collections
import errno
import typing
from collections.abc import Sequence

from fpgapool.common.channels import rings
from fpgapool.protocol import records
from tests.world import sockets

#: Descriptors that the peer of a channel needs.
_FDS = 1
#: Small, so that there is no room at times.
_RING_BYTES = 1 << 13
#: Longer than any world lasts.
_FOR_EVER_S = 3600.0


class _Bell(sockets._File):
    """An eventfd."""

    def __init__(self, count: int = 0) -> None:
        super().__init__()
        self.rung = count

    def ready(self) -> int:
        return sockets._READ if self.rung else 0

    def ring(self, count: int = 1) -> None:
        self.rung += count
        self.changed()

    def silence(self) -> int:
        rung, self.rung = self.rung, 0
        return rung


class _Side(_Bell):
    """One side of a channel: its doorbell, and the ring to it.

    :ivar records: that this side has not freed.
    :ivar sleeps: it wants to hear of records, …
    :ivar waits: … or of room in the ring to the other side.
    """

    other: _Side

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.records: collections.deque[bytearray] = collections.deque()
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self.held: rings.Record | None = None
        self.sleeps = False
        self.waits = False

    @property
    def most_bytes(self) -> int:
        return self.size_bytes // 2 - rings._WORD_BYTES

    def has_room(self, length_bytes: int) -> bool:
        if length_bytes > self.most_bytes:
            raise ValueError(f"a record of {length_bytes} bytes does not fit")
        needed_bytes = rings._padded(length_bytes)
        return self.used_bytes + needed_bytes <= self.size_bytes


class Channel:
    """As :class:`rings.Channel`."""

    def __init__(self, side: _Side, fd: int) -> None:
        self._side = side
        self._fd = fd
        self.fds: list[int] = []
        self.max_record_bytes = side.other.most_bytes

    @classmethod
    def create(
        cls,
        size_bytes: int,
        incoming_bytes: int | None = None,
        *,
        stranger: bool = False,
    ) -> Channel:
        mine, others = _Side(incoming_bytes or size_bytes), _Side(size_bytes)
        mine.other, others.other = others, mine
        channel = cls(mine, sockets._system.add(mine))
        channel.fds = [sockets._system.add(others)]
        return channel

    @classmethod
    def attach(cls, fds: Sequence[int]) -> Channel:
        (fd,) = fds
        return cls(typing.cast(_Side, sockets._system.file(fd)), fd)

    def forget_fds(self) -> None:
        fds, self.fds = self.fds, []
        for fd in fds:
            sockets._system.close(fd)

    def fileno(self) -> int:
        return self._fd

    def put(self, *parts: rings.Buffer) -> bool:
        return self.put_all([bytearray().join(parts)]) == 1

    def put_all(self, records: Sequence[rings.Buffer]) -> int:
        # A process may die before it has written, and the peer may be faster.
        sockets._system.kernel.point()
        reader, count = self._side.other, 0
        for record in map(bytearray, records):
            if not reader.has_room(len(record)):
                break
            reader.records.append(record)
            reader.used_bytes += rings._padded(len(record))
            count += 1
        if count and reader.sleeps:
            reader.sleeps = False
            reader.ring()
        return count

    def has_room(self, length_bytes: int) -> bool:
        return self._side.other.has_room(length_bytes)

    def is_empty(self) -> bool:
        return not self._side.records

    def get(self) -> rings.Record | None:
        side = self._side
        if side.held is None and side.records:
            side.held = rings.Record(memoryview(side.records[0]))
        return side.held

    def take(self, count: int, max_bytes: int) -> list[bytes]:
        # A process may die before it has read.
        sockets._system.kernel.point()
        side, taken = self._side, []
        while len(taken) < count and side.records:
            if len(side.records[0]) > max_bytes:
                break
            taken.append(bytes(side.records[0]))
            self._free()
        return taken

    def free(self, *, wipe: bool = False) -> None:
        if self._side.held is None:
            raise ValueError("get() has returned no record")
        self._free()

    def _free(self) -> None:
        side = self._side
        record = side.records.popleft()
        # No slice of it may be used any more.
        record[:] = bytes(len(record))
        side.held = None
        side.used_bytes -= rings._padded(len(record))
        writer = side.other
        if writer.waits:
            writer.waits = False
            writer.ring()

    def wipe(self) -> bool:
        return self.is_drained()

    def is_drained(self) -> bool:
        return not self._side.other.records

    def is_whole(self) -> bool:
        return True

    def arm(self, room_bytes: int | None = None) -> bool:
        side = self._side
        if room_bytes is None or side.held is None:
            side.sleeps = True
        if room_bytes is not None:
            side.waits = True
        return not self._is_ready(room_bytes)

    def disarm(self) -> None:
        side = self._side
        side.waits = False
        if side.sleeps:
            side.sleeps = False
        else:
            side.silence()

    def _is_ready(self, room_bytes: int | None) -> bool:
        side = self._side
        if room_bytes == rings.ALL:
            return not side.other.records
        if room_bytes is not None and self.has_room(room_bytes):
            return True
        if side.held is not None:
            return room_bytes is None
        return bool(side.records)

    def close(self) -> None:
        self.forget_fds()
        fd, self._fd = self._fd, -1
        if fd != -1:
            sockets._system.close(fd)


class _Epoll:
    """As :func:`select.epoll`, for reading."""

    def __init__(self) -> None:
        self._files: dict[int, sockets._File] = {}

    def register(self, fd: int, _events: int) -> None:
        self._files[fd] = sockets._system.file(fd)

    def unregister(self, fd: int) -> None:
        del self._files[fd]

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        found = sockets._system.wait(
            dict.fromkeys(self._files.values(), sockets._READ),
            None if timeout_s >= _FOR_EVER_S else timeout_s,
        )
        return [
            (fd, found[file])
            for fd, file in self._files.items()
            if file in found
        ]

    def close(self) -> None:
        self._files.clear()


def _eventfd(count: int, _flags: int) -> int:
    return sockets._system.add(_Bell(count))


def _bell(fd: int) -> _Bell:
    return typing.cast(_Bell, sockets._system.file(fd))


def _read(fd: int) -> int:
    rung = _bell(fd).silence()
    if not rung:
        raise BlockingIOError(errno.EAGAIN, "nobody has rung")
    return rung


def install(modules: dict[str, object]) -> None:
    """Have channels and doorbells live in a world.

    :param modules: what replaces modules of the standard library, by name.
    """
    rings.Channel = Channel  # type: ignore[assignment,misc]
    rings.CHANNEL_FDS = _FDS
    records.RING_BYTES = _RING_BYTES
    vars(modules["os"]).update(
        eventfd=_eventfd,
        eventfd_read=_read,
        eventfd_write=lambda fd, count: _bell(fd).ring(count),
    )
    vars(modules["select"]).update(epoll=_Epoll)
