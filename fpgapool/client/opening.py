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

"""Opening a session: ask the front door, wait for a slot, connect to it."""

from __future__ import annotations

import collections.abc
import threading
import time
import typing
import uuid

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import connection as connections
from fpgapool.client import errors
from fpgapool.client import frontdoor
from fpgapool.client import session as sessions
from fpgapool.client import view as views
from fpgapool.common import channel
from fpgapool.protocol import frames
from fpgapool.protocol import messages

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0

StateCallback: typing.TypeAlias = collections.abc.Callable[
    [views.SessionView], object
]


def acc_open(
    accelerator: str,
    size_bytes: int,
    *,
    params: collections.abc.Mapping[str, typing.Any] | None = None,
    timeout_s: float | None = None,
    front_door: str | None = None,
    request_id: str | None = None,
    wait_timeout_s: float | None = None,
    priority: int = 0,
    on_state: StateCallback | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    verify: bool = True,
) -> sessions.Session:
    """Get a slot with an accelerator, waiting for it as long as it takes.

    :param accelerator: its name, for example ``aes``.
    :param size_bytes: how much input there will be, 1 ... 2**63 - 1; it
        decides the place in the queue.
    :param params: of the accelerator; bytes are sent as hexadecimal digits.
        They go to the worker, never through the pool's services.
    :param timeout_s: time limit of this call.
    :param front_door: path of the front door's socket; default is the
        environment variable ``FPGAPOOL_SOCKET``, else the first of the
        conventional places.
    :param request_id: the caller's name of the request: asking twice with
        the same one never opens twice. Made up if it is None.
    :param wait_timeout_s: how long the request may stay in the queue; the
        pool has a limit of its own.
    :param priority: -1000 ... 1000, for strategies that look at it; none of
        the built-in ones does.
    :param on_state: called with a view of the session whenever its state or
        its place in the queue changes.
    :param cancel: setting it ends the request or the session.
    :param verify: check the parameters against the accelerator's schema
        before asking for a slot; the worker checks them in any case.
    :returns: the session, connected.
    :raises errors.InvalidRequest: if an argument is wrong.
    :raises errors.FrontDoorUnavailable: if there is no front door.
    :raises errors.RequestRejected: if the pool refuses; also its subclass
        :class:`errors.WaitTimeout`.
    :raises errors.OperationTimeout: if ``timeout_s`` passes.
    :raises errors.Cancelled: if cancelled.
    :raises errors.SessionFailed: if the session ends before it is used.
    """
    if not isinstance(accelerator, str) or not accelerator:
        raise errors.InvalidRequest(
            errors.INVALID_REQUEST, "accelerator must be a name"
        )
    members = {
        "request_id": checks.request_id(
            str(uuid.uuid4()) if request_id is None else request_id
        ),
        "accelerator": accelerator,
        "size_bytes": checks.size(size_bytes),
        "wait_timeout_s": checks.seconds(wait_timeout_s, "wait_timeout_s"),
        "priority": checks.priority(priority),
    }
    opening = _Opening(
        members,
        checks.params(params),
        front_door or frontdoor.default_path(),
        on_state,
        cancelling.token_of(cancel),
        channel.deadline_after(checks.seconds(timeout_s, "timeout_s")),
    )
    return opening.run(verify)


