# SPDX-License-Identifier: Apache-2.0

"""The two directions of a session: sending, receiving and resending.

Each end of a connection has one :class:`Outbound` and one :class:`Inbound`:
the client sends input and receives output, the worker vice versa. These
classes handle only pieces and positions, which are counted from the session's
first byte, whichever slot processed it.

A connection may be lost at any point. Both ends then ``resume``: the sender
resends everything that the receiver has not used. When the slot is lost, the
client's output position is reset to where it was ``settled``: just after the
output of all acknowledged input. The next slot repeats part of the output, and
the client drops that part.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import typing
from collections.abc import Callable

from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

#: Larger than any window. An integer, because each piece is compared with it.
UNLIMITED = 2**64


class Side(typing.NamedTuple):
    """One end of a connection.

    :ivar is_client: whether it is the client's end. The worker acknowledges
        input task by task, and the client keeps input until it has also
        received the output.
    :ivar code: error code if the other end sends a wrong offset.
    """

    is_client: bool
    code: str
    sends: str
    takes: str


CLIENT = Side(True, codes.PROTOCOL_ERROR, "input", "output")
WORKER = Side(False, codes.BAD_OFFSET, "output", "input")


@dataclasses.dataclass(slots=True, eq=False)
class Piece:
    """The content of one frame, kept until it is acknowledged.

    :ivar data: its bytes; empty if it is only an END.
    :ivar number: number of its shared buffer, if it is in one.
    :ivar flags: bitmask of ``END`` and ``TASK_END``.
    :ivar task_id: number of its task, set when it is added.
    :ivar offset_bytes: position of its first byte, set when it is added.
    """

    data: memoryview
    number: int = 0
    flags: int = 0
    task_id: int = dataclasses.field(init=False)
    offset_bytes: int = dataclasses.field(init=False)

    @property
    def end_offset_bytes(self) -> int:
        """Position after its last byte."""
        return self.offset_bytes + len(self.data)

    def header(self, kind: int, shared: bool, more_flags: int = 0) -> bytes:
        """Encode the header of its frame."""
        return frames.pack_header(
            kind,
            self.flags | more_flags | (frames.SHM if shared else 0),
            0,
            self.task_id,
            self.offset_bytes,
            len(self.data),
            self.number if shared else 0,
        )


_Piece = typing.TypeVar("_Piece", bound=Piece)


class Outbound(typing.Generic[_Piece]):
    """The direction in which one end sends.

    :param start_bytes: position of the first byte in this slot.
    :param window_bytes: how many sent bytes may be unacknowledged.
    :param cuts: whether a piece may be resent in part, without its start.

    :ivar added_bytes: end position of all added pieces.
    :ivar sent_bytes: end position of pieces sent on this connection.
    :ivar acknowledged_bytes: end position of acknowledged pieces.
    :ivar asked_bytes: position up to which it last requested an
        acknowledgement.
    :ivar kept: the unacknowledged pieces, in order.
    :ivar unsent: those kept pieces that have not been sent yet.
    """

    def __init__(
        self,
        side: Side,
        start_bytes: int,
        window_bytes: int,
        cuts: bool = False,
    ) -> None:
        self._side = side
        self._window_bytes = window_bytes
        self._cuts = cuts
        self.start_bytes = self.added_bytes = start_bytes
        self.sent_bytes = self.acknowledged_bytes = start_bytes
        self.asked_bytes = start_bytes
        self.kept: collections.deque[_Piece] = collections.deque()
        self.unsent: collections.deque[_Piece] = collections.deque()
        self._end: _Piece | None = None

    def has_room(self, length_bytes: int) -> bool:
        """Whether a piece of this length could be added and sent at once."""
        in_flight_bytes = self.added_bytes - self.acknowledged_bytes
        return in_flight_bytes + length_bytes <= self._window_bytes

    def has_credit(self) -> bool:
        """Whether there is a piece to send that the window allows."""
        if not self.unsent:
            return False
        in_flight_bytes = self.sent_bytes - self.acknowledged_bytes
        return in_flight_bytes + len(self.unsent[0].data) <= self._window_bytes

    def may_ask(self, is_short: bool) -> bool:
        """Whether to request an acknowledgement of everything sent.

        The other end acknowledges only when it has enough bytes, but fewer on
        request. There is at most one open request.

        :param is_short: whether there is little room left for more pieces.
        """
        if not self.asked_bytes <= self.acknowledged_bytes < self.sent_bytes:
            return False
        return is_short or (bool(self.unsent) and not self.has_credit())

    def ask(self) -> int:
        """Request an acknowledgement up to the offset that is returned."""
        self.asked_bytes = self.sent_bytes
        return self.sent_bytes

    def add(self, piece: _Piece, task_id: int, end: bool) -> None:
        """Append a piece."""
        piece.task_id = task_id
        piece.offset_bytes = self.added_bytes
        if end:
            piece.flags |= frames.END
            self._end = piece
        self.added_bytes += len(piece.data)
        self.kept.append(piece)
        self.unsent.append(piece)

    def take(self) -> _Piece:
        """Return the next piece, to be sent now; see :meth:`has_credit`."""
        piece = self.unsent.popleft()
        self.sent_bytes += len(piece.data)
        return piece

    def acknowledge(
        self,
        offset_bytes: int,
        task_id: int = 0,
        check: Callable[[list[_Piece]], None] | None = None,
    ) -> list[_Piece]:
        """Release the pieces that the other end has acknowledged.

        :param task_id: task in the ACK; in a worker's, the last task that it
            covers.
        :param check: called with these pieces before they are released; may
            raise an exception to reject the ACK.
        :raises frames.ProtocolError: if the offset exceeds the bytes sent, or
            is lower than an earlier one.
        """
        if not self.acknowledged_bytes <= offset_bytes <= self.sent_bytes:
            raise self._wrong("acknowledged", offset_bytes, self.sent_bytes)
        kept, by_task = self.kept, self._side.is_client
        done = []
        covered = 0
        left = len(kept) - len(self.unsent)
        for piece in kept:
            length_bytes = len(piece.data)
            if piece.offset_bytes + length_bytes > offset_bytes or (
                # An END may be acknowledged while it waits to be resent.
                left <= 0 and (length_bytes or not by_task)
            ):
                break
            done.append(piece)
            left -= 1
            # An empty piece has the same offset as the end of the previous
            # piece, so only the task shows whether the ACK covers it.
            if length_bytes or not by_task or piece.task_id == task_id:
                covered = len(done)
        del done[covered:]
        if check is not None:
            check(done)
        for _ in done:
            kept.popleft()
        while len(self.unsent) > len(kept):
            self.unsent.popleft()
        self.acknowledged_bytes = offset_bytes
        return done

    def resume(self, offset_bytes: int) -> list[_Piece]:
        """Continue at an offset, on another connection or in another slot.

        Empty pieces at the offset are resent, because the offset does not show
        whether they arrived.

        :param offset_bytes: the position from which the other end lacks data.
            A client has received everything before it. A worker has processed
            everything before it, but may not have acknowledged it yet.
        """
        side = self._side
        if not self.acknowledged_bytes <= offset_bytes <= self.added_bytes:
            raise self._wrong("resumed", offset_bytes, self.added_bytes)
        arrived = 0
        for number, piece in enumerate(self.kept, 1):
            if piece.end_offset_bytes > offset_bytes:
                break
            if piece.data:
                arrived = number
        there = list(itertools.islice(self.kept, arrived))
        unsent = collections.deque(itertools.islice(self.kept, arrived, None))
        if unsent and unsent[0].offset_bytes < offset_bytes:
            if not self._cuts:
                raise frames.ProtocolError(
                    side.code,
                    f"{side.sends} cannot resume at {offset_bytes}, which is"
                    " within a piece",
                )
            first = unsent[0]
            first.data = first.data[offset_bytes - first.offset_bytes :]
            first.offset_bytes = offset_bytes
        self.unsent = unsent
        self.sent_bytes = offset_bytes
        if side.is_client:
            return []
        # An earlier request was lost with the previous connection.
        self.acknowledged_bytes = self.asked_bytes = offset_bytes
        self.kept = unsent.copy()
        if self._end is not None and not unsent:
            # All bytes have arrived, but perhaps not the END, so resend it.
            end = copy.copy(self._end)
            end.data = end.data[:0]
            self.add(end, end.task_id, True)
        return there

    def go_back(self, task_id: int) -> _Piece:
        """Resend a piece that was sent on this connection, and all later ones.

        :raises frames.ProtocolError: if it was not sent, or was acknowledged.
        """
        sent = len(self.kept) - len(self.unsent)
        for index, piece in enumerate(self.kept):
            if index < sent and piece.task_id == task_id:
                self.unsent = collections.deque(
                    itertools.islice(self.kept, index, None)
                )
                self.sent_bytes = piece.offset_bytes
                return piece
        raise frames.ProtocolError(
            self._side.code,
            f"{self._side.sends} of task {task_id} is not in flight",
        )

    def finish(self) -> None:
        """Release all pieces, because the other end does not need them."""
        self.kept.clear()
        self.unsent.clear()
        self._end = None
        self.acknowledged_bytes = self.sent_bytes = self.added_bytes

    def _wrong(
        self, what: str, offset_bytes: int, end_bytes: int
    ) -> frames.ProtocolError:
        return frames.ProtocolError(
            self._side.code,
            f"{self._side.sends} {what} at {offset_bytes}; the offset must be "
            f"from {self.acknowledged_bytes} to {end_bytes}",
        )


class Inbound:
    """The direction in which one end receives.

    :param start_bytes: position of the first byte in this slot.
    :param credit_bytes: how many unacknowledged bytes may arrive.
    :param multiple_bytes: the length of every piece but the last is a multiple
        of this.
    :param due_bytes: used bytes after which an acknowledgement is due.

    :ivar due_pieces: used pieces after which an acknowledgement is due.
    :ivar buffers: number of shared buffers that contain pieces; 0: frames
        contain them.
    :ivar received_bytes: end position of all announced pieces.
    :ivar consumed_bytes: end position of used pieces.
    :ivar acknowledged_bytes: end position of acknowledged pieces.
    :ivar delivered_bytes: end position of the output of all slots so far.
    :ivar task_id: number of the last used piece's task.
    :ivar closed: whether the other end will not send any more.
    """

    def __init__(
        self,
        side: Side,
        start_bytes: int,
        credit_bytes: int = UNLIMITED,
        multiple_bytes: int = 1,
        due_bytes: int = 0,
    ) -> None:
        self._side = side
        self._due_bytes = due_bytes
        self.due_pieces = UNLIMITED
        self.buffers = 0
        self._credit_bytes = credit_bytes
        self._multiple_bytes = multiple_bytes
        self.start_bytes = self.received_bytes = start_bytes
        self.consumed_bytes = self.acknowledged_bytes = start_bytes
        self.delivered_bytes = self.settled_bytes = start_bytes
        self.task_id = self._held_pieces = 0
        self.finished = self.closed = self._ended = self.ack_due = False
        # Whether the other end may repeat empty pieces before the END.
        self._repeats = False

    def accept(self, header: frames.FrameHeader) -> bool:
        """Accept the header of a data frame.

        :returns: False if it repeats an END, or an empty piece before the END:
            a client that resumes does not know whether they arrived.
        :raises frames.ProtocolError: if it is out of order, exceeds the
            credit, follows the END, or names a buffer that does not exist.
        """
        offset_bytes = header.offset_bytes
        length_bytes = header.payload_length_bytes
        if self._ended or self.closed:
            return self._accept_again(header)
        if offset_bytes != self.received_bytes:
            raise frames.ProtocolError(
                self._side.code,
                f"{self._side.takes} at offset {offset_bytes}; expected "
                f"offset {self.received_bytes}",
            )
        received_bytes = offset_bytes + length_bytes
        if received_bytes - self.acknowledged_bytes > self._credit_bytes:
            raise frames.ProtocolError(
                codes.CREDIT_EXCEEDED,
                f"more than {self._credit_bytes} bytes of {self._side.takes} "
                "are unacknowledged",
            )
        if offset_bytes % self._multiple_bytes:
            raise frames.ProtocolError(
                self._side.code,
                "the length of the previous piece is not a multiple of "
                f"{self._multiple_bytes} bytes",
            )
        if length_bytes and (
            header.aux >= self.buffers
            if header.flags & frames.SHM
            else self.buffers
        ):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                f"{self._side.takes} used the wrong transport, or named "
                f"buffer {header.aux} although there are only {self.buffers} "
                "buffers",
            )
        self.received_bytes = received_bytes
        self._ended = bool(header.flags & frames.END)
        return True

    def _accept_again(self, header: frames.FrameHeader) -> bool:
        about = header.offset_bytes, header.payload_length_bytes
        is_end = header.flags & frames.END
        came = about == (self.received_bytes, 0) and (is_end or self._repeats)
        if self.closed or not self.finished or not came:
            takes = self._side.takes
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                f"received {takes} after the end of the {takes}",
            )
        if is_end:
            self._repeats = False
        self.ack_due = not self._side.is_client
        return False

    def consume(self, length_bytes: int, task_id: int, end: bool) -> int:
        """Mark the oldest piece as used.

        :returns: how many of its first bytes another slot already delivered.
        """
        consumed_bytes = self.consumed_bytes + length_bytes
        known_bytes = self.delivered_bytes - self.consumed_bytes
        if known_bytes > length_bytes:
            known_bytes = length_bytes
        else:
            self.delivered_bytes = consumed_bytes
        self.consumed_bytes = consumed_bytes
        self.task_id = task_id
        self.finished = end
        if length_bytes:
            self._held_pieces += 1
        self.ack_due = (
            consumed_bytes - self.acknowledged_bytes >= self._due_bytes
            or self._held_pieces >= self.due_pieces
        )
        return known_bytes

    def acknowledge(self) -> int:
        """Mark all used bytes as acknowledged; return their end position."""
        self.ack_due = False
        self._held_pieces = 0
        self.acknowledged_bytes = self.consumed_bytes
        return self.consumed_bytes

    def settle(self) -> None:
        """Record that the input for all output so far is acknowledged."""
        self.settled_bytes = self.consumed_bytes

    def move(self) -> None:
        """Return to the settled position, to continue in another slot."""
        self.consumed_bytes = self.settled_bytes
        self.finished = False

    def resume(self, offset_bytes: int) -> None:
        """Continue with the unused bytes, on another connection.

        :param offset_bytes: the other end's position in this direction: a
            client sends the last acknowledgement that it received; a worker
            repeats the position that the client sent.
        """
        consumed_bytes = self.consumed_bytes
        if offset_bytes > consumed_bytes or (
            self._side.is_client and offset_bytes < consumed_bytes
        ):
            raise frames.ProtocolError(
                self._side.code,
                f"{self._side.takes} cannot resume at offset {offset_bytes}; "
                f"it is at offset {consumed_bytes}",
            )
        self.acknowledge()
        self.received_bytes = consumed_bytes
        # A worker's last acknowledgement may have been lost.
        self.ack_due = (
            not self._side.is_client and consumed_bytes > self.start_bytes
        )
        self._ended = self._repeats = self.finished
        self.closed = False
