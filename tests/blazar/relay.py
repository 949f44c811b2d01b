# SPDX-License-Identifier: Apache-2.0

"""A proxy before the pool's API that loses answers, or refuses."""

from __future__ import annotations

import http
import http.client
import http.server
import json
import threading
from collections.abc import Callable
from collections.abc import Iterable

from tests.services import process

_LIMIT_S = 60.0
_OF_ONE_CONNECTION = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)
_JSON = (("Content-Type", "application/json"),)
REFUSED_CODE = "IN_USE_HERE"
_REFUSAL = json.dumps(
    {
        "errors": [
            {"code": REFUSED_CODE, "detail": "kept", "request_id": "req-1"}
        ]
    }
).encode()


class Relay(http.server.ThreadingHTTPServer):
    """Passes requests on to an address, and the answers back."""

    def __init__(self, address: str) -> None:
        super().__init__((process.LOOPBACK, 0), _Handler)
        self.address = address
        self.url = f"http://{process.LOOPBACK}:{self.server_address[1]}"
        self._to_lose: dict[str, Callable[[], object]] = {}
        #: Ends of paths of what is not deleted.
        self.keeps: set[str] = set()
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()

    def lose_answer(
        self, method: str, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Close the connection instead of the next answer to a method.

        :param meanwhile: called when the pool has answered.
        """
        self._to_lose[method] = meanwhile

    def is_lost(self, method: str) -> bool:
        """Tell whether an answer is to be lost, which counts as done."""
        meanwhile = self._to_lose.pop(method, None)
        if meanwhile is None:
            return False
        meanwhile()
        return True

    def refuses(self, method: str, path: str) -> bool:
        """Tell whether the pool is not asked."""
        return method == "DELETE" and path.endswith(tuple(self.keeps))

    def close(self) -> None:
        """End it."""
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Relay

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else None
        headers = {
            name: text
            for name, text in self.headers.items()
            if name.lower() not in _OF_ONE_CONNECTION
        }
        self.close_connection = True
        if self.server.refuses(self.command, self.path):
            self._answer(http.HTTPStatus.CONFLICT, "Conflict", _REFUSAL)
            return
        connection = http.client.HTTPConnection(
            self.server.address, timeout=_LIMIT_S
        )
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except OSError:
            # As if nobody listened here.
            return
        finally:
            connection.close()
        if self.server.is_lost(self.command):
            return
        self._answer(
            answer.status, answer.reason, content, answer.getheaders()
        )

    def _answer(
        self,
        status: int,
        reason: str,
        content: bytes,
        headers: Iterable[tuple[str, str]] = _JSON,
    ) -> None:
        self.send_response_only(status, reason)
        for name, text in headers:
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_DELETE = do_GET = do_PATCH = do_POST = _pass_on

    def log_message(self, format: str, *values: object) -> None:
        """Keep quiet."""
