# SPDX-License-Identifier: Apache-2.0

"""A pool of real processes with its API."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from tests.functional.api import harness
from tests.functional.system.conftest import make_cloud
from tests.functional.system.conftest import pytest_runtest_makereport
from tests.functional.system.conftest import rng
from tests.harness import cloud as clouds
from tests.services import process

__all__ = ["make_cloud", "pytest_runtest_makereport", "rng"]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cloud(make_cloud: Callable[..., clouds.Cloud]) -> clouds.Cloud:
    """Give a pool with two slots, on which few may wait."""
    return make_cloud(
        clouds.HostPlan("board", slots=2),
        options={
            "conductor": {
                "max_queued_sessions": 4,
            },
            "quota": {"queued": 3},
        },
    )


@pytest.fixture(scope="module")
def make_server(
    service_workspace: process.Workspace, cloud: clouds.Cloud
) -> Iterator[Callable[..., harness.Server]]:
    """Give a function that starts the API of the pool."""
    started = []

    def start(**options: object) -> harness.Server:
        name = f"api{next(_numbers)}"
        server = harness.Server(name, cloud, service_workspace, **options)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def api(make_server: Callable[..., harness.Server]) -> harness.Server:
    """Give the API of the pool."""
    return make_server(
        conductor_timeout_s=6, max_waiters=8, wait_interval_s=0.05
    )


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what a test has left open."""
    if "api" not in request.fixturenames:
        yield
        return
    cloud: clouds.Cloud = request.getfixturevalue("cloud")
    server: harness.Server = request.getfixturevalue("api")
    yield
    listed = "/v1/sessions?all_projects=true"
    for state in ("QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED"):
        listed += f"&state={state}"
    for session in server.ask("GET", listed, harness.ADMIN_TOKEN).document[
        "sessions"
    ]:
        server.close(session["id"], harness.ADMIN_TOKEN)
    cloud.check_consistent()
