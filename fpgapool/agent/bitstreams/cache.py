# SPDX-License-Identifier: Apache-2.0

"""The cache of bitstreams' files on an agent's host.

A file's name is the SHA-256 of its contents, so damage can always be detected
and identical bitstreams are stored once. The directory is the only state, so
an agent can use the files that the previous one fetched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import pathlib
import re
import secrets
import threading
import time
from collections.abc import Iterator

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent.bitstreams import sources

LOG = logging.getLogger(__name__)

FIRST_RETRY_S = 0.2
LONGEST_RETRY_S = 5.0

_NAME = re.compile(r"[0-9a-f]{64}")
_PART_SUFFIX = ".part"
_READ_BYTES = 1 << 20


class Unavailable(Exception):
    """A bitstream's file cannot be fetched to this host."""


class Late(Unavailable):
    """A file was not fetched in time; a longer timeout may help."""


@dataclasses.dataclass(slots=True)
class Counts:
    """Counts of events, and the cache's current size.

    :ivar damaged: number of cached files that were damaged or missing.
    """

    hits: int = 0
    misses: int = 0
    failures: int = 0
    evictions: int = 0
    damaged: int = 0
    fetched_bytes: int = 0
    stored_bytes: int = 0


@dataclasses.dataclass(slots=True)
class _Entry:
    """A cached file.

    :ivar used_ns: time of last use, by the wall clock, as in file timestamps.
    :ivar proved: the file's attributes when its contents were last verified.
    """

    size_bytes: int
    used_ns: int
    proved: tuple[int, ...] | None = None


