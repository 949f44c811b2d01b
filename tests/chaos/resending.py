# SPDX-License-Identifier: Apache-2.0

"""What the client library sends again, counted.

The library does so in the thread that receives, which is the one that opened
the session.
"""

from __future__ import annotations

import threading
import typing

from fpgapool.client.sessions import flow as flows

#: Fewer pieces do not show in which order they come, and which are left out.
LEAST_PIECES = 2

_tallies = threading.local()


class Tally:
    """What the sessions of one thread have sent again.

    :ivar resumes: connections after which at least LEAST_PIECES were sent
        again to the same worker.
    :ivar reopens: the same, to a worker in another slot.
    :ivar flow: the session that was opened last.
    """

    def __init__(self) -> None:
        self.resumes = 0
        self.reopens = 0
        self.flow: flows.Flow | None = None

    def cut(self) -> None:
        """Break the connection of the session that was opened last."""
        if self.flow is not None:
            self.flow._connection.channel.shutdown()


class _CountingFlow(flows.Flow):
    def __init__(self, *arguments: typing.Any) -> None:
        super().__init__(*arguments)
        self._tally: Tally | None = getattr(_tallies, "mine", None)
        self._seen_reopens = 0
        if self._tally is not None:
            self._tally.flow = self

    def _send_again(self, deadline_s: float | None) -> None:
        start_bytes = self._connection.opened.input_offset_bytes
        count = sum(
            bool(piece.data) and piece.offset_bytes >= start_bytes
            for piece in self._input.kept
        )
        moved = self.reopens > self._seen_reopens
        self._seen_reopens = self.reopens
        super()._send_again(deadline_s)
        if self._tally is not None and count >= LEAST_PIECES:
            if moved:
                self._tally.reopens += 1
            else:
                self._tally.resumes += 1


def count() -> None:
    """Have all sessions of this process counted from now on."""
    flows.Flow = _CountingFlow  # type: ignore[misc]


def begin() -> Tally:
    """Begin to count what this thread sends again."""
    _tallies.mine = Tally()
    return _tallies.mine
