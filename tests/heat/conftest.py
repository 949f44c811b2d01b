# SPDX-License-Identifier: Apache-2.0

"""Heat, Keystone and a pool for all tests of the resources."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest

from tests.harness import cloud as clouds
from tests.heat import engine as engines
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks

SLOTS = 2


class Site(typing.NamedTuple):
    """A pool with Keystone, and Heat beside it.

    :ivar operator: the administrator of a project.
    """

    api: server.Server
    accounts: openstack.Accounts
    operator: openstack.User
    heat: engines.Api


@pytest.fixture(scope="session")
def site(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[Site]:
    """Give the services."""
    stack = stacks.Stack(service_workspace, rabbitmq, mariadb)
    stack.start(["keystone"])
    accounts = stack.accounts
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        [clouds.HostPlan("node1", slots=SLOTS)],
    ) as cloud:
        api = server.Server(cloud, service_workspace, stack.keystone)
        api.start()
        accounts.register_endpoint(f"http://{api.address}")
        accounts.create_service_user("heat")
        project = accounts.create_project("heat-a")
        operator = accounts.create_user("heat-operator", project, "admin")
        engine = engines.Engine(
            service_workspace,
            stack.keystone,
            rabbitmq.transport_url(rabbitmq.create_vhost()),
            mariadb.database_url(mariadb.create_database()),
        )
        engine.start()
        heat = engines.Api(service_workspace, engine)
        heat.start()
        accounts.register_service("heat", "orchestration")
        accounts.register_endpoint(
            f"{heat.url}/v1/%(tenant_id)s", "orchestration"
        )
        yield Site(api, accounts, operator, heat)
        heat.stop()
        engine.stop()
        api.kill()
