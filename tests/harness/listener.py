#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A process that listens at a path, and does nothing by itself."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


class Listener:
    """A socket that takes connections when a test says so.

    :ivar path: its path.
    """

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
    """Listen at a path for a while.

    :param path: where.
    """
    with contextlib.ExitStack() as sockets:
        yield Listener(path, sockets)
