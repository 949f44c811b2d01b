# SPDX-License-Identifier: Apache-2.0

"""The control socket; only the newest agent is served."""

from __future__ import annotations

import collections.abc
import contextlib
import logging
import os
import selectors
import socket
import threading

from fpgapool.agent.child import port
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.protocol import messages

LOG = logging.getLogger(__name__)

_RECV_BYTES = 64 * 1024
#: An agent that reads no message for this long is disconnected.
_SEND_TIMEOUT_S = 5.0


class Agent:
    """A connected agent."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel = channels.PlainChannel(sock)
        self._unsent: list[bytes] = []

    def send(self, message: collections.abc.Mapping[str, object]) -> None:
        """Send a message at the next :meth:`flush`.

        If the agent sent names that no message can hold, it is disconnected.
        """
        try:
            self._unsent.append(messages.encode(message))
        except ValueError as exc:
            LOG.warning("agent dropped: %s", exc)
            self.hang_up()

    def flush(self) -> None:
        """Send all queued messages at once, so that the agent wakes only once.

        An agent that cannot accept them is disconnected.
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

        :param fds: descriptors, which the caller still owns.
        :returns: False if the agent did not accept them and was disconnected.
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
        """Read requests until the connection ends, then close it."""
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


class Newest:
    """The newest agent; requests of earlier ones are ignored."""

    def __init__(self) -> None:
        self.agent: Agent | None = None

    def came(self, agent: Agent) -> None:
        """Adopt an agent, and disconnect the previous one."""
        if self.agent is not None:
            self.agent.hang_up()
        self.agent = agent

    def went(self, agent: Agent) -> bool:
        """Forget an agent; return whether it was the newest."""
        if agent is not self.agent:
            return False
        self.agent = None
        return True

    def notify(self, event: str, **members: object) -> None:
        """Send a notification at the next :meth:`flush`."""
        if self.agent is not None:
            self.agent.send(messages.notification(event, **members))

    def flush(self) -> None:
        """Send what is queued, if there is an agent."""
        if self.agent is not None:
            self.agent.flush()


class ControlSocket:
    """Accepts agents.

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
        """Register :meth:`accept` with a selector.

        :param selector: its data are callables that take the socket.
        """
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self.accept)

    def accept(self, listener: socket.socket) -> None:
        """Accept an agent and read its requests in a thread of its own."""
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
