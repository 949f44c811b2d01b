# SPDX-License-Identifier: Apache-2.0

"""The flow of data through one session, over as many connections as it takes.

Input is kept until the worker acknowledges it. When the connection breaks,
the receiving thread connects again, tells the worker what it has, and sends
what the worker lacks. When the slot is gone and the accelerator is
stateless, it does the same with another slot, which starts where everything
was acknowledged; the output that comes a second time is dropped. Callers
notice nothing but the delay.

One thread receives. Another one may send meanwhile; for a session that does
one task at a time both are the caller's thread.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import mmap
import threading
import time
import typing
from collections.abc import Iterable

from fpgapool.client import checksum as checksums
from fpgapool.client import connection as connections
from fpgapool.client import errors
from fpgapool.client import view as views
from fpgapool.client import waiting
from fpgapool.common import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import states

_FIRST_BACKOFF_S = 0.02
_LONGEST_BACKOFF_S = 1.0
# A connection that breaks this often without moving a byte is not repaired
# by another one.
_MAX_IDLE_RESUMES = 8
# So does a session that does not get further in so many slots.
_MAX_IDLE_REOPENS = 5
_UINT32_MAX = 2**32 - 1
# How long a worker may take to hear that the session is over.
_FAREWELL_S = 1.0

Stopped = waiting.Stopped


def blank(length_bytes: int) -> memoryview:
    """Make memory that takes room as it is written to: small jobs stay small.

    :param length_bytes: its length.
    :returns: zeros, writable.
    """
    if not length_bytes:
        return memoryview(bytearray())
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return memoryview(mmap.mmap(-1, length_bytes, flags))


class _SlotLost(exceptions.CodedError):
    """The worker will not go on with the session."""


class Piece:
    """Input of one task, from being filled until it is acknowledged.

    :ivar number: of its buffer.
    :ivar data: the input; the caller may replace it before sending.
    :ivar input_crc32: see :class:`checksums.Sent`.
    """

    __slots__ = (
        "data",
        "end",
        "input_crc32",
        "number",
        "offset_bytes",
        "shared",
        "task_id",
    )

    def __init__(
        self,
        number: int,
        data: memoryview,
        shared: connections.SharedBuffers | None,
    ) -> None:
        self.number = number
        self.data = data
        self.shared = shared
        self.end = False
        self.task_id = 0
        self.offset_bytes = 0
        self.input_crc32 = 0

    def keep(self) -> None:
        """Have the input outlive its buffer.

        :raises OSError: if there is not enough memory.
        """
        self.data = memoryview(bytes(self.data))
        self.shared = None

    @property
    def end_offset_bytes(self) -> int:
        """Position behind its last byte."""
        return self.offset_bytes + len(self.data)

    def header(self) -> bytes:
        """The INPUT header that announces it."""
        flags = frames.END if self.end else 0
        return frames.pack_header(
            frames.INPUT,
            flags if self.shared is None else flags | frames.SHM,
            0,
            self.task_id,
            self.offset_bytes,
            len(self.data),
            0 if self.shared is None else self.number,
        )


class Output(typing.NamedTuple):
    """A piece of output.

    :ivar data: valid until the next call of :meth:`Flow.receive`.
    :ivar last: whether the task gives no more output.
    """

    data: memoryview
    last: bool


class DataFlow(typing.Protocol):
    """What sessions and transfers need of whatever processes their data."""

    @property
    def view(self) -> views.SessionView:
        """The session with its present slot."""

    @property
    def transport(self) -> str:
        """How the data gets to where it is processed."""

    @property
    def shared(self) -> connections.SharedBuffers | None:
        """The shared buffers in use, None when payloads are in the stream."""

    @property
    def idle(self) -> bool:
        """Whether everything that was sent is acknowledged."""

    #: Longest piece, credit, and what pieces but the last are multiples of.
    chunk_bytes: int
    window_bytes: int
    chunk_multiple_bytes: int
    #: Whether the offset alone says how a piece is processed.
    stateless: bool
    #: Whether the data is checked end to end.
    checksum: bool
    #: Input whose output has arrived completely.
    acknowledged_bytes: int
    #: Output that has arrived.
    received_bytes: int
    #: Whether the last output has arrived.
    ended: bool
    #: Members of CLOSED, once it has come.
    closed: dict[str, typing.Any] | None
    #: How often a broken connection, and a lost slot, was replaced.
    reconnects: int
    reopens: int

    def piece(self, number: int) -> Piece: ...

    def take(self, number: int) -> None: ...

    def reserve(
        self, length_bytes: int, *, filled: bool, deadline_s: float | None
    ) -> Piece: ...

    def send(
        self,
        piece: Piece,
        *,
        end: bool,
        deadline_s: float | None,
        release_output: bool = False,
    ) -> None: ...

    def receive(
        self, place: memoryview, deadline_s: float | None
    ) -> Output | None: ...

    def close(self, place: memoryview, deadline_s: float | None) -> None: ...

    def stop(self) -> None: ...

    def abandon(self) -> None: ...

    def hang_up(self) -> None: ...


class Flow:
    """Data that goes through a slot; see the module and :class:`DataFlow`.

    :param dialer: connects again.
    :param connection: the first connection.
    :param seeker: finds another slot; its token is looked at whenever the
        connection breaks.
    """

    def __init__(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: waiting.SlotSeeker,
    ) -> None:
        opened = connection.opened
        self._dialer = dialer
        self._connection = connection
        self._seeker = seeker
        self._cancel = seeker.token
        self.chunk_bytes = opened.chunk_bytes
        self.window_bytes = opened.window_bytes
        self.chunk_multiple_bytes = opened.chunk_multiple_bytes
        self.stateless = opened.stateless
        #: Input handed to the worker, acknowledged or not.
        self.sent_bytes = opened.input_offset_bytes
        self.acknowledged_bytes = opened.input_offset_bytes
        self.received_bytes = opened.output_offset_bytes
        self.ended = False
        self.closed: dict[str, typing.Any] | None = None
        self.reconnects = 0
        self.reopens = 0
        # What has come of the present worker's output. A worker in another
        # slot begins with output that was received before.
        self._position_bytes = self.received_bytes
        # Where output goes on when all input is sent again that is not
        # acknowledged.
        self._settled_output_bytes = self.received_bytes
        self._released_bytes = self.received_bytes
        self._held_outputs = 0
        self._last_task_id = 0
        self._idle_resumes = 0
        self._progress_mark = (-1, -1)
        self._idle_reopens = 0
        self._reopened_at_bytes = -1
        self._spare = memoryview(b"")
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # Held while input is sent and while a connection is replaced, so
        # that no new input overtakes what has to be sent again.
        self._sending = threading.Lock()
        self._unacknowledged: collections.deque[Piece] = collections.deque()
        self._stopped = False
        self.checksum = frames.CHECKSUM_FEATURE in dialer.features
        self._verifier = (
            checksums.Verifier(self.sent_bytes, self.received_bytes)
            if self.checksum
            else None
        )
        # The last output has come, and is not checked yet.
        self._ending = False
        # There is nothing to give back any more.
        self._ended_by_worker = False
        self._scratch = bytearray(frames.HEADER_BYTES)
        count = self._buffer_count(connection)
        self._own: list[memoryview | None] = [None] * count
        self._free = collections.deque(range(count))

    def _buffer_count(self, connection: connections.Connection) -> int:
        if connection.shared is not None:
            return connection.shared.buffers
        return self.window_bytes // self.chunk_bytes

    @property
    def view(self) -> views.SessionView:
        """The session with its present slot."""
        return self._dialer.view

    @property
    def transport(self) -> str:
        """``shm`` or ``stream``; another slot may have the other one."""
        if self._connection.shared is None:
            return connections.STREAM
        return connections.SHM

    @property
    def shared(self) -> connections.SharedBuffers | None:
        """The shared buffers in use, None when payloads are in the stream."""
        return self._connection.shared

    @property
    def idle(self) -> bool:
        """Whether everything that was sent is acknowledged."""
        return not self._unacknowledged

    # Sending

    def piece(self, number: int) -> Piece:
        """Make a piece of a buffer.

        :param number: of the buffer, which must not be in use.
        :returns: a piece with the whole buffer, ``chunk_bytes`` long.
        """
        shared = self._connection.shared
        if shared is not None:
            buffer = shared.input(number)[: self.chunk_bytes]
        else:
            buffer = self._own_buffer(number)
        return Piece(number, buffer, shared)

    def _own_buffer(self, number: int) -> memoryview:
        buffer = self._own[number]
        if buffer is None:
            buffer = blank(self.chunk_bytes)
            self._own[number] = buffer
        return buffer

    def take(self, number: int) -> None:
        """Take a certain free buffer.

        :param number: of the buffer.
        """
        with self._lock:
            self._free.remove(number)

    def reserve(
        self, length_bytes: int, *, filled: bool, deadline_s: float | None
    ) -> Piece:
        """Wait until the window has room, and take a free buffer.

        :param length_bytes: how much will be sent.
        :param filled: False if the caller brings the data in memory of its
            own when there are no shared buffers; none is allocated then.
        :param deadline_s: absolute deadline.
        :returns: a piece to fill and to pass to :meth:`send`.
        :raises Stopped: if the flow was stopped.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        with self._lock:
            while not self._has_room(length_bytes):
                if self._stopped:
                    raise Stopped
                if not self._changed.wait(channel.remaining_s(deadline_s)):
                    raise channel.DeadlineExceeded("deadline passed")
            if self._stopped:
                raise Stopped
            number = self._free.popleft()
        if not filled and self._connection.shared is None:
            return Piece(number, memoryview(b""), None)
        return self.piece(number)

    def _has_room(self, length_bytes: int) -> bool:
        in_flight_bytes = self.sent_bytes - self.acknowledged_bytes
        return (
            bool(self._free)
            and in_flight_bytes + length_bytes <= self.window_bytes
        )

    def send(
        self,
        piece: Piece,
        *,
        end: bool,
        deadline_s: float | None,
        release_output: bool = False,
    ) -> None:
        """Send one piece; a broken connection is left to the receiver.

        :param piece: the input; its data must not change until it is
            acknowledged.
        :param end: whether it is the last one.
        :param deadline_s: absolute deadline.
        :param release_output: give the output received so far back to the
            worker in the same breath.
        :raises channel.DeadlineExceeded: if the deadline passes.
        """
        if not self._sending.acquire(blocking=False):
            # Finding another slot may take longer than its buffer is kept.
            if piece.shared is not None:
                self._keep(piece.shared, [piece])
            self._sending.acquire()
        try:
            self._last_task_id = self._last_task_id % _UINT32_MAX + 1
            piece.task_id = self._last_task_id
            piece.offset_bytes = self.sent_bytes
            piece.end = end
            if self._verifier is not None:
                # Before a worker can reach it.
                self._verifier.add_input(piece)
            with self._lock:
                self._unacknowledged.append(piece)
                self.sent_bytes += len(piece.data)
            connection = self._connection
            prefix = self._release() if release_output else b""
            try:
                self._transmit(connection, piece, prefix, deadline_s)
            except channel.ChannelClosed:
                connection.channel.shutdown()
        finally:
            self._sending.release()

    def _transmit(
        self,
        connection: connections.Connection,
        piece: Piece,
        prefix: bytes,
        deadline_s: float | None,
    ) -> None:
        shared = connection.shared
        source, piece.shared = piece.shared, shared
        if shared is None:
            connection.channel.send(
                prefix + piece.header(),
                piece.data,
                deadline_s=deadline_s,
            )
            self._check_held(source)
            return
        if source is None or source.identity != shared.identity:
            # The worker made new buffers, or it is another one.
            buffer = shared.input(piece.number)
            buffer[: len(piece.data)] = piece.data
            self._check_held(source)
        connection.channel.send(prefix + piece.header(), deadline_s=deadline_s)

    def _keep(
        self, shared: connections.SharedBuffers, pieces: Iterable[Piece]
    ) -> None:
        """Have pieces of input outlive a slot's buffers."""
        for piece in pieces:
            if piece.shared is shared:
                piece.keep()
        self._check_held(shared)

    def _check_held(self, source: connections.SharedBuffers | None) -> None:
        """See that what was read of a former slot's buffers was whole."""
        if source is not None:
            source.check_held(self.acknowledged_bytes)

    # Receiving

    def receive(
        self, place: memoryview, deadline_s: float | None
    ) -> Output | None:
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
                self._release_when_due(connection, deadline_s)
                header = _recv_header(connection, self._scratch, deadline_s)
                return self._handle(connection, header, place, deadline_s)
            except (channel.ChannelClosed, _SlotLost) as exc:
                self._recover(deadline_s, exc)

    def _release(self) -> bytes:
        if self._released_bytes == self._position_bytes:
            return b""
        self._released_bytes = self._position_bytes
        self._held_outputs = 0
        return frames.pack_header(
            frames.ACK, offset_bytes=self._position_bytes
        )

    def _release_when_due(
        self,
        connection: connections.Connection,
        deadline_s: float | None,
    ) -> None:
        held_bytes = self._position_bytes - self._released_bytes
        due = 4 * held_bytes >= self.window_bytes
        if connection.shared is not None:
            # Short outputs occupy whole buffers.
            due = due or 4 * self._held_outputs >= connection.shared.buffers
        if due:
            acknowledgement = self._release()
            if acknowledgement:
                connection.channel.send(acknowledgement, deadline_s=deadline_s)

    def _handle(
        self,
        connection: connections.Connection,
        header: frames.FrameHeader,
        place: memoryview,
        deadline_s: float | None,
    ) -> Output | None:
        kind = header.type
        if kind == frames.OUTPUT:
            return self._take_output(connection, header, place, deadline_s)
        if kind == frames.ACK:
            try:
                self._acknowledged(header)
            except errors.ChecksumMismatch as failure:
                self._complain(connection, failure)
                raise
            return None
        payload = channel.recv_payload(connection.channel, header, deadline_s)
        if kind == frames.PING:
            connection.channel.send(
                header._replace(type=frames.PONG).pack(), deadline_s=deadline_s
            )
        elif kind == frames.ERROR:
            self._fail(frames.decode_json(payload))
        elif kind == frames.CLOSED:
            self.closed = frames.decode_json(payload)
        elif kind == frames.CHECKSUM and self._verifier is not None:
            self._verifier.take(header, payload)
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
    ) -> Output:
        length_bytes = header.payload_length_bytes
        if header.offset_bytes != self._position_bytes:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                f"output at {header.offset_bytes}, "
                f"expected at {self._position_bytes}",
            )
        if length_bytes > connection.opened.chunk_bytes:
            raise frames.ProtocolError(
                frames.FRAME_TOO_LARGE, f"output of {length_bytes} bytes"
            )
        if header.flags & frames.SHM:
            data = self._shared_output(connection, header)
        else:
            data = self._place(place, length_bytes)
            connection.channel.recv_exact_into(data, deadline_s)
        # What another slot gave already.
        known_bytes = min(
            self.received_bytes - self._position_bytes, length_bytes
        )
        if self._verifier is not None:
            self._verifier.add_output(data, known_bytes)
        self._position_bytes += length_bytes
        self.received_bytes = max(self.received_bytes, self._position_bytes)
        last = bool(header.flags & (frames.TASK_END | frames.END))
        if header.flags & frames.END:
            if self._verifier is None:
                self._finish()
            else:
                self._ending = True
        fresh = data[known_bytes:]
        if known_bytes and fresh and not header.flags & frames.SHM:
            # Callers find output at the front of the place they gave.
            data[: len(fresh)] = bytes(fresh)
            fresh = data[: len(fresh)]
        return Output(fresh, last)

    def _place(self, place: memoryview, length_bytes: int) -> memoryview:
        if length_bytes > len(place):
            # The first slot had shared memory or shorter chunks.
            if length_bytes > len(self._spare):
                self._spare = blank(length_bytes)
            place = self._spare
        return place[:length_bytes]

    def _finish(self) -> None:
        # The last output implies that all input was processed, should the
        # acknowledgement behind it get lost.
        self.ended = True
        with self._lock:
            self._unacknowledged.clear()
            self.acknowledged_bytes = self.sent_bytes
            self._changed.notify_all()

    def _shared_output(
        self, connection: connections.Connection, header: frames.FrameHeader
    ) -> memoryview:
        shared = connection.shared
        if shared is None or header.aux >= shared.buffers:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, f"no shared buffer {header.aux}"
            )
        self._held_outputs += 1
        return shared.output(header.aux)[: header.payload_length_bytes]

    def _acknowledged(self, header: frames.FrameHeader) -> None:
        offset_bytes = header.offset_bytes
        with self._lock:
            if not self.acknowledged_bytes <= offset_bytes <= self.sent_bytes:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    f"input {offset_bytes} acknowledged, of "
                    f"{self.acknowledged_bytes} to {self.sent_bytes}",
                )
            if self._verifier is not None:
                self._verify(self._verifier, header)
            pieces = self._unacknowledged
            while pieces and _is_covered(pieces[0], header):
                self._free.append(pieces.popleft().number)
            self.acknowledged_bytes = offset_bytes
            self._settled_output_bytes = self._position_bytes
            self._changed.notify_all()
            ended = self._ending and not self._unacknowledged
        if ended:
            self._finish()

    def _verify(
        self, verifier: checksums.Verifier, header: frames.FrameHeader
    ) -> None:
        covered = list(
            itertools.takewhile(
                lambda piece: _is_covered(piece, header),
                self._unacknowledged,
            )
        )
        verifier.check(
            header,
            covered[-1] if covered else None,
            idle=len(covered) == len(self._unacknowledged),
        )

    def _complain(
        self,
        connection: connections.Connection,
        failure: errors.ChecksumMismatch,
    ) -> None:
        """Tell the worker why the session ends, for its operator to know.

        Waits until it has heard it: what follows would come first, and the
        session would count as cancelled.
        """
        deadline_s = channel.deadline_after(_FAREWELL_S)
        data = connection.channel
        with contextlib.suppress(
            channel.ChannelClosed,
            channel.DeadlineExceeded,
            frames.ProtocolError,
        ):
            data.send(
                frames.error_frame(
                    failure.code, failure.message, failure.offset_bytes
                ),
                deadline_s=deadline_s,
            )
            while not self._ended_by_worker:
                header = _recv_header(connection, self._scratch, deadline_s)
                channel.recv_payload(data, header, deadline_s)
                self._ended_by_worker = header.type == frames.ERROR

    def _fail(self, document: dict[str, typing.Any]) -> typing.NoReturn:
        code = str(document.get("code", codes.PROTOCOL_ERROR))
        message = str(document.get("message", "the worker gave no reason"))
        if code in codes.SLOT_LOST:
            raise _SlotLost(code, message)
        # A cancellation could overtake what the pool is told of this.
        self._ended_by_worker = True
        if code == codes.INVALID_PARAMS:
            raise errors.InvalidParams(message)
        raise errors.SessionFailed(code, message, self.acknowledged_bytes)

    # Resuming and reopening

    def _recover(
        self,
        deadline_s: float | None,
        trouble: channel.ChannelClosed | _SlotLost,
    ) -> None:
        # Wakes a thread that sends; it then lets go of the lock.
        self._connection.channel.shutdown()
        with self._sending:
            while True:
                self._cancel.check()
                if self._stopped:
                    raise Stopped
                try:
                    if isinstance(trouble, _SlotLost):
                        self._reopen(deadline_s, trouble)
                    else:
                        self._resume(deadline_s, trouble)
                    self._send_again(deadline_s)
                    if self._stopped:
                        # Whoever did so may only know the one before.
                        raise Stopped
                    return
                except (channel.ChannelClosed, _SlotLost) as exc:
                    trouble = exc

    def _resume(
        self, deadline_s: float | None, reason: channel.ChannelClosed
    ) -> None:
        mark = (self.acknowledged_bytes, self._position_bytes)
        if mark != self._progress_mark:
            self._progress_mark = mark
            self._idle_resumes = 0
        self._idle_resumes += 1
        if self._idle_resumes > _MAX_IDLE_RESUMES:
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
                return self._dialer.resume(
                    opened.resume_secret,
                    self.acknowledged_bytes,
                    self._position_bytes,
                    deadline_s,
                )
            except connections.WorkerError as exc:
                self._refused(exc, deadline_s)
            except OSError as exc:
                self._cancel.check()
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    raise channel.DeadlineExceeded("deadline passed") from exc
                self._fail_if_over(deadline_s)
                if self._stopped:
                    raise Stopped from None
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
        raise errors.SessionFailed(
            exc.code, exc.message, self.acknowledged_bytes
        ) from exc

    def _fail_if_over(self, deadline_s: float | None) -> None:
        """Trying again is of no use once the pool knows how it ended."""
        view = self._dialer.outcome(deadline_s)
        if view is not None:
            raise self._end_of(view)

    def _end_of(
        self, view: views.SessionView
    ) -> _SlotLost | errors.SessionFailed:
        code, message = view.ending
        if code in codes.REOPENABLE or view.state == states.LOST:
            return _SlotLost(code, message)
        return errors.SessionFailed(code, message, self.acknowledged_bytes)

    def _reopen(self, deadline_s: float | None, lost: _SlotLost) -> None:
        """Go on in another slot, or fail with what cost the present one."""
        failure = errors.SessionFailed(
            lost.code, lost.message, self.acknowledged_bytes
        )
        if not self.stateless:
            raise failure
        self._keep_all()
        self._count_reopen(failure)
        self._dialer.hang_up(self._connection.channel)
        try:
            dialer, connection = self._seeker.reopen(
                self.view,
                self.acknowledged_bytes,
                self._settled_output_bytes,
                deadline_s,
            )
        except waiting.Ended as exc:
            raise self._end_of(exc.view) from exc
        except (errors.RequestRejected, errors.FrontDoorUnavailable) as exc:
            raise failure from exc
        except errors.SessionFailed as exc:
            raise errors.SessionFailed(
                exc.code, exc.message, self.acknowledged_bytes
            ) from exc
        except errors.OperationTimeout as exc:
            raise channel.DeadlineExceeded(exc.message) from exc
        self._move(dialer, connection)

    def _keep_all(self) -> None:
        """Have what the caller needs outlive the buffers of a lost slot."""
        shared = self._connection.shared
        if shared is None:
            return
        try:
            # The caller may be looking at some of it.
            shared.keep_output()
            self._keep(shared, self._unacknowledged)
        except OSError as exc:
            raise errors.SessionFailed(
                codes.SESSION_LOST,
                "the slot was lost, and there is not enough memory to copy "
                f"what is in its buffers: {exc.strerror}",
                self.acknowledged_bytes,
            ) from exc

    def _count_reopen(self, failure: errors.SessionFailed) -> None:
        if self.acknowledged_bytes > self._reopened_at_bytes:
            self._reopened_at_bytes = self.acknowledged_bytes
            self._idle_reopens = 0
        self._idle_reopens += 1
        if self._idle_reopens > _MAX_IDLE_REOPENS:
            raise failure
        if self._idle_reopens > 1:
            self._cancel.wait(_FIRST_BACKOFF_S * 2**self._idle_reopens)

    def _move(
        self, dialer: connections.Dialer, connection: connections.Connection
    ) -> None:
        self._dialer = dialer
        self._connection = connection
        self.reopens += 1
        self._position_bytes = self._settled_output_bytes
        if self._verifier is not None:
            self._verifier.move(self.received_bytes, self._unacknowledged)
        self._idle_resumes = 0
        self._progress_mark = (-1, -1)
        opened = connection.opened
        if (
            opened.chunk_bytes < self.chunk_bytes
            or opened.window_bytes < self.window_bytes
            or self.chunk_multiple_bytes % opened.chunk_multiple_bytes
            or _lacks_buffers(connection.shared, len(self._own))
        ):
            raise errors.SessionFailed(
                codes.INCOMPATIBLE_SLOT,
                "the session got another slot, whose worker takes smaller "
                "pieces",
                self.acknowledged_bytes,
            )

    def _send_again(self, deadline_s: float | None) -> None:
        opened = self._connection.opened
        if opened.output_offset_bytes != self._position_bytes or not (
            self.acknowledged_bytes
            <= opened.input_offset_bytes
            <= self.sent_bytes
        ):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the worker resumes at other offsets"
            )
        self._released_bytes = self._position_bytes
        self._held_outputs = 0
        # What the connection before said last comes again.
        self._ending = False
        if self._verifier is not None:
            self._verifier.resume()
        for piece in tuple(self._unacknowledged):
            if _is_missing(piece, opened.input_offset_bytes):
                self._transmit(self._connection, piece, b"", deadline_s)

    # Ending

    def close(self, place: memoryview, deadline_s: float | None) -> None:
        """Tell the worker that the session is over, and wait until it is.

        A connection that breaks meanwhile is no error: all output that was
        asked for is here.

        :param place: see :meth:`receive`.
        :param deadline_s: absolute deadline.
        :raises errors.SessionFailed: if the session failed before.
        :raises channel.DeadlineExceeded: if the deadline passes.
        :raises frames.ProtocolError: if the worker breaks the protocol.
        """
        connection = self._connection
        close = frames.FrameHeader(frames.CLOSE).pack()
        try:
            connection.channel.send(
                self._release() + close, deadline_s=deadline_s
            )
            while self.closed is None:
                header = _recv_header(connection, self._scratch, deadline_s)
                self._handle(connection, header, place, deadline_s)
        except (channel.ChannelClosed, _SlotLost):
            self._cancel.check()

    def stop(self) -> None:
        """Make every thread in the flow return soon, for ever."""
        with self._lock:
            self._stopped = True
            self._changed.notify_all()
        self._connection.channel.shutdown()
        self._seeker.stop()

    def abandon(self) -> None:
        """Have the pool take the slot back; never raises."""
        if self._ended_by_worker:
            return
        self._seeker.door.give_up(session_id=self.view.session_id)

    def hang_up(self) -> None:
        """Close the connections; no other thread may be in the flow."""
        self._dialer.hang_up(self._connection.channel)
        self._seeker.door.close()


