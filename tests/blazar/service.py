# SPDX-License-Identifier: Apache-2.0

"""A private Blazar with the plugin: its manager and its API."""

from __future__ import annotations

import subprocess
import typing
from collections.abc import Mapping

from fpgapool_blazar import wishes
from tests.integration import beside
from tests.services import keystone as keystone_service
from tests.services import openstack
from tests.services import process

SERVICE = "blazar"
PLUGIN = "fpga.slot.plugin"
#: The manager looks at what is left over so often.
POLLING_INTERVAL_S = 5
#: A lease that is half made for so long is left over.
UNFINISHED_S = 60


class Manager(beside.Worker):
    """The part that has the leases, and the plugin.

    :param workspace: where it lives and who cleans up after it.
    :param keystone: where the service's user ``blazar`` is known.
    """

    SERVICE = SERVICE
    NAME = "blazar-manager"
    PREPARE = ("blazar-db-manage", "upgrade", "head")
    READY = "Trying to get events from DB"

    def __init__(
        self,
        workspace: process.Keeper,
        keystone: keystone_service.Keystone,
        transport_url: str,
        database_url: str,
    ) -> None:
        super().__init__(
            workspace,
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
                    "polling_interval_s": POLLING_INTERVAL_S,
                    "unfinished_s": UNFINISHED_S,
                },
            },
        )


class Api(beside.Api):
    """The part that users talk to."""

    SERVICE = SERVICE
    ANSWERS = (401,)

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self.program("uwsgi"),
            f"--http-socket={process.LOOPBACK}:{self.port}",
            "--module=blazar.wsgi.api:application",
            f"--virtualenv={beside.environment(SERVICE)}",
            *("--threads=2", "--buffer-size=65535", "--enable-threads"),
            *("--need-app", "--die-on-term", "--disable-logging"),
            # It keeps no connection alive.
            "--add-header=Connection: close",
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        directory = str(self._config_path.parent)
        return {**super().environment(), "OS_BLAZAR_CONFIG_DIR": directory}


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
            [str(beside.environment(SERVICE) / "bin" / name), *arguments],
            env={"PATH": process.SEARCH_PATH, **self._variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.LIMIT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)
