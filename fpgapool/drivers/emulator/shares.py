# SPDX-License-Identifier: Apache-2.0

"""How the processes of a cluster divide their shared resources.

Each slot has its own process. In a mapped file, the processes record which
slots are busy and what each uses: its device's DMA pipe and, for remote data,
the NICs of two hosts. From these entries, each process computes its own
max-min fair rate, over all pipes and NICs at once.
"""

from __future__ import annotations

import collections.abc
import contextlib
import fcntl
import hashlib
import logging
import mmap
import os
import pathlib
import threading
import weakref

from fpgapool.drivers.emulator import fairness

LOG = logging.getLogger(__name__)

FILE_NAME = "shares.shm"

MAX_RESOURCES = 1024
MAX_STREAMS = 4096
#: A remote stream with output uses one DMA pipe, and two NICs, each in both
#: directions.
MAX_USES = 5

_LAYOUT = b"fpgapool-shares-1"
_KEY_BYTES = 16
_WORD_BYTES = 8
_MAX_CACHED_RATES = 1024


class TableFull(Exception):
    """The table has no room for more pipes, NICs or slots."""


class TableTruncated(Exception):
    """The file was truncated, so the streams' entries are lost."""


class _Layout:
    """The layout of the mapped file: where each of its arrays is."""

    def __init__(self) -> None:
        self.length_bytes = 0
        self.identity = self._take(_KEY_BYTES)
        self.counters = self._take(3 * _WORD_BYTES)
        self.resource_keys = self._take(MAX_RESOURCES * _KEY_BYTES)
        self.capacities = self._take(MAX_RESOURCES * _WORD_BYTES)
        self.stream_keys = self._take(MAX_STREAMS * _KEY_BYTES)
        self.busy_until = self._take(MAX_STREAMS * _WORD_BYTES)
        self.peaks = self._take(MAX_STREAMS * _WORD_BYTES)
        self.used = self._take(MAX_STREAMS * MAX_USES * _WORD_BYTES)
        self.costs = self._take(MAX_STREAMS * MAX_USES * _WORD_BYTES)

    def _take(self, length_bytes: int) -> slice:
        start = self.length_bytes
        self.length_bytes += length_bytes
        return slice(start, self.length_bytes)


_PLACES = _Layout()

# Indexes into the counters.
_CHANGES = 0
_RESOURCES = 1
_STREAMS = 2


