#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Waiting at the front door until a session has a slot, and going there."""

from __future__ import annotations

import collections.abc
import typing

from fpgapool.client import cancel as cancelling
from fpgapool.client import connection as connections
from fpgapool.client import door as doors
from fpgapool.client import errors
from fpgapool.client import view as views
from fpgapool.common import channel
from fpgapool.core import codes
from fpgapool.protocol import frames

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0
# How long the front door of a session that runs may be away.
_REOPEN_PATIENCE_S = 60.0
# What a worker answers whose assignment has been taken back meanwhile.
_OVER = codes.REOPENABLE | {codes.SUPERSEDED, codes.UNAUTHORIZED}

StateCallback: typing.TypeAlias = collections.abc.Callable[
    [views.SessionView], object
]
#: Sends the request; gets the deadline of its reply.
Ask: typing.TypeAlias = collections.abc.Callable[[float | None], object]


class Stopped(Exception):
    """Another thread does not want it any more."""


class Ended(Exception):
    """The session ended instead of getting a slot.

    :ivar view: its final state.
    """

    def __init__(self, view: views.SessionView) -> None:
        super().__init__(view.state)
        self.view = view


class SlotSeeker:
    """Gets slots for one session: the first, and others if it is lost.

    :param door: front door; it is connected again when it goes away.
    :param params: of the accelerator; every worker gets them.
    :param token: cancels every wait.
    :param on_state: called with a view whenever there is news.
    :param features: optional features that every worker must have.
    """

    def __init__(
        self,
        door: doors.Door,
        params: dict[str, typing.Any],
        token: cancelling.CancelToken,
        on_state: StateCallback | None,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.door = door
        self._features = features
        self.token = token
        self._params = params
        self._on_state = on_state
        self._stopped = False
        self._start(-1, (0, 0), None)

    def _start(
        self,
        lost_generation: int,
        offsets_bytes: tuple[int, int],
        deadline_s: float | None,
        queue_deadline_s: float | None = None,
        patience_s: float | None = None,
    ) -> None:
        self._lost_generation = lost_generation
        self._offsets_bytes = offsets_bytes
        self._deadline_s = deadline_s
        self._queue_deadline_s = queue_deadline_s
        self._patience_s = patience_s
        self._view: views.SessionView | None = None
        self._backoff_s = _FIRST_BACKOFF_S

    def open(
        self,
        ask: Ask,
        deadline_s: float | None,
        *,
        queue_deadline_s: float | None = None,
        patience_s: float | None = None,
    ) -> tuple[connections.Dialer, connections.Connection]:
        """Ask for the session and connect to its first slot.

        :param ask: sends the request; called again if the front door went
            away.
        :param deadline_s: absolute deadline.
        :param queue_deadline_s: absolute deadline of waiting in the queue.
        :param patience_s: how long a front door that went away may stay
            away; None for ever.
        :returns: the way to the worker, and the connection.
        :raises Ended: if the session ended.
        :raises errors.FpgapoolError: as :func:`fpgapool.client.acc_open`.
        """
        self._start(-1, (0, 0), deadline_s, queue_deadline_s, patience_s)
        return self._seek(ask)

    def reopen(
        self,
        lost: views.SessionView,
        input_offset_bytes: int,
        output_offset_bytes: int,
        deadline_s: float | None,
    ) -> tuple[connections.Dialer, connections.Connection]:
        """Get another slot and connect to it.

        :param lost: the session with the slot that it has lost.
        :param input_offset_bytes: where its input goes on.
        :param output_offset_bytes: where its output goes on.
        :param deadline_s: absolute deadline.
        :returns: the way to the worker, and the connection.
        :raises Ended: if there is none for it.
        :raises Stopped: if stopped.
        :raises errors.FpgapoolError: as :func:`fpgapool.client.acc_open`.
            A front door that stays away is FrontDoorUnavailable.
        """
        offsets_bytes = input_offset_bytes, output_offset_bytes
        self._start(
            lost.generation,
            offsets_bytes,
            deadline_s,
            patience_s=_REOPEN_PATIENCE_S,
        )

        def ask(limit_s: float | None) -> None:
            self.door.request(
                "reopen",
                limit_s,
                session_id=lost.session_id,
                generation=lost.generation,
            )
            # What came before the reply is about the lost slot.
            self.door.discard_events()

        return self._seek(ask)

    def stop(self) -> None:
        """Make a thread that waits here return soon, for ever."""
        self._stopped = True
        self.door.shutdown()

    def _seek(
        self, ask: Ask
    ) -> tuple[connections.Dialer, connections.Connection]:
        while True:
            try:
                if self._stopped:
                    raise Stopped
                ask(self._limit_s())
                return self._await_connection()
            except doors.ConnectionLost as exc:
                self._reconnect(exc)

    def _limit_s(self) -> float | None:
        """Until when the present state may last."""
        assigned = self._view is not None and self._view.state != views.QUEUED
        if assigned or self._queue_deadline_s is None:
            return self._deadline_s
        return _earlier(self._deadline_s, self._queue_deadline_s)

    def _reconnect(self, reason: doors.ConnectionLost) -> None:
        # An agent that is restarted comes back within seconds, and the
        # request is as good as before: its name makes asking again safe.
        gives_up_s = channel.deadline_after(self._patience_s)
        while not self._stopped:
            self._pause(reason)
            try:
                self.door.reconnect(self._limit_s())
            except errors.FrontDoorUnavailable:
                if channel.remaining_s(gives_up_s) == 0:
                    raise
                continue
            return

    def _pause(self, reason: Exception) -> None:
        left_s = channel.remaining_s(self._limit_s())
        if left_s == 0:
            raise self._timeout(str(reason)) from reason
        if left_s is None:
            left_s = self._backoff_s
        self.token.wait(min(self._backoff_s, left_s))
        self._backoff_s = min(2 * self._backoff_s, _LONGEST_BACKOFF_S)

    def _timeout(self, reason: str) -> errors.FpgapoolError:
        if channel.remaining_s(self._deadline_s) == 0:
            return errors.OperationTimeout(f"time limit passed: {reason}")
        return errors.WaitTimeout("no slot came within wait_timeout_s")

    def _await_connection(
        self,
    ) -> tuple[connections.Dialer, connections.Connection]:
        while True:
            view = self._next_view(None)
            pause_s = _FIRST_BACKOFF_S
            while view is not None and self._is_ready(view):
                dialer = connections.Dialer(
                    view, self.door, self.token, self._features
                )
                before = self.door.connections
                attempt = self._connect(dialer)
                if isinstance(attempt, connections.Connection):
                    return dialer, attempt
                if self.door.connections != before:
                    # Whoever is there now knows nothing of the request.
                    raise doors.ConnectionLost("the front door was away")
                pause_s = min(2 * pause_s, _LONGEST_BACKOFF_S)
                view = self._news(pause_s if attempt else None)

    def _is_ready(self, view: views.SessionView) -> bool:
        return (
            view.state == views.READY
            and view.generation > self._lost_generation
        )

    def _news(self, pause_s: float | None) -> views.SessionView | None:
        """Wait for news of the session.

        :param pause_s: the longest wait; None if only news can help.
        :returns: what is known then.
        """
        wait_until_s = channel.deadline_after(pause_s)
        known = self._view
        try:
            while self._view is known:
                self._next_view(wait_until_s)
        except errors.OperationTimeout:
            if channel.remaining_s(self._deadline_s) == 0:
                raise
        return self._view

    def _next_view(self, pause_s: float | None) -> views.SessionView | None:
        """Wait for a notification.

        :param pause_s: absolute deadline besides those of the request.
        :returns: the new view; None if the notification was no news.
        """
        event = self._next_event(pause_s)
        if event.get("event") != "session":
            return None
        try:
            view = views.SessionView.from_message(event.get("session"))
        except frames.ProtocolError as exc:
            raise errors.SessionFailed(exc.code, exc.message) from exc
        known = self._view
        if known is not None and view.revision < known.revision:
            return None
        self._view = view
        if view.state in views.TERMINAL:
            raise Ended(view)
        if self._on_state is not None and not self._is_of_the_lost_slot(view):
            self._on_state(view)
        return view

    def _next_event(self, pause_s: float | None) -> dict[str, typing.Any]:
        limit_s = self._limit_s()
        try:
            return self.door.next_event(_earlier(limit_s, pause_s))
        except errors.OperationTimeout as exc:
            if channel.remaining_s(limit_s) == 0:
                raise self._timeout(exc.message) from exc
            raise

    def _is_of_the_lost_slot(self, view: views.SessionView) -> bool:
        return (
            view.generation <= self._lost_generation
            and view.state != views.QUEUED
        )

    def _connect(
        self, dialer: connections.Dialer
    ) -> connections.Connection | bool:
        """Connect to the worker.

        :returns: the connection; else whether trying again may help.
        """
        try:
            return dialer.open(
                self._params, self._deadline_s, *self._offsets_bytes
            )
        except connections.WorkerError as exc:
            if exc.code in _OVER:
                # The assignment is over; the pool is about to tell of the
                # next one.
                return False
            raise _refused(exc) from exc
        except channel.PinMismatch as exc:
            raise errors.SessionFailed(
                errors.CERTIFICATE_MISMATCH, str(exc)
            ) from exc
        except frames.ProtocolError as exc:
            raise errors.SessionFailed(exc.code, exc.message) from exc
        except OSError:
            self.token.check()
            if self._stopped:
                raise Stopped from None
            return True


def _earlier(first_s: float | None, second_s: float | None) -> float | None:
    if first_s is None or second_s is None:
        return second_s if first_s is None else first_s
    return min(first_s, second_s)


def _refused(exc: connections.WorkerError) -> errors.FpgapoolError:
    if exc.code == errors.INVALID_PARAMS:
        return errors.InvalidParams(exc.message)
    return errors.SessionFailed(exc.code, exc.message)
