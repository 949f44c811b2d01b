# SPDX-License-Identifier: Apache-2.0

"""Errors of the API: a status, a stable code and a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import falcon
import oslo_messaging as messaging

from fpgapool.common import exception
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

_TRY_LATER = frozenset({429, 503})

_HTTP_CODES = {
    404: codes.PATH_NOT_FOUND,
    405: codes.METHOD_NOT_ALLOWED,
    413: codes.BODY_TOO_LARGE,
    415: codes.UNSUPPORTED_MEDIA_TYPE,
}


class ApiError(exceptions.PicklableError):
    """An error that is the response to a request.

    :param code: a code of :mod:`fpgapool.vocabulary.codes`, which determines
        the HTTP status.
    :param detail: human-readable explanation.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = codes.STATUSES.get(code, 500)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})

    @property
    def try_later(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _TRY_LATER

    def document(self, request_id: str) -> dict[str, Any]:
        """Return the body of the response."""
        title = falcon.code_to_http_status(self.status).partition(" ")[2]
        return {
            "errors": [
                {
                    "status": self.status,
                    "code": self.code,
                    "title": title,
                    "detail": self.detail,
                    "request_id": request_id,
                }
            ]
        }


def missing(code: str, kind: str, name: str) -> ApiError:
    """Return the error for a resource that does not exist or is invisible."""
    return ApiError(code, f"there is no {kind} {name!r:.80}")


def text_of(error: Exception) -> str:
    """Return the message of an error, without a traceback."""
    if isinstance(error, exception.FpgapoolException):
        # str() would contain the traceback if the error came from another
        # process.
        return error.message
    return str(error)


def translate(error: Exception) -> ApiError:
    """Return the error that the client gets for an exception.

    :param error: any exception; if it is unexpected, the client does not see
        its message.
    """
    match error:
        case ApiError():
            return error
        case exception.DatabaseError() if error.code in codes.STATUSES:
            # The database's own message is only written to the log.
            return ApiError(
                error.code,
                "the database is unavailable; search the service's log for"
                " this request_id",
            )
        case exception.FpgapoolException() if error.code in codes.STATUSES:
            return ApiError(error.code, text_of(error))
        case messaging.RemoteError():
            return _internal()
        case messaging.MessagingException():
            return ApiError(
                codes.CONDUCTOR_UNAVAILABLE,
                "the conductor does not answer",
            )
        case falcon.HTTPError():
            return _of_falcon(error)
    return _internal()


def _internal() -> ApiError:
    return ApiError(
        codes.INTERNAL_ERROR,
        "internal error; search the service's log for this request_id",
    )


def _of_falcon(error: falcon.HTTPError) -> ApiError:
    status = error.status_code
    if status >= 500:
        return _internal()
    return ApiError(
        _HTTP_CODES.get(status, codes.INVALID_REQUEST),
        error.description
        or "the API has no such operation; see the API reference",
        headers=dict(error.headers or {}),
    )
