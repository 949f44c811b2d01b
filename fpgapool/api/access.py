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

"""What the log says of each request."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_middleware import request_id

from fpgapool.api import middleware
from fpgapool.common import context


class Access:
    """Begin each request with a context of its own.

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
        context.RequestContext(
            request_id=environ[request_id.ENV_REQUEST_ID],
            global_request_id=environ.get(request_id.GLOBAL_REQ_ID),
        )
        return self._app(environ, start_response)
