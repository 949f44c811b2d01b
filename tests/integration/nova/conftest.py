# SPDX-License-Identifier: Apache-2.0

"""Nova, and what its tests need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import instance
from tests.harness import cloud as clouds
from tests.integration.nova import harness
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

#: Hosts of the pool that Nova's instances use: Nova's computes, two of them
#: with boards, and one more that it never had.
HOSTS = (
    clouds.HostPlan(nova_service.compute_name(1), slots=2),
    clouds.HostPlan(nova_service.compute_name(2), slots=2),
    clouds.HostPlan(nova_service.compute_name(3), slots=0),
    clouds.HostPlan(nova_service.compute_name(4), slots=0),
    clouds.HostPlan("network1", slots=0),
)


@pytest.fixture(scope="package")
def administrator(
    nova: nova_service.Nova, accounts: openstack.Accounts
) -> Iterator[harness.Compute]:
    """Give what makes servers and flavors."""
    connection = harness.connect(accounts.admin(), accounts.auth_url)
    yield harness.Compute(connection)
    connection.close()


@pytest.fixture(scope="package")
def image_id(administrator: harness.Compute) -> str:
    """Give an image that nobody looks into."""
    return administrator.create_image()


@pytest.fixture
def compute(
    nova: nova_service.Nova, administrator: harness.Compute
) -> Iterator[harness.Compute]:
    """Give what makes servers and flavors, which are gone after the test."""
    nova.ensure_running()
    yield administrator
    administrator.clean_up()


@pytest.fixture(scope="package")
def pool(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    nova: nova_service.Nova,
    keystone: keystone_service.Keystone,
    accounts: openstack.Accounts,
) -> Iterator[clouds.Cloud]:
    """Give a pool that looks after Nova's instances."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    made = clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        HOSTS,
        options={
            **harness.pool_options(keystone),
            # Longer than Nova needs for what happens to a session's instance.
            "conductor": {"idle_timeout_s": 600},
        },
    )
    with made:
        yield made


@pytest.fixture(scope="package")
def api(
    pool: clouds.Cloud,
    service_workspace: process.Workspace,
    keystone: keystone_service.Keystone,
) -> Iterator[harness.Api]:
    served = harness.Api(pool, service_workspace, keystone, "instances-api")
    served.start()
    yield served
    served.kill()


@pytest.fixture(scope="package")
def metadata(
    nova: nova_service.Nova,
    keystone: keystone_service.Keystone,
    personas: openstack.Personas,
    api: harness.Api,
) -> Iterator[openstack.WsgiService]:
    """Give a metadata API as instances.rst in doc/source tells operators."""
    service = nova.other_metadata(
        "nova-vendordata",
        harness.vendordata_options(keystone, personas.nova.name, api.address),
    )
    service.start()
    yield service
    service.kill()


@pytest.fixture
def inside(
    monkeypatch: pytest.MonkeyPatch,
    nova: nova_service.Nova,
    metadata: openstack.WsgiService,
) -> Iterator[harness.Enter]:
    """Give a function that puts this process inside a server."""
    for name in ("FPGAPOOL_SOCKET", "OS_CLOUD", "OS_AUTH_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(frontdoor, "candidate_paths", lambda: ["/nowhere"])
    monkeypatch.setattr(instance, "_MOUNT_POINTS", ())
    # Other tests may use the machine, too.
    monkeypatch.setattr(instance, "_METADATA_S", harness.LIMIT_S)
    with contextlib.ExitStack() as entered:

        def enter(server: harness.Server) -> harness.Guest:
            guest = harness.Guest(nova, metadata, server)
            entered.enter_context(guest)
            monkeypatch.setenv(instance.METADATA_URL, guest.url)
            monkeypatch.setattr(instance, "FINDER", instance.Finder())
            return guest

        yield enter