class _Opening:
    """One call of :func:`acc_open`."""

    def __init__(
        self,
        members: dict[str, typing.Any],
        params: dict[str, typing.Any],
        path: str,
        on_state: StateCallback | None,
        token: cancelling.CancelToken,
        deadline_s: float | None,
    ) -> None:
        self._members = members
        self._params = params
        self._path = path
        self._on_state = on_state
        self._token = token
        self._deadline_s = deadline_s
        self._started_s = time.monotonic()
        self._view: views.SessionView | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._asked = False

    def run(self, verify: bool) -> sessions.Session:
        try:
            self._token.check()
            door = frontdoor.FrontDoor(
                self._path, self._token, self._deadline_s
            )
        except BaseException:
            cancelling.release(self._token)
            raise
        try:
            return self._open(door, verify)
        except BaseException:
            door.close()
            if self._asked:
                sessions.cancel_request(
                    self._path, request_id=self._members["request_id"]
                )
            cancelling.release(self._token)
            raise

    def _open(
        self, door: frontdoor.FrontDoor, verify: bool
    ) -> sessions.Session:
        greeted = False
        while True:
            try:
                if not greeted:
                    self._greet(door, verify)
                    greeted = True
                self._ask(door)
                return self._await_session(door)
            except frontdoor.ConnectionLost as exc:
                self._reconnect(door, exc)

    def _greet(self, door: frontdoor.FrontDoor, verify: bool) -> None:
        door.request(
            "hello", self._deadline_s, version=messages.FRONT_DOOR_VERSION
        )
        if not verify:
            return
        reply = door.request(
            "accelerator", self._deadline_s, name=self._members["accelerator"]
        )
        profile = reply.get("profile")
        schema = profile.get("params_schema") if profile else None
        checks.params_schema(self._params, schema or {})

    def _ask(self, door: frontdoor.FrontDoor) -> None:
        self._asked = True
        door.request("open", self._deadline_s, **self._members)

    def _reconnect(
        self, door: frontdoor.FrontDoor, reason: frontdoor.ConnectionLost
    ) -> None:
        # An agent that is restarted comes back within seconds, and the
        # request is as good as before: its name makes asking again safe.
        while True:
            self._pause(reason)
            try:
                door.reconnect(self._deadline_s)
            except errors.FrontDoorUnavailable:
                continue
            return

    def _pause(self, reason: Exception) -> None:
        left_s = channel.remaining_s(self._deadline_s)
        if left_s == 0:
            raise errors.OperationTimeout(
                f"time limit passed: {reason}"
            ) from reason
        if left_s is None:
            left_s = self._backoff_s
        self._token.wait(min(self._backoff_s, left_s))
        self._backoff_s = min(2 * self._backoff_s, _LONGEST_BACKOFF_S)

    def _await_session(self, door: frontdoor.FrontDoor) -> sessions.Session:
        while True:
            view = self._next_view(door, self._deadline_s)
            pause_s = _FIRST_BACKOFF_S
            while view is not None and view.state == views.READY:
                dialer = connections.Dialer(view, door, self._token)
                attempt = self._connect(dialer)
                if isinstance(attempt, connections.Connection):
                    return self._session(dialer, attempt)
                pause_s = min(2 * pause_s, _LONGEST_BACKOFF_S)
                view = self._news(door, pause_s if attempt else None)

    def _session(
        self, dialer: connections.Dialer, connection: connections.Connection
    ) -> sessions.Session:
        return sessions.Session(
            dialer,
            connection,
            self._token,
            time.monotonic() - self._started_s,
        )

    def _news(
        self, door: frontdoor.FrontDoor, pause_s: float | None
    ) -> views.SessionView | None:
        """Wait for news of the session.

        :param pause_s: the longest wait; None if only news can help.
        :returns: what is known then.
        """
        wait_until_s = channel.deadline_after(pause_s)
        if wait_until_s is None or (
            self._deadline_s is not None and self._deadline_s < wait_until_s
        ):
            wait_until_s = self._deadline_s
        known = self._view
        try:
            while self._view is known:
                self._next_view(door, wait_until_s)
        except errors.OperationTimeout:
            if channel.remaining_s(self._deadline_s) == 0:
                raise
        return self._view

    def _next_view(
        self, door: frontdoor.FrontDoor, deadline_s: float | None
    ) -> views.SessionView | None:
        """Wait for a notification.

        :returns: the new view; None if the notification was no news.
        """
        event = door.next_event(deadline_s)
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
            raise _ended(view)
        if self._on_state is not None:
            self._on_state(view)
        return view

    def _connect(
        self, dialer: connections.Dialer
    ) -> connections.Connection | bool:
        """Connect to the worker.

        :returns: the connection; else whether trying again may help.
        """
        try:
            return dialer.open(self._params, self._deadline_s)
        except connections.WorkerError as exc:
            if exc.code == "UNAUTHORIZED":
                # The secret is of an assignment that is over; the pool is
                # about to tell of the next one.
                return False
            raise _refused(exc) from exc
        except channel.PinMismatch as exc:
            raise errors.SessionFailed(
                errors.CERTIFICATE_MISMATCH, str(exc)
            ) from exc
        except frames.ProtocolError as exc:
            raise errors.SessionFailed(exc.code, exc.message) from exc
        except OSError:
            self._token.check()
            return True


def _ended(view: views.SessionView) -> errors.FpgapoolError:
    message = view.message or f"the session is {view.state}"
    return errors.rejection(view.reason or view.state, message)


def _refused(exc: connections.WorkerError) -> errors.FpgapoolError:
    if exc.code == errors.INVALID_PARAMS:
        return errors.InvalidParams(exc.message)
    return errors.SessionFailed(exc.code, exc.message)


def acc_run(
    session: sessions.Session,
    n_bytes: int | None = None,
    *,
    timeout_s: float | None = None,
) -> memoryview:
    """Process what is in the session's input buffer.

    :param session: from :func:`acc_open`.
    :param n_bytes: how many bytes of ``session.pin``; None for all.
    :param timeout_s: time limit.
    :returns: the output, valid until the next call.
    :raises: as :meth:`sessions.Session.run`.
    """
    return session.run(n_bytes, timeout_s=timeout_s)


def acc_close(
    session: sessions.Session,
    *,
    timeout_s: float | None = sessions.CLOSE_TIMEOUT_S,
) -> None:
    """Give the slot back.

    :param session: from :func:`acc_open`.
    :param timeout_s: how long to wait for the worker.
    :raises errors.SessionClosed: if the session was closed before.
    """
    session.close(timeout_s=timeout_s)
