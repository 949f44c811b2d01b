# SPDX-License-Identifier: Apache-2.0

"""Blazar, Keystone and a pool for all tests of the plugin."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest

from tests.blazar import relay as relays
from tests.blazar import service
from tests.harness import cloud as clouds
from tests.integration import beside
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks

SLOTS = 4


class Site(typing.NamedTuple):
    """A pool with Keystone, and Blazar beside it.

    :ivar relay: through which Blazar asks the pool.
    """

    api: server.Server
    relay: relays.Relay
    accounts: openstack.Accounts
    stack: stacks.Stack
    manager: service.Manager
    blazar: service.Api


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
        relay = relays.Relay(pool.api.address)
        accounts.register_endpoint(relay.url)
        accounts.create_service_user("blazar")
        manager = service.Manager(
            service_workspace,
            pool.stack.keystone,
            *beside.urls(rabbitmq, mariadb),
        )
        manager.start()
        blazar = service.Api(service_workspace, manager)
        blazar.start()
        accounts.register_service("blazar", "reservation")
        accounts.register_endpoint(f"{blazar.url}/v1", "reservation")
        yield Site(pool.api, relay, accounts, pool.stack, manager, blazar)
        blazar.stop()
        manager.stop()
        relay.close()
