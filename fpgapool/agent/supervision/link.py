# SPDX-License-Identifier: Apache-2.0

"""The control connection to a process that the agent keeps alive."""

from __future__ import annotations

import collections
import dataclasses
import socket
import typing
from collections.abc import Callable
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.agent import loop as agent_loop
from fpgapool.common.channels import channel
from fpgapool.common.channels import descriptors
from fpgapool.common.messaging import codec
from fpgapool.protocol import frames
from fpgapool.protocol import messages

LOG = logging.getLogger(__name__)

RECEIVE_BYTES = 16384

#: How much a process may send: messages, and ``_UNIT_BYTES`` of them. If it
#: sends more than a burst at once, it is not read for a while.
_UNITS_PER_S, _BURST_UNITS, _UNIT_BYTES = 4000, 400, 512
# How often a connection's rest is read: more than the kernel keeps.
_LAST_READS = 100


def receive(sock: socket.socket) -> bytes | memoryview:
    """Return received data, which is empty when the connection has ended.

    :raises OSError: if there is no data yet, or the connection is lost.
    """
    return sock.recv(RECEIVE_BYTES)


@dataclasses.dataclass(eq=False)
class Link:
    """A control connection, perhaps absent; used only in the loop's thread.

    :param on_message: called with each message; raises KeyError, TypeError,
        ValueError or frames.ProtocolError if it is invalid.
    :param on_lie: called with the error of an invalid message.
    :param on_end: called after :meth:`close`, when the process has closed the
        connection or the connection is lost.
    :ivar requests: unanswered requests, by number.
    :ivar silent_s: time without a message while requests are unanswered.
    :ivar heard: whether this connection has delivered a status.
    """

    loop: agent_loop.Loop
    title: str
    on_message: Callable[[messages.Message], None]
    on_lie: Callable[[Exception], None]
    on_end: Callable[[], None]
    read: Callable[[socket.socket], bytes | memoryview] = receive

    def __post_init__(self) -> None:
        self.sock: socket.socket | None = None
        self.requests: dict[int, typing.Any] = {}
        self.silent_s = 0.0
        self.heard = False
        self._decoder = messages.MessageDecoder(codec.decode_json)
        # Requests, and the descriptors that go with their first bytes.
        self._unsent = collections.deque[tuple[bytearray, list[int]]]()
        self._last_number = 0
        # What was received and is not yet allowed, and until when it was.
        self._ahead_units, self._counted_s = 0.0, 0.0
        self._rests = False

    def open(self, sock: socket.socket) -> None:
        """Use a connection, which must be non-blocking."""
        self.sock = sock
        self._decoder = messages.MessageDecoder(codec.decode_json)
        self.requests.clear()
        self.silent_s = 0.0
        self.heard = False
        self._watch()

    def close(self) -> None:
        sock, self.sock = self.sock, None
        if sock is not None:
            self.loop.unwatch(sock)
            sock.close()
        self._drop_unsent()

    def ask(
        self,
        operation: str,
        members: typing.Mapping[str, object],
        request: typing.Any,
        fds: Iterable[int] = (),
    ) -> None:
        """Send a request.

        Without a connection, it is dropped; the caller repeats it later.

        :param request: value that ``requests`` contains until the answer.
        :param fds: descriptors to send with it, which the link closes.
        """
        if self.sock is None:
            channel.close_fds(fds)
            return
        self._last_number += 1
        self.requests[self._last_number] = request
        data = messages.encode(
            messages.request(self._last_number, operation, **members)
        )
        self._unsent.append((bytearray(data), [*fds]))
        self._flush()

    def _watch(self) -> None:
        if self.sock is None:
            return
        events = 0 if self._rests else agent_loop.READ
        if self._unsent:
            events |= agent_loop.WRITE
        sock = self.sock
        if not events:
            self.loop.unwatch(sock)
            return
        self.loop.watch(sock, events, lambda got: self._ready(sock, got))

    def _ready(self, sock: socket.socket, events: int) -> None:
        if self.sock is sock and events & agent_loop.WRITE:
            self._flush()
        if self.sock is sock and events & agent_loop.READ:
            self.receive()

    def _flush(self) -> None:
        sock = self.sock
        if sock is None:
            return
        try:
            while self._unsent:
                data, fds = self._unsent[0]
                del data[: sock.sendmsg([data], channel.rights(fds))]
                channel.close_fds(fds)
                fds.clear()
                if not data:
                    self._unsent.popleft()
        except BlockingIOError:
            LOG.debug("%s is busy", self.title)
        except OSError as error:
            # receive() handles the closed connection.
            LOG.debug("%s: %s", self.title, error)
            self._drop_unsent()
        self._watch()

    def _drop_unsent(self) -> None:
        while self._unsent:
            channel.close_fds(self._unsent.popleft()[1])

    def receive(self) -> None:
        """Handle the messages that have arrived, or the connection's end."""
        sock = self.sock
        if sock is None:
            return
        data: bytes | memoryview = b""
        received: list[messages.Message] = []
        try:
            data = self.read(sock)
            received = self._decoder.feed(data)
        except BlockingIOError:
            return
        except ConnectionError as error:
            # The process has ended without reading a request. Its exit status
            # shows whether it has failed.
            LOG.info("%s: %s", self.title, error)
            data = b""
        except OSError as error:
            LOG.warning("%s: %s", self.title, error)
            data = b""
        except frames.ProtocolError as error:
            self.on_lie(error)
            return
        for message in received:
            if self.sock is sock:
                self._dispatch(message)
        if not data and self.sock is not None:
            self.close()
            self.on_end()
        self._count(len(received) + len(data) / _UNIT_BYTES)

    def _count(self, units: float) -> None:
        """Stop reading for a while if the process sends too much."""
        now = self.loop.now()
        allowed_units = (now - self._counted_s) * _UNITS_PER_S
        self._counted_s = now
        self._ahead_units = max(0.0, self._ahead_units - allowed_units) + units
        if self._ahead_units > _BURST_UNITS and not self._rests:
            self._rests = True
            rest_s = self._ahead_units / _UNITS_PER_S
            self.loop.call_later(rest_s, self._go_on)
            self._watch()

    def _go_on(self) -> None:
        self._rests = False
        self._watch()

    def receive_rest(self) -> None:
        """Handle the last messages of a process that has ended."""
        # What it has forked may go on sending.
        for _ in range(_LAST_READS):
            if (sock := self.sock) is None:
                return
            try:
                if not descriptors.is_readable(sock, 0):
                    return
            except (OSError, ValueError):
                return
            self.receive()

    def _dispatch(self, message: messages.Message) -> None:
        try:
            self.on_message(message)
        except (
            KeyError,
            TypeError,
            ValueError,
            frames.ProtocolError,
        ) as error:
            self.on_lie(error)
