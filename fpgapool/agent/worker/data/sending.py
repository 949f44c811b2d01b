# SPDX-License-Identifier: Apache-2.0

"""Sends a session's long messages while its own thread computes, so that a
slot does not wait for the network.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable

from fpgapool.agent.child import crew
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames

#: Sending a shorter message takes no longer than handing it over.
LONG_BYTES = 256 * 1024


class Message(typing.NamedTuple):
    """Frames to send at once."""

    channel: channels.Channel
    parts: list[frames.Buffer]


class BackgroundSender:
    """Sends in a thread while there is something to send.

    :param condition: with the session's lock; notified when all is sent.
    :param collect: returns the next message, None if there is none; called
        with the lock.
    :ivar is_busy: whether a message is being sent; guarded by the lock.
        Meanwhile no other thread may send.
    """

    def __init__(
        self,
        condition: threading.Condition,
        collect: Callable[[], Message | None],
        lose: Callable[[channels.Channel, str], object],
        settings: worker_settings.WorkerSettings,
    ) -> None:
        self._condition = condition
        self._collect = collect
        self._lose = lose
        self._timeout_s = settings.send_timeout_s
        self.is_busy = False

    def send(self, message: Message, alone: bool) -> None:
        """Send a message, or start to send it; ``is_busy`` tells which.

        :param alone: whether to wait until it is sent, even if it is long.
        """
        if alone or sum(map(len, message.parts)) < LONG_BYTES:
            self._send(message)
            return
        with self._condition:
            self.is_busy = True
            crew.CREW.start("sender", self._run, message)

    def _run(self, first: Message) -> None:
        try:
            message: Message | None = first
            while message is not None:
                self._send(message)
                with self._condition:
                    message = self._collect()
                    if message is None:
                        self._rest()
        except BaseException:
            with self._condition:
                self._rest()
            raise

    def _send(self, message: Message) -> None:
        try:
            message.channel.send(
                *message.parts,
                deadline_s=channels.deadline_after(self._timeout_s),
            )
        except (channels.ChannelClosed, channels.DeadlineExceeded) as exc:
            # Wakes the receiving thread too.
            message.channel.shutdown()
            self._lose(message.channel, str(exc))

    def _rest(self) -> None:
        self.is_busy = False
        self._condition.notify_all()
