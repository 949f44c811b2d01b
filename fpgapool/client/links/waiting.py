# SPDX-License-Identifier: Apache-2.0

"""Wait at the front door until a session has a slot, and connect to it."""

from __future__ import annotations

import random
import threading
import time
import typing
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client import log
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.common.channels import channel
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import states

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0
# How long the front door of a running session may be unreachable.
_REOPEN_PATIENCE_S = 60.0
# Error codes of a pool that cannot determine the session's state.
_OUTAGES = {
    codes.CONDUCTOR_UNAVAILABLE,
    codes.DATABASE_UNAVAILABLE,
    codes.RATE_LIMITED,
}
# Errors that may indicate an outage.
_REFUSALS = (errors.RequestRejected, errors.FrontDoorUnavailable)
# How long to retry at a full front door, even if an unreachable one would be
# retried without limit. If all its clients wait, no place ever becomes free.
_TURNED_AWAY_PATIENCE_S = 15.0
# Error codes of a worker whose assignment was revoked.
_OVER = codes.SLOT_LOST | {codes.UNAUTHORIZED}
#: How a session ends if its first connection breaks before OPENED.
_UNOPENED = frozenset({codes.CONNECTION_LOST, codes.RESUME_TIMEOUT})
#: How many more slots to request if that happens.
_MAX_UNOPENED = 5

StateCallback: typing.TypeAlias = Callable[[views.SessionView], object]
#: Called with the human-readable name of what does not respond, and the
#: seconds until the library gives up; None means that it never does.
AwayCallback: typing.TypeAlias = Callable[[str, float | None], object]
#: Sends the request; called with the deadline for the reply.
Ask: typing.TypeAlias = Callable[[float | None], object]
_T = TypeVar("_T")


class Stopped(Exception):
    """Another thread has cancelled the wait."""


