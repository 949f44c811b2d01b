# SPDX-License-Identifier: Apache-2.0

"""The REST API of a world: the product's application, without a network."""

from __future__ import annotations

import io
import json
import typing
import urllib.parse
from collections.abc import Callable

from keystoneauth1 import exceptions as auth_exceptions
from oslo_config import cfg

from fpgapool.api import app as api_app
from fpgapool.client.doors import poolapi
from tests.world import database as databases
from tests.world import pool as pools
from tests.world import system

Application = Callable[..., typing.Iterable[bytes]]


class Api(pools.Daemon):
    """A process that serves the API."""

    def __init__(
        self, pool: pools.Pool, name: str, conf: cfg.ConfigOpts
    ) -> None:
        super().__init__(pool, name, name)
        self._conf = conf
        self._app: Application | None = None

    def serve(self, stopping: system.Event) -> None:
        database = databases.Database(self.pool.database)
        backends = api_app.connect(self._conf, database, 64)
        self._app = api_app.build(self._conf, backends)
        stopping.wait()
        self._app = None
        backends.waiting.close()

    def answer(
        self, environ: dict[str, object], future: system.Future
    ) -> None:
        """Answer a request in a thread of the API's own.

        :raises ConnectFailure: if it does not run.
        """
        process, app = self.process, self._app
        if process is None or not process.alive or app is None:
            raise auth_exceptions.ConnectFailure(f"{self.name} is away")

        def break_off() -> None:
            if not future.done():
                future.set_exception(
                    auth_exceptions.ConnectFailure(f"{self.name} has died")
                )

        process.at_exit.append(break_off)

        def body() -> None:
            response = Response()
            pieces = app(environ, response.start)
            response.content = b"".join(pieces)
            process.at_exit.remove(break_off)
            if not future.done():
                future.set_result(response)

        self.pool.kernel.spawn(process, "request", body)


class Response:
    """As that of ``requests``, as far as clients of the API look at it."""

    def __init__(self) -> None:
        self.content = b""
        self.status_code = 0
        self.headers: dict[str, str] = {}

    def start(
        self, status: str, headers: list[tuple[str, str]], *_exc: object
    ) -> Callable[[bytes], object]:
        self.status_code = int(status.split()[0])
        self.headers = dict(headers)
        return lambda _data: None

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    def json(self) -> object:
        return json.loads(self.content)


class Adapter:
    """As keystoneauth1's: asks one of the API's processes, as a proxy does.

    :param roles: there; empty: those of a member.
    """

    def __init__(
        self, pool: pools.Pool, project: str, roles: str = ""
    ) -> None:
        self._pool = pool
        self._token = f"world:{project}"
        if roles:
            self._token += f":{roles}"

    def request(
        self,
        path: str,
        method: str,
        *,
        json: object = None,
        microversion: str,
        timeout: float | None = None,
        **_options: object,
    ) -> Response:
        pool = self._pool
        pool.kernel.sleep(pool.kernel.random.uniform(0.0005, 0.003))
        future = system.Future()
        pool.kernel.random.choice(pool.apis).answer(
            self._environ(path, method, json, microversion), future
        )
        try:
            return typing.cast(Response, future.result(timeout))
        except TimeoutError:
            future.cancel()
            raise auth_exceptions.ConnectTimeout("no answer") from None

    def _environ(
        self, path: str, method: str, document: object, microversion: str
    ) -> dict[str, object]:
        path, _, query = path.partition("?")
        body = b"" if document is None else json.dumps(document).encode()
        return {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": urllib.parse.unquote(f"/v1{path}"),
            "QUERY_STRING": query,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "SERVER_NAME": "api",
            "HTTP_HOST": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_X_AUTH_TOKEN": self._token,
            "HTTP_OPENSTACK_API_VERSION": f"fpgapool {microversion}",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.version": (1, 0),
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }


def front_door(pool: pools.Pool, project: str) -> poolapi.PoolApi:
    """Return what a program has instead of a front door's path."""
    return poolapi.PoolApi(Adapter(pool, project))
