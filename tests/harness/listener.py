# SPDX-License-Identifier: Apache-2.0

"""A process that listens at a path, and does nothing by itself."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


class Listener:
    """A socket that takes connections when a test says so."""

    def __init__(self, path: str, sockets: contextlib.ExitStack) -> None:
        self.path = path
        self._sockets = sockets
        self._listener = sockets.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(path)
        self._listener.listen(0)

    def accept(self) -> socket.socket:
        """Take the next connection."""
        return self._sockets.enter_context(self._listener.accept()[0])

    def fill(self) -> None:
        """Have no room for anybody."""
        while True:
            one = self._sockets.enter_context(socket.socket(socket.AF_UNIX))
            one.setblocking(False)
            try:
                one.connect(self.path)
            except BlockingIOError:
                return


@contextlib.contextmanager
def listening(path: str) -> Iterator[Listener]:
    """Listen at a path for a while."""
    with contextlib.ExitStack() as sockets:
        yield Listener(path, sockets)
