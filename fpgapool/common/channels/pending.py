# SPDX-License-Identifier: Apache-2.0

"""A limit on connections whose peers have not authenticated yet."""

from __future__ import annotations

import collections
import contextlib
import socket
import threading
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.common.monitoring import ratelimit

#: How long a thread accepts nothing after that has failed, for example because
#: the process has too many files: what connects stays there, and would be
#: tried again at once.
ACCEPT_PAUSE_S = 0.05


class PendingConnections:
    """Limits the number of unauthenticated connections; thread-safe.

    Honest clients authenticate within moments. At the limit, this closes the
    oldest connection of the address that has the most. So a peer that opens
    many connections and sends nothing only loses its own.

    :param on_cut: called after one was closed, in the thread of another one.
    """

    def __init__(
        self, limit: int, on_cut: Callable[[], object] = lambda: None
    ) -> None:
        self._limit = limit
        self._on_cut = on_cut
        self._log = ratelimit.RateLimitedLog(__name__)
        self._lock = threading.Lock()
        # In the order in which the connections arrived.
        self._addresses: dict[socket.socket, str] = {}
        self.cut_count = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._addresses)

    def __contains__(self, sock: socket.socket) -> bool:
        with self._lock:
            return sock in self._addresses

    def enter(self, sock: socket.socket, address: str) -> None:
        """Add a connection, and close another one if there are too many."""
        with self._lock:
            cut = None
            if len(self._addresses) >= self._limit:
                cut = self._longest_silent()
                del self._addresses[cut]
                self.cut_count += 1
            self._addresses[sock] = address
        if cut is not None:
            self._log.warning(
                "Too many unauthenticated connections; closed one"
            )
            # The thread that serves it notices this and closes it.
            with contextlib.suppress(OSError):
                cut.shutdown(socket.SHUT_RDWR)
            self._on_cut()

    def leave(self, sock: socket.socket) -> None:
        """Remove a connection that is authenticated or has ended."""
        with self._lock:
            self._addresses.pop(sock, None)

    @contextlib.contextmanager
    def one(self, sock: socket.socket, address: str) -> Iterator[None]:
        """Keep a connection here during the context; see :meth:`enter`."""
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
