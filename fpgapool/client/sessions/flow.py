# SPDX-License-Identifier: Apache-2.0

"""The flow of data through one session, over as many connections as it takes.

Input is kept until the worker acknowledges it. When the connection breaks,
the receiving thread connects again, tells the worker its position, and
resends the input that the worker lacks. When the slot is gone and the
accelerator is stateless, it does the same with another slot, which starts at
the position up to which everything was acknowledged; the client drops the
repeated output. Callers notice nothing but the delay.

One thread receives. Another one may send meanwhile; for a session that does
one task at a time both are the caller's thread.
"""

from __future__ import annotations

import threading
import time
import typing
from collections.abc import Iterable

from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import behind
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import checksum as checksums
from fpgapool.client.sessions import pieces
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import states

_FIRST_BACKOFF_S = 0.02
_LONGEST_BACKOFF_S = 1.0
# A connection that breaks this often without moving a byte is not worth
# another one.
_MAX_IDLE_RESUMES = 8
# So is a session that makes no progress in so many slots.
_MAX_IDLE_REOPENS = 5
_UINT32_MAX = 2**32 - 1


class _SlotLost(exceptions.CodedError):
    """The worker refuses to continue the session."""


class Flow:
    """Takes input and gives output; see the module.

    :param dialer: connects again.
    :param connection: the first connection.
    :param seeker: finds another slot, or the CPU; the flow checks its token
        whenever the connection breaks.
    :param sender: knows the arguments that were sent.

    :ivar chunk_bytes: longest piece.
    :ivar chunk_multiple_bytes: all pieces but the last are multiples of it.
    :ivar window: the input that is not acknowledged.
    :ivar stateless: whether the offset alone determines a piece's processing.
    :ivar checksum: whether the data is checked end to end.
    :ivar ended: whether the last output has arrived.
    :ivar closed: members of CLOSED, once it has come.
    :ivar reconnects: how often a broken connection was replaced …
    :ivar reopens: … and a lost slot.
    """

    def __init__(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: waiting.SlotSeeker,
        sender: blocks.Sender | None = None,
    ) -> None:
        opened, shared = connection.opened, connection.shared
        self.chunk_bytes = opened.chunk_bytes
        self.window_bytes = opened.window_bytes
        self.chunk_multiple_bytes = opened.chunk_multiple_bytes
        self.window = pieces.Window(
            opened,
            opened.window_bytes // opened.chunk_bytes
            if shared is None
            else shared.buffers,
        )
        self._input = self.window.input
        self.ended = False
        self.closed: dict[str, typing.Any] | None = None
        self.reconnects = 0
        self.reopens = 0
        self._dialer = dialer
        self._connection = connection
        self._seeker = seeker
        self._cancel = seeker.token
        self.stateless = opened.stateless
        starts_bytes = opened.input_offset_bytes, opened.output_offset_bytes
        self._output = stream.Inbound(
            stream.CLIENT,
            starts_bytes[1],
            due_bytes=-(-self.window_bytes // 4),
        )
        self._count_buffers()
        self._last_task_id = 0
        self._resumes = waiting.Attempts(_MAX_IDLE_RESUMES)
        self._reopens = waiting.Attempts(_MAX_IDLE_REOPENS)
        self._spare = memoryview(b"")
        # Held while input is sent and while a connection is replaced, so
        # that no new input overtakes the input to resend.
        self._sending = threading.Lock()
        self._behind = behind.Behind(self._sending)
        self.checksum = frames.CHECKSUM_FEATURE in dialer.features
        self._verifier = (
            checksums.Verifier(*starts_bytes) if self.checksum else None
        )
        # States of a lost slot's core by position in the input: one behind
        # the acknowledged input, and a later one.
        self._checkpoints: dict[int, bytes] = {}
        self._blocks = sender or blocks.Sender()
        self._blocks.move(opened.cache_bytes)
        # There is no output left to give back.
        self._ended_by_worker = False
        self._scratch = bytearray(frames.HEADER_BYTES)

    def _present(self) -> connections.Connection:
        return self._connection

    def _count_buffers(self) -> None:
        """Short outputs occupy whole buffers: acknowledge them sooner."""
        shared = self._connection.shared
        self._output.buffers = 0 if shared is None else shared.buffers
        self._output.due_pieces = (
            stream.UNLIMITED if shared is None else -(-shared.buffers // 4)
        )

    @property
    def view(self) -> views.SessionView:
        """The session with its present slot."""
        return self._dialer.view

    @property
    def transport(self) -> str:
        """``shm``, ``stream`` or ``cpu``; another slot may use another one."""
        return self._connection.transport

    @property
    def fallback_reason(self) -> str | None:
        """Why the CPU computes, and no slot ever will: code of the failure.

        None if a slot computes, or may.
        """
        return self._seeker.fallback_reason

    @property
    def shared(self) -> connections.SharedBuffers | None:
        """The shared buffers in use, None when payloads are in the stream."""
        return self._connection.shared

    @property
    def received_bytes(self) -> int:
        """Output that has arrived, once or more often."""
        return self._output.delivered_bytes

    @property
    def cpu_energy_j(self) -> float | None:
        """The estimated energy of this machine's processor, if it computes."""
        return self._seeker.cpu_energy_j

    @property
    def acknowledged_bytes(self) -> int:
        """Input whose output has arrived completely."""
        return self._input.acknowledged_bytes

    # Sending

    def piece(self, number: int) -> pieces.Piece:
        """Make a piece of a buffer.

        :param number: of the buffer, which must not be in use.
        :returns: a piece with the whole buffer, ``chunk_bytes`` long.
        """
        shared = self.shared
        buffer = (
            self.window.own(number)
            if shared is None
            else shared.input(number)[: self.chunk_bytes]
        )
        return pieces.Piece(number, buffer, shared)

    def reserve(
        self, length_bytes: int, *, filled: bool, deadline_s: float | None
    ) -> pieces.Piece:
        """Wait until the window has room, and take a free buffer.

        :param length_bytes: how much will be sent.
        :param filled: False if the caller brings the data in its own memory
            when there are no shared buffers; none is allocated then.
        :param deadline_s: absolute deadline.
        :returns: a piece to fill and to pass to :meth:`send`.
        :raises waiting.Stopped: if the flow was stopped.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        number = self.window.reserve(length_bytes, deadline_s)
        if not filled and self.shared is None:
            return pieces.Piece(number, memoryview(b""), None)
        return self.piece(number)

    def send(
        self,
        piece: pieces.Piece,
        *,
        end: bool,
        deadline_s: float | None,
        release_output: bool = False,
    ) -> None:
        """Send one piece; the receiver handles a broken connection.

        :param piece: the input; its data must not change until it is
            acknowledged.
        :param end: whether it is the last one.
        :param deadline_s: absolute deadline.
        :param release_output: also give the output received so far back to
            the worker.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        if not self._sending.acquire(blocking=False):
            # Finding another slot may take longer than its buffer is kept.
            if piece.shared is not None and piece.origin is None:
                self._keep(piece.shared, [piece])
            self._sending.acquire()
        try:
            if (
                piece.origin is not None
                and piece.shared is not self._connection.shared
            ):
                # The slot was lost after its buffer was filled.
                piece.keep()
            self._last_task_id = self._last_task_id % _UINT32_MAX + 1
            if self._verifier is not None:
                # Before a worker can reach it.
                self._verifier.add_input(piece)
            with self.window.lock:
                self._input.add(piece, self._last_task_id, end)
            connection = self._connection
            prefix = self._release() if release_output else b""
            try:
                self._send_unsent(prefix, deadline_s)
            except channel.ChannelClosed:
                connection.channel.shutdown()
        finally:
            self._sending.release()
        self._behind.flush(self._present, deadline_s)

    def _send_unsent(self, prefix: bytes, deadline_s: float | None) -> None:
        connection = self._connection
        data, shared = connection.channel, connection.shared
        while self._input.unsent:
            piece = self._input.take()
            if isinstance(piece, blocks.Piece):
                prefix += self._blocks.announce(piece)
                if not piece.brought:
                    data.send(prefix, deadline_s=deadline_s)
                    prefix = b""
                    continue
            source, piece.shared = piece.shared, shared
            if shared is None:
                data.send(
                    prefix + piece.header(frames.INPUT, False),
                    piece.data,
                    deadline_s=deadline_s,
                )
                self._check_held(source)
            else:
                if source is None or source.identity != shared.identity:
                    # The worker made new buffers, or it is another worker.
                    buffer = shared.input(piece.number)
                    buffer[: len(piece.data)] = piece.data
                    self._check_held(source)
                data.send(
                    prefix + piece.header(frames.INPUT, True),
                    deadline_s=deadline_s,
                )
            prefix = b""

    def _keep(
        self,
        shared: connections.SharedBuffers,
        kept: Iterable[pieces.Piece],
    ) -> None:
        """Copy pieces of input, so that they outlive a slot's buffers."""
        for piece in kept:
            if piece.shared is shared:
                piece.keep()
        self._check_held(shared)

    def _check_held(self, source: connections.SharedBuffers | None) -> None:
        """Check that the data read from a former slot's buffers was whole."""
        if source is not None:
            source.check_held(self.acknowledged_bytes)

    # Receiving

    def receive(
        self, place: memoryview, deadline_s: float | None
    ) -> pieces.Output | None:
        """Receive the next frame; gives back the output received before.

        :param place: where to put output that comes in the stream; at least
            ``chunk_bytes`` long.
        :param deadline_s: absolute deadline.
        :returns: output, or None if the frame brought none.
        :raises errors.SessionFailed: if the session has ended or cannot be
            resumed; :class:`errors.ChecksumMismatch` if data was changed on
            its way.
        :raises errors.Cancelled: if cancelled.
        :raises channel.DeadlineExceeded: if the deadline passes.
        :raises frames.ProtocolError: if the worker breaks the protocol.
        """
        while True:
            connection = self._connection
            try:
                if self._output.ack_due:
                    # To wait for a long piece would delay the output.
                    self._behind.send(
                        self._release(), self._present, deadline_s
                    )
                header = connection.recv_header(self._scratch, deadline_s)
                return self._handle(connection, header, place, deadline_s)
            except (channel.ChannelClosed, _SlotLost) as exc:
                self._recover(deadline_s, exc)

    def _release(self) -> bytes:
        output = self._output
        if output.acknowledged_bytes == output.consumed_bytes:
            return b""
        offset_bytes = output.acknowledge()
        return frames.pack_header(frames.ACK, offset_bytes=offset_bytes)

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
            # It also acknowledges the output before the PING: that is taken.
            pong = header._replace(type=frames.PONG).pack()
            self._behind.send(pong, self._present, deadline_s)
        elif kind == frames.ERROR:
            self._fail(frames.decode_json(payload))
        elif kind == frames.CLOSED:
            self.closed = frames.decode_json(payload)
        elif kind == frames.CHECKSUM and self._verifier is not None:
            self._verifier.take(header, payload)
        elif kind == frames.CHECKPOINT:
            present = self._present_checkpoint()
            self._checkpoints = dict([present] if present else ())
            state = frames.checkpoint_state(payload)
            self._checkpoints[header.offset_bytes] = state
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
            # Callers expect output at the front of their place.
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
        # The last output implies that all input was processed, should the
        # acknowledgement behind it get lost.
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
            # With checksums an END counts only now.
            self._finish()

    def _fail(self, document: dict[str, typing.Any]) -> typing.NoReturn:
        code = str(document.get("code", codes.PROTOCOL_ERROR))
        message = str(document.get("message", "the worker gave no reason"))
        if code in codes.SLOT_LOST:
            raise _SlotLost(code, message)
        # A cancellation could overtake the worker's report to the pool.
        self._ended_by_worker = True
        if code == codes.INVALID_PARAMS:
            raise errors.InvalidParams(message)
        raise self._failure(code, message)

    def _failure(self, code: str, message: str) -> errors.SessionFailed:
        return errors.SessionFailed(code, message, self.acknowledged_bytes)

    # Resuming and reopening

    def _recover(
        self,
        deadline_s: float | None,
        trouble: channel.ChannelClosed | _SlotLost,
    ) -> None:
        # Wakes a sending thread, which then releases the lock.
        self._connection.channel.shutdown()
        with self._sending:
            self._behind.drop()
            while True:
                self._cancel.check()
                if self.window.stopped:
                    raise waiting.Stopped
                try:
                    if isinstance(trouble, _SlotLost):
                        self._reopen(deadline_s, trouble)
                    else:
                        self._resume(deadline_s, trouble)
                    self._send_again(deadline_s)
                    if self.window.stopped:
                        # stop() may only have seen the connection before.
                        raise waiting.Stopped
                    return
                except (channel.ChannelClosed, _SlotLost) as exc:
                    # See errors.FpgapoolError.again().
                    trouble = exc.with_traceback(None)

    def _resume(
        self, deadline_s: float | None, reason: channel.ChannelClosed
    ) -> None:
        if not self._resumes.begin(
            self.acknowledged_bytes, self._output.consumed_bytes
        ):
            raise _lost(str(reason))
        self._dialer.hang_up(self._connection.channel)
        self._connection = self._dial_again(deadline_s)
        self.reconnects += 1

    def _dial_again(self, deadline_s: float | None) -> connections.Connection:
        opened = self._connection.opened
        gives_up_s = time.monotonic() + opened.resume_grace_s
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                connection = self._dialer.resume(
                    opened.resume_secret,
                    self.acknowledged_bytes,
                    self._output.consumed_bytes,
                    deadline_s,
                )
                self._seeker.worker_found()
                return connection
            except connections.WorkerError as exc:
                self._refused(exc, deadline_s)
            except OSError as exc:
                self._cancel.check()
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    raise channel.DeadlineExceeded("deadline passed") from exc
                self._fail_if_over(deadline_s)
                if self.window.stopped:
                    raise waiting.Stopped from None
                self._seeker.worker_lost(
                    min(gives_up_s, deadline_s or gives_up_s)
                )
                if time.monotonic() >= gives_up_s:
                    raise _lost(str(exc)) from exc
            self._cancel.wait(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)

    def _refused(
        self, exc: connections.WorkerError, deadline_s: float | None
    ) -> typing.NoReturn:
        if exc.code == codes.UNAUTHORIZED:
            self._fail_if_over(deadline_s)
            raise _lost(exc.message) from exc
        if exc.code in codes.SLOT_LOST:
            raise _SlotLost(exc.code, exc.message) from exc
        raise self._failure(exc.code, exc.message) from exc

    def _fail_if_over(self, deadline_s: float | None) -> None:
        """Raise the loss of the slot, if the pool knows of it."""
        view = self._dialer.outcome(deadline_s)
        if view is not None:
            raise self._end_of(view)

    def _end_of(
        self, view: views.SessionView
    ) -> _SlotLost | errors.SessionFailed:
        if view.state in states.LIVE:
            return _SlotLost(
                view.reason or codes.SESSION_LOST,
                view.message or "the session has lost its slot",
            )
        code, message = view.ending
        if code in codes.REOPENABLE or view.state == states.LOST:
            return _SlotLost(code, message)
        return self._failure(code, message)

    def _reopen(self, deadline_s: float | None, lost: _SlotLost) -> None:
        """Continue in another slot, or fail with the cause of the loss."""
        if not self.stateless and self._present_checkpoint() is None:
            raise self._failure(lost.code, lost.message)
        by_slot = self.transport != connections.CPU
        self._keep_all()
        if not self._reopens.begin(self.acknowledged_bytes):
            raise self._failure(lost.code, lost.message)
        if self._reopens.count > 1:
            self._cancel.wait(_FIRST_BACKOFF_S * 2**self._reopens.count)
        self._dialer.hang_up(self._connection.channel)
        try:
            dialer, connection = self._seeker.reopen(
                self.view,
                self.acknowledged_bytes,
                self._output.settled_bytes,
                deadline_s,
            )
        except waiting.Ended as exc:
            raise self._end_of(exc.view) from exc
        except (errors.RequestRejected, errors.FrontDoorUnavailable) as exc:
            raise self._failure(lost.code, lost.message) from exc
        except errors.SessionFailed as exc:
            raise self._failure(exc.code, exc.message) from exc
        except errors.OperationTimeout as exc:
            raise channel.DeadlineExceeded(exc.message) from exc
        self._move(dialer, connection)
        self.reopens += by_slot

    def _present_checkpoint(self) -> tuple[int, bytes] | None:
        """The state with which another slot can go on, if there is one."""
        state = self._checkpoints.get(self.acknowledged_bytes)
        return None if state is None else (self.acknowledged_bytes, state)

    def _keep_all(self) -> None:
        """Copy the caller's data, to outlive the buffers of a lost slot."""
        shared = self._connection.shared
        if shared is None:
            return
        try:
            # The caller may be reading some of it.
            shared.keep_output()
            self._keep(shared, self._input.kept)
        except OSError as exc:
            raise self._failure(
                codes.SESSION_LOST,
                "the slot was lost, and there is not enough memory to copy "
                f"the contents of its buffers: {exc.strerror}",
            ) from exc

    def _move(
        self, dialer: connections.Dialer, connection: connections.Connection
    ) -> None:
        self._dialer = dialer
        self._connection = connection
        self._output.move()
        if self._verifier is not None:
            self._verifier.move(self.received_bytes, self._input.kept)
        self._resumes.forget()
        opened, shared = connection.opened, connection.shared
        self._blocks.move(opened.cache_bytes)
        if (
            opened.chunk_bytes < self.chunk_bytes
            or opened.window_bytes < self.window_bytes
            or self.chunk_multiple_bytes % opened.chunk_multiple_bytes
            or (shared is not None and shared.buffers < len(self.window))
        ):
            raise self._failure(
                codes.INCOMPATIBLE_SLOT,
                "the session got another slot, whose worker takes smaller "
                "pieces",
            )

    def _send_again(self, deadline_s: float | None) -> None:
        opened = self._connection.opened
        self._count_buffers()
        self._output.resume(opened.output_offset_bytes)
        self._input.resume(opened.input_offset_bytes)
        if self._verifier is not None:
            self._verifier.resume()
        self._blocks.send_arguments(self._connection, deadline_s)
        checkpoint = self._present_checkpoint()
        if checkpoint is not None:
            # A worker that has it already restores the same state again.
            self._connection.channel.send(
                frames.checkpoint_frame(*checkpoint), deadline_s=deadline_s
            )
        self._send_unsent(b"", deadline_s)

    # Ending

    def close(self, place: memoryview, deadline_s: float | None) -> None:
        """Tell the worker that the session is over, and wait for its reply.

        A connection that breaks meanwhile is no error: all requested output
        has arrived. Parameters and errors are those of :meth:`receive`.
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
        except (channel.ChannelClosed, _SlotLost):
            self._cancel.check()

    def stop(self) -> None:
        """Make every thread in the flow return soon, now and later."""
        self.window.stop()
        self._connection.channel.shutdown()
        self._seeker.stop()

    def abandon(self) -> None:
        """Ask the pool to revoke the slot, if there is one; never raises."""
        if self._ended_by_worker:
            return
        self._seeker.give_up(self.view.session_id)

    def report_close(self, deadline_s: float | None) -> None:
        """Tell the pool that the client has closed; never raises.

        :param deadline_s: absolute deadline.
        """
        confirmed = self.closed is not None
        if self.transport != connections.CPU:
            self._seeker.report_close(
                self.view,
                self.acknowledged_bytes,
                self.received_bytes,
                confirmed=confirmed,
                deadline_s=deadline_s,
            )
        elif not confirmed:
            self.abandon()

    def hang_up(self) -> None:
        """Close the connections; no other thread may be in the flow."""
        self._dialer.hang_up(self._connection.channel)
        self._seeker.close()


def _lost(reason: str) -> _SlotLost:
    return _SlotLost(
        codes.SESSION_LOST,
        "the connection to the worker broke and could not be resumed: "
        f"{reason}",
    )
