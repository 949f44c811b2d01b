# SPDX-License-Identifier: Apache-2.0

"""The log line of each request."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from oslo_log import log as logging
from oslo_middleware import request_id

from fpgapool.api.http import middleware
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import tracing

LOG = logging.getLogger(__name__)

# Maximum length of a word in the line; the rest is cut off.
_MAX_CHARACTERS = 512

_SAFE = "/:@"
_is_plain = re.compile(r"[\w.~/:@-]*", re.ASCII).fullmatch

_LINE = "%s %s %s user=%s project=%s request_id=%s global_request_id=%s"
# The extra data that oslo.log passes on, without a context: the line already
# contains all of that, and formatting it again in oslo.log is slow.
_EXTRA = LOG.process("", {"context": None})[1]["extra"]


class AccessLog:
    """Gives each request its own context, and logs the request at its end.

    A thread serves many requests. Without this, a line that is logged before
    the caller is known would name the caller of the previous request.

    :param app: the inner application; requests must already have an ID.
    """

    def __init__(self, app: middleware.Application) -> None:
        self._app = app
        self._nobody = context.RequestContext(overwrite=False)

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        nobody = self._nobody.of_request(
            environ[request_id.ENV_REQUEST_ID],
            environ.get(request_id.GLOBAL_REQ_ID),
        )
        # Copy them, because inner applications change them.
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        code = "500"
        span = tracing.begin(
            f"API {_word(method)}", environ.get(middleware.TRACEPARENT)
        )
        environ[middleware.TRACEPARENT] = span.traceparent

        def start(status: str, *rest: Any) -> Any:
            nonlocal code
            code = status[:3]
            return start_response(status, *rest)

        try:
            return self._app(environ, start)
        finally:
            span.end(
                error=code if code >= "500" else "",
                status=int(code),
                route=environ.get(middleware.ROUTE),
                request_id=nobody.request_id,
            )
            caller = environ.get(middleware.CONTEXT, nobody)
            _log(
                _word(method),
                # WSGI passes each byte as one character.
                _word(path, "latin-1"),
                code,
                _word(caller.user_id or "-"),
                _word(caller.project_id or "-"),
                nobody.request_id,
                nobody.global_request_id or "-",
            )


def _log(*words: str) -> None:
    """Log the line of a request.

    The record is made here because LOG.info() would first look up its caller's
    source line, which is slow.
    """
    logger = LOG.logger
    if logger.isEnabledFor(logging.INFO):
        logger.handle(
            logger.makeRecord(
                logger.name,
                logging.INFO,
                __file__,
                0,
                _LINE,
                words,
                None,
                "_log",
                _EXTRA,
            )
        )


def _word(text: str, encoding: str = "utf-8") -> str:
    """Return a client's text as one word, so that it cannot forge fields."""
    if not _is_plain(text):
        text = urllib.parse.quote(text, _SAFE, encoding, "replace")
    return text[:_MAX_CHARACTERS]
