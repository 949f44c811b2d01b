# SPDX-License-Identifier: Apache-2.0

"""The control socket: one agent at a time, the newest one."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import logging
import os
import selectors
import socket
import string
import threading
import typing

from fpgapool.agent.child import port
from fpgapool.agent.worker import watch
from fpgapool.common.channels import channel as channels
from fpgapool.drivers import base as drivers
from fpgapool.protocol import frames
from fpgapool.protocol import messages

LOG = logging.getLogger(__name__)

_RECV_BYTES = 64 * 1024
# Longer than any session, and far from overflowing a timer.
_MAX_S = 2e9
_MAX_INTEGER = 2**63
_LIMITS = [field.name for field in dataclasses.fields(watch.Limits)]
#: An agent that reads no message for this long is dropped.
_SEND_TIMEOUT_S = 5.0


class Agent:
    """A connected agent.

    :param sock: its connection.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._channel = channels.PlainChannel(sock)
        self._unsent: list[bytes] = []

    def send(self, message: collections.abc.Mapping[str, object]) -> None:
        """Send a message at the next :meth:`flush`.

        It drops an agent that has sent names that no message can hold.

        :param message: the message.
        """
        try:
            self._unsent.append(messages.encode(message))
        except ValueError as exc:
            LOG.warning("agent dropped: %s", exc)
            self.hang_up()

    def flush(self) -> None:
        """Send all messages in one piece: the agent wakes only once.

        It drops an agent that cannot accept them.
        """
        if not self._unsent:
            return
        data, self._unsent = b"".join(self._unsent), []
        try:
            self._channel.send(
                data, deadline_s=channels.deadline_after(_SEND_TIMEOUT_S)
            )
        except (channels.ChannelClosed, channels.DeadlineExceeded):
            self.hang_up()

    def hand_over(
        self,
        message: collections.abc.Mapping[str, object],
        fds: collections.abc.Sequence[int],
    ) -> bool:
        """Send a message with descriptors, at once.

        :param message: the message.
        :param fds: descriptors, which stay the caller's own.
        :returns: False if the agent does not take them; it is dropped.
        """
        self.flush()
        try:
            self._channel.send_with_fds(
                messages.encode(message),
                fds,
                deadline_s=channels.deadline_after(_SEND_TIMEOUT_S),
            )
        except (channels.ChannelClosed, channels.DeadlineExceeded) as exc:
            LOG.warning("agent dropped: %s", exc)
            self.hang_up()
            return False
        return True

    def hang_up(self) -> None:
        """End the connection; its reader notices and closes it."""
        self._channel.shutdown()

    def read(
        self,
        on_request: collections.abc.Callable[[Agent, messages.Message], None],
    ) -> None:
        """Read requests until the connection ends, then close it.

        :param on_request: gets each of them.
        """
        decoder = messages.MessageDecoder()
        buffer = memoryview(bytearray(_RECV_BYTES))
        try:
            while True:
                count = self._channel.recv_some_into(buffer)
                for message in decoder.feed(buffer[:count]):
                    on_request(self, message)
        except channels.ChannelClosed:
            pass
        except frames.ProtocolError as exc:
            LOG.warning("agent dropped: %s: %s", exc.code, exc.message)
        self._channel.close()


class ControlSocket:
    """Accepts agents.

    :param path: of the socket.
    :param on_agent: gets each new agent.
    :param on_request: gets each of its requests.
    :param on_gone: called when its connection has ended.
    :raises OSError: if the socket cannot be made.
    """

    def __init__(
        self,
        path: str,
        on_agent: collections.abc.Callable[[Agent], None],
        on_request: collections.abc.Callable[[Agent, messages.Message], None],
        on_gone: collections.abc.Callable[[Agent], None],
    ) -> None:
        self._path = path
        self._on_agent = on_agent
        self._on_request = on_request
        self._on_gone = on_gone
        self._listener = port.listen_unix(path)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Let a selector call :meth:`accept`.

        :param selector: whose data are callables that take the socket.
        """
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self.accept)

    def accept(self, listener: socket.socket) -> None:
        """Accept an agent and read its requests in a thread of its own.

        :param listener: the listening socket.
        """
        try:
            sock, _ = listener.accept()
        except OSError as exc:
            LOG.warning("accepting an agent failed: %s", exc)
            return
        agent = Agent(sock)
        self._on_agent(agent)
        threading.Thread(
            target=self._serve, args=(agent,), name="agent", daemon=True
        ).start()

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _serve(self, agent: Agent) -> None:
        try:
            agent.read(self._on_request)
        finally:
            self._on_gone(agent)


def order_members(message: messages.Message) -> dict[str, typing.Any]:
    """Check the members of an ``assign`` request.

    :param message: the request; members of later versions are ignored.
    :returns: arguments of :class:`state.Order`.
    :raises frames.ProtocolError: if one is missing or wrong.
    """
    members = {
        name: frames.require(message, name, kind)
        for name, kind in (
            ("session_id", str),
            ("generation", int),
            ("project_id", str),
            ("accelerator", str),
            ("bitstream", str),
            ("connect_timeout_s", (int, float)),
            ("resume_grace_s", (int, float)),
            ("local", bool),
            ("self_test", bool),
        )
    }
    for name in ("generation", "connect_timeout_s", "resume_grace_s"):
        _check_range(name, members[name])
    if message.get("origin_host_uuid") is not None:
        members["origin_host_uuid"] = frames.require(
            message, "origin_host_uuid", str
        )
    if message.get("desk_socket") is not None:
        members["desk_socket"] = frames.require(message, "desk_socket", str)
    if message.get("secret_sha256"):
        members["secret_sha256"] = _hash(message)
    members["limits"] = _limits(message)
    if message.get("bitstream_ref") is not None:
        members |= _bitstream(message)
    return members


def _hash(message: messages.Message) -> str:
    """Read the hash of the client's secret."""
    digest = frames.require(message, "secret_sha256", str)
    if len(digest) != 64 or set(digest) - set(string.hexdigits):
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            "secret_sha256 must be 64 hexadecimal digits",
        )
    return digest


def _bitstream(message: messages.Message) -> dict[str, typing.Any]:
    """Read the reference of the file to program into the slot."""
    reference = frames.require(message, "bitstream_ref", dict)
    return {
        "bitstream_id": frames.require(reference, "bitstream_id", str),
        "file": drivers.BitstreamFile(
            accelerator=frames.require(message, "accelerator", str),
            path=frames.require(message, "bitstream_path", str),
            checksum_sha256=frames.require(reference, "checksum_sha256", str),
            size_bytes=frames.require(reference, "size_bytes", int),
            format=frames.require(reference, "format", str),
        ),
    }


def _limits(message: messages.Message) -> watch.Limits:
    """Read the limits of a connected session; all of them are optional."""
    values = {}
    for name in _LIMITS:
        value = message.get(name)
        if value is None:
            continue
        values[name] = frames.require(message, name, (int, float))
        _check_range(name, value)
    return watch.Limits(**values)


def _check_range(name: str, value: float) -> None:
    """Refuse numbers that clocks and timers cannot handle.

    :raises frames.ProtocolError: if a number is out of range.
    """
    if not 0 <= value < (_MAX_S if name.endswith("_s") else _MAX_INTEGER):
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR, f"member '{name}' is out of range"
        )
