# SPDX-License-Identifier: Apache-2.0

"""What the client library sends again: counted, and broken on purpose.

The library does so in the thread that receives, which is the one that opened
the session.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from fpgapool.client import connection as connections
from fpgapool.client import flow as flows
from fpgapool.protocol import frames

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
    def __init__(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: flows.waiting.SlotSeeker,
    ) -> None:
        super().__init__(dialer, connection, seeker)
        self._tally: Tally | None = getattr(_tallies, "mine", None)
        self._seen_reopens = 0
        if self._tally is not None:
            self._tally.flow = self

    def _send_again(self, deadline_s: float | None) -> None:
        start_bytes = self._connection.opened.input_offset_bytes
        count = sum(
            bool(piece.data) and piece.offset_bytes >= start_bytes
            for piece in self._unacknowledged
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
    """Begin to count what this thread sends again.

    :returns: the count; it grows.
    """
    _tallies.mine = Tally()
    return _tallies.mine


# Bugs.


def skipped() -> None:
    """Leave out the second piece that is sent again."""
    _change_second(lambda _piece: [])


def zeroed() -> None:
    """Send zeros in place of the second piece that is sent again."""
    _change_second(lambda piece: [_zeros(piece)])


def doubled() -> None:
    """Send the second piece twice."""
    _change_second(lambda piece: [piece, piece])


def believed() -> None:
    """Take an acknowledgement for one of the next piece as well."""
    acknowledged = flows.Flow._acknowledged

    def believe(flow: flows.Flow, header: frames.FrameHeader) -> None:
        for piece in flow._unacknowledged:
            if piece.data and piece.offset_bytes == header.offset_bytes:
                header = header._replace(offset_bytes=piece.end_offset_bytes)
                break
        acknowledged(flow, header)

    flows.Flow._acknowledged = believe  # type: ignore[method-assign]


#: By their names on the command line.
BUGS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (skipped, zeroed, doubled, believed)
}


def _change_second(change: Callable[[flows.Piece], list[flows.Piece]]) -> None:
    send_again, transmit = flows.Flow._send_again, flows.Flow._transmit

    def broken(flow: flows.Flow, deadline_s: float | None) -> None:
        numbers = itertools.count(1)

        def send(
            connection: connections.Connection,
            piece: flows.Piece,
            prefix: bytes,
            deadline_s: float | None,
        ) -> None:
            second = next(numbers) == LEAST_PIECES
            for one in change(piece) if second else [piece]:
                transmit(flow, connection, one, prefix, deadline_s)

        flow._transmit = send  # type: ignore[method-assign]
        try:
            send_again(flow, deadline_s)
        finally:
            del flow._transmit

    flows.Flow._send_again = broken  # type: ignore[method-assign]


def _zeros(piece: flows.Piece) -> flows.Piece:
    zeros = flows.Piece(piece.number, memoryview(bytes(len(piece.data))), None)
    zeros.task_id = piece.task_id
    zeros.offset_bytes = piece.offset_bytes
    zeros.end = piece.end
    return zeros
