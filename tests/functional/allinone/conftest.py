# SPDX-License-Identifier: Apache-2.0

"""One pool for the tests that do not end it."""

from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.functional.allinone import harness


@pytest.fixture(scope="module")
def pool() -> Iterator[harness.Pool]:
    """Give a pool with a host with and a host without boards."""
    with harness.running_pool() as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[harness.Site]:
    """Give a pool of two slots with an API."""
    with harness.short_directory() as run_dir:
        with harness.Pool(run_dir, *harness.SMALL, "--api-port=0") as pool:
            yield harness.Site(pool, pool.wait_until_ready()["api_url"])


@pytest.fixture(params=["socket", "api"])
def front_door(
    site: harness.Site, request: pytest.FixtureRequest
) -> str | client.PoolApi:
    """Give both ways into the pool."""
    if request.param == "api":
        return site.api
    return site.pool.front_door()
