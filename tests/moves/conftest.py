# SPDX-License-Identifier: Apache-2.0

"""A cloud in a network of its own: Nova with two hosts of libvirt, a pool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import cloud as clouds
from tests.integration.nova import harness
from tests.moves import machines
from tests.services import mariadb as mariadb_service
from tests.services import placement as placement_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks
from tests.services.hypervisors import computes
from tests.services.hypervisors import network


@pytest.fixture(scope="package")
def site() -> Iterator[process.Workspace]:
    """Give where all servers live, in a network that ends with them."""
    with network.entered(), process.Workspace() as workspace:
        yield workspace


@pytest.fixture(scope="package")
def stack(site: process.Workspace) -> stacks.Stack:
    """Give services of OpenStack; Keystone runs."""
    made = stacks.Stack(
        site,
        rabbitmq_service.RabbitMQ(site),
        mariadb_service.MariaDB(site),
        computes=0,
        # Nova does not try again at the end of a live migration: it puts the
        # machine into ERROR, though that runs.
        tries=placement_service.DEFAULT_TRIES,
    )
    made.start(["keystone"])
    return made


@pytest.fixture(scope="package")
def pool(
    site: process.Workspace, stack: stacks.Stack
) -> Iterator[clouds.Cloud]:
    """Give a pool with a board on each host, as operators get it."""
    options = harness.pool_options(stack.keystone)
    with clouds.Cloud(
        site,
        stack.rabbitmq.transport_url(stack.rabbitmq.create_vhost()),
        stack.mariadb.database_url(stack.mariadb.create_database()),
        [clouds.HostPlan(name, slots=4) for name in computes.NAMES],
        options={**options, "agent": {"data_address": network.ADDRESS}},
        hurried=False,
    ) as made:
        yield made


@pytest.fixture(scope="package")
def api(
    site: process.Workspace, stack: stacks.Stack, pool: clouds.Cloud
) -> machines.Api:
    """Give the pool's API, where machines reach it."""
    served = machines.Api(pool, site, stack.keystone, "moves-api")
    served.start()
    return served


@pytest.fixture(scope="package")
def hosts(
    site: process.Workspace,
    stack: stacks.Stack,
    api: machines.Api,
) -> computes.Computes:
    """Give Nova's hosts; Nova runs."""
    personas = stack.accounts.create_personas("persona")
    options = harness.vendordata_options(
        stack.keystone, personas.nova.name, api.address
    )
    made = computes.Computes(site, stack.nova, options)
    made.start()
    stack.start(["nova"])
    return made


@pytest.fixture(scope="package")
def cloud(
    site: process.Workspace,
    stack: stacks.Stack,
    pool: clouds.Cloud,
    api: machines.Api,
    hosts: computes.Computes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[machines.Cloud]:
    """Give all of it, with an image."""
    accounts = stack.accounts
    connection = harness.connect(accounts.admin(), accounts.auth_url)
    with machines.Listener() as listener:
        directory = tmp_path_factory.mktemp("ramdisk")
        yield machines.Cloud(
            connection, stack.nova, pool, hosts, listener, directory
        )
    connection.close()
