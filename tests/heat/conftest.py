# SPDX-License-Identifier: Apache-2.0

"""Heat, Keystone and a pool for all tests of the resources."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest

from tests.harness import cloud as clouds
from tests.heat import engine as engines
from tests.integration import beside
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

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
    hosts = [clouds.HostPlan("node1", slots=SLOTS)]
    with beside.pool(service_workspace, rabbitmq, mariadb, hosts) as pool:
        accounts = pool.stack.accounts
        accounts.register_endpoint(f"http://{pool.api.address}")
        accounts.create_service_user("heat")
        project = accounts.create_project("heat-a")
        operator = accounts.create_user("heat-operator", project, "admin")
        engine = engines.Engine(
            service_workspace,
            pool.stack.keystone,
            *beside.urls(rabbitmq, mariadb),
        )
        engine.start()
        heat = engines.Api(service_workspace, engine)
        heat.start()
        accounts.register_service("heat", "orchestration")
        accounts.register_endpoint(
            f"{heat.url}/v1/%(tenant_id)s", "orchestration"
        )
        yield Site(pool.api, accounts, operator, heat)
        heat.stop()
        engine.stop()
