# SPDX-License-Identifier: Apache-2.0

"""Short frames that do not wait for a long one."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable

from fpgapool.client.links import connection as connections
from fpgapool.common.channels import channel

#: Not kept: its owner has this.
Present = Callable[[], connections.Connection]


class Behind:
    """Sends at once, or behind the frames that another thread is sending.

    :param sending: is held by the thread that is sending. It calls
        :meth:`flush` when it has released it.
    """

    def __init__(self, sending: threading.Lock) -> None:
        self._sending = sending
        self._left: collections.deque[bytes] = collections.deque()

    def send(
        self, frame: bytes, present: Present, deadline_s: float | None
    ) -> None:
        """Send a frame, or leave it to the other thread.

        :param frame: encoded.
        :param present: returns the connection; called with ``sending``.
        :param deadline_s: absolute deadline.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        self._left.append(frame)
        self.flush(present, deadline_s)

    def drop(self) -> None:
        """Drop what is left for a connection that is lost.

        Another slot may know no such offset. Call it with ``sending``.
        """
        self._left.clear()

    def flush(self, present: Present, deadline_s: float | None) -> None:
        """Send what is left, unless another thread will; see :meth:`send`."""
        while self._left and self._sending.acquire(blocking=False):
            try:
                # A worker that has gone may have said why, and another thread
                # may have been faster.
                with contextlib.suppress(channel.ChannelClosed, IndexError):
                    present().channel.send(
                        self._left.popleft(), deadline_s=deadline_s
                    )
            finally:
                self._sending.release()
