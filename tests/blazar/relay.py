# SPDX-License-Identifier: Apache-2.0

"""A proxy before the pool's API that loses answers when it is told to."""

from __future__ import annotations

import http.client
import http.server
import threading

from tests.services import process

_LIMIT_S = 60.0
_OF_ONE_CONNECTION = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)


class Relay(http.server.ThreadingHTTPServer):
    """Passes requests on to an address, and the answers back."""

    def __init__(self, address: str) -> None:
        super().__init__((process.LOOPBACK, 0), _Handler)
        self.address = address
        self.url = f"http://{process.LOOPBACK}:{self.server_address[1]}"
        self._to_lose: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()

    def lose_answer(self, method: str) -> None:
        """Close the connection instead of the next answer to a method."""
        self._to_lose.append(method)

    def is_lost(self, method: str) -> bool:
        """Tell whether an answer is to be lost, which counts as done."""
        if method not in self._to_lose:
            return False
        self._to_lose.remove(method)
        return True

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
        self.send_response_only(answer.status, answer.reason)
        for name, text in answer.getheaders():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_DELETE = do_GET = do_PATCH = do_POST = _pass_on

    def log_message(self, format: str, *values: object) -> None:
        """Keep quiet."""