def _recv_header(
    connection: connections.Connection,
    scratch: bytearray,
    deadline_s: float | None,
) -> frames.FrameHeader:
    """Receive a header of a frame that is as long as was agreed at most.

    Else a worker could have us make room for what it only announces.
    """
    return channel.recv_header(
        connection.channel,
        scratch,
        max_data_bytes=connection.opened.chunk_bytes,
        deadline_s=deadline_s,
    )


def _lacks_buffers(
    shared: connections.SharedBuffers | None, count: int
) -> bool:
    return shared is not None and shared.buffers < count


def _lost(reason: str) -> _SlotLost:
    return _SlotLost(
        codes.SESSION_LOST,
        "the connection to the worker broke and could not be resumed: "
        f"{reason}",
    )


def _is_covered(piece: Piece, header: frames.FrameHeader) -> bool:
    if piece.data:
        return piece.end_offset_bytes <= header.offset_bytes
    # An empty END shares its offset with the piece before it.
    return piece.task_id == header.task_id


def _is_missing(piece: Piece, input_offset_bytes: int) -> bool:
    if not piece.data:
        # The offset cannot tell whether an empty END arrived; the worker
        # ignores a second one.
        return True
    if piece.offset_bytes < input_offset_bytes < piece.end_offset_bytes:
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR, "the worker resumes within a frame"
        )
    return piece.offset_bytes >= input_offset_bytes
