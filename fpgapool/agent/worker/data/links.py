# SPDX-License-Identifier: Apache-2.0

"""A session's links: input from, and output to, other stages of its chain.

The client tells each worker its neighbours, and sends and receives the headers
of INPUT and OUTPUT; their data goes from worker to worker. A link may be lost
at any point: its sender makes another one, and the receiver says from which
byte it lacks data. The sender keeps its output until the client acknowledges
it, which it does when the next stage needs it no more.
"""

from __future__ import annotations

import bisect
import collections
import collections.abc
import contextlib
import operator
import socket
import threading
import time
import typing

from fpgapool.agent.child import crew
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker.data import outgoing
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import tls_channel
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import links
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

LOG = ratelimit.RateLimitedLog(__name__)

#: Time in which the next stage's worker must be reached.
REACH_S = 30.0

# Time limit for one attempt.
_ATTEMPT_S = 10.0
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
# How many pieces are sent with one call.
_MAX_SENT_AT_ONCE = 16

_offset_of = operator.attrgetter("offset_bytes")


class Session(typing.Protocol):
    """What links need of a session; see :class:`.session.DataSession`."""

    lock: threading.RLock
    condition: threading.Condition
    stopping: bool
    ended: bool
    input: stream.Inbound
    outgoing: outgoing.Outgoing
    keyring: hellos.Keyring

    def fail(self, failure: exceptions.CodedError) -> None:
        """End the session."""


class Reach(typing.Protocol):
    """Gets connections to other stages' workers."""

    def begin(self) -> int:
        """Return what :meth:`dial` takes: all is abandoned up to here."""

    def dial(self, session_id: str, generation: int, begun: int) -> int | None:
        """Return the descriptor of one; None if there is none now."""

    def abandon(self) -> None:
        """Make each :meth:`dial` that has begun return None."""


class Incoming:
    """The link from the previous stage; the session's lock guards it.

    :ivar expected: whether the input comes over the link.
    :ivar announced: headers and memory of pieces that have not arrived.
    """

    def __init__(self) -> None:
        self.expected = False
        self.channel: channels.Channel | None = None
        self.announced: collections.deque[
            tuple[frames.FrameHeader, memoryview]
        ] = collections.deque()

    def check(self, header: frames.FrameHeader, most: int) -> None:
        """Check that a piece comes the way that was agreed.

        :raises frames.ProtocolError: if not, or if too many are announced.
        """
        if bool(header.flags & frames.LINKED) != self.expected:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "the input must come over the link"
                if self.expected
                else "there is no link for the input",
            )
        if len(self.announced) >= most:
            raise frames.ProtocolError(
                codes.CREDIT_EXCEEDED,
                f"more than {most} pieces of input are announced",
            )

    def drop(self) -> None:
        """End the link; the client announces the pieces again."""
        self.announced.clear()
        self.hang_up()

    def hang_up(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.shutdown()


class Links:
    """Both links of a session."""

    def __init__(self, session: Session, reach: Reach) -> None:
        self._session = session
        self._reach = reach
        self.incoming = Incoming()
        self._outward: Outward | None = None

    def follow(self, order: links.Order) -> None:
        """Follow the client's order.

        :raises frames.ProtocolError: if it comes after data.
        """
        session, incoming = self._session, self.incoming
        with session.lock:
            is_new = (
                order.secret_sha256 is not None and not incoming.expected
            ) or (order.passes_on and self._outward is None)
            received = session.input
            if is_new and received.received_bytes > received.start_bytes:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR, "LINK arrived after input"
                )
            if order.secret_sha256 is not None:
                incoming.expected = True
                session.keyring.expect_link(order.secret_sha256)
            if order.passes_on:
                if self._outward is None:
                    self._outward = Outward(session, self._reach)
                self._outward.aim(order.target)

    def stop(self) -> None:
        """End both; the caller holds the lock, and has set stopping."""
        self.incoming.drop()
        if self._outward is not None:
            self._outward.stop()

    def wait(self) -> None:
        """Wait until nothing sends any more; without the lock."""
        if self._outward is not None:
            self._outward.wait()


