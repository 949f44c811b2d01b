# SPDX-License-Identifier: Apache-2.0

"""Memory of sessions: shared between a worker and its client, or not.

Shared memory has a fixed size. Its last byte is 1 while the rest is what it
should be.
"""

from __future__ import annotations

import collections.abc
import contextlib
import fcntl
import logging
import mmap
import os

LOG = logging.getLogger(__name__)

#: A session has input buffers and output buffers, each with a descriptor.
DESCRIPTORS = 2

# Size of the large pages of most processors.
_LARGE_PAGE_BYTES = 2 * 1024 * 1024
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def blank(length_bytes: int) -> memoryview:
    """Make private memory that is only allocated when written.

    It has large pages except at its start: those cost few faults, and copies
    of long pieces are faster. The small pages at the start keep small jobs
    small.
    """
    if not length_bytes:
        return memoryview(bytearray())
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    mapped = mmap.mmap(-1, length_bytes, flags)
    if length_bytes > _LARGE_PAGE_BYTES:
        # Not every kernel has them.
        with contextlib.suppress(OSError):
            mapped.madvise(mmap.MADV_HUGEPAGE, _LARGE_PAGE_BYTES)
    return memoryview(mapped)


def make(name: str, length_bytes: int) -> int:
    """Return a descriptor of new memory.

    :param name: visible to those who inspect the process.
    :param length_bytes: its size, sealed: nobody can truncate it.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, length_bytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


def size_bytes(fd: int) -> int:
    """Return the size of memory that :func:`make` made.

    :raises ValueError: if it is of anything else.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError as exc:
        raise ValueError(f"not a memory descriptor: {exc}") from exc
    if seals != SEALS:
        # Its size could change, or it could not be emptied.
        raise ValueError(f"memory with the seals {seals}")
    return os.fstat(fd).st_size


def empty(mapped: mmap.mmap) -> None:
    """Clear memory, and give its pages back to the system everywhere."""
    # First, because a client that reads this byte has seen all the output.
    mapped[-1] = 0
    mapped.madvise(mmap.MADV_REMOVE)


def discard(fds: collections.abc.Iterable[int]) -> None:
    """Clear memory, and close its descriptors."""
    for fd in fds:
        try:
            with mmap.mmap(fd, 0) as mapped:
                empty(mapped)
        except (OSError, ValueError) as exc:
            LOG.warning("cannot empty the shared buffers: %s", exc)
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)
