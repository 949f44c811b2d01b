# SPDX-License-Identifier: Apache-2.0

"""A pool that tells its metrics, with its API."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator

import pytest

from tests.functional.api import harness as api_harness
from tests.functional.system.conftest import make_cloud
from tests.functional.system.conftest import pytest_runtest_makereport
from tests.functional.system.conftest import rng
from tests.harness import cloud as clouds
from tests.services import process

__all__ = ["make_cloud", "pytest_runtest_makereport", "rng"]


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    """Give the ports of the metrics, by option."""
    names = ("conductor_port", "agent_port", "api_port")
    return {name: process.free_port() for name in names}


@pytest.fixture(scope="module")
def cloud(
    make_cloud: Callable[..., clouds.Cloud], ports: dict[str, int]
) -> clouds.Cloud:
    """Give a pool with two slots."""
    return make_cloud(
        clouds.HostPlan("board", slots=2),
        options={
            "metrics": {**ports, "max_projects": 1},
            # Learnt thresholds would depend on earlier tests.
            "scheduler": {"first_threshold_bytes": 20_000_000},
        },
    )


@pytest.fixture(scope="module")
def api(
    service_workspace: process.Workspace, cloud: clouds.Cloud
) -> Iterator[api_harness.Server]:
    """Give the API of the pool."""
    server = api_harness.Server("metrics-api", cloud, service_workspace)
    server.start()
    yield server
    server.kill()