class Outward:
    """The link to the next stage, and the thread that sends over it."""

    def __init__(self, session: Session, reach: Reach) -> None:
        self._session = session
        self._reach = reach
        self._target: links.Target | None = None
        # That of the connection, also while that is being made.
        self._sock: socket.socket | None = None
        self._thread_ended: threading.Event | None = None
        session.outgoing.linked = True

    def aim(self, target: links.Target | None) -> None:
        """Send to another worker, or wait; the caller holds the lock."""
        if target == self._target:
            return
        self._target = target
        self._hang_up()
        if self._thread_ended is None and not self._is_over:
            self._thread_ended = crew.CREW.start("link", self._run)
        self._session.condition.notify_all()

    def stop(self) -> None:
        """End the link; the caller holds the lock, and has set stopping."""
        self._hang_up()

    def _hang_up(self) -> None:
        self._reach.abandon()
        sock, self._sock = self._sock, None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def wait(self) -> None:
        """Wait until the thread has ended; without the lock."""
        if self._thread_ended is not None:
            self._thread_ended.wait()

    @property
    def _is_over(self) -> bool:
        return self._session.stopping or self._session.ended

    def _run(self) -> None:
        tried: links.Target | None = None
        since_s = pause_s = 0.0
        while (found := self._next_target()) is not None:
            target, begun = found
            began_s = time.monotonic()
            if target != tried:
                tried, since_s, pause_s = target, began_s, _FIRST_PAUSE_S
            try:
                self._link(target, begun)
                since_s = time.monotonic()
                if since_s - began_s > _LONGEST_PAUSE_S:
                    pause_s = _FIRST_PAUSE_S
            except (OSError, exceptions.CodedError) as exc:
                LOG.info("no link to the next stage's worker: %s", exc)
                code, reason = getattr(exc, "code", None), str(exc)
                if code == codes.TLS_REQUIRED:
                    self._fail(code, reason)
                elif time.monotonic() - since_s > REACH_S:
                    self._fail(codes.CHAIN_LINK_LOST, reason)
            self._pause(target, pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _pause(self, target: links.Target, pause_s: float) -> None:
        """Wait before the next attempt, also after a link that was lost.

        Else whoever ends each link at once, or names one target after the
        other, would keep the agents busy.
        """
        condition = self._session.condition
        with self._session.lock:
            condition.wait_for(lambda: self._is_over, _FIRST_PAUSE_S)
            condition.wait_for(
                lambda: self._is_over or self._target != target,
                pause_s - _FIRST_PAUSE_S,
            )

    def _next_target(self) -> tuple[links.Target, int] | None:
        """Wait for a target; return None if the session is over.

        :returns: also what says to :attr:`_reach` that it is still wanted:
            whoever changes it holds the lock, too.
        """
        with self._session.lock:
            self._session.condition.wait_for(
                lambda: self._is_over or self._target is not None
            )
            if self._is_over or self._target is None:
                return None
            return self._target, self._reach.begin()

    def _fail(self, code: str, reason: str) -> None:
        with self._session.lock:
            self._session.fail(
                exceptions.CodedError(
                    code, f"the next stage's worker is not reached: {reason}"
                )
            )

    def _link(self, target: links.Target, begun: int) -> None:
        """Connect, and send until the link is lost.

        :raises: OSError or CodedError if there is no link.
        """
        deadline_s = channels.deadline_after(_ATTEMPT_S)
        fd = self._reach.dial(target.session_id, target.generation, begun)
        if fd is None:
            raise channels.ChannelClosed("its agent has no connection to it")
        sock = socket.socket(fileno=fd)
        with self._session.lock:
            if self._target != target or self._is_over:
                sock.close()
                return
            self._sock = sock
        try:
            channel = _secured(sock, target, deadline_s)
        except BaseException:
            with self._session.lock:
                self._sock = None
            raise
        try:
            channel.send(links.hello(target), deadline_s=deadline_s)
            position_bytes = _position(channel, deadline_s)
            watched = crew.CREW.start("link watch", self._watch, channel)
            try:
                while (sent := self._send_some(channel, position_bytes)) >= 0:
                    position_bytes += sent
            except channels.ChannelClosed as exc:
                LOG.info("the link to the next stage was lost: %s", exc)
            finally:
                channel.shutdown()
                watched.wait()
        finally:
            with self._session.lock:
                self._sock = None
            channel.close()

    def _watch(self, channel: channels.Channel) -> None:
        """Notice that a link is lost while there is nothing to send.

        What was sent may not have arrived, and then nothing more comes.
        """
        with contextlib.suppress(OSError):
            # The next stage's worker sends nothing after OPENED.
            channel.recv_some_into(memoryview(bytearray(1)))
        with self._session.lock:
            if self._sock is channel.sock:
                self._sock = None
                self._session.condition.notify_all()

    def _send_some(
        self, channel: channels.Channel, position_bytes: int
    ) -> int:
        """Send the next pieces, once the client has their headers.

        :returns: number of bytes; negative if the link is over.
        """
        session = self._session
        output = session.outgoing.output
        with session.lock:
            session.condition.wait_for(
                lambda: (
                    self._is_over
                    or self._sock is not channel.sock
                    or position_bytes < output.sent_bytes
                )
            )
            if self._is_over or self._sock is not channel.sock:
                return -1
            try:
                parts = _parts_from(output, position_bytes)
            except frames.ProtocolError as failure:
                session.fail(failure)
                return -1
        channel.send(*parts)
        return sum(map(len, parts))


def _secured(
    sock: socket.socket, target: links.Target, deadline_s: float | None
) -> channels.Channel:
    """Return the channel over a connection; close that if this fails."""
    if sock.family == socket.AF_UNIX:
        return channels.PlainChannel(sock)
    if target.certificate_sha256 is not None:
        return tls_channel.TlsChannel.connect(
            sock, target.certificate_sha256, deadline_s
        )
    if target.require_tls:
        sock.close()
        raise exceptions.CodedError(
            codes.TLS_REQUIRED, "it is on another host, without TLS"
        )
    return channels.PlainChannel(sock)


def _parts_from(
    output: stream.Outbound[stream.Piece], position_bytes: int
) -> list[memoryview]:
    """Return sent output from a position on.

    :raises frames.ProtocolError: if the client has acknowledged it.
    """
    kept = output.kept
    index = bisect.bisect_right(kept, position_bytes, key=_offset_of) - 1
    if index < 0:
        raise frames.ProtocolError(
            codes.BAD_OFFSET,
            f"output at {position_bytes} is acknowledged, and the next stage"
            " lacks it",
        )
    parts: list[memoryview] = []
    for number in range(index, len(kept) - len(output.unsent)):
        piece = kept[number]
        part = piece.data[max(0, position_bytes - piece.offset_bytes) :]
        if part:
            parts.append(part)
        if len(parts) == _MAX_SENT_AT_ONCE:
            break
    return parts


def _position(channel: channels.Channel, deadline_s: float | None) -> int:
    """Receive the answer to HELLO; return from where to send."""
    header = channels.recv_header(
        channel,
        bytearray(frames.HEADER_BYTES),
        max_data_bytes=frames.MAX_JSON_BYTES,
        deadline_s=deadline_s,
    )
    document = frames.decode_json(
        channels.recv_payload(channel, header, deadline_s)
    )
    if header.type == frames.OPENED:
        return links.start_bytes(document)
    # Its message stays there: it may be of any length, and say anything.
    known = str(document.get("code"))
    if known not in codes.ERRORS:
        known = codes.PROTOCOL_ERROR
    raise channels.ChannelClosed(f"it refuses the link: {known}")
