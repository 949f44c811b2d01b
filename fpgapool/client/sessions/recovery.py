# SPDX-License-Identifier: Apache-2.0

"""Send input over as many connections and slots as needed.

Input is kept until the worker acknowledges it. If the connection breaks, the
receiving thread connects again, sends its position to the worker, and resends
the input that the worker lacks. If the slot is lost and the accelerator is
stateless, the thread does the same with another slot, which starts at the
position up to which everything was acknowledged; the client drops the repeated
output. Callers notice only the delay.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NoReturn

from fpgapool.client import errors
from fpgapool.client import log
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import checksum as checksums
from fpgapool.client.sessions import pieces
from fpgapool.client.sessions import sideband
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import states

_FIRST_BACKOFF_S = 0.02
_LONGEST_BACKOFF_S = 1.0
# Give up a connection that breaks this often without moving a byte.
_MAX_IDLE_RESUMES = 8
# Give up after this many slots in which the session makes no progress.
_MAX_IDLE_REOPENS = 5
_UINT32_MAX = 2**32 - 1


class SlotLost(exceptions.CodedError):
    """The worker refuses to continue the session."""


class Recovering:
    """Accepts input, and survives the loss of connections and slots.

    :ivar seeker: finds another slot, or the CPU; the flow checks its token
        whenever the connection breaks.
    :ivar chunk_multiple_bytes: the length of every piece, except the last, is
        a multiple of this.
    :ivar stateless: whether only the offset affects how a piece is processed.
    :ivar checksum: whether the data is checked end to end.
    :ivar reopens: how often a lost slot was replaced.
    :ivar piece_bytes: how long the pieces of a long input should be.
    :ivar lags: whether acknowledgements come so late that all buffers are
        needed.
    """

    most_piece_bytes = frames.MAX_DATA_BYTES
    lags = False

    def __init__(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: waiting.SlotSeeker,
        sender: blocks.BlockSender | None = None,
    ) -> None:
        opened, shared = connection.opened, connection.shared
        self.chunk_bytes = opened.chunk_bytes
        self.window_bytes = opened.window_bytes
        self.chunk_multiple_bytes = opened.chunk_multiple_bytes
        self.piece_bytes = min(opened.chunk_bytes, self.most_piece_bytes)
        self.piece_bytes = max(self.piece_bytes, self.chunk_multiple_bytes)
        self.window = pieces.Window(
            opened,
            opened.window_bytes // self.piece_bytes
            if shared is None
            else shared.buffers,
        )
        self._input = self.window.input
        self.reconnects = 0
        self.reopens = 0
        self._dialer = dialer
        self._connection = connection
        self.seeker = seeker
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
        # Held while input is sent and while a connection is replaced, so
        # that no new input overtakes the input to resend.
        self._sending = waits.Lock()
        self._behind = sideband.Sideband(self._sending)
        self.checksum = frames.CHECKSUM_FEATURE in dialer.features
        self._verifier = (
            checksums.Verifier(*starts_bytes) if self.checksum else None
        )
        # States of a lost slot's core, by position in the input: one at the
        # acknowledged position, and a later one.
        self._checkpoints: dict[int, bytes] = {}
        self._blocks = sender or blocks.BlockSender()
        self._blocks.move(opened.cache_bytes)

    def _present(self) -> connections.Connection:
        return self._connection

    def _count_buffers(self) -> None:
        """Acknowledge short outputs sooner: each uses a whole buffer."""
        shared = self._connection.shared
        self._output.buffers = 0 if shared is None else shared.buffers
        self._output.due_pieces = (
            stream.UNLIMITED if shared is None else -(-shared.buffers // 4)
        )

    @property
    def view(self) -> views.SessionView:
        """The session with its current slot."""
        return self._dialer.view

    @property
    def transport(self) -> str:
        """``shm``, ``stream`` or ``cpu``; it may differ from slot to slot."""
        return self._connection.transport

    @property
    def shared(self) -> connections.SharedBuffers | None:
        """The shared buffers in use; None if payloads are in the stream."""
        return self._connection.shared

    @property
    def received_bytes(self) -> int:
        """Output that has arrived, without repetitions."""
        return self._output.delivered_bytes

    @property
    def acknowledged_bytes(self) -> int:
        """Input whose output has arrived completely."""
        return self._input.acknowledged_bytes

    # Sending

    def piece(self, number: int) -> pieces.Piece:
        """Make a piece from a buffer.

        :param number: number of the buffer, which must not be in use.
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

        :param filled: whether the caller fills the buffer. If False and there
            are no shared buffers, none is allocated, because the caller then
            uses its own memory.
        :returns: a piece to fill and to pass to :meth:`send`.
        :raises waiting.Stopped: if the flow was stopped.
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

        :param piece: the input, which must not change until acknowledged.
        :param release_output: also release the output received so far.
        """
        if not self._sending.acquire(blocking=False):
            # Copy the data: finding another slot may take longer than the
            # worker keeps the buffer.
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
                # Checksum the piece before the worker can change it.
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
            if isinstance(piece, blocks.BlockPiece):
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
                    # The worker has new buffers, or is a different worker.
                    buffer = shared.input(piece.number)
                    buffer[: len(piece.data)] = piece.data
                    self._check_held(source)
                data.send(
                    prefix + piece.header(frames.INPUT, True),
                    deadline_s=deadline_s,
                )
            prefix = b""

    def _release(self) -> bytes:
        output = self._output
        if output.acknowledged_bytes == output.consumed_bytes:
            return b""
        offset_bytes = output.acknowledge()
        return frames.pack_header(frames.ACK, offset_bytes=offset_bytes)

    def _keep(
        self, shared: connections.SharedBuffers, kept: Iterable[pieces.Piece]
    ) -> None:
        """Copy pieces of input, so that they remain when a slot is lost."""
        for piece in kept:
            if piece.shared is shared:
                piece.keep()
        self._check_held(shared)

    def _check_held(self, source: connections.SharedBuffers | None) -> None:
        """Check that data from a previous slot's buffers was intact."""
        if source is not None:
            source.check_held(self.acknowledged_bytes)

    # Resuming and reopening

    def _recover(
        self,
        deadline_s: float | None,
        trouble: channel.ChannelClosed | SlotLost,
    ) -> None:
        # Wake the sending thread, which then releases the lock.
        self._connection.channel.shutdown()
        with self._sending:
            self._behind.drop()
            while True:
                self._cancel.check()
                if self.window.stopped:
                    raise waiting.Stopped
                try:
                    if isinstance(trouble, SlotLost):
                        self._reopen(deadline_s, trouble)
                    else:
                        self._resume(deadline_s, trouble)
                    self._send_again(deadline_s)
                    if self.window.stopped:
                        # stop() may only have seen the previous connection.
                        raise waiting.Stopped
                    return
                except (channel.ChannelClosed, SlotLost) as exc:
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
        log.info(
            "Session %s has resumed its connection at input byte %s",
            self.view.session_id,
            self.acknowledged_bytes,
        )

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
                self.seeker.worker_found()
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
                self.seeker.worker_lost(
                    min(gives_up_s, deadline_s or gives_up_s)
                )
                if time.monotonic() >= gives_up_s:
                    raise _lost(str(exc)) from exc
            self._cancel.wait(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)

    def _refused(
        self, exc: connections.WorkerError, deadline_s: float | None
    ) -> NoReturn:
        if exc.code == codes.UNAUTHORIZED:
            self._fail_if_over(deadline_s)
            raise _lost(exc.message) from exc
        if exc.code in codes.SLOT_LOST:
            raise SlotLost(exc.code, exc.message) from exc
        raise self._failure(exc.code, exc.message) from exc

    def _fail_if_over(self, deadline_s: float | None) -> None:
        """Raise an error if the pool knows that the slot was lost."""
        view = self._dialer.outcome(deadline_s)
        if view is not None:
            raise self._end_of(view)

    def _end_of(
        self, view: views.SessionView
    ) -> SlotLost | errors.SessionFailed:
        if view.state in states.LIVE:
            return SlotLost(
                view.reason or codes.SESSION_LOST,
                view.message or "the session has lost its slot",
            )
        code, message = view.ending
        if code in codes.REOPENABLE or view.state == states.LOST:
            return SlotLost(code, message)
        return self._failure(code, message)

    def _reopen(self, deadline_s: float | None, lost: SlotLost) -> None:
        """Continue in another slot; otherwise, raise the cause of the loss."""
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
            dialer, connection = self.seeker.reopen(
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
        log.info(
            "Session %s has lost its slot (%s) and goes on in slot %s of %s "
            "on host %s at input byte %s",
            self.view.session_id,
            lost.code,
            self.view.slot,
            self.view.device,
            self.view.host_name,
            self.acknowledged_bytes,
        )

    def _failure(self, code: str, message: str) -> errors.SessionFailed:
        return errors.SessionFailed(code, message, self.acknowledged_bytes)

    def _present_checkpoint(self) -> tuple[int, bytes] | None:
        """Return the state from which another slot can continue, if any."""
        state = self._checkpoints.get(self.acknowledged_bytes)
        return None if state is None else (self.acknowledged_bytes, state)

    def _keep_all(self) -> None:
        """Copy the caller's data, so that it remains when the slot is lost."""
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
                "the session moved to another slot, whose worker accepts only "
                "smaller pieces",
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
            # A worker that already has this state just restores it again.
            self._connection.channel.send(
                frames.checkpoint_frame(*checkpoint), deadline_s=deadline_s
            )
        self._send_unsent(b"", deadline_s)


def _lost(reason: str) -> SlotLost:
    return SlotLost(
        codes.SESSION_LOST,
        "the connection to the worker broke and could not be resumed: "
        f"{reason}",
    )
