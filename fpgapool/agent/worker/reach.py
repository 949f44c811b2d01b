# SPDX-License-Identifier: Apache-2.0

"""Connections to the workers of other stages, which the agent makes.

A worker opens no connection itself. Its agent connects to the worker of
another session, if that belongs to the same project, and passes the connection
on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fpgapool.common.channels import channel as channels

#: Time in which the agent must answer.
ANSWER_S = 10.0


class Reach:
    """Asks the agent for one connection at a time.

    :param ask: makes the main thread send the agent :attr:`wanted`.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._changed = threading.Condition()
        self._number = 0
        self._abandoned = 0
        self._answer: int | None = None
        #: Members of the request that waits for its answer.
        self.wanted: dict[str, object] | None = None

    def begin(self) -> int:
        """Return what :meth:`dial` takes: all is abandoned up to here."""
        with self._changed:
            return self._abandoned

    def dial(self, session_id: str, generation: int, begun: int) -> int | None:
        """Wait for a connection to a session's worker.

        :param begun: what :meth:`begin` returned when it was decided to dial.
        :returns: its descriptor, which the caller owns; None if there is
            none, or if that was abandoned since then.
        """
        due_s = time.monotonic() + ANSWER_S
        with self._changed:
            if self._abandoned != begun:
                return None
            self._number += 1
            number = self._number
            self.wanted = {
                "number": number,
                "session_id": session_id,
                "next_generation": generation,
            }
        self._ask()
        with self._changed:
            while self.wanted is not None and self._number == number:
                left_s = due_s - time.monotonic()
                if left_s <= 0.0:
                    self.wanted = None
                    break
                self._changed.wait(left_s)
            answer, self._answer = self._answer, None
            return answer

    def abandon(self) -> None:
        """Make each :meth:`dial` that has begun return None."""
        with self._changed:
            self._abandoned += 1
            self.wanted = None
            self._changed.notify_all()

    def take(self, number: object, fd: int | None) -> None:
        """Take the agent's answer; close a needless connection."""
        with self._changed:
            if self.wanted is not None and self.wanted["number"] == number:
                self.wanted, self._answer = None, fd
                self._changed.notify_all()
            elif fd is not None:
                channels.close_fds([fd])
