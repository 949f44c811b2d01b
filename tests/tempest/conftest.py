# SPDX-License-Identifier: Apache-2.0

"""OpenStack, a pool with emulated boards, and Tempest told of both."""

from __future__ import annotations

import configparser
import dataclasses
import pathlib
import subprocess
import sys
import typing
from collections.abc import Iterator
from collections.abc import Mapping

import pytest

from tests.harness import cloud as clouds
from tests.integration import server as api_server
from tests.integration.nova import harness
from tests.services import mariadb as mariadb_service
from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks

VENV = openstack.ROOT / ".venv-tempest"
PLUGIN = "fpgapool_tempest_plugin"

#: Boards of three of Nova's computes; the fourth has an agent only.
HOSTS = [
    clouds.HostPlan(nova_service.compute_name(number), slots=slots)
    for number, slots in ((1, 2), (2, 2), (3, 2), (4, 0))
]
_ABSENT = ("cinder", "neutron", "swift")
_SMALL_LIMIT_S = 120


@dataclasses.dataclass(frozen=True)
class Tempest:
    """A workspace of Tempest.

    :ivar directory: the workspace, with ``etc/tempest.conf``.
    """

    directory: pathlib.Path

    def init(self, sections: Mapping[str, Mapping[str, object]]) -> None:
        """Make the workspace, as operators do, and its configuration."""
        self.run("tempest", "init", str(self.directory), cwd=VENV)
        path = self.directory / "etc" / "tempest.conf"
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(path)
        for section, options in sections.items():
            if section != "DEFAULT" and not parser.has_section(section):
                parser.add_section(section)
            for name, value in options.items():
                parser.set(section, name, str(value))
        with path.open("w") as file:
            parser.write(file)

    def run(
        self,
        program: str,
        *arguments: str,
        cwd: pathlib.Path | None = None,
        limit_s: int = _SMALL_LIMIT_S,
    ) -> tuple[int, str]:
        """Run a program of the environment, which is seen at once.

        :returns: its exit status and its output.
        """
        path = VENV / "bin" / program
        if not ((VENV / ".installed").exists() and path.exists()):
            raise process.ServiceError(
                f"{VENV} lacks {program}: run 'make tempest-venv'"
            )
        lines = []
        with subprocess.Popen(
            ["timeout", str(limit_s), str(path), *arguments],
            cwd=cwd or self.directory,
            # Tempest keeps a list of workspaces there.
            env={
                "HOME": str(self.directory.parent),
                "PATH": f"{VENV / 'bin'}:{process.SEARCH_PATH}",
                "LANG": "C.UTF-8",
                "TEMPEST_CONFIG_DIR": str(self.directory / "etc"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                lines.append(line)
        return running.returncode, "".join(lines)

    def log(self) -> str:
        """Return the last lines of what Tempest and its tests have logged."""
        path = self.directory / "logs" / "tempest.log"
        return "\n".join(path.read_text().splitlines()[-200:])


class Site:
    """The cloud that is tested."""

    def __init__(
        self,
        workspace: process.Workspace,
        stack: stacks.Stack,
        pool: clouds.Cloud,
    ) -> None:
        self._stack = stack
        self.pool = pool
        self.api = api_server.Server(
            pool, workspace, stack.keystone, "tempest-api"
        )
        self.api.start()
        self._accounts = stack.accounts
        self._accounts.register_endpoint(f"http://{self.api.address}")
        self.connection = harness.connect(
            self._accounts.admin(), self._accounts.auth_url
        )
        self.image_id = harness.Compute(self.connection).create_image()
        # For users of other projects, who may boot nothing without a disk.
        self.connection.image.update_image(self.image_id, visibility="public")
        self.flavor_id = self.connection.compute.create_flavor(
            name="tempest", ram=64, vcpus=1, disk=1
        ).id

    def close(self) -> None:
        """Stop the API."""
        self.connection.close()
        self.api.kill()

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return what ``tempest.conf`` has to say of it."""
        features = (
            *("quotas", "unsigned_bitstreams", "hardware_changes"),
            *("instance_tokens", "slot_reservation"),
        )
        return {
            "auth": {
                "use_dynamic_credentials": True,
                "admin_username": "admin",
                "admin_password": openstack.PASSWORD,
                "admin_project_name": "admin",
                "admin_domain_name": "Default",
                "create_isolated_networks": False,
            },
            "identity": {
                "uri_v3": self._accounts.auth_url,
                "region": openstack.REGION,
            },
            "compute": {
                "image_ref": self.image_id,
                "flavor_ref": self.flavor_id,
                "min_compute_nodes": nova_service.COMPUTES,
            },
            "validation": {"run_validation": False},
            "service_available": dict.fromkeys(_ABSENT, False),
            "fpgapool-feature-enabled": dict.fromkeys(features, True),
        }

    def contents(self) -> Mapping[str, object]:
        """Return what tests may have left there."""
        connection = self.connection
        token = self._accounts.token(self._accounts.admin()).text

        def names(found: typing.Iterable[typing.Any]) -> list[str]:
            return sorted(f"{one.name} {one.id}" for one in found)

        def listed(kind: str, *members: str, query: str = "") -> list[object]:
            path = f"/v1/{kind}?{query}"
            found = self.api.ask("GET", path, token).document[kind]
            return [[one[member] for member in members] for one in found]

        everywhere = "all_projects=true"
        live = "&".join(
            f"state={state}"
            for state in ("QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED")
        )
        settings = ("id", "admin_state", "reservable_slots", "reserved_slots")
        return {
            "projects": names(connection.identity.projects()),
            "users": names(connection.identity.users()),
            "servers": names(connection.compute.servers(all_projects=True)),
            "flavors": names(connection.compute.flavors(is_public=None)),
            "images": names(connection.image.images()),
            "sessions": listed("sessions", "id", query=f"{everywhere}&{live}"),
            "groups": listed("groups", "id", query=everywhere),
            "bitstreams": listed("bitstreams", "id", query=everywhere),
            "instances": listed("instances", "id", query=everywhere),
            "devices": listed("devices", *settings),
            "hosts": listed("hosts", "uuid", "admin_state"),
        }


def _options(stack: stacks.Stack) -> clouds.Options:
    """Return what services of the pool are told of OpenStack."""
    client = {
        "auth_type": "password",
        **stack.keystone.auth_options("fpgapool", openstack.SERVICE_PROJECT),
        "region_name": openstack.REGION,
        "valid_interfaces": "public",
    }
    return {
        "nova": {**client, "poll_interval_s": 0.5, "compute_interval_s": 0.5},
        "placement": {
            **client,
            "sync_interval_s": 2,
            "allocation_interval_s": 0.5,
        },
        "bitstreams": {"signature_required": False},
        "bitstream_cache": client,
        "vendordata": {"token_keys": "tempest-" * 4, "lookup_timeout_s": 4},
    }


@pytest.fixture(scope="session")
def site(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[Site]:
    """Give OpenStack with a pool."""
    stack = stacks.Stack(service_workspace, rabbitmq, mariadb)
    stack.start(["nova"])
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        HOSTS,
        options=_options(stack),
    ) as pool:
        made = Site(service_workspace, stack, pool)
        yield made
        made.close()


@pytest.fixture(scope="session")
def tempest(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Tempest:
    """Give Tempest, which knows the cloud."""
    made = Tempest(tmp_path_factory.mktemp("home") / "workspace")
    made.init(site.options())
    return made
