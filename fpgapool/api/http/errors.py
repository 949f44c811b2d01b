# SPDX-License-Identifier: Apache-2.0

"""Errors of the API: a status, a stable code and a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import falcon
import oslo_messaging as messaging

from fpgapool.common import exception
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

#: Of every code that an answer can have. Other codes are faults of the
#: service; the client sees only INTERNAL_ERROR.
STATUSES: Mapping[str, int] = {
    codes.UNKNOWN_ACCELERATOR: 400,
    codes.UNKNOWN_HOST: 400,
    codes.INVALID_SIZE: 400,
    codes.INVALID_REQUEST: 400,
    codes.INVALID_REQUEST_ID: 400,
    codes.INVALID_TIMEOUT: 400,
    codes.INVALID_GROUP_SIZE: 400,
    codes.INVALID_GOAL: 400,
    codes.BITSTREAM_REFUSED: 400,
    codes.UPLOAD_INCOMPLETE: 400,
    codes.CHECKSUM_MISMATCH: 400,
    codes.INVALID_SIGNATURE: 400,
    codes.SIGNATURE_REQUIRED: 400,
    codes.INVALID_DECLARATION: 400,
    codes.INVALID_PACKAGE: 400,
    codes.INVALID_MANIFEST: 400,
    codes.INVALID_XCLBIN: 400,
    codes.XCLBIN_TRUNCATED: 400,
    codes.XCLBIN_OTHER_PLATFORM: 400,
    codes.UNAUTHORIZED: 401,
    codes.FORBIDDEN: 403,
    codes.HOST_NOT_LOOPBACK: 403,
    codes.PATH_NOT_FOUND: 404,
    codes.ACCELERATOR_NOT_FOUND: 404,
    codes.PROJECT_NOT_FOUND: 404,
    codes.HOST_NOT_FOUND: 404,
    codes.DEVICE_NOT_FOUND: 404,
    codes.SLOT_NOT_FOUND: 404,
    codes.SESSION_NOT_FOUND: 404,
    codes.INSTANCE_NOT_FOUND: 404,
    codes.BITSTREAM_NOT_FOUND: 404,
    codes.GROUP_NOT_FOUND: 404,
    codes.GROUP_CLIENT_NOT_FOUND: 404,
    codes.METHOD_NOT_ALLOWED: 405,
    codes.NOT_ACCEPTABLE: 406,
    codes.VERSION_NOT_ACCEPTABLE: 406,
    codes.REQUEST_ID_REUSED: 409,
    codes.QUOTAS_IN_KEYSTONE: 409,
    codes.NO_COMPATIBLE_SLOT: 409,
    codes.SESSION_NOT_READY: 409,
    codes.SESSION_CLOSED: 409,
    codes.STALE_GENERATION: 409,
    codes.INSTANCE_DELETED: 409,
    codes.GOAL_INFEASIBLE: 409,
    codes.BITSTREAM_IN_USE: 409,
    codes.FEWER_THAN_RESERVED: 409,
    codes.SLOT_IN_USE: 409,
    codes.SLOT_NOT_TESTABLE: 409,
    codes.HOST_DOWN: 409,
    codes.BITSTREAM_HAS_FILE: 409,
    codes.BITSTREAM_HAS_NO_FILE: 409,
    codes.GROUP_NAME_TAKEN: 409,
    codes.GROUP_NOT_ELASTIC: 409,
    codes.GROUP_NOT_SHARED: 409,
    codes.ACCELERATOR_NOT_STATELESS: 409,
    codes.LENGTH_REQUIRED: 411,
    codes.BITSTREAM_TOO_LARGE: 413,
    codes.SIZE_TOO_LARGE: 413,
    codes.BODY_TOO_LARGE: 413,
    codes.UNSUPPORTED_MEDIA_TYPE: 415,
    codes.QUOTA_EXCEEDED: 429,
    codes.INSTANCE_SESSION_LIMIT: 429,
    codes.RATE_LIMITED: 429,
    codes.DRY_RUN_UNSUPPORTED: 501,
    codes.STORE_FAILED: 502,
    codes.STORE_UNAVAILABLE: 503,
    codes.QUEUE_FULL: 503,
    codes.ACCELERATOR_OUT_OF_USE: 503,
    codes.TOO_MANY_UPLOADS: 503,
    codes.CONDUCTOR_UNAVAILABLE: 503,
    codes.DATABASE_UNAVAILABLE: 503,
    codes.KEYSTONE_UNAVAILABLE: 503,
    codes.DATABASE_SCHEMA_MISMATCH: 503,
    codes.NOT_LEADER: 503,
    codes.MESSAGE_REFUSED: 503,
}

_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
}

_TRY_LATER = frozenset({429, 503})

_HTTP_CODES = {
    404: codes.PATH_NOT_FOUND,
    405: codes.METHOD_NOT_ALLOWED,
    413: codes.BODY_TOO_LARGE,
    415: codes.UNSUPPORTED_MEDIA_TYPE,
}


class ApiError(exceptions.PicklableError):
    """An error that answers a request.

    :param code: of :mod:`fpgapool.vocabulary.codes`; it decides the status.
    :param detail: for a person.
    :param headers: of the answer.
    :ivar status: of HTTP.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = STATUSES.get(code, 500)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})

    @property
    def try_later(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _TRY_LATER

    def document(self, request_id: str) -> dict[str, Any]:
        """Return the body.

        :param request_id: of the request, to find it in the logs.
        """
        return {
            "errors": [
                {
                    "status": self.status,
                    "code": self.code,
                    "title": _TITLES[self.status],
                    "detail": self.detail,
                    "request_id": request_id,
                }
            ]
        }


def text_of(error: Exception) -> str:
    """Return what an error says, without a traceback."""
    if isinstance(error, exception.FpgapoolException):
        # Not str(): from another process it contains the traceback.
        return error.message
    return str(error)


def translate(error: Exception) -> ApiError:
    """Return the error that the client gets for an exception.

    :param error: any; the text of unforeseen ones is not shown.
    """
    match error:
        case ApiError():
            return error
        case exception.DatabaseError() if error.code in STATUSES:
            # The database's own words are for the log.
            return ApiError(
                error.code,
                "the database is not available; see the service's log for"
                " this request_id",
            )
        case exception.FpgapoolException() if error.code in STATUSES:
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
        "an error of the service; see its log for this request_id",
    )


def _of_falcon(error: falcon.HTTPError) -> ApiError:
    status = error.status_code
    if status >= 500:
        return _internal()
    return ApiError(
        _HTTP_CODES.get(status, codes.INVALID_REQUEST),
        error.description or "there is no such operation; see the reference",
        headers=dict(error.headers or {}),
    )
