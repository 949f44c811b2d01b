# SPDX-License-Identifier: Apache-2.0

"""Everything that a session sends to its client: output, acknowledgements,
PONGs. It uses no threads or locks; the session's lock guards it.
"""

from __future__ import annotations

import collections

from fpgapool.agent.worker.data import memory as memories
from fpgapool.agent.worker.data import processing
from fpgapool.protocol import frames
from fpgapool.protocol import stream

#: Largest piece that the receiving thread may process itself.
INLINE_BYTES = 64 * 1024
#: Limit for the bytes sent for such pieces without proof that the client
#: reads. They fit into any socket's buffer, so the receiving thread and the
#: client cannot deadlock by both blocking on sending.
INLINE_SENT_BYTES = 128 * 1024
# Maximum number of kept pieces, each of which needs some additional memory.
_MAX_SEGMENTS = 65536
# With this many kept pieces, request an acknowledgement.
_MANY_SEGMENTS = _MAX_SEGMENTS // 2
_MAX_SENT_AT_ONCE = 16
# Longest checkpoint that is sent with acknowledgements; longer ones would use
# too much of the connection's bandwidth.
_MAX_EARLY_CHECKPOINT_BYTES = len(frames.checkpoint_frame(0, bytes(4096)))
_NO_BYTES = memoryview(b"")


class Outgoing:
    """The frames for a session's client, in the order in which they are sent.

    :param start_bytes: offset of the first byte of output.
    :param window_bytes: maximum amount of unacknowledged output.
    :ivar output: the output that is not sent or not acknowledged yet.
    :ivar linked: whether the output's data goes to the next stage's worker.
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
        self.linked = False
        self.pongs: collections.deque[bytes] = collections.deque()
        # Room that is reserved for the next task's output.
        self._room: memoryview | None = None
        self._unproven_bytes = 0
        # Whether an acknowledgement is needed to free room.
        self._is_short = False
        # The processor's checksums after the newest kept output.
        self._checksums: bytes | None = None
        # Whether a checkpoint precedes each ACK.
        self._has_short_states = processor.has_checkpoints and not shared

    # The client's side.

    def resume(self, received_bytes: int) -> None:
        """Continue on a new connection.

        :raises frames.ProtocolError: if the next output is no longer kept.
        """
        self._release(self.output.resume(received_bytes))
        if self._room is not None:
            self._memory.keep_output(0)
            self._room = None
        self.pongs.clear()
        self._unproven_bytes = 0

    def acknowledge(self, offset_bytes: int) -> None:
        """Process an ACK; a client may repeat it."""
        if offset_bytes > self.output.acknowledged_bytes:
            self._release(self.output.acknowledge(offset_bytes))
        if offset_bytes == self.output.sent_bytes:
            self._unproven_bytes = 0

    def take_pong(self, offset_bytes: int) -> None:
        """Process a PONG, which acknowledges output sent before its PING."""
        if offset_bytes <= self.output.asked_bytes:
            self.acknowledge(offset_bytes)

    def forget_sent(self) -> None:
        """Release sent output that the client will never acknowledge.

        No thread may be sending. Output in shared buffers is kept, because the
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

    def unacknowledged(self) -> str:
        """Describe the output that the client has not acknowledged."""
        output = self.output
        held_bytes = output.sent_bytes - output.acknowledged_bytes
        count = len(output.kept) - len(output.unsent)
        return f"{held_bytes} bytes in {count} pieces are unacknowledged"

    # The core's side.

    def allows_inline(self, length_bytes: int) -> bool:
        """Whether the receiving thread may process and answer a piece."""
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
        """Reserve room for a task's output; return whether there is enough."""
        if self._room is None and len(self.output.kept) < _MAX_SEGMENTS:
            self._room = self._memory.take_output(
                self._processor.needed_bytes(len(task.view), task.end),
                task.view,
            )
        return self._room is not None

    def take_room(self) -> memoryview:
        """Return the room that :meth:`has_room` reserved."""
        room = self._room
        assert room is not None
        self._room = None
        return room

    def add(self, task: processing.Task, written_bytes: int) -> None:
        """Add a task's output before the next task is processed."""
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
        """Forget all output; the session clears the memory."""
        self.output.finish()
        self._room = None

    # Sending.

    def may_send(self) -> bool:
        output = self.output
        if self.pongs:
            return True
        if self._shared:
            # Do not request acknowledgements here: the client returns shared
            # buffers once it has read them.
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
        """Remove and return the frames that can be sent now, in order."""
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
            if self.linked:
                flag = frames.LINKED if data else 0
                parts.append(piece.header(frames.OUTPUT, False, flag))
                continue
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
        """Return a checkpoint for the input that is acknowledged next.

        A slow client that loses the slot may never receive the final
        checkpoint; it can then continue from this one.
        """
        if self._processor.started:
            # Pieces that are being processed have already changed the state.
            return []
        found = self._processor.checkpoint(self._incoming.consumed_bytes)
        # If the state is long, do not save it again for each acknowledgement.
        self._has_short_states = len(found) <= _MAX_EARLY_CHECKPOINT_BYTES
        return [found] if found and self._has_short_states else []
