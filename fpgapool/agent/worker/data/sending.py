# SPDX-License-Identifier: Apache-2.0

"""Sends long messages of a session while its own thread computes.

Otherwise a slot would wait for as long as a network takes for its output.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable

from fpgapool.agent.child import crew
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames

#: To hand over a shorter message takes about as long as to send it.
LONG_BYTES = 256 * 1024


class Message(typing.NamedTuple):
    """Frames to send at once."""

    channel: channels.Channel
    parts: list[frames.Buffer]


class Sender:
    """A thread that sends, as long as there is something to send.

    :param condition: with the session's lock; notified when all is sent.
    :param collect: returns the next message, None if there is none; called
        with the lock.
    :param lose: gives up a connection that is lost; gets the reason.
    :param settings: of the worker.
    :ivar is_busy: whether a message is under way; guarded by the lock.
        Meanwhile no other thread may send.
    """

    def __init__(
        self,
        condition: threading.Condition,
        collect: Callable[[], Message | None],
        lose: Callable[[channels.Channel, str], object],
        settings: worker_settings.Settings,
    ) -> None:
        self._condition = condition
        self._collect = collect
        self._lose = lose
        self._timeout_s = settings.send_timeout_s
        self.is_busy = False

    def send(self, message: Message, alone: bool) -> None:
        """Send a message, or begin to: ``is_busy`` says so.

        :param alone: whether to wait until it is sent, however long it is.
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
