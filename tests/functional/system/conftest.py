# SPDX-License-Identifier: Apache-2.0

"""Pools of real processes, one for each module of tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

_running: list[clouds.Cloud] = []


@pytest.fixture(scope="module")
def make_cloud(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[Callable[..., clouds.Cloud]]:
    """Give a function that starts a cloud on an empty bus and database."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()

    def start(*hosts: clouds.HostPlan, **arguments: object) -> clouds.Cloud:
        vhost = rabbitmq.create_vhost()
        name = mariadb.create_database()
        cloud = clouds.Cloud(
            service_workspace,
            rabbitmq.transport_url(vhost),
            mariadb.database_url(name),
            hosts,
            **arguments,
        )
        # Before the start: if that fails, its logs are wanted.
        _running.append(cloud)
        cloud.__enter__()
        return cloud

    yield start
    while _running:
        _running.pop().stop()


@pytest.fixture(scope="module")
def api(
    cloud: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[api_harness.Server]:
    """Run the API of the module's fixture ``cloud``."""
    name = f"{cloud.conductor.name}-api"
    server = api_harness.Server(
        name, cloud, service_workspace, conductor_timeout_s=6
    )
    server.start()
    yield server
    server.kill()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Give random numbers that are the same at every run of a test."""
    return random.Random(request.node.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Iterator[None]:
    """Show what the pool's processes said when a test failed."""
    report = yield
    if report.failed:
        for cloud in _running:
            for name, text in cloud.logs():
                report.sections.append((f"log of {name}", text))
    return report
