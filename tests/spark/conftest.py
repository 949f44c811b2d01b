# SPDX-License-Identifier: Apache-2.0

"""Spark with two executors, and a pool that they find."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness
from tests.spark import cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests here time: a call of Spark that is interrupted breaks it."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def spark() -> Iterator[cluster.Cluster]:
    """Give a driver with two executors; each of them is a process."""
    with harness.short_directory() as directory:
        running = cluster.Cluster(directory)
        yield running
        running.close()


@pytest.fixture(scope="module")
def pool(spark: cluster.Cluster) -> Iterator[cluster.Pool]:
    """Give a pool of four slots on two hosts, as fast as this machine."""
    with cluster.pool(spark.run_dir, "--unlimited") as running:
        yield running
