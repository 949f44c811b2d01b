# SPDX-License-Identifier: Apache-2.0

"""Horizon, Keystone and a pool for all tests of the panels."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.harness import cloud as clouds
from tests.horizon import dashboard
from tests.horizon import page as pages
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks
from tests.ui import browser

#: More than a page.
HOSTS = [
    clouds.HostPlan(f"node{number}", slots=slots)
    for number, slots in enumerate((2, 1, 1, 1), start=1)
]

#: Nobody connects to the sessions, which last until their test has ended.
_OPTIONS: clouds.Options = {"conductor": {"connect_timeout_s": 600}}


class Site(typing.NamedTuple):
    """A pool with Keystone, and Horizon beside it."""

    cloud: clouds.Cloud
    api: server.Server
    accounts: openstack.Accounts
    personas: openstack.Personas
    horizon: dashboard.Horizon

    def token(self, user: openstack.User) -> str:
        """Return a token for requests to the API."""
        return self.accounts.token(user).text

    @contextlib.contextmanager
    def without(self, service: process.Service) -> Iterator[None]:
        """Kill a service, and start it again for the next test."""
        service.kill()
        try:
            yield
        finally:
            service.start()
            self.cloud.wait_ready()


@pytest.fixture(scope="session")
def driver(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[webdriver.Chrome]:
    """Give a browser."""
    started = browser.start(tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()


@pytest.fixture(scope="session")
def site(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[Site]:
    """Give the services."""
    stack = stacks.Stack(service_workspace, rabbitmq, mariadb)
    stack.start(["keystone"])
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        HOSTS,
        options=_OPTIONS,
    ) as cloud:
        api = server.Server(cloud, service_workspace, stack.keystone)
        api.start()
        stack.accounts.register_endpoint(f"http://{api.address}")
        personas = stack.accounts.create_personas("horizon")
        horizon = dashboard.Horizon(service_workspace, stack.keystone.auth_url)
        horizon.start()
        yield Site(cloud, api, stack.accounts, personas, horizon)
        horizon.stop()
        api.kill()


@pytest.fixture
def page(driver: webdriver.Chrome, site: Site) -> pages.Page:
    """Give a page of Horizon; nobody has signed in."""
    return pages.Page(driver, site.horizon.url)
