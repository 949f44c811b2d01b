# SPDX-License-Identifier: Apache-2.0

"""Connections of which nobody knows yet whose they are: only so many."""

from __future__ import annotations

import collections
import contextlib
import socket
import threading
from collections.abc import Iterator

from fpgapool.common import ratelimit


class Strangers:
    """A bounded number of connections, from which the silent ones are cut.

    Who is honest says who it is within moments. So where there are too many,
    the one goes that has been silent for longest, of the address that has
    most of them: whoever connects and sends nothing turns away itself, not
    those who come later.

    Safe to use from several threads.

    :param limit: how many there may be.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._log = ratelimit.RateLimitedLog(__name__)
        self._lock = threading.Lock()
        # In the order of their arrival.
        self._addresses: dict[socket.socket, str] = {}
        #: How many were cut.
        self.cut_count = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._addresses)

    def enter(self, sock: socket.socket, address: str) -> None:
        """Take a connection in, and cut another one if there is no room.

        :param sock: the connection.
        :param address: where it is from.
        """
        with self._lock:
            cut = None
            if len(self._addresses) >= self._limit:
                cut = self._longest_silent()
                del self._addresses[cut]
                self.cut_count += 1
            self._addresses[sock] = address
        if cut is not None:
            self._log.warning("too many unidentified connections: one was cut")
            # Its own thread notices and closes it.
            with contextlib.suppress(OSError):
                cut.shutdown(socket.SHUT_RDWR)

    def leave(self, sock: socket.socket) -> None:
        """Forget a connection, which is known now, over or was cut.

        :param sock: the connection.
        """
        with self._lock:
            self._addresses.pop(sock, None)

    @contextlib.contextmanager
    def one(self, sock: socket.socket, address: str) -> Iterator[None]:
        """Take a connection in for as long as this lasts.

        :param sock: the connection.
        :param address: where it is from.
        """
        self.enter(sock, address)
        try:
            yield
        finally:
            self.leave(sock)

    def _longest_silent(self) -> socket.socket:
        counts = collections.Counter(self._addresses.values())
        most = max(counts.values())
        return next(
            sock
            for sock, address in self._addresses.items()
            if counts[address] == most
        )
