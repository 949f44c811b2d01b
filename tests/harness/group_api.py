# SPDX-License-Identifier: Apache-2.0

"""The part of the REST API that the clients of a group use, in memory."""

from __future__ import annotations

import json
import threading
import types
import typing
import urllib.parse
from collections.abc import Callable

GROUP_ID = "4f2b8c6d-1e3a-4d5c-9b7f-8a6e0c2d4f18"
SECRET = "5" * 64


class Api:
    """An adapter of the service.

    :ivar clients: the IDs of those that are attached.
    :ivar asked: method and path of each request.
    :ivar before: called with them before each answer.
    """

    def __init__(self, group_id: str = GROUP_ID, **profile: object) -> None:
        self.groups = [
            {"id": group_id, "name": "render", "accelerator": "copy"}
        ]
        self.accelerators = {
            "copy": {
                "name": "copy",
                "stateless": True,
                "chunk_multiple_bytes": 1,
                "return_ratio": 1.0,
                **profile,
            }
        }
        self.hosts: list[dict[str, typing.Any]] = []
        self.revision = 0
        self.clients: list[str] = []
        self.last_client = 0
        self.asked: list[str] = []
        self.versions: set[str] = set()
        self.before: Callable[[str], object] = lambda _: None
        self._lock = threading.Lock()

    def get_endpoint(self) -> str:
        return "http://api.example.org/v1"

    def request(
        self, path: str, method: str, *, microversion: str, **_: object
    ) -> typing.Any:
        """Answer, as the API does."""
        asked = f"{method} {path}"
        self.asked.append(asked)
        self.versions.add(microversion)
        self.before(asked)
        with self._lock:
            return self._answer(method, path)

    def _answer(self, method: str, path: str) -> typing.Any:
        parts = urllib.parse.urlsplit(path)
        steps = [urllib.parse.unquote(one) for one in parts.path.split("/")]
        query = urllib.parse.parse_qs(parts.query)
        match method, *steps[1:]:
            case "GET", "accelerators":
                return answer(200, {"accelerators": []})
            case "GET", "accelerators", name:
                found = self.accelerators.get(name)
                if found is None:
                    return refusal(404, "ACCELERATOR_NOT_FOUND")
                return answer(200, {"accelerator": found})
            case "GET", "groups":
                named = [
                    one
                    for one in self.groups
                    if [one["name"]] == query["name"]
                ]
                return answer(200, {"groups": named})
            case _, "groups", group_id, *rest:
                for group in self.groups:
                    if group["id"] == group_id:
                        return self._of_group(method, group, rest)
        return refusal(404, "GROUP_NOT_FOUND")

    def _of_group(
        self, method: str, group: dict[str, str], steps: list[str]
    ) -> typing.Any:
        match method, *steps:
            case ("GET",):
                return answer(200, {"group": group})
            case "POST", "clients":
                self.last_client += 1
                client_id = f"c{self.last_client}"
                self.clients.append(client_id)
                document = self._client(client_id)
                return answer(202, {"client": {**document, "secret": SECRET}})
            case method, "clients", client_id if client_id in self.clients:
                if method == "GET":
                    return answer(200, {"client": self._client(client_id)})
                self.clients.remove(client_id)
                return answer(204, None)
        return refusal(404, "GROUP_CLIENT_NOT_FOUND")

    def _client(self, client_id: str) -> dict[str, typing.Any]:
        return {
            "id": client_id,
            "hosts": self.hosts,
            "hosts_revision": self.revision,
        }


def answer(status: int, document: object) -> types.SimpleNamespace:
    content = b"" if document is None else json.dumps(document).encode()
    return types.SimpleNamespace(
        ok=status < 400,
        status_code=status,
        content=content,
        headers={},
        json=lambda: json.loads(content),
    )


def refusal(status: int, code: str) -> types.SimpleNamespace:
    """Return an answer that refuses."""
    return answer(status, {"errors": [{"code": code, "detail": "no"}]})
