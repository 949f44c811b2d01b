# SPDX-License-Identifier: Apache-2.0

"""A private Heat with the resources: its API and its engine."""

from __future__ import annotations

import typing

from tests.integration import beside
from tests.services import keystone as keystone_service
from tests.services import openstack
from tests.services import process

SERVICE = "heat"
#: What the manual says of ``plugin_dirs``.
RESOURCES = openstack.ROOT / "fpgapool_heat"
_KEY_CHARACTERS = 32


class Engine(beside.Worker):
    """The part that makes what templates name.

    :param workspace: where it lives and who cleans up after it.
    :param keystone: where the service's user ``heat`` is known.
    """

    SERVICE = SERVICE
    NAME = "heat-engine"
    PREPARE = ("heat-manage", "db_sync")
    READY = "Starting engine_worker"

    def __init__(
        self,
        workspace: process.Keeper,
        keystone: keystone_service.Keystone,
        transport_url: str,
        database_url: str,
    ) -> None:
        user = keystone.auth_options("heat", openstack.SERVICE_PROJECT)
        paste = beside.environment(SERVICE) / "etc/heat/api-paste.ini"
        super().__init__(
            workspace,
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
                "paste_deploy": {"api_paste_config": paste, "flavor": ""},
            },
        )


class Api(beside.Api):
    """The part that users talk to."""

    SERVICE = SERVICE
    ANSWERS = range(400)

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            *(self.program("heat-wsgi-api"), "-b", process.LOOPBACK),
            *("-p", str(self.port), "--"),
            f"--config-file={self._config_path}",
        ]

    def ask(
        self,
        method: str,
        path: str,
        token: openstack.Token,
        body: object = None,
    ) -> typing.Any:
        """Send a request about the project of a token; see :meth:`send`."""
        path = f"/v1/{token.project_id}{path}"
        return self.send(method, path, token.text, body)
