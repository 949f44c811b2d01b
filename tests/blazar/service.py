# SPDX-License-Identifier: Apache-2.0

"""A private Blazar with the plugin: its manager and its API."""

from __future__ import annotations

import subprocess
import typing
from collections.abc import Mapping

import requests

from fpgapool_blazar import wishes
from tests.services import keystone as keystone_service
from tests.services import openstack
from tests.services import process

VENV = openstack.ROOT / ".venv-blazar"
PLUGIN = "fpga.slot.plugin"
_READY = "Trying to get events from DB"
_CONFIG = "blazar.conf"
_PROBE_LIMIT_S = 5.0
_PREPARE_LIMIT_S = 300.0
#: The manager looks at what is left over so often.
POLLING_INTERVAL_S = 5


def program(name: str) -> str:
    """Find a program of Blazar's environment.

    :raises ServiceError: if the environment is not complete.
    """
    if not (VENV / ".installed").exists():
        raise process.ServiceError(
            f"{VENV} lacks Blazar: run 'make blazar-venv'"
        )
    return str(VENV / "bin" / name)


class _Part(process.Service):
    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {**super().environment(), "HOME": str(self.directory)}


class Manager(_Part):
    """The part that has the leases, and the plugin.

    :param workspace: where it lives and who cleans up after it.
    :param keystone: where the service's user ``blazar`` is known.
    """

    def __init__(
        self,
        workspace: process.Keeper,
        keystone: keystone_service.Keystone,
        transport_url: str,
        database_url: str,
    ) -> None:
        super().__init__("blazar-manager", workspace)
        self.config_path = self.directory / _CONFIG
        openstack.write_config(
            self.config_path,
            {
                "DEFAULT": {
                    "transport_url": transport_url,
                    "debug": True,
                    "os_auth_host": process.LOOPBACK,
                    "os_auth_port": keystone.port,
                    "os_admin_username": "blazar",
                    "os_admin_password": openstack.PASSWORD,
                    "os_admin_project_name": openstack.SERVICE_PROJECT,
                    "os_region_name": openstack.REGION,
                },
                "database": {"connection": database_url},
                "keystone_authtoken": keystone.authtoken_options("blazar"),
                "manager": {
                    "plugins": PLUGIN,
                    "minutes_before_end_lease": 0,
                },
                wishes.RESOURCE_TYPE: {
                    "polling_interval_s": POLLING_INTERVAL_S
                },
            },
        )

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            program("blazar-manager"),
            f"--config-file={self.config_path}",
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on: none."""
        return ()

    def start(self) -> None:
        """Make the tables if they are missing, and start.

        :raises ServiceError: if it fails to.
        """
        with self.log_path.open("ab") as log:
            subprocess.run(
                [
                    program("blazar-db-manage"),
                    f"--config-file={self.config_path}",
                    *("upgrade", "head"),
                ],
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_PREPARE_LIMIT_S,
                check=True,
            )
        self._began = self.log_path.stat().st_size
        super().start()

    def is_ready(self) -> bool:
        """Tell whether it begins and ends leases."""
        with self.log_path.open() as log:
            log.seek(self._began)
            return _READY in log.read()


class Api(_Part):
    """The part that users talk to.

    :param workspace: where it lives and who cleans up after it.
    """

    def __init__(self, workspace: process.Keeper, manager: Manager) -> None:
        super().__init__("blazar-api", workspace)
        self._manager = manager
        self._session = openstack.web_session()
        self.port = workspace.port("blazar-api")
        self.url = f"http://{process.LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            program("uwsgi"),
            f"--http-socket={process.LOOPBACK}:{self.port}",
            "--module=blazar.wsgi.api:application",
            f"--virtualenv={VENV}",
            *("--threads=2", "--buffer-size=65535", "--enable-threads"),
            *("--need-app", "--die-on-term", "--disable-logging"),
            # It keeps no connection alive.
            "--add-header=Connection: close",
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        directory = str(self._manager.config_path.parent)
        return {**super().environment(), "OS_BLAZAR_CONFIG_DIR": directory}

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it answers, which it does not without a token."""
        try:
            answer = self._session.get(self.url, timeout=_PROBE_LIMIT_S)
        except requests.RequestException:
            return False
        return answer.status_code == 401

    def ask(
        self, method: str, path: str, token: str, body: typing.Any = None
    ) -> typing.Any:
        """Send a request; return what JSON is answered, or None.

        :raises RefusedError: if it is refused.
        """
        answer = self._session.request(
            method,
            f"{self.url}/v1{path}",
            headers={"X-Auth-Token": token},
            json=body,
            timeout=Person.LIMIT_S,
        )
        if answer.status_code >= 400:
            raise openstack.RefusedError(answer)
        return answer.json() if answer.content else None


class Result(typing.NamedTuple):
    """What a command has written, and its exit status."""

    status: int
    output: str
    errors: str


class Person:
    """Someone with Blazar's client and the ``openstack`` command.

    :param options: how clients are told to act as that user.
    """

    LIMIT_S = 120.0

    def __init__(self, options: Mapping[str, str]) -> None:
        self._variables = {
            "OS_IDENTITY_API_VERSION": "3",
            "OS_REGION_NAME": openstack.REGION,
            **{f"OS_{name.upper()}": text for name, text in options.items()},
        }

    def run(self, name: str, *arguments: str) -> Result:
        """Run a program of Blazar's environment."""
        done = subprocess.run(
            [program(name), *arguments],
            env={"PATH": process.SEARCH_PATH, **self._variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.LIMIT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)
