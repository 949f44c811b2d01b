# SPDX-License-Identifier: Apache-2.0

"""A private Heat with the resources: its API and its engine."""

from __future__ import annotations

import subprocess
import typing

import requests

from tests.services import keystone as keystone_service
from tests.services import openstack
from tests.services import process

VENV = openstack.ROOT / ".venv-heat"
#: What the manual says of ``plugin_dirs``.
RESOURCES = openstack.ROOT / "fpgapool_heat"
_READY = "Starting engine_worker"
_KEY_CHARACTERS = 32
_PROBE_LIMIT_S = 5.0
_PREPARE_LIMIT_S = 300.0
_LIMIT_S = 60.0


def program(name: str) -> str:
    """Find a program of Heat's environment.

    :raises ServiceError: if the environment is not complete.
    """
    if not (VENV / ".installed").exists():
        raise process.ServiceError(f"{VENV} lacks Heat: run 'make heat-venv'")
    return str(VENV / "bin" / name)


class Engine(process.Service):
    """The part that makes what templates name.

    :param workspace: where it lives and who cleans up after it.
    :param keystone: where the service's user ``heat`` is known.
    """

    def __init__(
        self,
        workspace: process.Keeper,
        keystone: keystone_service.Keystone,
        transport_url: str,
        database_url: str,
    ) -> None:
        super().__init__("heat-engine", workspace)
        self.config_path = self.directory / "heat.conf"
        user = keystone.auth_options("heat", openstack.SERVICE_PROJECT)
        openstack.write_config(
            self.config_path,
            {
                "DEFAULT": {
                    "transport_url": transport_url,
                    "use_stderr": True,
                    "auth_encryption_key": "k" * _KEY_CHARACTERS,
                    "num_engine_workers": 1,
                    "plugin_dirs": RESOURCES,
                },
                "database": {"connection": database_url},
                "keystone_authtoken": keystone.authtoken_options("heat"),
                "trustee": {"auth_type": "password", **user},
                "clients_keystone": {"auth_uri": keystone.auth_url},
                "paste_deploy": {
                    "api_paste_config": VENV / "etc/heat/api-paste.ini",
                    "flavor": "",
                },
            },
        )

    def command(self) -> list[str]:
        """Return the command line."""
        return [program("heat-engine"), f"--config-file={self.config_path}"]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {**super().environment(), "HOME": str(self.directory)}

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
                    program("heat-manage"),
                    f"--config-file={self.config_path}",
                    "db_sync",
                ],
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_PREPARE_LIMIT_S,
                check=True,
            )
        super().start()

    def is_ready(self) -> bool:
        """Tell whether it takes requests of the API."""
        return _READY in self.log_path.read_text()


class Api(process.Service):
    """The part that users talk to.

    :param workspace: where it lives and who cleans up after it.
    """

    def __init__(self, workspace: process.Keeper, engine: Engine) -> None:
        super().__init__("heat-api", workspace)
        self._engine = engine
        self._session = openstack.web_session()
        self.port = workspace.port("heat-api")
        self.url = f"http://{process.LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            *(program("heat-wsgi-api"), "-b", process.LOOPBACK),
            *("-p", str(self.port), "--"),
            f"--config-file={self._engine.config_path}",
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {**super().environment(), "HOME": str(self.directory)}

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            answer = self._session.get(self.url, timeout=_PROBE_LIMIT_S)
        except requests.RequestException:
            return False
        return answer.status_code < 400

    def ask(
        self,
        method: str,
        path: str,
        token: openstack.Token,
        body: object = None,
    ) -> typing.Any:
        """Send a request about the project of a token.

        :returns: what JSON is answered; None without.
        :raises RefusedError: if it is refused.
        """
        answer = self._session.request(
            method,
            f"{self.url}/v1/{token.project_id}{path}",
            headers=token.headers(),
            json=body,
            timeout=_LIMIT_S,
        )
        if answer.status_code >= 400:
            raise openstack.RefusedError(answer)
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.json() if is_json else None
