# SPDX-License-Identifier: Apache-2.0

"""Sends a session's long messages while the session's own thread computes, so
that the slot does not wait for the network.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable

from fpgapool.agent.child import crew
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames

#: Shorter messages are sent directly: another thread would not be faster.
LONG_BYTES = 256 * 1024


class Message(typing.NamedTuple):
    channel: channels.Channel
    parts: list[frames.Buffer]


class BackgroundSender:
    """Sends in a thread while there is something to send.

    :param condition: condition of the session's lock, notified when all is
        sent.
    :param collect: returns the next message or None; called with the lock
        held.
    :param lose: called with the channel and the reason if sending fails.
    :ivar is_busy: whether the thread is sending, in which case no other thread
        may send; guarded by the lock.
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
        """Send a message or, if it is long, start to send it in the thread.

        :param alone: whether to wait until it is sent even if it is long.
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
            # This also wakes the receiving thread.
            message.channel.shutdown()
            self._lose(message.channel, str(exc))

    def _rest(self) -> None:
        self.is_busy = False
        self._condition.notify_all()
