# SPDX-License-Identifier: Apache-2.0

"""A service of OpenStack beside a pool: what the tests of a plugin start."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import typing
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence

import requests

from tests.harness import cloud as clouds
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks

_PROBE_LIMIT_S = 5.0
_PREPARE_LIMIT_S = 300.0


class Pool(typing.NamedTuple):
    """A pool with Keystone.

    :ivar api: its API, which is in no catalog yet.
    """

    stack: stacks.Stack
    cloud: clouds.Cloud
    api: server.Server


@contextlib.contextmanager
def pool(
    workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    hosts: Sequence[clouds.HostPlan],
    options: clouds.Options | None = None,
) -> Iterator[Pool]:
    """Start Keystone and a pool; end the pool afterwards."""
    stack = stacks.Stack(workspace, rabbitmq, mariadb)
    stack.start(["keystone"])
    with clouds.Cloud(
        workspace,
        *urls(rabbitmq, mariadb),
        hosts,
        options=options,
    ) as cloud:
        api = server.Server(cloud, workspace, stack.keystone)
        api.start()
        yield Pool(stack, cloud, api)
        api.kill()


def urls(
    rabbitmq: rabbitmq_service.RabbitMQ, mariadb: mariadb_service.MariaDB
) -> tuple[str, str]:
    """Make a virtual host and a database; return their URLs."""
    return (
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
    )


def environment(name: str) -> pathlib.Path:
    """Return the virtual environment that ``make NAME-venv`` makes.

    :raises ServiceError: if it is not complete.
    """
    found = openstack.ROOT / f".venv-{name}"
    if not (found / ".installed").exists():
        raise process.ServiceError(
            f"{found} lacks {name.capitalize()}: run 'make {name}-venv'"
        )
    return found


class Part(process.Service):
    """A process of the service. Its home is its own directory.

    :cvar SERVICE: the service, which has an environment of that name.
    """

    SERVICE: typing.ClassVar[str]

    def program(self, name: str) -> str:
        """Find a program of the service's environment."""
        return str(environment(self.SERVICE) / "bin" / name)

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {**super().environment(), "HOME": str(self.directory)}

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on: none."""
        return ()


class Worker(Part):
    """The part that has the database, and the plugin.

    :cvar NAME: the program, and what the tests call the process.
    :cvar PREPARE: the program that makes the tables, and its arguments.
    :cvar READY: what it logs when it works.
    """

    NAME: typing.ClassVar[str]
    PREPARE: typing.ClassVar[tuple[str, ...]]
    READY: typing.ClassVar[str]

    def __init__(
        self,
        workspace: process.Keeper,
        options: openstack.Sections,
    ) -> None:
        super().__init__(self.NAME, workspace)
        self.config_path = self.directory / f"{self.SERVICE}.conf"
        openstack.write_config(self.config_path, options)

    def _configured(self, name: str, *arguments: str) -> list[str]:
        config = f"--config-file={self.config_path}"
        return [self.program(name), config, *arguments]

    def command(self) -> list[str]:
        """Return the command line."""
        return self._configured(self.NAME)

    def start(self) -> None:
        """Make the tables if they are missing, and start.

        :raises ServiceError: if it fails to.
        """
        with self.log_path.open("ab") as log:
            subprocess.run(
                self._configured(*self.PREPARE),
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_PREPARE_LIMIT_S,
                check=True,
            )
        self._began = self.log_path.stat().st_size
        super().start()

    def is_ready(self) -> bool:
        """Tell whether it works."""
        with self.log_path.open() as log:
            log.seek(self._began)
            return self.READY in log.read()


class Api(Part):
    """The part that users talk to.

    :cvar ANSWERS: the statuses that a request without a token may have.
    """

    LIMIT_S = 120.0
    ANSWERS: typing.ClassVar[Collection[int]]

    def __init__(self, workspace: process.Keeper, worker: Worker) -> None:
        name = f"{self.SERVICE}-api"
        super().__init__(name, workspace)
        self._config_path = worker.config_path
        self._session = openstack.web_session()
        self.port = workspace.port(name)
        self.url = f"http://{process.LOOPBACK}:{self.port}"

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            answer = self._session.get(self.url, timeout=_PROBE_LIMIT_S)
        except requests.RequestException:
            return False
        return answer.status_code in self.ANSWERS

    def send(
        self, method: str, path: str, token: str, body: object = None
    ) -> typing.Any:
        """Send a request; return what JSON is answered, or None.

        :raises RefusedError: if it is refused.
        """
        answer = self._session.request(
            method,
            f"{self.url}{path}",
            headers={"X-Auth-Token": token},
            json=body,
            timeout=self.LIMIT_S,
        )
        if answer.status_code >= 400:
            raise openstack.RefusedError(answer)
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.json() if is_json and answer.content else None