class BitstreamCache:
    """Keeps files while there is room; thread-safe. Only one thread at a time
    checks or fetches a file.

    :param max_bytes: limit for the total size; files in use count, but are not
        evicted.
    :param timeout_s: default time limit for a fetch including its retries.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        source: sources.Source,
        *,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        self._directory = pathlib.Path(directory)
        self._source = source
        self._max_bytes = max_bytes
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        # Checksums of files that are being checked or fetched.
        self._busy: set[str] = set()
        self._not_busy = threading.Condition(self._lock)
        self._entries: dict[str, _Entry] = {}
        self._in_use: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self.counts = Counts()

    def load(self) -> None:
        """Index the cached files and remove incomplete ones."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            if path.name.endswith(_PART_SUFFIX):
                path.unlink(missing_ok=True)
            elif _NAME.fullmatch(path.name):
                found = path.stat()
                self._entries[path.name] = _Entry(
                    found.st_size, found.st_mtime_ns
                )
        with self._lock:
            self._count_stored()
            self._make_room(0)

    def stop(self) -> None:
        """Cancel running fetches."""
        self._stopping.set()
        with self._not_busy:
            self._not_busy.notify_all()

    def set_in_use(self, checksums: frozenset[str]) -> None:
        """Set which files must not be evicted."""
        with self._lock:
            self._in_use = checksums

    def peek(self, bitstream: objects.BitstreamRef) -> str | None:
        """Return the path of an already verified file, without blocking.

        :returns: None if the file must be verified or fetched first.
        """
        checksum = bitstream.checksum_sha256
        with self._lock:
            entry = self._entries.get(checksum)
            if entry is None or entry.proved is None or checksum in self._busy:
                return None
            path = self._directory / checksum
            try:
                if _looks(path) != entry.proved:
                    return None
                self._mark_used(entry, path)
            except OSError:
                return None
        return str(path)

    def get(
        self,
        bitstream: objects.BitstreamRef,
        again: bool = False,
        deadline_s: float | None = None,
    ) -> str:
        """Return a verified file's path; may block to fetch or hash it.

        :param again: whether the cached file is known to be damaged.
        :param deadline_s: time at which to give up, by the monotonic clock; by
            default, after ``timeout_s``.
        :raises Late: if the file is not fetched by then.
        :raises Unavailable: if it cannot be fetched.
        """
        if deadline_s is None:
            deadline_s = time.monotonic() + self.timeout_s
        try:
            return self._get(bitstream, again, deadline_s)
        except Unavailable:
            self.counts.failures += 1
            raise
        except (OSError, sources.SourceError) as error:
            self.counts.failures += 1
            raise Unavailable(_explain(error)) from error

    def _get(
        self, bitstream: objects.BitstreamRef, again: bool, deadline_s: float
    ) -> str:
        checksum = bitstream.checksum_sha256
        if not _NAME.fullmatch(checksum) or bitstream.size_bytes < 0:
            raise Unavailable("the bitstream has an invalid checksum or size")
        path = self._directory / checksum
        with self._alone(checksum, deadline_s):
            if again:
                self._discard(checksum, "the driver found it damaged")
            elif self._find(bitstream, path):
                return str(path)
            self.counts.misses += 1
            self._fetch(bitstream, path, deadline_s)
        return str(path)

    @contextlib.contextmanager
    def _alone(self, checksum: str, deadline_s: float) -> Iterator[None]:
        """Let only this thread check or fetch a file; wait for others."""
        with self._not_busy:
            self._not_busy.wait_for(
                lambda: checksum not in self._busy or self._stopping.is_set(),
                deadline_s - time.monotonic(),
            )
            if self._stopping.is_set():
                raise _stopped()
            if checksum in self._busy or time.monotonic() >= deadline_s:
                raise Late("another fetch of the same file took too long")
            self._busy.add(checksum)
        try:
            yield
        finally:
            with self._not_busy:
                self._busy.remove(checksum)
                self._not_busy.notify_all()

    # Files in the cache.

    def _find(
        self, bitstream: objects.BitstreamRef, path: pathlib.Path
    ) -> bool:
        """Return whether a file is cached with the right contents.

        The contents are read only if the file's attributes have changed since
        the last check. The driver detects changes that do not affect these.
        """
        checksum = bitstream.checksum_sha256
        entry = self._entries.get(checksum)
        if entry is None:
            return False
        try:
            if not _is_right(path, checksum, entry.proved):
                self._discard(checksum, "its checksum is wrong")
                return False
        except FileNotFoundError:
            self._discard(checksum, "it no longer exists")
            return False
        with self._lock:
            self._mark_used(entry, path)
        return True

    def _mark_used(self, entry: _Entry, path: pathlib.Path) -> None:
        """Record the use of a verified file; the caller holds the lock."""
        os.utime(path)
        entry.proved = _looks(path)
        entry.used_ns = time.time_ns()
        self.counts.hits += 1

    def _discard(self, checksum: str, reason: str) -> None:
        LOG.warning("Removing the cached bitstream %s: %s", checksum, reason)
        self.counts.damaged += 1
        with self._lock:
            self._remove(checksum)

    def _remove(self, checksum: str) -> None:
        self._entries.pop(checksum, None)
        (self._directory / checksum).unlink(missing_ok=True)
        self._count_stored()

    def _count_stored(self) -> None:
        self.counts.stored_bytes = sum(
            entry.size_bytes for entry in self._entries.values()
        )

    def _make_room(self, wanted_bytes: int) -> None:
        """Remove the least recently used files; the caller holds the lock."""
        removable = sorted(
            (entry.used_ns, checksum)
            for checksum, entry in self._entries.items()
            if checksum not in self._in_use
        )
        for _, checksum in removable:
            if self.counts.stored_bytes + wanted_bytes <= self._max_bytes:
                return
            LOG.info("Evicting the cached bitstream %s", checksum)
            self.counts.evictions += 1
            self._remove(checksum)

    # Files that must be fetched.

    def _fetch(
        self,
        bitstream: objects.BitstreamRef,
        path: pathlib.Path,
        deadline_s: float,
    ) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                return self._try(bitstream, path, deadline_s)
            except sources.SourceError as error:
                left_s = deadline_s - time.monotonic()
                if error.final:
                    raise
                if left_s <= retry_s:
                    raise Late(str(error)) from error
                LOG.info(
                    "Fetching bitstream %s failed: %s; retrying in %.1f s",
                    bitstream.bitstream_id,
                    error,
                    retry_s,
                )
            if self._stopping.wait(retry_s):
                raise _stopped()
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)

    def _try(
        self,
        bitstream: objects.BitstreamRef,
        path: pathlib.Path,
        deadline_s: float,
    ) -> None:
        with self._lock:
            self._make_room(bitstream.size_bytes)
        with self._part(path) as (part, file_fd):
            with contextlib.closing(self._source.pieces(bitstream)) as pieces:
                self._copy(bitstream, pieces, file_fd, deadline_s)
            os.fsync(file_fd)
            os.rename(part, path)
        _sync_directory(self._directory)
        with self._lock:
            self._entries[bitstream.checksum_sha256] = _Entry(
                bitstream.size_bytes, time.time_ns(), _looks(path)
            )
            self._count_stored()

    @contextlib.contextmanager
    def _part(self, path: pathlib.Path) -> Iterator[tuple[pathlib.Path, int]]:
        """Create a temporary file; remove it at the end unless renamed."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(
            f"{path.name}.{secrets.token_hex(4)}{_PART_SUFFIX}"
        )
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            yield part, fd
        finally:
            os.close(fd)
            part.unlink(missing_ok=True)

    def _copy(
        self,
        bitstream: objects.BitstreamRef,
        pieces: Iterator[bytes],
        fd: int,
        deadline_s: float,
    ) -> None:
        digest = hashlib.sha256()
        size_bytes = 0
        for piece in pieces:
            size_bytes += len(piece)
            self.counts.fetched_bytes += len(piece)
            if size_bytes > bitstream.size_bytes:
                raise sources.SourceError(
                    f"the source returned more than {bitstream.size_bytes}"
                    " bytes"
                )
            if self._stopping.is_set():
                raise _stopped()
            if time.monotonic() > deadline_s:
                raise Late(f"fetching took more than {self.timeout_s:g} s")
            digest.update(piece)
            _write_all(fd, piece)
        if (
            size_bytes != bitstream.size_bytes
            or digest.hexdigest() != bitstream.checksum_sha256
        ):
            raise sources.SourceError(
                f"the source returned {size_bytes} bytes, which have the wrong"
                " size or checksum"
            )


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _stopped() -> sources.SourceError:
    return sources.SourceError("the agent is stopping", final=True)


def _explain(error: OSError | sources.SourceError) -> str:
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "no space left on this host"
        return f"the file cannot be stored on this host: {error}"
    return str(error)


def _looks(path: pathlib.Path) -> tuple[int, ...]:
    found = path.stat()
    return (
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _is_right(
    path: pathlib.Path, checksum: str, proved: tuple[int, ...] | None
) -> bool:
    """Whether a file is intact; hashes it only if its attributes changed."""
    if _looks(path) == proved:
        return True
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest() == checksum


def _sync_directory(path: pathlib.Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
