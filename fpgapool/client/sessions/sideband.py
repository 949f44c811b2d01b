# SPDX-License-Identifier: Apache-2.0

"""Short frames that need not wait for a long one."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable

from fpgapool.client.links import connection as connections
from fpgapool.common.channels import channel

#: Not kept: its owner has it.
Present = Callable[[], connections.Connection]


class Sideband:
    """Sends at once, or after the frames that another thread is sending.

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

        :param present: returns the connection; called with ``sending``.
        """
        self._left.append(frame)
        self.flush(present, deadline_s)

    def drop(self) -> None:
        """Drop frames left for a lost connection.

        Another slot may know no such offset. Call it with ``sending``.
        """
        self._left.clear()

    def flush(self, present: Present, deadline_s: float | None) -> None:
        """Send remaining frames, unless another thread will; see
        :meth:`send`.
        """
        while self._left and self._sending.acquire(blocking=False):
            try:
                # ChannelClosed: the receiver learns why. IndexError: another
                # thread sent the frame.
                with contextlib.suppress(channel.ChannelClosed, IndexError):
                    present().channel.send(
                        self._left.popleft(), deadline_s=deadline_s
                    )
            finally:
                self._sending.release()
