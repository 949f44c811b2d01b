# SPDX-License-Identifier: Apache-2.0

"""Requests to the pool's REST API, and its responses."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import time
import typing
import urllib.parse
from collections.abc import Callable
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from typing import TypeVar

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes

# Version of the API that requests use by default.
_MICROVERSION = (1, 0)

#: Time limit for a response if the caller has no deadline.
REQUEST_S = 30.0
#: How long the API should wait for a change; its own limit may be shorter.
POLL_S = 30.0
#: Shortest and longest pause before a request is repeated.
LEAST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_UNAVAILABLE = frozenset({502, 503, 504})
# HTTP statuses after which a later request may succeed.
_LATER = frozenset({408, 429})

_T = TypeVar("_T")
Document: typing.TypeAlias = dict[str, Any]


class Requests:
    """Sends requests in separate threads; thread-safe.

    A waiting thread can be woken; the request itself cannot be interrupted.
    Where a waiter waits for this code, its threads send the requests.
    """

    def __init__(
        self,
        adapter: Any,
        cancel: cancelling.CancelToken,
        headers: Mapping[str, str] = MappingProxyType({}),
        *,
        require_tls: bool = False,
    ) -> None:
        self._adapter = adapter
        self._headers = dict(headers)
        self._cancel = cancel
        self._require_tls = require_tls
        self._wanted = self._needed = _MICROVERSION
        self._changed = threading.Condition()
        self._lost = False
        cancel.attach(self)

    def connect(self, deadline_s: float | None) -> None:
        """Check that the API responds."""
        try:
            self.ask("GET", "/accelerators?limit=1", deadline_s)
        except doors.ConnectionLost as exc:
            raise errors.FrontDoorUnavailable(str(exc)) from exc

    def use_version(
        self,
        needed: tuple[int, int],
        wanted: tuple[int, int] = _MICROVERSION,
    ) -> None:
        """Use a version of the API for all further requests.

        :param needed: the oldest one that accepts them.
        :param wanted: one that tells more, for APIs that have it.
        """
        self._needed, self._wanted = needed, max(needed, wanted)

    def shutdown(self) -> None:
        """Wake all waiting threads; later waits fail at once."""
        with self._changed:
            self._lost = True
            self._changed.notify_all()

    def close(self) -> None:
        """Abandon the requests; closing twice does nothing."""
        self._cancel.detach(self)
        self.shutdown()

    def ask(
        self, method: str, path: str, deadline_s: float | None, **body: object
    ) -> Document:
        """Send a request in another thread, and wait for the response.

        :raises errors.FpgapoolError: if the API rejects the request.
        :raises doors.ConnectionLost: if the API does not respond.
        """
        return self.wait_for(
            # A cancelled request must not be sent later.
            self.begin(
                lambda: self.http(
                    method, path, deadline_s, body, self._cancel.wait
                )
            ),
            deadline_s,
        )

    def begin(self, work: Callable[[], _T]) -> concurrent.futures.Future[_T]:
        """Start a thread for requests; :meth:`wait_for` waits for it."""
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()

        def run(future: concurrent.futures.Future[_T]) -> None:
            try:
                future.set_result(work())
            except BaseException as exc:
                future.set_exception(exc)
            # See errors.FpgapoolError.again().
            del future
            with self._changed:
                self._changed.notify_all()

        waiter = waits.current()
        if waiter is not None:
            waiter.start(functools.partial(run, future))
            return future
        threading.Thread(
            target=run, args=(future,), name="fpgapool-api", daemon=True
        ).start()
        return future

    def wait_for(
        self, future: concurrent.futures.Future[_T], deadline_s: float | None
    ) -> _T:
        """Wait for the result of a thread."""
        waiter = waits.current()
        if waiter is not None:
            future.add_done_callback(lambda _: waiter.wake())
            while not future.done():
                waiter.park(self._left_s(deadline_s))
            return future.result()
        with self._changed:
            while not future.done():
                self._changed.wait(self._left_s(deadline_s))
        return future.result()

    def _left_s(self, deadline_s: float | None) -> float | None:
        """Return how long to wait on.

        :raises: as :meth:`ask`, if waiting is over.
        """
        self._cancel.check()
        if self._lost:
            raise doors.ConnectionLost("this program stopped waiting")
        left_s = channel.remaining_s(deadline_s)
        if left_s == 0:
            raise errors.OperationTimeout(
                "the pool's API did not respond in time"
            )
        return left_s

    def http(
        self,
        method: str,
        path: str,
        deadline_s: float | None,
        body: Document | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> Document:
        """Like :meth:`ask`, but in this thread, which cannot be woken."""
        left_s = channel.remaining_s(deadline_s)
        ends_s = time.monotonic() + (REQUEST_S if left_s is None else left_s)
        while True:
            left_s = max(ends_s - time.monotonic(), LEAST_PAUSE_S)
            # Limit each attempt even if the caller allows hours: a service
            # that hangs never responds.
            version = self._wanted
            response = self._send(
                method, path, body, version, min(left_s, POLL_S + REQUEST_S)
            )
            try:
                return _document(response)
            except errors.RequestRejected as exc:
                is_refused = exc.code == codes.VERSION_NOT_ACCEPTABLE
                if is_refused and version > self._needed:
                    # The API is of an earlier release.
                    self._wanted = self._needed
                    continue
                if exc.code != codes.RATE_LIMITED:
                    raise
                pause_s = _retry_after_s(response)
                if time.monotonic() + pause_s > ends_s:
                    raise
            pause(pause_s)

    def _send(
        self,
        method: str,
        path: str,
        body: Document | None,
        version: tuple[int, int],
        timeout_s: float,
    ) -> Any:
        """Return the response, even if it reports an error."""
        try:
            if self._require_tls:
                self._check_tls()
            with errors.needing_descriptors():
                return self._adapter.request(
                    path,
                    method,
                    json=body or None,
                    headers=self._headers,
                    microversion=".".join(map(str, version)),
                    timeout=timeout_s,
                    raise_exc=False,
                    # Responses contain secrets.
                    log=False,
                )
        except (doors.ConnectionLost, errors.FpgapoolError):
            raise
        except Exception as exc:
            failure = _failure(exc)
            try:
                if failure is None:
                    raise
                raise failure from exc
            finally:
                # See errors.FpgapoolError.again().
                del failure

    def _check_tls(self) -> None:
        url = self._adapter.get_endpoint()
        if urllib.parse.urlsplit(url or "").scheme != "https":
            raise errors.InvalidRequest(
                codes.TLS_REQUIRED,
                f"the pool's API at {url} does not use TLS; nothing was sent",
            )


def _failure(exc: Exception) -> Exception | None:
    """Translate an error of keystoneauth; return None for other errors."""
    from keystoneauth1 import exceptions

    match exc:
        case exceptions.ConnectionError():
            return doors.ConnectionLost(str(exc))
        # The error is from Keystone: the API's errors are returned as
        # responses. If the credential, its user or its project was deleted,
        # the status is 404.
        case exceptions.HTTPClientError() if exc.http_status not in _LATER:
            return errors.RequestRejected(
                codes.UNAUTHORIZED, f"Keystone rejects the credentials: {exc}"
            )
        case exceptions.ClientException():
            return errors.FrontDoorUnavailable(str(exc))
        case ValueError():
            # For example, part of the host name is empty or too long.
            return errors.invalid(f"the URL of the API is invalid: {exc}")
    return None


def _retry_after_s(response: Any) -> float:
    """Return how long to wait before repeating a rate-limited request."""
    text = response.headers.get("Retry-After") or ""
    seconds = float(text) if text.isdecimal() else 1.0
    return max(LEAST_PAUSE_S, min(seconds, LONGEST_PAUSE_S))


def _document(response: Any) -> Document:
    """Read a response.

    :raises doors.ConnectionLost: if the service is unavailable.
    """
    try:
        document = response.json() if response.content else {}
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise doors.ConnectionLost(
            f"the pool's API returned status {response.status_code} and no"
            " JSON"
        )
    if response.ok:
        return document
    problems = document.get("errors") or [{}]
    code = str(
        problems[0].get("code")
        or _CODES.get(response.status_code, codes.PROTOCOL_ERROR)
    )
    detail = str(problems[0].get("detail", f"HTTP {response.status_code}"))
    if response.status_code in _UNAVAILABLE and code not in _REFUSALS:
        raise doors.ConnectionLost(f"{code}: {detail}")
    raise errors.rejection(code, detail)


# Codes for errors from a proxy in front of the API.
_CODES = {401: codes.UNAUTHORIZED, 403: codes.FORBIDDEN}

# Errors that a working service returns: retrying at once is useless.
_REFUSALS = frozenset(
    {
        codes.ACCELERATOR_OUT_OF_USE,
        codes.CONDUCTOR_UNAVAILABLE,
        codes.DATABASE_UNAVAILABLE,
        codes.QUEUE_FULL,
        codes.NO_COMPATIBLE_SLOT,
    }
)
