# SPDX-License-Identifier: Apache-2.0

"""Send short frames without waiting for a long one."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable

from fpgapool.client.links import connection as connections
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits

#: Returns the current connection, which may change and so is not stored.
Present = Callable[[], connections.Connection]
#: A frame, or what makes it when it is sent.
Frame = bytes | Callable[[], bytes]


class Sideband:
    """Sends now, or after the frames that another thread is sending.

    :param sending: lock of the thread that is sending. After releasing the
        lock, that thread calls :meth:`flush`.
    """

    def __init__(self, sending: waits.Lock) -> None:
        self._sending = sending
        self._left: collections.deque[Frame] = collections.deque()

    def send(
        self, frame: Frame, present: Present, deadline_s: float | None
    ) -> None:
        """Send a frame, or leave it to the other thread.

        :param present: returns the connection; called with the lock held.
        """
        self._left.append(frame)
        self.flush(present, deadline_s)

    def drop(self) -> None:
        """Drop frames left for a lost connection.

        Their offsets may be invalid for another slot. Call with the lock held.
        """
        self._left.clear()

    def flush(self, present: Present, deadline_s: float | None) -> None:
        """Send the remaining frames, unless another thread will do so."""
        while self._left and self._sending.acquire(blocking=False):
            try:
                # ChannelClosed: the receiving thread handles it. IndexError:
                # another thread has sent the frame.
                with contextlib.suppress(channel.ChannelClosed, IndexError):
                    frame = self._left.popleft()
                    present().channel.send(
                        frame() if callable(frame) else frame,
                        deadline_s=deadline_s,
                    )
            finally:
                self._sending.release()
