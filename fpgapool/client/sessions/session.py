# SPDX-License-Identifier: Apache-2.0

"""A session: one accelerator for one caller, from opening to closing."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import threading
import time
import types
from collections.abc import Mapping
from typing import Self

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import log
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import described
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import pieces
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

CLOSE_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Amounts of data and time that a session used.

    :ivar input_bytes: input whose output has arrived.
    :ivar run_s: seconds in :meth:`Session.run` and similar calls; for a closed
        session that stayed in one slot, the worker's measurement.
    """

    input_bytes: int
    output_bytes: int
    run_s: float


class Session(described.Described):
    """An open session, returned by :func:`fpgapool.client.acc_open`.

    It is a context manager: leaving it closes the session; after an exception,
    it releases the slot at once. Only one thread at a time may use it, in the
    process that opened it: in a child created by ``fork``, calls fail with the
    code ``SESSION_FORKED``, and :meth:`abort` does nothing.

    If the slot is lost, a session with a stateless accelerator continues in
    another slot, which :attr:`view`, :attr:`host_name`, :attr:`transport` and
    similar attributes then describe. :attr:`pin` remains the same memory.

    :ivar waited_s: seconds from the request until the slot was connected.
    :ivar request_id: ID of the request; errors of the session have it, too.
    """

    def __init__(
        self,
        flow: flows.Flow,
        cancel: cancelling.CancelToken,
        waited_s: float,
        request_id: str | None = None,
    ) -> None:
        self.flow = flow
        self.waited_s = waited_s
        self.request_id = request_id
        self._cancel = cancel
        self._using = threading.Lock()
        self._closed = False
        self._pid = os.getpid()
        self._failure: errors.FpgapoolError | None = None
        self._finished = False
        self._run_s = 0.0
        self._has_output = False
        # One buffer for the whole session, so that callers may keep it.
        self._input = flow.piece(0)
        self._pin = self._input.data
        if flow.shared is None:
            self._place = buffers.blank(flow.chunk_bytes)
            self._pout = self._place
        else:
            self._place = memoryview(b"")
            self._pout = flow.shared.output(0)[: flow.chunk_bytes]

    def _facts(self) -> Mapping[str, object]:
        state = "closed" if self._closed else self.view.state
        return {
            "session_id": self.session_id or None,
            "state": self._failure.code if self._failure else state,
            "host": self.host_name,
            "device": self.device,
            "slot": self.slot,
            "transport": self.transport,
            "fallback_reason": self.fallback_reason,
            "request_id": self.request_id,
        }

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pin(self) -> memoryview:
        """The input buffer, ``chunk_bytes`` long.

        With the transport ``shm``, it is the buffer of the session's first
        worker; if another worker takes over, each input is copied once more.

        :raises errors.SessionClosed: if the session is closed.
        :raises errors.FpgapoolError: with code ``SESSION_FORKED`` in a child
            process.
        """
        self._check_process()
        if self._closed:
            raise errors.SessionClosed()
        return self._pin

    @property
    def pout(self) -> memoryview:
        """The buffer of the last output.

        It is valid until the next :meth:`run`. With the transport ``shm``, it
        is the worker's own buffer; when the session ends, it becomes a copy.
        """
        return self._pout

    @property
    def statistics(self) -> Statistics:
        """The amounts up to now."""
        run_s = self._run_s
        reported = (self.flow.closed or {}).get("run_s")
        if isinstance(reported, int | float) and not self.reopens:
            run_s = float(reported)
        return Statistics(
            self.flow.acknowledged_bytes, self.flow.received_bytes, run_s
        )

    def run(
        self,
        n_bytes: int | blocks.Buffer | blocks.Block | None = None,
        *,
        timeout_s: float | None = None,
    ) -> memoryview:
        """Process the first bytes of :attr:`pin`, other data, or a block.

        A block that the slot still caches is not sent again.

        :param n_bytes: number of bytes, None for the whole buffer; or data,
            which is copied into :attr:`pin`, or a block, neither longer than
            :attr:`pin`. Each length in a session, except the
            last, must be a multiple of the accelerator's
            ``chunk_multiple_bytes``.
        :param timeout_s: time limit; if it is exceeded, the session ends.
        :returns: the output, valid until the next :meth:`run`.
        :raises errors.InvalidRequest: if ``n_bytes`` is none of these, or its
            length is less than 1 or more than that of :attr:`pin`; the session
            is not affected.
        :raises errors.SessionClosed: after :meth:`close` or
            :meth:`finish`.
        :raises errors.SessionFailed: if the session has ended.
        :raises errors.ChecksumMismatch: with checksums, if input or output
            was changed in transit.
        :raises errors.OperationTimeout: if the time limit is exceeded.
        :raises errors.Cancelled: if cancelled.
        :raises errors.FpgapoolError: see :meth:`using`.
        """
        block: blocks.Block | None = None
        data: bytes | memoryview | None = None
        if n_bytes is None:
            length_bytes = len(self._pin)
        elif isinstance(n_bytes, int):
            length_bytes = checks.size(n_bytes, "n_bytes")
        elif isinstance(n_bytes, blocks.Block):
            block = n_bytes
            length_bytes = len(block)
        else:
            data = blocks.input_of(n_bytes)
            length_bytes = len(data)
        if length_bytes > len(self._pin):
            raise errors.InvalidRequest(
                codes.INVALID_SIZE,
                f"{length_bytes} bytes do not fit in the input buffer of "
                f"{len(self._pin)} bytes",
            )
        deadline_s = checks.deadline(timeout_s)
        with self.using():
            piece: pieces.Piece
            if data is not None:
                self._pin[:length_bytes] = data
            if block is None:
                piece = _Pinned(self._pin, length_bytes, self._input.shared)
            else:
                piece = blocks.BlockPiece(0, block)
            return self._run(piece, end=False, deadline_s=deadline_s)

    def finish(self, *, timeout_s: float | None = None) -> memoryview:
        """End the input, and return the last output.

        :param timeout_s: time limit; if it is exceeded, the session ends.
        :returns: the output, which is often empty.
        :raises: as :meth:`run`.
        """
        deadline_s = checks.deadline(timeout_s)
        with self.using():
            piece = _Pinned(self._pin, 0, self._input.shared)
            output = self._run(piece, end=True, deadline_s=deadline_s)
            self._finished = True
            return output

    def _run(
        self, piece: pieces.Piece, *, end: bool, deadline_s: float | None
    ) -> memoryview:
        flow = self.flow
        flow.window.take(piece.number)
        flow.send(piece, end=end, deadline_s=deadline_s, release_output=True)
        output = _Collected(self._place)
        while not flow.window.idle:
            received = flow.receive(output.place(flow), deadline_s)
            if received is not None:
                output.add(received)
        self._place = output.buffer
        self._pout = output.whole()
        self._has_output = True
        self._keep_input()
        return self._pout

    def _keep_input(self) -> None:
        """Keep the input buffer when the slot that provided it is lost."""
        shared, former = self.flow.shared, self._input.shared
        if former is not None and (
            shared is None or shared.identity != former.identity
        ):
            connections.detach(self._pin)
            self._input = pieces.Piece(0, self._pin, None)

    def using(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager within which a transfer uses the flow.

        :raises errors.SessionClosed: if the session is closed or finished.
        :raises errors.FpgapoolError: with code ``SESSION_BUSY`` if another
            thread uses it, or ``SESSION_FORKED`` in a child process. Errors of
            the flow are translated to this library's, and end the session.
        """
        return _Use(self)

    def _check_process(self) -> None:
        # Parent and child would share one connection and one input buffer.
        if os.getpid() != self._pid:
            raise errors.FpgapoolError(
                codes.SESSION_FORKED,
                f"only process {self._pid}, which opened the session, can use "
                "it; open another session in this process",
            )

    def _begin(self) -> None:
        self._check_process()
        if not self._using.acquire(blocking=False):
            raise errors.FpgapoolError(
                codes.SESSION_BUSY, "another thread is using the session"
            )
        try:
            self._check_usable()
        except BaseException:
            self._using.release()
            raise

    def _leave(self, used_s: float, exc: BaseException | None) -> None:
        self._run_s += used_s
        try:
            if exc is not None:
                errors.release_frames(exc)
                failure = translated(self.flow, exc)
                for one in (failure, exc):
                    if isinstance(one, errors.FpgapoolError):
                        one.request_id = self.request_id
                self._broke(failure or exc)
                if failure is not None:
                    raise failure from exc
        finally:
            # See errors.FpgapoolError.again().
            failure = one = None
            self._using.release()

    def _check_usable(self) -> None:
        if self._closed:
            raise errors.SessionClosed()
        if self._failure is not None:
            raise self._failure.again()
        if self._finished:
            raise errors.SessionClosed("the session accepts no more input")

    def _broke(self, exc: BaseException) -> None:
        # The position in the stream is now unknown, so the session has ended.
        if isinstance(exc, errors.FpgapoolError):
            self._failure = exc.again()
        else:
            self._failure = errors.SessionFailed(
                codes.SESSION_LOST,
                f"interrupted by {type(exc).__name__}",
                self.flow.acknowledged_bytes,
            )
            self._failure.request_id = self.request_id

    def close(self, *, timeout_s: float | None = CLOSE_TIMEOUT_S) -> None:
        """Release the slot; closing twice does nothing.

        :param timeout_s: time limit; the slot is released in any case.
        :raises errors.FpgapoolError: with code ``SESSION_FORKED`` in a child
            process; the session is not affected.
        """
        deadline_s = checks.deadline(timeout_s)
        self._check_process()
        if self._closed:
            return
        if self._failure is not None:
            self.abort()
            return
        self._keep_output()
        place = buffers.blank(self.flow.chunk_bytes)
        try:
            self.flow.close(place, deadline_s)
        except BaseException as exc:
            errors.release_frames(exc)
            self.abort()
            if isinstance(exc, errors.FpgapoolError) or translated(
                self.flow, exc
            ):
                return
            raise
        if self.flow.closed is None:
            self.flow.stop()
        self.flow.report_close(deadline_s)
        self._end()
        log.info("Session %s closed", self._name)

    def abort(self) -> None:
        """Release the slot at once, whatever its state; never raises."""
        if self._closed or os.getpid() != self._pid:
            return
        self._keep_output()
        self.flow.stop()
        self.flow.abandon()
        self._end()
        reason = self._failure.code if self._failure else codes.CANCELLED
        log.info("Session %s aborted: %s", self._name, reason)

    @property
    def _name(self) -> str | None:
        return self.session_id or self.request_id

    def _keep_output(self) -> None:
        """Keep the last output when the worker clears its buffers."""
        if (
            self._has_output
            and self._pout
            and isinstance(self._pout.obj, mmap.mmap)
        ):
            with contextlib.suppress(OSError):
                connections.detach(self._pout)

    def _end(self) -> None:
        self._closed = True
        self.flow.hang_up()
        cancelling.release(self._cancel)

    def __enter__(self) -> Self:
        if self._closed:
            raise errors.SessionClosed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._closed:
            self.close()


class _Pinned(pieces.Piece):
    """The first bytes of the input buffer, which the caller fills."""

    __slots__ = ("_pin",)

    def __init__(
        self,
        pin: memoryview,
        length_bytes: int,
        shared: connections.SharedBuffers | None,
    ) -> None:
        super().__init__(0, pin[:length_bytes], shared)
        self._pin = pin

    def keep(self) -> None:
        """See :meth:`pieces.Piece.keep`; the caller still uses the buffer."""
        connections.detach(self._pin)
        self.shared = None


class _Use:
    """The context manager of :meth:`Session.using`.

    It is not a generator, because generators are slow for small tasks.
    """

    __slots__ = ("_session", "_started_s")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._started_s = 0.0

    def __enter__(self) -> None:
        self._session._begin()
        self._started_s = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._session._leave(time.monotonic() - self._started_s, exc)


class _Collected:
    """The output of one task; copied only if it comes in several pieces."""

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self._filled_bytes = 0
        self._view: memoryview | None = None

    def place(self, flow: flows.Flow) -> memoryview:
        if flow.shared is None:
            self._make_room(flow.chunk_bytes)
        return self.buffer[self._filled_bytes :]

    def add(self, output: pieces.Output) -> None:
        if not output.data:
            return
        start, end = (
            self._filled_bytes,
            self._filled_bytes + len(output.data),
        )
        if output.data.obj is self.buffer.obj:
            self._filled_bytes = end
        elif output.last and start == 0:
            self._view = output.data
        else:
            # Copy: the shared buffer is released before the next piece.
            self._make_room(len(output.data))
            self.buffer[start:end] = output.data
            self._filled_bytes = end

    def _make_room(self, length_bytes: int) -> None:
        if len(self.buffer) - self._filled_bytes < length_bytes:
            larger = memoryview(
                bytearray(2 * (self._filled_bytes + length_bytes))
            )
            larger[: self._filled_bytes] = self.buffer[: self._filled_bytes]
            self.buffer = larger

    def whole(self) -> memoryview:
        if self._view is not None:
            return self._view
        return self.buffer[: self._filled_bytes]


def translated(
    flow: flows.Flow, exc: BaseException
) -> errors.FpgapoolError | None:
    """Translate a flow's error into one of this library."""
    offset_bytes = flow.acknowledged_bytes
    if isinstance(exc, channel.DeadlineExceeded):
        return errors.OperationTimeout(
            f"the time limit was exceeded at input offset {offset_bytes}"
        )
    if isinstance(exc, frames.ProtocolError):
        return errors.SessionFailed(exc.code, exc.message, offset_bytes)
    if isinstance(exc, waiting.Stopped):
        return errors.SessionClosed("the session was aborted")
    if isinstance(exc, channel.ChannelClosed):
        return errors.SessionFailed(codes.SESSION_LOST, str(exc), offset_bytes)
    return None
