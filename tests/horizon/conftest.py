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
from tests.integration import beside
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
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
    with beside.pool(
        service_workspace, rabbitmq, mariadb, HOSTS, _OPTIONS
    ) as pool:
        accounts = pool.stack.accounts
        accounts.register_endpoint(f"http://{pool.api.address}")
        personas = accounts.create_personas("horizon")
        auth_url = pool.stack.keystone.auth_url
        horizon = dashboard.Horizon(service_workspace, auth_url)
        horizon.start()
        yield Site(pool.cloud, pool.api, accounts, personas, horizon)
        horizon.stop()


@pytest.fixture
def page(driver: webdriver.Chrome, site: Site) -> pages.Page:
    """Give a page of Horizon; nobody has signed in."""
    return pages.Page(driver, site.horizon.url)
