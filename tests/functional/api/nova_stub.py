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

"""A small Nova, which speaks the real bodies, and its metadata service."""

from __future__ import annotations

import datetime
import http.server
import json
import threading
import time
import typing
import urllib.parse
import uuid
from collections.abc import Callable

FILE = "/openstack/latest/vendor_data2.json"


class NovaStub:
    """Servers, hypervisors, and what servers find in their metadata.

    A context manager that serves meanwhile.

    :ivar vendordata: returns what the dynamic target answers for a server;
        as Nova asks it, with the body that Nova sends.
    """

    def __init__(self) -> None:
        self.away = False
        self.vendordata: Callable[[dict[str, typing.Any]], typing.Any] = (
            lambda body: {}
        )
        self._lock = threading.Lock()
        self._servers: dict[str, dict[str, typing.Any]] = {}
        self._nodes: dict[str, str] = {}
        #: The server that asks the metadata service.
        self.guest = ""
        self._http = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), self._handler()
        )
        self._thread = threading.Thread(target=self._http.serve_forever)

    def __enter__(self) -> NovaStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def add_node(self, name: str, node_uuid: str) -> None:
        """Add a compute node."""
        with self._lock:
            self._nodes[name] = node_uuid

    def boot(
        self,
        specs: dict[str, str] | None = None,
        *,
        project_id: str,
        node: str,
    ) -> str:
        """Make a server; :returns: its id."""
        server_id = str(uuid.uuid4())
        with self._lock:
            self._servers[server_id] = {
                "id": server_id,
                "tenant_id": project_id,
                "name": "guest",
                "flavor": {
                    "original_name": "small",
                    "vcpus": 1,
                    "extra_specs": dict(specs or {}),
                },
            }
        self.change(
            server_id,
            status="ACTIVE",
            **{"OS-EXT-SRV-ATTR:hypervisor_hostname": node},
        )
        return server_id

    def change(self, server_id: str, **members: object) -> None:
        """Change a server."""
        with self._lock:
            members["updated"] = _now()
            self._servers[server_id] = {**self._servers[server_id], **members}

    def delete(self, server_id: str) -> None:
        """Delete a server; only those who ask for news hear of it."""
        self.change(server_id, status="DELETED")

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, document = stub.answer(
                    urllib.parse.urlsplit(self.path)
                )
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(
        self, parts: urllib.parse.SplitResult
    ) -> tuple[int, dict[str, typing.Any]]:
        """Answer a request; :returns: status and body."""
        if self.away:
            return 503, {}
        if parts.path == FILE:
            return 200, {"fpgapool": self._ask_vendordata()}
        with self._lock:
            if parts.path == "/servers/detail":
                return 200, self._list(urllib.parse.parse_qs(parts.query))
            if parts.path == "/os-hypervisors":
                nodes = [
                    {"id": id_, "hypervisor_hostname": name, "state": "up"}
                    for name, id_ in self._nodes.items()
                ]
                return 200, {"hypervisors": nodes}
            found = self._servers.get(parts.path.rpartition("/")[2])
            if found is None or found["status"] == "DELETED":
                return 404, {"itemNotFound": {"code": 404}}
            return 200, {"server": found}

    def _list(self, query: dict[str, list[str]]) -> dict[str, typing.Any]:
        assert query["all_tenants"] == ["1"]
        since = query.get("changes-since")
        found = [
            server
            for server in self._servers.values()
            if (
                server["updated"] >= since[0]
                if since
                else server["status"] != "DELETED"
            )
        ]
        limit = int(query["limit"][0])
        if "marker" in query:
            names = [server["id"] for server in found]
            found = found[names.index(query["marker"][0]) + 1 :]
        document: dict[str, typing.Any] = {"servers": found[:limit]}
        if len(found) > limit:
            document["servers_links"] = [{"rel": "next", "href": "more"}]
        return document

    def _ask_vendordata(self) -> typing.Any:
        with self._lock:
            server = self._servers[self.guest]
        return self.vendordata(
            {
                "project-id": server["tenant_id"],
                "instance-id": server["id"],
                "image-id": str(uuid.UUID(int=1)),
                "user-data": None,
                "hostname": server["name"],
                "metadata": {},
                "boot-roles": "member,reader",
            }
        )


def _now() -> str:
    moment = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