class ShareTable:
    """Streams, and the resources that they share.

    Entries are only ever added, under a lock on the file. Each stream belongs
    to one slot, and only that slot's process changes it. The time until which
    a stream is busy is a single word, so it is read and written atomically, in
    ns of ``CLOCK_MONOTONIC``. If a process dies, this time passes soon. Except
    for :meth:`mend`, methods raise TableTruncated if the file was truncated.

    :param directory: directory that the processes of a cluster share; created
        if it is missing.
    :raises OSError: if the file cannot be used.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        path = pathlib.Path(directory)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path / FILE_NAME
        self._fd = os.open(
            self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        weakref.finalize(self, os.close, self._fd)
        self._thread_lock = threading.Lock()
        with self._locked():
            self._make_room()
            memory = memoryview(mmap.mmap(self._fd, _PLACES.length_bytes))
            # Read it now: a worker cannot later.
            boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes()
            self._identity = _key(_LAYOUT + boot)
            self._begin(memory)
        self._memory = memory
        self._resource_keys = memory[_PLACES.resource_keys]
        self._stream_keys = memory[_PLACES.stream_keys]
        self._counters = memory[_PLACES.counters].cast("Q")
        self._capacities = memory[_PLACES.capacities].cast("d")
        self._busy_until_ns = memory[_PLACES.busy_until].cast("Q")
        self._peaks_bytes_per_s = memory[_PLACES.peaks].cast("d")
        self._used = memory[_PLACES.used].cast("Q")
        self._costs = memory[_PLACES.costs].cast("d")
        self._cached_at = -1
        self._cached: dict[tuple[int, ...], list[float]] = {}

    @contextlib.contextmanager
    def _locked(self) -> collections.abc.Iterator[None]:
        # The lock on the file excludes other processes; this one excludes
        # other threads.
        with self._thread_lock:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _make_room(self) -> None:
        try:
            # Reserve the disk space: if the disk were full, an access to the
            # mapped file would kill the process.
            os.posix_fallocate(self._fd, 0, _PLACES.length_bytes)
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, str(self._path)) from exc

    def _is_truncated(self) -> bool:
        return os.fstat(self._fd).st_size < _PLACES.length_bytes

    def _check(self) -> None:
        """Check the file's size: access beyond its end would kill the process.

        :raises TableTruncated: if the file is shorter than what is mapped.
        """
        if self._is_truncated():
            raise TableTruncated(f"{self._path} was truncated")

    def mend(self) -> bool:
        """Restore the file, without entries, if it was truncated.

        :raises OSError: if there is no room for it.
        """
        if not self._is_truncated():
            return False
        with self._locked():
            # Another process may have restored it just now.
            if self._is_truncated():
                LOG.error("%s was truncated; restoring it", self._path)
                self._make_room()
                self._memory[_PLACES.identity] = bytes(_KEY_BYTES)
                self._begin(self._memory)
        return True

    def _begin(self, memory: memoryview) -> None:
        # The clock restarts at boot. Entries from an earlier boot would make
        # slots look busy for days, so they are cleared.
        if memory[_PLACES.identity] != self._identity:
            memory[:] = bytes(len(memory))
            memory[_PLACES.identity] = self._identity

    # Resources.

    def declare(
        self, name: str, capacity_bytes_per_s: float, is_owner: bool = True
    ) -> int:
        """Declare the capacity of a pipe or of one direction of a NIC.

        :param is_owner: if false, the capacity is an assumption that is used
            until the owner has declared it.
        :raises TableFull: if there are too many resources.
        """
        with self._locked():
            number = self._entry(
                self._resource_keys, _RESOURCES, MAX_RESOURCES, name
            )
            known = self._capacities[number]
            if known != capacity_bytes_per_s and (is_owner or not known):
                self._capacities[number] = capacity_bytes_per_s
                self._counters[_CHANGES] += 1
            return number

    def _entry(
        self, keys: memoryview, counter: int, most: int, name: str
    ) -> int:
        """Find or add an entry; the caller must hold the lock."""
        self._check()
        key = _key(name.encode())
        count = self._counters[counter]
        for number in range(count):
            if keys[number * _KEY_BYTES : (number + 1) * _KEY_BYTES] == key:
                return number
        if count == most:
            raise TableFull(f"{self._path} is full: cannot add {name}")
        keys[count * _KEY_BYTES : (count + 1) * _KEY_BYTES] = key
        self._counters[counter] = count + 1
        return count

    def busy_users(self, resource: int, now_ns: int) -> int:
        """Count the busy streams that use a resource."""
        self._check()
        return sum(
            resource in dict(self._uses(stream))
            for stream in self._busy_streams(now_ns)
        )

    # Streams.

    def join(
        self,
        name: str,
        peak_bytes_per_s: float,
        uses: collections.abc.Mapping[int, float],
    ) -> int:
        """Declare a slot's stream; it is idle at first.

        :param name: name of the slot, the same in all processes.
        :param uses: bytes of capacity that one byte of the stream takes, by
            resource; at most :data:`MAX_USES` resources.
        :raises TableFull: if there are too many streams.
        """
        with self._locked():
            stream = self._entry(
                self._stream_keys, _STREAMS, MAX_STREAMS, name
            )
            self._busy_until_ns[stream] = 0
            self._peaks_bytes_per_s[stream] = peak_bytes_per_s
            first = stream * MAX_USES
            for place in range(first, first + MAX_USES):
                self._costs[place] = 0.0
            for place, (resource, cost) in enumerate(uses.items(), first):
                self._used[place] = resource
                self._costs[place] = cost
            self._counters[_CHANGES] += 1
            return stream

    def set_peak(self, stream: int, peak_bytes_per_s: float) -> None:
        """Change a stream's peak rate.

        :param peak_bytes_per_s: its rate when it shares no resources.
        """
        with self._locked():
            self._check()
            self._peaks_bytes_per_s[stream] = peak_bytes_per_s
            self._counters[_CHANGES] += 1

    def announce(self, stream: int, busy_until_ns: int) -> None:
        """Record until when a stream is busy."""
        self._check()
        self._busy_until_ns[stream] = busy_until_ns

    def rate_bytes_per_s(self, stream: int, now_ns: int) -> float:
        """Compute a stream's fair rate among the busy streams.

        :raises TableTruncated: if the file was truncated since it joined.
        """
        self._check()
        if stream >= self._counters[_STREAMS]:
            raise TableTruncated(f"{self._path} was truncated and restored")
        busy = self._busy_streams(now_ns, stream)
        changes = self._counters[_CHANGES]
        if changes != self._cached_at or len(self._cached) > _MAX_CACHED_RATES:
            self._cached = {}
            self._cached_at = changes
        rates = self._cached.get(busy)
        if rates is None:
            rates = self._cached[busy] = self._rates_bytes_per_s(busy)
        return rates[busy.index(stream)]

    def _busy_streams(
        self, now_ns: int, besides: int | None = None
    ) -> tuple[int, ...]:
        times_ns = self._busy_until_ns[: self._counters[_STREAMS]].tolist()
        return tuple(
            stream
            for stream, until_ns in enumerate(times_ns)
            if until_ns > now_ns or stream == besides
        )

    def _rates_bytes_per_s(self, streams: tuple[int, ...]) -> list[float]:
        return fairness.max_min_rates(
            [self._peaks_bytes_per_s[stream] for stream in streams],
            [self._uses(stream) for stream in streams],
            self._capacities[: self._counters[_RESOURCES]].tolist(),
        )

    def _uses(self, stream: int) -> list[tuple[int, float]]:
        places = range(stream * MAX_USES, (stream + 1) * MAX_USES)
        # A dict, because an entry that is being written may name a resource
        # twice.
        return list(
            {
                self._used[place]: self._costs[place]
                for place in places
                if self._costs[place]
            }.items()
        )


def _key(name: bytes) -> bytes:
    return hashlib.blake2b(name, digest_size=_KEY_BYTES).digest()
