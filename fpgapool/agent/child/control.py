# SPDX-License-Identifier: Apache-2.0

"""Agents connected to the control socket; only the newest one is served."""

from __future__ import annotations

import dataclasses
import logging
import socket
import threading
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.agent.child import port
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import exceptions

LOG = logging.getLogger(__name__)

_RECV_BYTES = 16 * 1024
#: Maximum number of descriptors in one message, and of those whose requests
#: have not been obeyed yet.
_MESSAGE_FDS, _MOST_FDS = 1, 4
#: An agent that reads no message for this long is disconnected.
_SEND_TIMEOUT_S = 5.0


class Agent:
    """A connected agent.

    :ivar fds: descriptors that it has sent and no request has taken yet.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._channel = channels.PlainChannel(sock)
        self.fds: list[int] = []
        self._unsent: list[bytes] = []

    def send(self, message: Mapping[str, object]) -> None:
        """Queue a message for the next :meth:`flush`.

        If the message cannot be encoded, because a name from the agent is
        invalid or too long, the agent is disconnected.
        """
        try:
            self._unsent.append(messages.encode(message))
        except ValueError as exc:
            LOG.warning("agent dropped: %s", exc)
            self.hang_up()

    def flush(self) -> None:
        """Send all queued messages together, so that the agent wakes once.

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
        message: Mapping[str, object],
        fds: Sequence[int],
    ) -> bool:
        """Send a message with file descriptors immediately.

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
        """Shut down the connection; its reader notices and closes it."""
        self._channel.shutdown()

    def read(self, on_request: Callable[[messages.Message], None]) -> None:
        """Read requests until the connection ends, then close it."""
        decoder = messages.MessageDecoder()
        buffer = memoryview(bytearray(_RECV_BYTES))
        try:
            while True:
                count, fds = self._channel.recv_with_fds(buffer, _MESSAGE_FDS)
                self.fds += fds
                if len(self.fds) > _MOST_FDS:
                    raise frames.ProtocolError(
                        frames.PROTOCOL_ERROR,
                        "received file descriptors that no request takes",
                    )
                for message in decoder.feed(buffer[:count]):
                    on_request(message)
        except channels.ChannelClosed:
            pass
        except frames.ProtocolError as exc:
            LOG.warning("agent dropped: %s: %s", exc.code, exc.message)
        self._channel.close()


@dataclasses.dataclass(eq=False)
class Newest:
    """The newest agent; requests from earlier ones are ignored.

    Every method except :meth:`accept` runs in the main thread.

    :param call: runs a function in the main thread; any thread may call it.
    :param obey: executes a request and returns the members of the reply, or
        raises a CodedError to refuse it.
    :param came: called when a new agent has connected.
    :param went: called when the newest agent has disconnected.
    """

    call: Callable[[Callable[[], None]], None]
    obey: Callable[[messages.Message], Mapping[str, typing.Any]]
    came: Callable[[], None]
    went: Callable[[], None]

    def __post_init__(self) -> None:
        self.agent: Agent | None = None

    def accept(self, listener: socket.socket) -> None:
        """Accept an agent and read its requests in a separate thread."""
        found = port.accepted(listener, "an agent", LOG)
        if found is None:
            return
        agent = Agent(found[0])
        self.call(lambda: self._adopt(agent))
        threading.Thread(
            target=self._serve, args=(agent,), name="agent", daemon=True
        ).start()

    def _serve(self, agent: Agent) -> None:
        try:
            agent.read(
                lambda message: self.call(lambda: self._answer(agent, message))
            )
        finally:
            self.call(lambda: self._forget(agent))

    def _adopt(self, agent: Agent) -> None:
        if self.agent is not None:
            self.agent.hang_up()
        self.agent = agent
        self.came()

    def _forget(self, agent: Agent) -> None:
        channels.close_fds(agent.fds)
        if agent is self.agent:
            self.agent = None
            self.went()

    def _answer(self, agent: Agent, message: messages.Message) -> None:
        if agent is not self.agent:
            return
        number = message.get("id")
        try:
            answer = messages.reply(number, **self.obey(message))
        except exceptions.CodedError as exc:
            answer = messages.error_reply(number, exc.code, exc.message)
        agent.send(answer)

    def take_fd(self) -> int | None:
        """Return the descriptor that came with the current request, if any.

        The caller must close it.
        """
        fds = self.agent.fds if self.agent is not None else []
        return fds.pop(0) if fds else None

    def notify(self, event: str, **members: object) -> None:
        """Send a notification at the next :meth:`flush`."""
        if self.agent is not None:
            self.agent.send(messages.notification(event, **members))

    def flush(self) -> None:
        """Send all queued messages, if an agent is connected."""
        if self.agent is not None:
            self.agent.flush()
