# SPDX-License-Identifier: Apache-2.0

"""Memory of sessions: private, or shared between a worker and its client.

Shared memory has a fixed size. Its last byte is 1 while its contents are
valid, and becomes 0 before they are cleared.
"""

from __future__ import annotations

import collections.abc
import contextlib
import fcntl
import logging
import mmap
import os

LOG = logging.getLogger(__name__)

#: Descriptors per session: one for its input buffers, one for its output
#: buffers.
DESCRIPTORS = 2

# Size of large pages on most processors.
_LARGE_PAGE_BYTES = 2 * 1024 * 1024
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def blank(length_bytes: int) -> memoryview:
    """Make private memory that is only allocated when written.

    Large pages cause fewer page faults and make long copies faster. The start
    has small pages, so that small jobs use little memory.
    """
    if not length_bytes:
        return memoryview(bytearray())
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    mapped = mmap.mmap(-1, length_bytes, flags)
    if length_bytes > _LARGE_PAGE_BYTES:
        # Not every kernel supports large pages.
        with contextlib.suppress(OSError):
            mapped.madvise(mmap.MADV_HUGEPAGE, _LARGE_PAGE_BYTES)
    return memoryview(mapped)


def make(name: str, length_bytes: int) -> int:
    """Create shared memory and return its descriptor.

    :param name: name for tools that inspect the process.
    :param length_bytes: size, which is sealed so that nobody can change it.
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

    :raises ValueError: if the descriptor does not belong to such memory.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError as exc:
        raise ValueError(f"not a memory descriptor: {exc}") from exc
    if seals != SEALS:
        # Without these seals its size could change; with more, it might be
        # impossible to clear.
        raise ValueError(f"unexpected memory seals: {seals}")
    return os.fstat(fd).st_size


def empty(mapped: mmap.mmap) -> None:
    """Clear memory, and release its pages in all processes."""
    # Set this first: a client that reads output, and then still reads 1, knows
    # that the output was intact.
    mapped[-1] = 0
    mapped.madvise(mmap.MADV_REMOVE)


def discard(fds: collections.abc.Iterable[int]) -> None:
    """Clear memory, and close its descriptors."""
    for fd in fds:
        try:
            with mmap.mmap(fd, 0) as mapped:
                empty(mapped)
        except (OSError, ValueError) as exc:
            LOG.warning("Cannot clear shared buffers: %s", exc)
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)
