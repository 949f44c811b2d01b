# SPDX-License-Identifier: Apache-2.0

"""Receives frames on one connection of a session.

The connection's thread receives frames. It puts pieces of input into the
session's memory and queues them for the session's own thread. If everything is
idle, it processes a small piece itself, because passing it to the other thread
would take longer. The thread ends when another connection has replaced this
one.
"""

from __future__ import annotations

import typing

from fpgapool.agent.child import goodbye
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import processing
from fpgapool.agent.worker.data import session as sessions
from fpgapool.common.channels import channel as channels
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import links
from fpgapool.vocabulary import codes

LOG = ratelimit.RateLimitedLog(__name__)

_NO_BYTES = memoryview(b"")


def serve(session: sessions.DataSession, channel: channels.Channel) -> None:
    """Receive on a connection until it ends, then close it."""
    try:
        Receiver(session, channel).receive()
    except channels.ChannelEnded as exc:
        if not session.half_close(channel):
            session.lose(channel, str(exc))
    except (channels.ChannelClosed, channels.DeadlineExceeded) as exc:
        session.lose(channel, str(exc))
    except (frames.ProtocolError, processing.Failure) as failure:
        with session.lock:
            if session.channel is channel:
                LOG.warning("session failed: %s", failure)
                session.fail(failure)
    except MemoryError:
        with session.lock:
            if session.channel is channel:
                session.fail(processing.out_of_memory())
    goodbye.drop_rest(channel)
    with session.lock:
        # Another thread may still be sending on this channel, and a client
        # that has half-closed it may still have output to receive.
        session.wait_for_run(
            lambda: (
                session.is_idle()
                and not (session.half_closed and session.channel is channel)
            )
        )
    channel.close()


