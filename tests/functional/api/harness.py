# SPDX-License-Identifier: Apache-2.0

"""The REST API under a web server, and a client of it."""

from __future__ import annotations

import configparser
import http.client
import json
import pathlib
import types
import typing
from collections.abc import Mapping

from keystoneauth1 import adapter
from keystoneauth1 import session as sessions
from keystoneauth1 import token_endpoint

from fpgapool import client
from fpgapool.api import app
from fpgapool.api.http import microversion
from tests.functional.worker import harness as wire
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import waiting
from tests.services import process
from tests.unit.api import answers

TOKEN = f"eve:{clouds.PROJECT}"
OTHER_TOKEN = f"mallory:{clouds.OTHER_PROJECT}"
ADMIN_TOKEN = "admin:operators"

THREADS = 24
TIMEOUT_S = 60.0


class Answer(typing.NamedTuple):
    """What a request got; names of headers have lower-case letters."""

    status: int
    headers: Mapping[str, str]
    document: typing.Any

    @property
    def code(self) -> str:
        """The code of the error."""
        return str(self.document["errors"][0]["code"])

    @property
    def is_recorded(self) -> bool:
        """Whether the database answers, as no conductor does."""
        return "openstack-fpgapool-source" in self.headers

    @property
    def session(self) -> dict[str, typing.Any]:
        session: dict[str, typing.Any] = self.document["session"]
        return session


def ask(
    address: str,
    method: str,
    path: str,
    token: str = TOKEN,
    body: typing.Any = None,
    *,
    check: bool = True,
    content_type: str = "application/json",
    headers: Mapping[str, str] = types.MappingProxyType({}),
) -> Answer:
    """Send a request, and check what all answers have in common.

    :param body: bytes, or what JSON is made of.
    """
    headers = {
        **headers,
        "X-Auth-Token": token,
        microversion.HEADER: f"{microversion.SERVICE_TYPE} latest",
    }
    if body is not None:
        headers["Content-Type"] = content_type
    if not isinstance(body, bytes | None):
        body = json.dumps(body).encode()
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    answer = Answer(
        response.status,
        {name.lower(): value for name, value in response.getheaders()},
        json.loads(content) if content[:1] == b"{" else None,
    )
    if check:
        answers.check(method, path, *answer)
    return answer


#: What tests have just done is to be seen at once.
_OPTIONS: dict[str, object] = {
    "auth_strategy": "noauth",
    "inventory_cache_s": 0,
}


