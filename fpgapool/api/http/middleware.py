# SPDX-License-Identifier: Apache-2.0

"""Middleware around the application: IDs, authentication and errors."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import urllib.parse
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from oslo_context import context as oslo_context
from oslo_middleware import request_id

from fpgapool.api.http import errors
from fpgapool.api.http import rights
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import ratelimit
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes

LOG = ratelimit.RateLimitedLog(__name__)

#: Key of a request's context in its WSGI environment.
CONTEXT = "fpgapool.context"

#: Key of the path of a request's route; it is set once the route is known.
ROUTE = "fpgapool.route"

#: Key of the W3C trace context of the client; None if there is no valid one.
TRACEPARENT = "fpgapool.traceparent"

#: Keys of the client's address and the ``Host`` header, as the server itself
#: received them.
PEER = "fpgapool.peer"
HOST = "fpgapool.host"

_GLOBAL_ID_KEY = f"HTTP_{request_id.INBOUND_HEADER}".upper().replace("-", "_")

#: Number of callers whose contexts are cached.
_MOST_CALLERS = 1000

_DEFAULT_USER = "noauth"
_DEFAULT_PROJECT = "default"
_ADMIN = "admin"
_ADMIN_ROLES = ",".join(
    (
        *("admin", "manager", "member", "reader", "service"),
        *(rights.AGENT_ROLE, rights.VENDORDATA_ROLE),
    )
)
_USER_ROLES = "member,reader"

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


def refuse(
    environ: Environ, start_response: StartResponse, error: errors.ApiError
) -> Iterable[bytes]:
    """Answer a request with an error."""
    document = error.document(environ.get(request_id.ENV_REQUEST_ID, ""))
    body = json.dumps(document).encode()
    start_response(
        f"{error.status} {document['errors'][0]['title']}",
        [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            *error.headers.items(),
        ],
    )
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


class Middleware:
    """Base of applications that wrap another one."""

    def __init__(self, app: Application) -> None:
        self._app = app


class AtFirst(Middleware):
    """Does something once, when the first request comes.

    Web servers fork after loading the application, and threads do not survive
    that.
    """

    def __init__(self, app: Application, action: Callable[[], None]) -> None:
        super().__init__(app)
        self._actions = [action]

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        # Only one thread gets it.
        with contextlib.suppress(IndexError):
            self._actions.pop()()
        return self._app(environ, start_response)


class RequestId(Middleware):
    """Gives each request an ID, and accepts a global one from the client.

    It replaces the class in oslo.middleware, which takes as long as all other
    middleware together, because it creates request and response objects.
    """

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        given = carriers.valid(
            {
                carriers.GLOBAL_REQUEST_ID: environ.get(_GLOBAL_ID_KEY),
                carriers.TRACEPARENT: environ.get("HTTP_TRACEPARENT"),
            }
        )
        environ[TRACEPARENT] = given.get(carriers.TRACEPARENT)
        global_id = given.get(carriers.GLOBAL_REQUEST_ID)
        if global_id is not None:
            environ[request_id.GLOBAL_REQ_ID] = global_id
        own_id = oslo_context.generate_request_id()
        environ[request_id.ENV_REQUEST_ID] = own_id
        header = request_id.HTTP_RESP_HEADER_REQUEST_ID, own_id

        def start(
            status: str, headers: list[tuple[str, str]], *rest: Any
        ) -> Any:
            return start_response(status, [*headers, header], *rest)

        return self._app(environ, start)


class RememberPeer(Middleware):
    """Saves the peer's address and ``Host`` before proxy headers replace
    them.
    """

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        environ[PEER] = environ.get("REMOTE_ADDR", "")
        environ[HOST] = environ.get("HTTP_HOST", "")
        return self._app(environ, start_response)


class NoAuth(Middleware):
    """Accepts every caller, but only from this machine.

    A malicious page in a browser on this machine can send requests here if the
    page's host name resolves to this machine. The request's ``Host`` must
    therefore be a name of this machine.

    The token is ``USER``, ``USER:PROJECT`` or ``USER:PROJECT:ROLE,ROLE``.
    Without roles in it, the user ``admin`` and callers without a token have
    all roles, and other users are members.
    """

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        if not _is_loopback(environ.get(PEER, "")):
            error = errors.ApiError(
                codes.FORBIDDEN,
                "without authentication, the API accepts only requests from"
                " this machine",
            )
            return refuse(environ, start_response, error)
        host = environ.get(HOST, "")
        if not _is_loopback_name(host):
            error = errors.ApiError(
                codes.HOST_NOT_LOOPBACK,
                f"the request's Host is {host!r:.80}; without authentication,"
                " the API must be addressed as localhost, 127.0.0.1 or [::1]",
            )
            return refuse(environ, start_response, error)
        token = environ.get("HTTP_X_AUTH_TOKEN") or _ADMIN
        user, _, rest = token.partition(":")
        project, _, roles = rest.partition(":")
        if not roles:
            roles = _ADMIN_ROLES if user == _ADMIN else _USER_ROLES
        environ.update(
            HTTP_X_IDENTITY_STATUS="Confirmed",
            HTTP_X_USER_ID=user or _DEFAULT_USER,
            HTTP_X_PROJECT_ID=project or _DEFAULT_PROJECT,
            HTTP_X_ROLES=roles,
        )
        return self._app(environ, start_response)


# Cached, because parsing takes longer than everything else in this module.
@functools.lru_cache
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@functools.lru_cache
def _is_loopback_name(host: str) -> bool:
    """Whether a ``Host``, with or without a port, names only this machine."""
    try:
        name = urllib.parse.urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_loopback(name)


class _Asked(dict[str, Any]):
    """An empty mapping that records which keys are read."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __contains__(self, name: object) -> bool:
        self.names.append(str(name))
        return False

    def get(self, name: str, default: Any = None) -> Any:
        self.names.append(name)
        return default


