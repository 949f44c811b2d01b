# SPDX-License-Identifier: Apache-2.0

"""A client that maps the buffers of its session, and keeps the maps."""

from __future__ import annotations

import ctypes
import mmap
import pathlib

from fpgapool.agent.worker.data import memory

BUFFERS_BYTES = 3 * 4096
SESSION_BYTES = 2 * BUFFERS_BYTES


class ClientEnd:
    """A client that fills what it maps.

    :ivar worker_end: the worker's part of it.
    """

    def __init__(self) -> None:
        self.worker_end = memory.SharedMemory(4096, 3)
        self._maps = [
            mmap.mmap(fd, BUFFERS_BYTES + 1) for fd in self.worker_end.fds
        ]
        for mapped in self._maps:
            mapped[:-1] = b"x" * BUFFERS_BYTES

    def leave(self) -> list[int]:
        """End the session, and return the descriptors that stay open."""
        unread = self.worker_end.close(memory.Remains.KEPT)
        assert unread is not None
        return unread.fds

    @property
    def is_empty(self) -> bool:
        """Whether no page of the maps is in memory, and the marks are gone."""
        if any(map(_resident_bytes, self._maps)):
            return False
        return all(one[:] == bytes(BUFFERS_BYTES + 1) for one in self._maps)

    @property
    def is_whole(self) -> bool:
        whole = b"x" * BUFFERS_BYTES + b"\1"
        return all(one[:] == whole for one in self._maps)


def _resident_bytes(mapped: mmap.mmap) -> int:
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    lines = iter(pathlib.Path("/proc/self/smaps").read_text().splitlines())
    next(line for line in lines if line.startswith(f"{address:x}-"))
    resident = next(line for line in lines if line.startswith("Rss:"))
    return 1024 * int(resident.split()[1])
