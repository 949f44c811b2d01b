# SPDX-License-Identifier: Apache-2.0

"""Servers of a real Nova, as its users make them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.server
import itertools
import json
import threading
import typing
import urllib.error
import urllib.request
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

import openstack.connection
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes
from openstack import exceptions
from openstack.compute.v2 import flavor as flavors
from openstack.compute.v2 import server as servers

from tests.harness import waiting
from tests.integration import server as api_server
from tests.services import keystone as keystone_service
from tests.services import nova as nova_service
from tests.services import openstack as openstack_services
from tests.services import process

#: How long Nova may take for what takes a second at rest.
LIMIT_S = 60
_IMAGE_BYTES = 1024
_CALLS_AT_A_TIME = 10
#: Parameters of sessions that encrypt.
AES = {"key": bytes(range(32)), "iv": bytes(16)}
_VENDORDATA = "openstack/latest/vendor_data2.json"

Server = servers.Server

_numbers = itertools.count(1)


def connect(user: openstack_services.User, auth_url: str) -> typing.Any:
    """Connect as a user."""
    return openstack.connection.Connection(
        auth={
            "auth_url": auth_url,
            "username": user.name,
            "password": user.password,
            "project_name": user.project.name,
            "user_domain_id": openstack_services.DOMAIN,
            "project_domain_id": openstack_services.DOMAIN,
        },
        region_name=openstack_services.REGION,
        compute_default_microversion=nova_service.MICROVERSION,
        app_name="fpgapool-tests",
    )


def encrypted(data: bytes) -> bytes:
    """Return what :data:`AES` makes of data."""
    mode = modes.CTR(AES["iv"])
    cipher = ciphers.Cipher(algorithms.AES(AES["key"]), mode)
    return cipher.encryptor().update(data)


def pool_options(
    keystone: keystone_service.Keystone,
) -> dict[str, dict[str, object]]:
    """Return what a pool is told that looks after Nova's instances."""
    return {
        "nova": {
            "auth_type": "password",
            **keystone.auth_options(
                "fpgapool", openstack_services.SERVICE_PROJECT
            ),
            "region_name": openstack_services.REGION,
            "valid_interfaces": "public",
            "poll_interval_s": 0.5,
            "compute_interval_s": 0.5,
            "instances_are_local": True,
        },
        "vendordata": {
            "token_keys": "integration-tests-" * 3,
            # Other tests may use the machine, too.
            "lookup_timeout_s": 4,
        },
    }


def vendordata_options(
    keystone: keystone_service.Keystone, user_name: str, address: str
) -> dict[str, dict[str, object]]:
    """Return what instances.rst in doc/source has operators tell Nova.

    :param user_name: as whom Nova asks.
    :param address: of the pool's API.
    """
    return {
        "api": {
            "vendordata_providers": "StaticJSON,DynamicJSON",
            "vendordata_dynamic_targets": (
                f"fpgapool@http://{address}/v1/vendordata"
            ),
        },
        "vendordata_dynamic_auth": {
            "auth_type": "password",
            **keystone.auth_options(
                user_name, openstack_services.SERVICE_PROJECT
            ),
            "password": openstack_services.PASSWORD,
        },
    }


