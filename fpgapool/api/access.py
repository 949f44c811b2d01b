# SPDX-License-Identifier: Apache-2.0

"""What the log says of each request."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from typing import Any

from oslo_log import log as logging
from oslo_middleware import request_id

from fpgapool.api import middleware
from fpgapool.common import context

LOG = logging.getLogger(__name__)

# Of a path; the rest is cut.
_MAX_CHARACTERS = 512


class Access:
    """Begin each request with a context of its own, and log it at its end.

    Threads serve one request after the other, and what is logged before it is
    known who asks must not name the one who asked before.

    :param app: what is inside; the request has its id already.
    """

    def __init__(self, app: middleware.Application) -> None:
        self._app = app

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        """Answer a request."""
        nobody = context.RequestContext(
            request_id=environ[request_id.ENV_REQUEST_ID],
            global_request_id=environ.get(request_id.GLOBAL_REQ_ID),
        )
        # Before others change them.
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        told = "500"

        def start(status: str, *rest: Any) -> Any:
            nonlocal told
            told = status[:3]
            return start_response(status, *rest)

        try:
            return self._app(environ, start)
        finally:
            caller = environ.get(middleware.CONTEXT, nobody)
            LOG.info(
                "%s %s %s user=%s project=%s request_id=%s"
                " global_request_id=%s",
                _word(method),
                # Bytes, each as a character: so WSGI wants it.
                _word(path.encode("latin-1", "replace")),
                told,
                _word(caller.user_id or "-"),
                _word(caller.project_id or "-"),
                nobody.request_id,
                nobody.global_request_id or "-",
            )


def _word(text: str | bytes) -> str:
    """Return what a client said as one word, that cannot pass for more."""
    return urllib.parse.quote(text, safe="/:@")[:_MAX_CHARACTERS]