class Server(processes.Daemon):
    """gunicorn with the API of a cloud.

    :param workspace: where it lives and who cleans up after it.
    :param threads: how many requests it answers at the same time.
    :param options: of ``[api]``.
    """

    def __init__(
        self,
        name: str,
        cloud: clouds.Cloud,
        workspace: process.Workspace,
        threads: int = THREADS,
        **options: object,
    ) -> None:
        super().__init__(name, workspace, "gunicorn")
        self._threads = threads
        self.port = process.free_port()
        self.address = f"{process.LOOPBACK}:{self.port}"
        self._cloud = cloud
        parser = configparser.ConfigParser()
        parser["DEFAULT"] = {"state_path": str(self.directory)}
        parser["api"] = {
            name: str(value) for name, value in (_OPTIONS | options).items()
        }
        with self.config_path.open("w") as file:
            parser.write(file)

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self.release.python,
            "-W",
            "ignore",
            "-m",
            "gunicorn",
            f"--bind={self.address}",
            "--workers=1",
            f"--threads={self._threads}",
            "--graceful-timeout=5",
            "fpgapool.wsgi.api:application",
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        files = (self._cloud.conductor.config_path, self.config_path)
        return {
            **super().environment(),
            app.CONFIG_FILES: ";".join(map(str, files)),
        }

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it serves."""
        try:
            path = "/healthcheck"
            return ask(self.address, "GET", path, check=False).status == 200
        except OSError:
            return False

    def serving_pid(self) -> int:
        """Return the number of the process that serves."""
        path = f"/proc/{self.pid}/task/{self.pid}/children"
        (child,) = pathlib.Path(path).read_text().split()
        return int(child)

    def ask(self, *arguments: typing.Any, **options: typing.Any) -> Answer:
        """Send a request; see :func:`ask`."""
        return ask(self.address, *arguments, **options)

    def is_led(self) -> bool:
        """Tell whether a conductor answers, and not the database alone."""
        answer = self.ask("GET", "/v1/pool")
        return answer.status == 200 and not answer.is_recorded

    def open(
        self,
        token: str = TOKEN,
        headers: Mapping[str, str] = types.MappingProxyType({}),
        **members: object,
    ) -> Answer:
        """Ask for a session; nobody is chosen to follow one of that size."""
        wanted = {"accelerator": "copy", "claimed_bytes": 10**9}
        body = {"session": {**wanted, **members}}
        return self.ask("POST", "/v1/sessions", token, body, headers=headers)

    def show(self, session_id: str, token: str = TOKEN) -> Answer:
        return self.ask("GET", f"/v1/sessions/{session_id}", token)

    def close(self, session_id: str, token: str = TOKEN) -> int:
        """Close a session; :returns: the status."""
        path = f"/v1/sessions/{session_id}"
        return self.ask("DELETE", path, token).status

    def bring(
        self,
        declaration: Mapping[str, typing.Any],
        version: str = "1.0",
        *,
        token: str = TOKEN,
        approver: str = ADMIN_TOKEN,
        **others: object,
    ) -> str:
        """Upload a bitstream and have it approved; :returns: its id.

        :param approver: a token, or empty: then it is not approved.
        :param others: more members of the bitstream.
        """
        members = {
            "accelerator": declaration["name"],
            "version": version,
            "format": "declaration",
            "shapes": ["medium"],
            **others,
        }
        body = {"bitstream": members}
        answer = self.ask("POST", "/v1/bitstreams", token, body)
        assert answer.status == 201, answer
        bitstream_id = str(answer.document["bitstream"]["id"])
        path = f"/v1/bitstreams/{bitstream_id}"
        data = json.dumps(declaration).encode()
        octets = "application/octet-stream"
        answer = self.ask(
            "PUT", f"{path}/file", token, data, content_type=octets
        )
        assert answer.status == 200, answer
        if approver:
            approve = {"approve": {}}
            answer = self.ask("POST", f"{path}/approve", approver, approve)
            assert answer.status == 200, answer
        return bitstream_id

    def wait(
        self, session: Mapping[str, typing.Any], *states: str
    ) -> dict[str, typing.Any]:
        """Wait for a session, by long polls, and return it.

        A server at which nobody may wait any more answers at once.
        """
        path = f"/v1/sessions/{session['id']}?wait_s=10"
        newest = dict(session)

        def arrived() -> bool:
            nonlocal newest
            if newest["state"] not in states:
                revision = newest["revision"]
                newest = self.ask("GET", f"{path}&revision={revision}").session
            return newest["state"] in states

        waiting.wait_until(
            arrived,
            lambda: f"{states}; the session is {newest['state']}",
            TIMEOUT_S,
        )
        return newest

    def open_until_ready(self, **members: object) -> dict[str, typing.Any]:
        """Open a session and wait until it is READY."""
        return self.wait(self.open(**members).session, "READY")


def pool_api(server: Server, token: str = TOKEN) -> client.PoolApi:
    """Return the server for the client library."""
    endpoint = f"http://{server.address}/v1"
    auth = token_endpoint.Token(endpoint, token)
    return client.PoolApi(
        adapter.Adapter(
            sessions.Session(auth=auth),
            service_type="fpgapool",
            endpoint_override=endpoint,
        )
    )


def connect(session: Mapping[str, typing.Any]) -> wire.Client:
    """Connect to a READY session's worker."""
    connection = session["connection"]
    (endpoint,) = connection["endpoints"]
    prepared = {
        "session_id": session["id"],
        "generation": session["generation"],
        "secret": connection["secret"],
        "data_port": endpoint["port"],
        "certificate_sha256": connection["certificate_sha256"],
    }
    return wire.Client.remote(prepared).hello(prepared, params={})


def wait_for(check: typing.Any, what: str) -> typing.Any:
    """Wait for what nothing tells; see :func:`waiting.wait_until`."""
    return waiting.wait_until(check, what)