class Compute:
    """What tests do with Nova; everything is gone after :meth:`clean_up`.

    :param limit_s: how long Nova may take for anything.
    """

    def __init__(
        self,
        connection: openstack.connection.Connection,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.connection = connection
        self._limit_s = limit_s
        self._servers: list[str] = []
        self._flavors: list[str] = []

    def create_image(self) -> str:
        """Make an image that nobody looks into, and return its id."""
        image = self.connection.image.create_image(
            "nothing",
            allow_duplicates=True,
            data=bytes(_IMAGE_BYTES),
            disk_format="raw",
            container_format="bare",
        )
        return str(image.id)

    def create_flavor(
        self,
        extra_specs: Mapping[str, str] | None = None,
        *,
        vcpus: int = 1,
        ram_mib: int = 64,
    ) -> flavors.Flavor:
        """Make a flavor.

        :param extra_specs: what it says of accelerators.
        """
        made = self.connection.compute.create_flavor(
            name=f"flavor{next(_numbers)}", ram=ram_mib, vcpus=vcpus, disk=0
        )
        self._flavors.append(made.id)
        if extra_specs:
            self.connection.compute.create_flavor_extra_specs(
                made, dict(extra_specs)
            )
        return made

    def boot(
        self, flavor: flavors.Flavor, image_id: str, **options: object
    ) -> servers.Server:
        """Boot a server and wait until it is ACTIVE, or in ERROR.

        :param options: anything else that Nova takes.
        """
        (server,) = self.boot_many(flavor, image_id, 1, **options)
        return server

    def boot_many(
        self,
        flavor: flavors.Flavor,
        image_id: str,
        count: int,
        **options: object,
    ) -> list[servers.Server]:
        """Boot servers at once, which Nova places one after the other.

        :param options: anything else that Nova takes.
        :returns: all of them, ACTIVE or in ERROR.
        """
        made = self._create(flavor, image_id, count, **options)
        return [self.wait_settled(server_id) for server_id in made]

    def boot_at_once(
        self, flavor: flavors.Flavor, image_id: str, calls: int, count: int
    ) -> list[servers.Server]:
        """Boot servers by several calls at the same time.

        :param calls: how many calls, up to ten at a time.
        :param count: how many servers each call is for.
        :returns: all of them, ACTIVE or in ERROR.
        """
        with concurrent.futures.ThreadPoolExecutor(_CALLS_AT_A_TIME) as pool:
            made = [
                pool.submit(self._create, flavor, image_id, count)
                for _ in range(calls)
            ]
        ids = [server_id for each in made for server_id in each.result()]
        return [self.wait_settled(server_id) for server_id in ids]

    def _create(
        self,
        flavor: flavors.Flavor,
        image_id: str,
        count: int,
        **options: object,
    ) -> list[str]:
        name = f"server{next(_numbers)}"
        first = self.connection.compute.create_server(
            name=name,
            flavor_id=flavor.id,
            image_id=image_id,
            networks="none",
            min_count=count,
            max_count=count,
            **options,
        )
        made = [first.id]
        if count > 1:
            # Nova's answer tells of the first one only.
            found = self.connection.compute.servers(name=f"^{name}-")
            made = [server.id for server in found]
        assert len(made) == count
        self._servers += made
        return made

    def wait_settled(self, server_id: str) -> servers.Server:
        """Wait until a server is ACTIVE, or in ERROR and Nova says why."""

        def is_settled(server: servers.Server) -> bool:
            # The fault is stored after the state.
            return server.status == "ACTIVE" or (
                server.status == "ERROR" and bool(server.fault)
            )

        return self._wait(
            server_id, is_settled, f"{server_id} is ACTIVE or in ERROR"
        )

    def wait_status(self, server_id: str, *statuses: str) -> servers.Server:
        """Wait until a server is in one of these states, and stays so."""
        return self._wait(
            server_id,
            lambda server: server.status in statuses,
            f"{server_id} is {statuses}",
        )

    def wait_moved(self, server: servers.Server) -> servers.Server:
        """Wait until a server is on another compute, and stays there."""
        before = (None, server.compute_host)
        return self._wait(
            server.id,
            lambda found: found.compute_host not in before,
            f"{server.id} has moved",
        )

    def wait_nowhere(self, server: servers.Server) -> servers.Server:
        """Wait until a server is on no compute."""
        return self._wait(
            server.id,
            lambda found: found.compute_host is None,
            f"{server.id} is on no compute",
        )

    def _wait(
        self,
        server_id: str,
        check: Callable[[servers.Server], bool],
        what: str,
    ) -> servers.Server:
        """Wait until a server is as it should be, and Nova is done with it."""
        found: servers.Server | None = None

        def settled() -> bool:
            nonlocal found
            found = self.connection.compute.get_server(server_id)
            return check(found) and not found.task_state

        def told() -> str:
            return f"{what}; it is {found and (found.status, found.fault)}"

        waiting.wait_until(settled, told, self._limit_s)
        assert found is not None
        return found

    def service(self, number: int) -> typing.Any:
        """Return a compute's service as Nova knows it."""
        (found,) = self.connection.compute.services(
            binary="nova-compute", host=nova_service.compute_name(number)
        )
        return found

    @contextlib.contextmanager
    def lost(self, nova: nova_service.Nova, number: int) -> Iterator[None]:
        """Crash a compute that is believed dead; it is back afterwards."""
        compute = self.connection.compute
        daemon = nova.computes[number - 1]
        daemon.kill()
        service = self.service(number)
        compute.update_service_forced_down(service, forced=True)
        try:
            yield
        finally:
            daemon.start()

            def accepted() -> bool:
                # Not before it has seen what was evacuated from it.
                with contextlib.suppress(exceptions.BadRequestException):
                    compute.update_service_forced_down(service, forced=False)
                    return True
                return False

            waiting.wait_until(accepted, "the compute is back", self._limit_s)
            nova.wait_for_computes()

    def delete_service(self, nova: nova_service.Nova, number: int) -> None:
        """Take a compute without servers out of Nova."""
        nova.computes[number - 1].kill()
        self.connection.compute.delete_service(self.service(number))

    def delete(self, server_id: str) -> None:
        """Delete a server and wait until it is gone."""
        self.connection.compute.delete_server(server_id)
        self._wait_gone(server_id)

    def _wait_gone(self, server_id: str) -> None:
        waiting.wait_until(
            lambda: self.connection.compute.find_server(server_id) is None,
            f"{server_id} is gone",
            self._limit_s,
        )

    def clean_up(self) -> None:
        """Delete what was made."""
        for server_id in self._servers:
            self.connection.compute.delete_server(server_id)
        for server_id in self._servers:
            self._wait_gone(server_id)
        for flavor_id in self._flavors:
            self.connection.compute.delete_flavor(flavor_id)
        self._servers.clear()
        self._flavors.clear()


def allocations(
    connection: typing.Any, server_id: str
) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Return what a server has of each provider."""
    answer = connection.placement.get(f"/allocations/{server_id}")
    for provider, allocation in answer.json()["allocations"].items():
        yield provider, allocation["resources"]


def host_number(server: servers.Server) -> int:
    """Return the number of the compute that a server is on."""
    return int(server.compute_host.removeprefix("compute"))


def provider_of(server: servers.Server) -> str:
    """Return the provider of the compute that a server is on."""
    return nova_service.provider_uuid(host_number(server))


def assert_no_valid_host(server: servers.Server) -> None:
    """Check that there was no host for a server."""
    assert server.status == "ERROR"
    assert "No valid host" in server.fault["message"]


class Api(api_server.Server):
    """The pool's API, which notes all requests."""

    def command(self) -> list[str]:
        """Return the command line."""
        return [*super().command(), "--access-logfile=-"]

    @property
    def snapshots(self) -> int:
        """How often it was asked for the snapshot."""
        return self.log().count('"GET /v1/pool/snapshot ')


class Guest:
    """What a server asks Nova; as a context manager it serves meanwhile.

    Questions are forwarded to Nova as the network service does.

    :param metadata: which of its metadata APIs is asked.
    """

    def __init__(
        self,
        nova: nova_service.Nova,
        metadata: openstack_services.WsgiService,
        server: servers.Server,
    ) -> None:
        self.server = server
        self._headers = nova.metadata_headers(server.id, server.project_id)
        self._metadata = metadata
        self._stack = contextlib.ExitStack()
        #: While it serves: where its programs find the metadata.
        self.url = ""

    def __enter__(self) -> Guest:
        forward = self._forward

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, content = forward(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(
            (process.LOOPBACK, 0), Handler
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self._stack.callback(server.server_close)
        self._stack.callback(thread.join)
        self._stack.callback(server.shutdown)
        self.url = f"http://{process.LOOPBACK}:{server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _forward(self, path: str) -> tuple[int, bytes]:
        url = f"{self._metadata.base_url}{path}"
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def vendordata(self) -> dict[str, typing.Any]:
        """Return what it is told of the pool."""
        status, content = self._forward(f"/{_VENDORDATA}")
        assert status == 200, content
        found: dict[str, typing.Any] = json.loads(content)["fpgapool"]
        return found

    def told(self) -> dict[str, typing.Any]:
        """Return what it is told in the end: nothing while Nova is slow."""
        return waiting.wait_until(
            self.vendordata, f"{self.server.id} is told something", LIMIT_S
        )

    @property
    def token(self) -> str:
        return str(self.told()["instance_token"])


#: Puts this process into a server.
Enter = Callable[[Server], Guest]
