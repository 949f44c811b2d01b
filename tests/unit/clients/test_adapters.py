# SPDX-License-Identifier: Apache-2.0

"""Other services are found in Keystone's catalog, also those that are new."""

import http.server
import json
import pathlib
import threading
from typing import Any

import pytest
from keystoneauth1 import exceptions

from fpgapool.clients import adapters
from fpgapool.conf import nova as options
from tests.unit.clients import configuring


class Cloud(http.server.ThreadingHTTPServer):
    """A Keystone, whose catalog may have Nova: itself."""

    def __init__(self) -> None:
        self.has_nova = False
        self.tokens = 0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def token(self) -> dict[str, Any]:
        self.tokens += 1
        endpoint = {"interface": "public", "region_id": "R", "url": self.url}
        nova = {"type": "compute", "name": "nova", "endpoints": [endpoint]}
        return {
            "methods": ["password"],
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "u", "domain": {"id": "default"}},
            "catalog": [nova] if self.has_nova else [],
        }


class Handler(http.server.BaseHTTPRequestHandler):
    server: Cloud

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(201, {"token": self.server.token()})

    def do_GET(self) -> None:
        self._answer(200, {})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("X-Subject-Token", "t")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_service_that_is_newer_than_the_token(
    tmp_path: pathlib.Path,
) -> None:
    with Cloud() as cloud:
        thread = threading.Thread(target=cloud.serve_forever, args=(0.01,))
        thread.start()
        conf = configuring.configured(
            tmp_path,
            "nova",
            auth_type="v3password",
            auth_url=f"{cloud.url}/v3",
            username="u",
            password="p",
            user_domain_id="default",
            project_id="p",
            valid_interfaces="public",
        )
        options.OPTIONS.register_auth(conf)
        adapter = adapters.load(conf, "nova")
        for _ in range(2):
            with pytest.raises(exceptions.EndpointNotFound):
                adapter.get("/servers")
        cloud.has_nova = True
        for _ in range(2):
            assert adapter.get("/servers").status_code == 200
        # Who is found is asked with the same token.
        assert cloud.tokens == 3
        cloud.shutdown()
        thread.join()