def _names_of_callers() -> list[str]:
    """Return the keys of an environment that determine a caller's context.

    Tokens are not needed: the API sends no requests on behalf of callers.
    """
    asked = _Asked()
    context.RequestContext.from_environ(asked, overwrite=False)
    return [
        name
        for name in dict.fromkeys(asked.names)
        if name.startswith("HTTP_") and not name.endswith("_TOKEN")
    ]


_OF_CALLERS = _names_of_callers()


class Context(Middleware):
    """Creates the context of a request from the result of authentication.

    This class, not Keystone's middleware, refuses requests without a valid
    token, so that all errors have the same format.
    """

    def __init__(self, app: Application) -> None:
        super().__init__(app)
        self._known: dict[tuple[str | None, ...], context.RequestContext] = {}

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            return refuse(
                environ,
                start_response,
                errors.ApiError(
                    codes.UNAUTHORIZED,
                    "the request has no valid token; if it was made with an"
                    " application credential that has access rules, one of"
                    " them must allow this service, method and path",
                ),
            )
        environ[CONTEXT] = self._caller(environ).of_request(
            environ[request_id.ENV_REQUEST_ID],
            environ.get(request_id.GLOBAL_REQ_ID),
            environ.get(TRACEPARENT),
        )
        return self._app(environ, start_response)

    def _caller(self, environ: Environ) -> context.RequestContext:
        """Return the caller's context, without tokens and request IDs."""
        values = tuple(map(environ.get, _OF_CALLERS))
        caller = self._known.get(values)
        if caller is None:
            caller = context.RequestContext.from_environ(
                {
                    name: value
                    for name, value in zip(_OF_CALLERS, values, strict=True)
                    if value is not None
                },
                overwrite=False,
            )
            if len(self._known) >= _MOST_CALLERS:
                self._known.clear()
            self._known[values] = caller
        return caller


class Shield(Middleware):
    """Answers requests for which the inner middleware raises an error."""

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        try:
            return self._app(environ, start_response)
        except Exception as error:
            LOG.exception("A request failed before a handler was called")
            return refuse(environ, start_response, errors.translate(error))
