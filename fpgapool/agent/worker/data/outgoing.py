# SPDX-License-Identifier: Apache-2.0

"""All that a session sends to its client: output, acknowledgements, PONGs.

It has no threads and no lock; the session's lock guards it.
"""

from __future__ import annotations

import collections

from fpgapool.agent.worker.data import memory as memories
from fpgapool.agent.worker.data import processing
from fpgapool.protocol import frames
from fpgapool.protocol import stream

#: Largest piece that its receiving thread may process itself.
INLINE_BYTES = 64 * 1024
#: Limit of bytes sent by such pieces since the client last showed that it
#: reads. It fits any socket's buffer, so the receiving thread never blocks
#: on sending while the client blocks on sending too.
INLINE_SENT_BYTES = 128 * 1024
# Bounds the memory that tiny pieces cost beyond their bytes.
_MAX_SEGMENTS = 65536
# So many are a reason to ask for an acknowledgement, in time for the answer.
_MANY_SEGMENTS = _MAX_SEGMENTS // 2
_MAX_SENT_AT_ONCE = 16
# The frame of a longer state would take too much of the connection.
_MAX_EARLY_CHECKPOINT_BYTES = len(frames.checkpoint_frame(0, bytes(4096)))
_NO_BYTES = memoryview(b"")


class Outgoing:
    """The frames for a session's client, in the order of sending.

    :param processor: runs the core.
    :param memory: holds the bytes.
    :param shared: whether the client maps that memory.
    :param incoming: the other direction, which is acknowledged.
    :param start_bytes: offset of the first byte of output.
    :param window_bytes: how much output may be unacknowledged.

    :ivar output: the output that is still to send or to acknowledge.
    :ivar pongs: answers to the client's PINGs.
    """

    def __init__(
        self,
        processor: processing.Processor,
        memory: memories.Memory,
        shared: bool,
        incoming: stream.Inbound,
        start_bytes: int,
        window_bytes: int,
    ) -> None:
        self._processor = processor
        self._memory = memory
        self._shared = shared
        self._incoming = incoming
        self.output: stream.Outbound[stream.Piece] = stream.Outbound(
            stream.WORKER, start_bytes, window_bytes, cuts=not shared
        )
        self.pongs: collections.deque[bytes] = collections.deque()
        # For the output of the next task.
        self._room: memoryview | None = None
        self._unproven_bytes = 0
        # Whether an acknowledgement is wanted for the room that it gives.
        self._is_short = False
        # Of all kept output, encoded.
        self._checksums: bytes | None = None
        # So far; whether a checkpoint goes before each ACK.
        self._has_short_states = processor.has_checkpoints and not shared

    # The client's side.

    def resume(self, received_bytes: int) -> None:
        """Go on over another connection.

        :param received_bytes: output that the client has.
        :raises frames.ProtocolError: if that output is not kept any more.
        """
        self._release(self.output.resume(received_bytes))
        if self._room is not None:
            self._memory.keep_output(0)
            self._room = None
        self.pongs.clear()
        self._unproven_bytes = 0

    def acknowledge(self, offset_bytes: int) -> None:
        """Take an ACK; a client may repeat it."""
        if offset_bytes > self.output.acknowledged_bytes:
            self._release(self.output.acknowledge(offset_bytes))
        if offset_bytes == self.output.sent_bytes:
            self._unproven_bytes = 0

    def take_pong(self, offset_bytes: int) -> None:
        """Take a PONG: the answer to a question acknowledges, too.

        A client answers a PING when it has received what came before.
        """
        if offset_bytes <= self.output.asked_bytes:
            self.acknowledge(offset_bytes)

    def forget_sent(self) -> None:
        """Release the output that the client will never acknowledge.

        Nothing may be sending. Output in shared buffers stays there: the
        client may not have read it yet.
        """
        if not self._shared:
            self._release(self.output.acknowledge(self.output.sent_bytes))

    def _release(self, pieces: list[stream.Piece]) -> None:
        for piece in pieces:
            if piece.data:
                self._memory.release_output(piece)
        if self._is_short:
            self._look_at_room()

    def _look_at_room(self) -> None:
        self._is_short = (
            len(self.output.kept) >= _MANY_SEGMENTS
            or self._memory.is_short_of_output
        )

    # The core's side.

    def allows_inline(self, length_bytes: int) -> bool:
        """Whether the receiving thread may process a piece, and answer it."""
        output = self.output
        return (
            length_bytes <= INLINE_BYTES
            and not output.unsent
            and output.acknowledged_bytes == output.sent_bytes
            and self._unproven_bytes < INLINE_SENT_BYTES
            and self._processor.needed_bytes(length_bytes, True)
            <= INLINE_BYTES
        )

    def has_room(self, task: processing.Task) -> bool:
        """Whether there is room for the output of a task; keeps it."""
        if self._room is None and len(self.output.kept) < _MAX_SEGMENTS:
            self._room = self._memory.take_output(
                self._processor.needed_bytes(len(task.view), task.end),
                task.view,
            )
        return self._room is not None

    def take_room(self) -> memoryview:
        """Take the room that :meth:`has_room` keeps."""
        room = self._room
        assert room is not None
        self._room = None
        return room

    def add(self, task: processing.Task, written_bytes: int) -> None:
        """Add the output of a task, before the next one is processed."""
        self._checksums = self._processor.checksums
        pieces = self._memory.keep_output(written_bytes)
        if task.end and not pieces:
            pieces = [stream.Piece(_NO_BYTES, flags=frames.TASK_END)]
        for piece in pieces:
            last = bool(piece.flags & frames.TASK_END)
            self.output.add(piece, task.task_id, task.end and last)
        if not self._shared:
            self._look_at_room()

    def finish(self) -> None:
        """Forget all of it; the memory is cleared elsewhere."""
        self.output.finish()
        self._room = None

    # Sending.

    def may_send(self) -> bool:
        """Whether frames can be sent now."""
        output = self.output
        if self.pongs:
            return True
        if self._shared:
            # A client that has received shared output may still be reading
            # it; it counts buffers, too, and gives them back by itself.
            if output.unsent:
                return self._may_send_shared()
        elif output.unsent:
            return output.has_credit() or output.may_ask(self._is_short)
        elif self._is_short and output.may_ask(True):
            return True
        return self._incoming.ack_due

    def _may_send_shared(self) -> bool:
        output = self.output
        return output.has_credit() and self._memory.place_output(
            output.unsent[0]
        )

    def collect(self) -> list[frames.Buffer]:
        """Collect the frames that can be sent now, in the order of sending."""
        parts: list[frames.Buffer] = []
        while self.pongs and len(parts) < _MAX_SENT_AT_ONCE:
            parts.append(self.pongs.popleft())
        output, shared = self.output, self._shared
        while (
            output.unsent
            and len(parts) < _MAX_SENT_AT_ONCE
            and (self._may_send_shared() if shared else output.has_credit())
        ):
            piece = output.take()
            data = piece.data
            parts.append(piece.header(frames.OUTPUT, shared and bool(data)))
            if data and not shared:
                parts.append(data)
        if not shared and output.may_ask(self._is_short):
            parts.append(
                frames.pack_header(frames.PING, offset_bytes=output.ask())
            )
        incoming = self._incoming
        if incoming.ack_due and not output.unsent:
            place = 0, 0, incoming.task_id, incoming.acknowledge()
            if self._checksums is not None:
                announced = frames.pack_header(
                    frames.CHECKSUM, *place, len(self._checksums)
                )
                parts.append(announced + self._checksums)
            if self._has_short_states:
                parts += self._early_checkpoint()
            parts.append(frames.pack_header(frames.ACK, *place))
        self._unproven_bytes += sum(map(len, parts))
        return parts

    def _early_checkpoint(self) -> list[frames.Buffer]:
        """Return the state behind the input that is acknowledged next.

        A client that does not read in time would never get the last one. What
        it reads later then ends with a state with which it goes on.
        """
        if self._processor.started:
            # They change the state behind that input.
            return []
        found = self._processor.checkpoint(self._incoming.consumed_bytes)
        # To ask for a long state again and again would be a waste.
        self._has_short_states = len(found) <= _MAX_EARLY_CHECKPOINT_BYTES
        return [found] if found and self._has_short_states else []