class Receiver:
    """Receives on a connection until another one replaces it."""

    def __init__(
        self, session: sessions.DataSession, channel: channels.Channel
    ) -> None:
        self._session = session
        self._channel = channel
        # References are valid only for the connection on which they arrive.
        self._announced = blocks.Announced(
            session.kept,
            session.settings.chunk_bytes,
            session.shared,
            self._set_argument,
            self._miss,
            session.arguments,
        )

    def receive(self) -> None:
        """Process frames until the connection is replaced or lost."""
        session, channel = self._session, self._channel
        scratch = bytearray(frames.HEADER_BYTES)
        while True:
            header = channels.recv_header(
                channel, scratch, max_data_bytes=session.settings.chunk_bytes
            )
            if (
                session.stopping
                or session.ended
                or session.channel is not channel
            ):
                return
            if not session.confirmed:
                session.confirmed = True
                session.keyring.confirm_resume()
            if header.optional:
                payload = channels.recv_payload(channel, header)
                if header.type == frames.CHECKPOINT:
                    self._restore(payload)
                elif (
                    header.type == frames.LINK
                    and frames.LINK_FEATURE in session.processor.features
                ):
                    session.links.follow(links.parse(payload))
                continue
            if header.stream_id:
                raise processing.Failure(
                    codes.STREAM_LIMIT, "stream_id must be 0"
                )
            self._take(header)

    def _take(self, header: frames.FrameHeader) -> None:
        channel = self._channel
        match header.type:
            case frames.INPUT:
                piece = self._announced.take(channel, header)
                if piece is not None:
                    self._take_input(piece)
            case frames.ACK:
                self._take_ack(header.offset_bytes)
            case frames.PING:
                place = header.task_id, header.offset_bytes
                self._take_ping(frames.pack_header(frames.PONG, 0, 0, *place))
            case frames.CLOSE:
                self._take_close()
            case frames.PONG:
                self._take_ack(header.offset_bytes, asked=True)
            case frames.ERROR:
                raise _given_up(
                    frames.decode_json(channels.recv_payload(channel, header)),
                    frames.CHECKSUM_FEATURE
                    in self._session.processor.features,
                    header.offset_bytes,
                )
            case _:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    f"unexpected frame of type {header.type}",
                )

    def _restore(self, payload: bytes) -> None:
        session = self._session
        with session.lock:
            # A client that resumes may send a state that the core already has.
            if session.awaits_state:
                session.processor.restore(
                    payload, session.input.consumed_bytes
                )
                session.awaits_state = False

    def _take_close(self) -> None:
        session = self._session
        with session.lock:
            session.input.closed = True
            # This thread must keep reading, so it takes over only if nothing
            # but the CLOSED frame is left.
            left = session.busy or session.tasks or session.outgoing.may_send()
            if left or not session.has_work():
                session.wake()
                return
            session.busy = True
        session.run()

    def _take_ping(self, pong: bytes) -> None:
        session = self._session
        with session.lock:
            pongs = session.outgoing.pongs
            session.wait_for_run(
                lambda: (
                    len(pongs) < sessions.MAX_TASKS or session.channel is None
                )
            )
            pongs.append(pong)
            session.wake()

    def _miss(self, task_id: int) -> None:
        self._take_ping(frames.pack_header(frames.MISS, task_id=task_id))

    def _set_argument(self, number: int, data: memoryview) -> None:
        session = self._session
        with session.lock:
            session.wait_for_run(lambda: not session.busy)
            if session.stopping:
                return
            if session.input.received_bytes > session.input.start_bytes:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    "an argument arrived after the first piece of input",
                )
            session.busy = True
        try:
            session.processor.set_argument(number, data)
        finally:
            session.rest()

    def _take_ack(self, offset_bytes: int, asked: bool = False) -> None:
        session = self._session
        with session.lock:
            if asked:
                session.outgoing.take_pong(offset_bytes)
            else:
                session.outgoing.acknowledge(offset_bytes)
            if not session.busy and session.has_work():
                session.wake()

    def _take_input(self, header: frames.FrameHeader) -> None:
        session, channel = self._session, self._channel
        length_bytes = header.payload_length_bytes
        with session.lock:
            if session.channel is not channel:
                return
            if session.awaits_state:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    "input arrived before the CHECKPOINT",
                )
            session.links.incoming.check(header, sessions.MAX_TASKS)
            if not session.input.accept(header):
                session.wake()
                return
            if len(session.tasks) >= sessions.MAX_TASKS:
                self._await_fewer_tasks()
            if session.channel is not channel:
                return
            view = _NO_BYTES
            if length_bytes:
                view = session.memory.take_input(header.aux, length_bytes)
            if session.links.incoming.expected:
                session.links.incoming.announced.append((header, view))
                session.condition.notify_all()
                return
            here = not length_bytes or (
                session.shared and not self._announced.pending
            )
            if here:
                inline = add_task(session, header, view)
            else:
                session.filling = True
        if not here:
            inline = self._fill(header, view)
        if inline:
            session.run()

    def _await_fewer_tasks(self) -> None:
        """Wait, with the lock held, until there is room for another piece.

        :raises frames.ProtocolError: if that would never happen, because the
            acknowledgement that the worker needs follows the piece.
        """
        session, channel = self._session, self._channel
        session.wait_for_run(
            lambda: (
                len(session.tasks) < sessions.MAX_TASKS
                or session.channel is not channel
                or session.awaits_client()
            )
        )
        if (
            session.channel is channel
            and len(session.tasks) >= sessions.MAX_TASKS
        ):
            raise frames.ProtocolError(
                codes.CREDIT_EXCEEDED,
                f"more than {sessions.MAX_TASKS} pieces of input are"
                " unacknowledged; output:"
                f" {session.outgoing.unacknowledged()}",
            )

    def _fill(self, header: frames.FrameHeader, view: memoryview) -> bool:
        """Receive a piece and add it; see :func:`add_task`."""
        session, channel = self._session, self._channel
        complete = False
        try:
            if not (self._announced.fill(view) or session.shared):
                channel.recv_exact_into(view)
            self._announced.check(view)
            complete = True
        finally:
            with session.lock:
                session.filling = False
                if session.run_waiters:
                    session.condition.notify_all()
                inline = (
                    complete
                    and session.channel is channel
                    and add_task(session, header, view)
                )
        return inline


def add_task(
    session: sessions.DataSession,
    header: frames.FrameHeader,
    view: memoryview,
) -> bool:
    """Add a received piece; the caller holds the session's lock.

    :returns: whether the caller must process it; the caller then owns the
        core.
    """
    length_bytes = len(view)
    end = bool(header.flags & frames.END)
    session.tasks.append(
        processing.Task(header.task_id, header.offset_bytes, view, end)
    )
    if session.busy:
        return False
    session.busy = (
        not (session.stopping or session.leaving or session.sender.is_busy)
        and len(session.tasks) == 1
        and session.outgoing.allows_inline(length_bytes)
    )
    if not session.busy:
        session.wake()
    return session.busy


def _given_up(
    document: dict[str, typing.Any], checksummed: bool, offset_bytes: int
) -> processing.Failure:
    """Return why a client gave up, without the client's text."""
    if checksummed and document.get("code") == codes.CHECKSUM_MISMATCH:
        return processing.Failure(
            codes.CHECKSUM_MISMATCH,
            "the client's and the board's checksums differ after input offset "
            f"{offset_bytes}",
        )
    return processing.Failure(
        codes.CLIENT_GONE, "the client aborted the session"
    )
