# SPDX-License-Identifier: Apache-2.0

"""The flow of data through one session.

One thread receives, while another may send; if a session runs one task at a
time, the caller's thread does both. :mod:`fpgapool.client.sessions.recovery`
describes what happens when a connection or a slot is lost.
"""

from __future__ import annotations

from typing import Any
from typing import NoReturn

from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import pieces
from fpgapool.client.sessions import recovery
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes


class Flow(recovery.Recovering):
    def __init__(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: waiting.SlotSeeker,
        sender: blocks.BlockSender | None = None,
    ) -> None:
        super().__init__(dialer, connection, seeker, sender)
        self.ended = False
        self.closed: dict[str, Any] | None = None
        # Whether the worker ended the session; it is then not cancelled.
        self._ended_by_worker = False
        self._spare = memoryview(b"")
        self._scratch = bytearray(frames.HEADER_BYTES)

    # Receiving

    def receive(
        self, place: memoryview, deadline_s: float | None
    ) -> pieces.Output | None:
        """Receive the next frame, and release the output received before.

        :param place: where to put output that arrives in the stream; at least
            ``chunk_bytes`` long.
        :raises errors.SessionFailed: if the session has ended or cannot be
            resumed; :class:`errors.ChecksumMismatch` if data changed in
            transit.
        :raises frames.ProtocolError: if the worker violates the protocol.
        """
        while True:
            connection = self._connection
            try:
                if self._output.ack_due:
                    # The ACK must not wait for a long piece of input: that
                    # would delay the output.
                    self._behind.send(
                        self._release(), self._present, deadline_s
                    )
                header = connection.recv_header(self._scratch, deadline_s)
                return self._handle(connection, header, place, deadline_s)
            except (channel.ChannelClosed, recovery.SlotLost) as exc:
                self._recover(deadline_s, exc)

    def _handle(
        self,
        connection: connections.Connection,
        header: frames.FrameHeader,
        place: memoryview,
        deadline_s: float | None,
    ) -> pieces.Output | None:
        kind = header.type
        if kind == frames.OUTPUT:
            return self._take_output(connection, header, place, deadline_s)
        if kind == frames.ACK:
            try:
                self._acknowledged(header)
            except errors.ChecksumMismatch as failure:
                self._ended_by_worker = connection.complain(
                    failure, self._scratch
                )
                raise
            return None
        payload = channel.recv_payload(connection.channel, header, deadline_s)
        if kind == frames.PING:
            # PONG also acknowledges the output before PING: it was processed.
            pong = header._replace(type=frames.PONG).pack()
            self._behind.send(pong, self._present, deadline_s)
        elif kind == frames.ERROR:
            self._fail(frames.decode_json(payload))
        elif kind == frames.CLOSED:
            self.closed = frames.decode_json(payload)
        elif kind == frames.CHECKSUM and self._verifier is not None:
            self._verifier.take(header, payload)
        elif kind == frames.CHECKPOINT:
            self._keep_checkpoint(
                header.offset_bytes, frames.checkpoint_state(payload)
            )
        elif kind == frames.MISS:
            with self._sending:
                with self.window.lock:
                    self._blocks.missed(self._input.go_back(header.task_id))
                self._send_unsent(b"", deadline_s)
        elif kind != frames.PONG and not header.optional:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, f"unexpected frame of type {kind}"
            )
        return None

    def _keep_checkpoint(self, offset_bytes: int, state: bytes) -> None:
        present = self._present_checkpoint()
        self._checkpoints = dict([present] if present else ())
        self._checkpoints[offset_bytes] = state

    def _take_output(
        self,
        connection: connections.Connection,
        header: frames.FrameHeader,
        place: memoryview,
        deadline_s: float | None,
    ) -> pieces.Output | None:
        if not self._output.accept(header):
            return None
        length_bytes = header.payload_length_bytes
        shared = connection.shared
        if shared is not None:
            data = shared.output(header.aux)[:length_bytes]
        else:
            data = self._place(place, length_bytes)
            connection.channel.recv_exact_into(data, deadline_s)
        end = bool(header.flags & frames.END)
        known_bytes = self._output.consume(length_bytes, header.task_id, end)
        if self._verifier is not None:
            self._verifier.add_output(data, known_bytes)
        elif end:
            self._finish()
        last = bool(header.flags & (frames.TASK_END | frames.END))
        if not known_bytes:
            return pieces.Output(data, last)
        fresh = data[known_bytes:]
        if fresh and shared is None:
            # Callers expect output at the start of the memory they passed.
            data[: len(fresh)] = bytes(fresh)
            fresh = data[: len(fresh)]
        return pieces.Output(fresh, last)

    def _place(self, place: memoryview, length_bytes: int) -> memoryview:
        if length_bytes > len(place):
            # The first slot had shared memory or shorter chunks.
            if length_bytes > len(self._spare):
                self._spare = buffers.blank(length_bytes)
            place = self._spare
        return place[:length_bytes]

    def _finish(self) -> None:
        # The last output implies that all input was processed, even if its
        # acknowledgement is lost.
        self.ended = True
        self.window.finish()

    def _acknowledged(self, header: frames.FrameHeader) -> None:
        verifier = self._verifier

        def verify(acknowledged: list[pieces.Piece]) -> None:
            assert verifier is not None
            verifier.check(
                header,
                acknowledged[-1] if acknowledged else None,
                len(acknowledged) == len(self._input.kept),
            )

        with self.window.lock:
            self.window.free(
                self._input.acknowledge(
                    header.offset_bytes,
                    header.task_id,
                    None if verifier is None else verify,
                )
            )
            self._output.settle()
            finished = self._output.finished and self.window.idle
        if finished and not self.ended:
            # With checksums, the end counts only once it has been verified.
            self._finish()

    def _fail(self, document: dict[str, Any]) -> NoReturn:
        code = str(document.get("code", codes.PROTOCOL_ERROR))
        message = str(document.get("message", "the worker gave no reason"))
        if code in codes.SLOT_LOST:
            raise recovery.SlotLost(code, message)
        # Do not cancel: the cancellation could overtake the worker's report.
        self._ended_by_worker = True
        if code == codes.INVALID_PARAMS:
            raise errors.InvalidParams(message)
        raise self._failure(code, message)

    # Ending

    def close(self, place: memoryview, deadline_s: float | None) -> None:
        """Notify the worker that the session has ended; wait for the reply.

        If the connection breaks, that is not an error, because all requested
        output has arrived. Parameters and errors are as in :meth:`receive`.
        """
        connection = self._connection
        close = frames.FrameHeader(frames.CLOSE).pack()
        try:
            connection.channel.send(
                self._release() + close, deadline_s=deadline_s
            )
            while self.closed is None:
                header = connection.recv_header(self._scratch, deadline_s)
                self._handle(connection, header, place, deadline_s)
        except (channel.ChannelClosed, recovery.SlotLost):
            self._cancel.check()

    def stop(self) -> None:
        """Make all current and later calls return soon."""
        self.window.stop()
        self._connection.channel.shutdown()
        self.seeker.stop()

    def abandon(self) -> None:
        """Request that the pool revoke the slot, if any; never raises."""
        if self._ended_by_worker:
            return
        self.seeker.give_up(self.view.session_id)

    def report_close(self, deadline_s: float | None) -> None:
        """Notify the pool that the client closed the session; never raises."""
        confirmed = self.closed is not None
        if self.transport != connections.CPU:
            closed: doors.Closed = {
                "session_id": self.view.session_id,
                "generation": self.view.generation,
                "input_bytes": self.acknowledged_bytes,
                "output_bytes": self.received_bytes,
                "confirmed": confirmed,
            }
            self.seeker.report_close(closed, deadline_s)
        elif not confirmed:
            self.abandon()

    def hang_up(self) -> None:
        """Close the connections; no other thread may be using the flow."""
        self._dialer.hang_up(self._connection.channel)
        self.seeker.close()
