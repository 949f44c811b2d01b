# SPDX-License-Identifier: Apache-2.0

"""The data port: accepts clients' connections, and limits their number."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import logging
import os
import selectors
import socket
import time
import typing

from fpgapool.agent.child import certificate as certificates
from fpgapool.agent.child import crew
from fpgapool.agent.child import goodbye
from fpgapool.agent.child import settings as child_settings
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import pending
from fpgapool.common.channels import tls_channel
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

#: Maximum number of unidentified clients; if there are more, one is dropped.
MAX_STRANGERS = 32

_BACKLOG = 64


class PortUnavailable(OSError):
    """The data port cannot be opened."""


def listen_unix(path: str) -> socket.socket:
    """Listen on a Unix socket that only this user can reach.

    A file left by an earlier process is replaced; the caller holds the lock,
    so no other process listens there.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        # The system's error does not include a socket's path.
        raise OSError(exc.errno, exc.strerror or str(exc), path) from exc
    return listener


def close_unix(listener: socket.socket, path: str) -> None:
    """Stop listening and remove the socket."""
    listener.close()
    with contextlib.suppress(OSError):
        os.unlink(path)


def listen_tcp(address: str, ports: tuple[int, int]) -> socket.socket:
    """Listen on the first free port of a range.

    :param ports: first and last port; both 0 for any port.
    :raises PortUnavailable: if no port is free, or the address is not local.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    problem: OSError | None = None
    for port in range(ports[0], ports[1] + 1):
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            # Two sockets can be bound to one port until one of them listens.
            listener.listen(_BACKLOG)
        except OSError as exc:
            listener.close()
            problem = exc
        else:
            return listener
    raise PortUnavailable(
        f"cannot listen for data connections on {address}, "
        f"ports {ports[0]}-{ports[1]}: {problem}"
    )


Log: typing.TypeAlias = logging.Logger | logging.LoggerAdapter[logging.Logger]


def accepted(
    listener: socket.socket, what: str, log: Log
) -> tuple[socket.socket, typing.Any] | None:
    """Accept a connection.

    :param what: what connects, for the log.
    :returns: None if nobody is there any more, or after a short while if
        accepting fails.
    """
    try:
        return listener.accept()
    except (BlockingIOError, ConnectionAbortedError):
        return None
    except OSError as exc:
        log.warning("accepting %s failed: %s", what, exc)
        time.sleep(pending.ACCEPT_PAUSE_S)
        return None


class Refused(exceptions.CodedError):
    """A client is refused."""


#: Serves a client's connection until it ends, then closes it. Takes the parsed
#: HELLO, the channel, and whether the channel can pass descriptors. Raises
#: Refused if the client is refused, or ConnectionError if the connection is
#: lost; in both cases, the channel stays open.
Serve: typing.TypeAlias = collections.abc.Callable[
    [typing.Any, channels.Channel, bool], None
]


class Early(typing.Protocol):
    """Makes clients wait whose session the agent has not announced yet."""

    def expect(
        self, hello: typing.Any, is_there: collections.abc.Callable[[], bool]
    ) -> None:
        """Wait briefly for a session, but only while the client is there."""

    def look_again(self) -> None:
        """Make each :meth:`expect` ask whether its client is there."""


@dataclasses.dataclass(eq=False)
class DataPort:
    """Accepts clients on a Unix socket and, if configured, on TCP.

    :param early: where clients wait that come too early, if they may.
    :raises OSError: if a socket cannot be created.
    """

    settings: child_settings.ChildSettings
    serve: Serve
    certificate: certificates.Certificate | None
    parse: collections.abc.Callable[[dict[str, typing.Any]], typing.Any]
    early: Early | None = None

    def __post_init__(self) -> None:
        self._log = ratelimit.RateLimitedLog(__name__)
        self._strangers = pending.PendingConnections(
            MAX_STRANGERS, self._let_go
        )
        self._local = listen_unix(self.settings.data_socket)
        self._tcp = None
        if self.settings.data_address is not None:
            try:
                self._tcp = listen_tcp(
                    self.settings.data_address, self.settings.data_ports
                )
            except PortUnavailable:
                self._local.close()
                raise

    @property
    def tcp_port(self) -> int | None:
        """The TCP port's number, or None without TCP."""
        if self._tcp is None:
            return None
        port: int = self._tcp.getsockname()[1]
        return port

    def register(self, selector: selectors.BaseSelector) -> None:
        """Register :meth:`accept` with a selector."""
        for listener in (self._local, self._tcp):
            if listener is not None:
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ, self.accept)

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection and serve it in a separate thread."""
        found = accepted(listener, "a client", self._log)
        if found is None:
            return
        sock, address = found
        local = listener is self._local
        place = "" if local else address[0]
        # Count it here, not in its thread, to limit the number of threads.
        self._strangers.enter(sock, place)
        try:
            crew.CREW.start("client", self._serve, sock, place, local)
        except RuntimeError as exc:
            # The process may have no more threads.
            self._log.warning("a client is dropped: %s", exc)
            self._strangers.leave(sock)
            sock.close()

    def close(self) -> None:
        if self._tcp is not None:
            self._tcp.close()
        close_unix(self._local, self.settings.data_socket)

    def _serve(self, sock: socket.socket, place: str, local: bool) -> None:
        channel = None
        try:
            try:
                channel = self._identify(sock, local)
                hello = self._recv_hello(channel)
                if self.early is not None:
                    self.early.expect(hello, lambda: sock in self._strangers)
                if sock not in self._strangers:
                    raise channels.ChannelClosed("too many others have come")
            finally:
                self._strangers.leave(sock)
            self.serve(hello, channel, local)
        except (frames.ProtocolError, Refused) as exc:
            self._log.warning("client refused: %s: %s", exc.code, exc.message)
            if channel is not None:
                self._turn_away(channel, place, exc.code, exc.message)
        except channels.DeadlineExceeded:
            self._log.warning("client dropped: HELLO timed out")
            if channel is not None:
                self._turn_away(
                    channel, place, codes.HELLO_TIMEOUT, "HELLO timed out"
                )
        except OSError as exc:
            self._log.info("client lost: %s", exc)
            if channel is not None:
                channel.close()
        except Exception as exc:
            # Omit the exception's text: it may quote the client's data.
            self._log.error(
                "client dropped: internal error: %s", type(exc).__name__
            )
            if channel is not None:
                self._turn_away(
                    channel, place, codes.INTERNAL_ERROR, "internal error"
                )

    def _let_go(self) -> None:
        if self.early is not None:
            self.early.look_again()

    def _turn_away(
        self, channel: channels.Channel, place: str, code: str, message: str
    ) -> None:
        """Send the reason, and give the client time to read it."""
        with self._strangers.one(channel.sock, place):
            goodbye.say(channel, code, message)
            goodbye.drop_rest(channel)
        channel.close()

    def _identify(self, sock: socket.socket, local: bool) -> channels.Channel:
        try:
            channels.tune(sock)
            if local or self.certificate is None:
                return channels.PlainChannel(sock)
            return tls_channel.TlsChannel.accept(
                sock, self.certificate.context(), self._deadline_s()
            )
        except BaseException:
            sock.close()
            raise

    def _recv_hello(self, channel: channels.Channel) -> typing.Any:
        deadline_s = self._deadline_s()
        header = channels.recv_header(
            channel,
            bytearray(frames.HEADER_BYTES),
            max_data_bytes=frames.MAX_JSON_BYTES,
            deadline_s=deadline_s,
        )
        if header.type != frames.HELLO:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the first frame must be HELLO"
            )
        if header.stream_id:
            raise frames.ProtocolError(
                codes.STREAM_LIMIT, "stream_id must be 0"
            )
        payload = channels.recv_payload(channel, header, deadline_s)
        return self.parse(frames.decode_json(payload))

    def _deadline_s(self) -> float | None:
        return channels.deadline_after(self.settings.hello_timeout_s)