class Attempts:
    """Counts consecutive attempts without progress."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reached: tuple[int, ...] = ()
        self.count = 0

    def begin(self, *reached: int) -> bool:
        """Count an attempt, and return whether it should be made.

        :param reached: positions in the data, which only increase.
        """
        if reached != self._reached:
            self._reached = reached
            self.count = 0
        self.count += 1
        return self.count <= self._most

    def forget(self) -> None:
        self._reached = ()


class Absence:
    """Tracks how long the pool has been unreachable; thread-safe.

    :param timeout_s: how long it may be unreachable; None means no limit.
    """

    def __init__(
        self, timeout_s: float | None, on_away: AwayCallback | None
    ) -> None:
        self._timeout_s = timeout_s
        self._on_away = on_away
        self._lock = threading.Lock()
        self._since_s: float | None = None
        self._announced = False

    @property
    def until_s(self) -> float | None:
        """When to give up; None if it is reachable or there is no limit."""
        if self._timeout_s is None or self._since_s is None:
            return None
        return self._since_s + self._timeout_s

    def end(self) -> None:
        """Record that the pool is available."""
        with self._lock:
            self._since_s = None
            self._announced = False

    def answered(self) -> None:
        """Record a response; for the program, the outage continues."""
        with self._lock:
            self._since_s = None

    def note(
        self,
        reason: Exception,
        since_s: float | None = None,
        *limits_s: float | None,
    ) -> None:
        """Record that the pool does not respond.

        :param since_s: when the outage began; None means now.
        :raises errors.FrontDoorUnavailable: if it has lasted too long.
        """
        with self._lock:
            if self._since_s is None:
                self._since_s = since_s or time.monotonic()
            begins, self._announced = not self._announced, True
            until_s = self.until_s
        if channel.remaining_s(until_s) == 0:
            why = getattr(reason, "message", reason)
            raise errors.FrontDoorUnavailable(
                f"the pool was unavailable for {self._timeout_s:g} s: {why}"
            ) from reason
        if begins:
            self.announce(
                "the pool's front door", earliest(until_s, *limits_s)
            )

    def announce(self, what: str, gives_up_s: float | None) -> None:
        """Notify the program of what does not respond, and when to give up."""
        log.info("Waiting: %s does not respond", what)
        if self._on_away is not None:
            self._on_away(what, channel.remaining_s(gives_up_s))


class Ended(exceptions.PicklableError):
    """The session ended instead of getting a slot."""

    def __init__(self, view: views.SessionView) -> None:
        super().__init__(view.state)
        self.view = view


class SlotSeeker:
    """Gets slots for one session: the first one, and replacements.

    :param door: front door; the seeker reconnects to it after an outage.
    :param away_timeout_s: how long the whole pool, not only its conductor, may
        be unreachable; None means that ``patience_s`` is the only limit.
    :param on_away: called when the pool or the worker becomes unreachable.
    """

    #: Why this machine's CPU does the work; None if a slot does or still may.
    fallback_reason: str | None = None
    #: Estimated energy in joules that this machine's CPU used, if it computes.
    cpu_energy_j: float | None = None

    def __init__(
        self,
        door: doors.Door,
        params: dict[str, Any],
        token: cancelling.CancelToken,
        on_state: StateCallback | None,
        features: frozenset[str] = frozenset(),
        *,
        require_tls: bool = False,
        returns: bool = False,
        shares: bool = True,
        away_timeout_s: float | None = None,
        on_away: AwayCallback | None = None,
    ) -> None:
        self.door = door
        # Since when the slot's worker has been unreachable.
        self._lost_since_s: float | None = None
        # Whether, and since when, the front door has also been unreachable.
        self._absence = Absence(away_timeout_s, on_away)
        self._features = features
        self._returns = returns
        self._shares = shares
        self._require_tls = require_tls
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
        asked_s: float | None = None,
    ) -> None:
        self._lost_generation = lost_generation
        self._offsets_bytes = offsets_bytes
        self._deadline_s = deadline_s
        self._queue_deadline_s = queue_deadline_s
        self._patience_s = patience_s
        self._view: views.SessionView | None = None
        # Since when the session's state has been unknown, and since when the
        # front door has only replied that it is full.
        self._away_since_s: float | None = None
        self._turned_away_since_s: float | None = None
        self._asked_s = asked_s
        self._reset_backoff()

    def open(
        self,
        ask: Ask,
        deadline_s: float | None,
        *,
        queue_deadline_s: float | None = None,
        patience_s: float | None = None,
        asked_s: float | None = None,
    ) -> tuple[connections.Dialer, connections.Connection]:
        """Request the session and connect to its first slot.

        :param ask: sends the request; called again if the connection was lost.
        :param queue_deadline_s: absolute deadline for waiting in the queue.
            The pool enforces it; the client does so if the pool cannot, or
            if ``patience_s`` is limited.
        :param patience_s: how long a front door may be unreachable or hang;
            None means no limit.
        :param asked_s: time of the first unanswered request; None means now.
        :raises Ended: if the session ended.
        """
        self._start(
            -1, (0, 0), deadline_s, queue_deadline_s, patience_s, asked_s
        )
        return self._seek_opened(ask, deadline_s)

    def reopen(
        self,
        lost: views.SessionView,
        input_offset_bytes: int,
        output_offset_bytes: int,
        deadline_s: float | None,
    ) -> tuple[connections.Dialer, connections.Connection]:
        """Get another slot and connect to it.

        :raises Ended: if the session ends instead.
        :raises errors.FpgapoolError: as :func:`fpgapool.client.acc_open`;
            FrontDoorUnavailable if the front door remains unreachable.
        """
        offsets_bytes = input_offset_bytes, output_offset_bytes
        ask = self._start_again(lost, offsets_bytes, deadline_s)
        return self._seek_opened(ask, deadline_s)

    def _start_again(
        self,
        lost: views.SessionView,
        offsets_bytes: tuple[int, int],
        deadline_s: float | None,
    ) -> Ask:
        """Return the function that requests another slot."""
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
            # Notifications that came before the reply are about the lost slot.
            self.door.discard_events()

        return ask

    def worker_lost(self, gives_up_s: float) -> None:
        """Record that the worker of the current slot is unreachable.

        :param gives_up_s: absolute time at which the caller gives up.
        """
        if self._lost_since_s is None:
            self._lost_since_s = time.monotonic()
            self._absence.announce("the slot's worker", gives_up_s)

    def worker_found(self) -> None:
        """Record that the worker of the current slot is reachable again."""
        self._lost_since_s = None

    def stop(self) -> None:
        """Make all current and later waits return soon."""
        self._stopped = True
        self.door.shutdown()

    def give_up(self, session_id: str) -> None:
        """Withdraw the request or session; never raises."""
        self.door.give_up(session_id=session_id)

    def report_close(
        self, closed: doors.Closed, deadline_s: float | None
    ) -> None:
        self.door.report_close(closed, deadline_s)

    def close(self) -> None:
        """End the connection to the front door; no thread may be waiting."""
        self.door.close()

    def _seek_opened(
        self, ask: Ask, deadline_s: float | None
    ) -> tuple[connections.Dialer, connections.Connection]:
        """Get a slot, or another if the first connection to it breaks.

        In that case, the secret has been used and no resume secret has
        arrived, so the client cannot connect to the same slot again.
        """
        for _ in range(_MAX_UNOPENED):
            try:
                return self._seek(ask)
            except Ended as ended:
                view = ended.view
                had_slot = view.generation > self._lost_generation
                if view.reason not in _UNOPENED or not had_slot:
                    raise
                ask = self._start_again(view, self._offsets_bytes, deadline_s)
        return self._seek(ask)

    def _seek(
        self, ask: Ask
    ) -> tuple[connections.Dialer, connections.Connection]:
        while True:
            try:
                if self._stopped:
                    raise Stopped
                self._asked_s = (
                    self._away_since_s or self._asked_s or time.monotonic()
                )
                self._call(ask, self._asked_s)
                return self._await_connection()
            except doors.ConnectionLost as exc:
                self._reconnect(exc)
            except _REFUSALS as exc:
                if not self._is_outage(exc):
                    raise
                self._be_patient(exc)
                self._pause(exc)

    def _is_outage(self, exc: errors.FpgapoolError) -> bool:
        """Return whether the request is still valid after an error.

        An accepted request keeps its place in the queue, and a session that
        has lost its slot can still get another one.
        """
        taken_in = self._view is not None or self._lost_generation >= 0
        if isinstance(exc, errors.FrontDoorUnavailable):
            # The pool may have accepted an earlier attempt.
            return taken_in or self._away_since_s is not None
        return taken_in and exc.code in _OUTAGES

    def _limit_s(self) -> float | None:
        """Return the deadline of the current state."""
        assigned = self._view is not None and self._view.state != states.QUEUED
        # Otherwise, the pool enforces the time limit in the queue.
        by_itself = (
            self._patience_s is not None or self._away_since_s is not None
        )
        if assigned or not by_itself:
            return self._deadline_s
        return earliest(self._deadline_s, self._queue_deadline_s)

    def _call(
        self,
        call: Callable[[float | None], _T],
        away_since_s: float | None,
        until_s: float | None = None,
    ) -> _T:
        """Send a request to the front door within the time limits.

        :param away_since_s: since when a reply has been missing; None if no
            reply is expected soon.
        :raises errors.FrontDoorUnavailable: if there is no reply in time.
        :raises errors.OperationTimeout: if there is none before ``until_s``.
        """
        limit_s = self._limit_s()
        patient_until_s = earliest(
            self._patient_until_s(away_since_s), self._absence.until_s
        )
        try:
            return call(earliest(limit_s, patient_until_s, until_s))
        except errors.OperationTimeout as exc:
            if channel.remaining_s(limit_s) == 0:
                raise self._timeout(exc.message) from exc
            if channel.remaining_s(patient_until_s) == 0:
                self._away_since_s = away_since_s
                raise errors.FrontDoorUnavailable(exc.message) from exc
            raise

    def _patient_until_s(self, away_since_s: float | None) -> float | None:
        if self._patience_s is None or away_since_s is None:
            return None
        return away_since_s + self._patience_s

    def _note_absence(self, reason: Exception) -> None:
        """Record whether the front door responded.

        :raises errors.FrontDoorUnavailable: if the outage has lasted too long.
        """
        if isinstance(reason, errors.RequestRejected | doors.TurnedAway):
            self._absence.answered()
        else:
            self._absence.note(
                reason,
                self._lost_since_s,
                self._patient_until_s(self._away_since_s),
                self._limit_s(),
            )

    def _reconnect(self, reason: doors.ConnectionLost) -> None:
        # An agent restarts within seconds. The request is still valid, and its
        # ID makes it safe to repeat.
        self._be_patient(reason)
        while not self._stopped:
            self._pause(reason)
            try:
                self._call(self.door.reconnect, self._away_since_s)
                return
            except _REFUSALS as exc:
                if not self._is_outage(exc):
                    raise
                self._be_patient(exc)

    def _be_patient(self, reason: Exception) -> None:
        """Raise the error if the outage has lasted too long.

        A front door that drops all connections also counts as unreachable.

        :raises Stopped: if this end has closed the connection.
        """
        if self._stopped:
            raise Stopped from reason
        now_s = time.monotonic()
        self._away_since_s = self._away_since_s or now_s
        self._note_absence(reason)
        if isinstance(reason, doors.TurnedAway) and self._view is None:
            self._turned_away_since_s = self._turned_away_since_s or now_s
        else:
            self._turned_away_since_s = None
        patience_s, since_s = self._patience_s, self._away_since_s
        if patience_s is None:
            patience_s = _TURNED_AWAY_PATIENCE_S
            since_s = self._turned_away_since_s
        if since_s is None or now_s < since_s + patience_s:
            return
        if isinstance(reason, doors.TurnedAway):
            raise reason.error from reason
        if isinstance(reason, errors.FpgapoolError):
            raise reason
        raise errors.FrontDoorUnavailable(str(reason)) from reason

    def _pause(self, reason: Exception) -> None:
        left_s = channel.remaining_s(self._limit_s())
        if left_s == 0:
            raise self._timeout(str(reason)) from reason
        left_s = earliest(left_s, channel.remaining_s(self._absence.until_s))
        if left_s is None:
            left_s = self._backoff_s
        # Jitter, so that clients do not all return at once after an outage.
        pause_s = self._backoff_s * random.uniform(0.5, 1.0)
        self.token.wait(min(pause_s, left_s))
        self._backoff_s = min(2 * self._backoff_s, _LONGEST_BACKOFF_S)

    def _timeout(self, reason: str) -> errors.FpgapoolError:
        if channel.remaining_s(self._deadline_s) == 0:
            return errors.OperationTimeout(
                f"the time limit was exceeded: {reason}"
            )
        return errors.WaitTimeout("no slot became free within wait_timeout_s")

    def _await_connection(
        self,
    ) -> tuple[connections.Dialer, connections.Connection]:
        while True:
            view = self._next_view(None)
            pause_s = _FIRST_BACKOFF_S
            while (
                view is not None
                and self._may_connect(view)
                and view.generation > self._lost_generation
            ):
                dialer = connections.Dialer(
                    view,
                    self.door,
                    self.token,
                    self._features,
                    self._require_tls,
                    self._returns,
                    self._shares,
                )
                before = self.door.connections
                attempt = self._connect(dialer)
                if isinstance(attempt, connections.Connection):
                    return dialer, attempt
                if self.door.connections != before:
                    # The restarted front door does not know the request.
                    raise doors.ConnectionLost(
                        "the connection to the front door was lost"
                    )
                pause_s = min(2 * pause_s, _LONGEST_BACKOFF_S)
                view = self._news(pause_s if attempt else None)

    def _may_connect(self, view: views.SessionView) -> bool:
        """Whether the session's worker accepts a connection."""
        return view.state == states.READY or _is_next(view)

    def _news(self, pause_s: float | None) -> views.SessionView | None:
        """Wait until the session changes.

        :param pause_s: time limit of the wait; None if only a change helps.
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

        :returns: the new view; None if the notification has no newer one.
        """
        silent_since_s = self._away_since_s
        if self._view is None and self._lost_generation < 0:
            # A working front door soon reports the state of a new request.
            silent_since_s = self._asked_s
        event = self._call(self.door.next_event, silent_since_s, pause_s)
        if event.get("event") != "session":
            return None
        try:
            view = views.SessionView.from_message(event.get("session"))
        except frames.ProtocolError as exc:
            raise errors.SessionFailed(exc.code, exc.message) from exc
        self._check_for_outage(view)
        known = self._view
        if known is not None and view.revision < known.revision:
            return None
        self._view = view
        if view.state in states.TERMINAL:
            raise Ended(view)
        if not self._is_of_the_lost_slot(view):
            self._end_outage()
            if view.state == states.QUEUED and (
                known is None or known.pending_reasons != view.pending_reasons
            ):
                reasons = ", ".join(view.pending_reasons) or view.reason
                log.info(
                    "Session %s waits: %s",
                    view.session_id,
                    reasons or "for its turn",
                )
            if self._on_state is not None:
                self._on_state(view)
        return view

    def _end_outage(self) -> None:
        """Record that the pool responds and knows the session's state."""
        self._reset_backoff()
        self._lost_since_s = None
        self._absence.end()

    def _reset_backoff(self) -> None:
        self._away_since_s = self._turned_away_since_s = None
        self._backoff_s = _FIRST_BACKOFF_S

    def _check_for_outage(self, view: views.SessionView) -> None:
        """Check that the view contains the session's state.

        :raises errors.RequestRejected: if the state is unknown. A restarted
            agent reports this for sessions that it does not know.
        """
        unknown = view.state == states.REJECTED and not view.session_id
        if not unknown and view.state != states.LOST:
            return
        if self._is_outage(errors.RequestRejected(view.reason, view.message)):
            raise errors.RequestRejected(view.reason, view.message)

    def _is_of_the_lost_slot(self, view: views.SessionView) -> bool:
        return (
            view.generation <= self._lost_generation
            and view.state != states.QUEUED
        )

    def _connect(
        self, dialer: connections.Dialer
    ) -> connections.Connection | bool:
        """Connect to the worker.

        :returns: the connection; otherwise, whether a retry may help.
        """
        patient_until_s = self._patient_until_s(self._away_since_s)
        away_since_s = self._away_since_s or time.monotonic()
        # Reset here, and set again below if the front door hangs.
        self._away_since_s = None
        try:
            return dialer.open(
                self._params,
                earliest(self._deadline_s, patient_until_s),
                *self._offsets_bytes,
            )
        except connections.WorkerError as exc:
            if exc.code in _OVER:
                # Either the assignment has ended, and the pool is about to
                # announce the next one, or the worker has not received it yet.
                return exc.code == codes.UNAUTHORIZED
            raise _refused(exc) from exc
        except tls_channel.PinMismatch as exc:
            raise errors.SessionFailed(
                codes.CERTIFICATE_MISMATCH, str(exc)
            ) from exc
        except frames.ProtocolError as exc:
            raise errors.SessionFailed(exc.code, exc.message) from exc
        except OSError as exc:
            self.token.check()
            if self._stopped:
                raise Stopped from None
            if isinstance(exc, connections.FrontDoorHangs):
                self._away_since_s = away_since_s
                self._be_patient(exc)
            return True


def earliest(*deadlines_s: float | None) -> float | None:
    """Return the earliest deadline.

    :param deadlines_s: absolute deadlines; None means no deadline.
    """
    # Called often by each session, so it avoids the cost of a generator.
    found = None
    for one in deadlines_s:
        if one is not None and (found is None or one < found):
            found = one
    return found


def _is_next(view: views.SessionView) -> bool:
    """Whether its slot's holder is about to leave: the worker then lets the
    client wait until it has.
    """
    return bool(
        view.state == states.PREPARING and view.endpoints and view.secret
    )


def _refused(exc: connections.WorkerError) -> errors.FpgapoolError:
    if exc.code == codes.INVALID_PARAMS:
        return errors.InvalidParams(exc.message)
    return errors.SessionFailed(exc.code, exc.message)
