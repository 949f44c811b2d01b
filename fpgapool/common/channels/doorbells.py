# SPDX-License-Identifier: Apache-2.0

"""Doorbells that wake another process; they need only the standard library."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

_COUNT_BYTES = 8
# Maximum number of rings that one call reads from a socket.
_MOST_BYTES = 4096


class PeerGone(ConnectionError):
    """The peer has closed its doorbell."""


class Bell:
    """A doorbell: an eventfd, or one end of a pair of sockets.

    A peer can make ringing an eventfd block. Silencing an eventfd, and ringing
    and silencing a socket, never block.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._sock = (
            socket.socket(fileno=fd)
            if stat.S_ISSOCK(os.fstat(fd).st_mode)
            else None
        )
        self._count = bytearray(_COUNT_BYTES)

    def ring(self) -> None:
        # If the socket is full or the counter is at its limit, the peer has
        # already been rung.
        with contextlib.suppress(OSError):
            if self._sock is None:
                os.eventfd_write(self.fd, 1)
            else:
                self._sock.send(b"1", socket.MSG_DONTWAIT)

    def silence(self) -> None:
        # These calls do not block even if the peer has set the descriptor to
        # blocking mode.
        with contextlib.suppress(BlockingIOError):
            if self._sock is None:
                os.preadv(self.fd, [self._count], -1, os.RWF_NOWAIT)
            elif not self._sock.recv(_MOST_BYTES, socket.MSG_DONTWAIT):
                raise PeerGone("the peer closed its doorbell")

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
        elif self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def make() -> int:
    return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
