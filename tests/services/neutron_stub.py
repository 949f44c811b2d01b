# SPDX-License-Identifier: Apache-2.0

"""The least network service that Nova can live with.

Run as a script: ``PORT``. Where servers have no ports, Nova asks for lists
only, and all of them are empty.
"""

import http.server
import json
import sys
import typing

LOOPBACK = "127.0.0.1"
_VERSION = "v2.0"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers questions for lists; everything else is not there."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the versions, or with an empty list."""
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts in ([""], [_VERSION]):
            self._answer(200, self._versions())
        elif len(parts) == 2 and parts[0] == _VERSION:
            collection = parts[1].removesuffix(".json").replace("-", "_")
            self._answer(200, {collection: []})
        else:
            self._refuse()

    def _versions(self) -> dict[str, typing.Any]:
        href = f"http://{self.headers['Host']}/{_VERSION}/"
        links = [{"rel": "self", "href": href}]
        version = {"id": _VERSION, "status": "CURRENT", "links": links}
        return {"versions": [version], "resources": []}

    def _refuse(self) -> None:
        # What is not read would be taken for the next request.
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        error = {"type": "NotFound", "message": self.path, "detail": ""}
        self._answer(404, {"NeutronError": error})

    do_POST = do_PUT = do_DELETE = _refuse

    def _answer(self, status: int, document: dict[str, typing.Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing: nobody reads it."""


if __name__ == "__main__":
    address = (LOOPBACK, int(sys.argv[1]))
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()
