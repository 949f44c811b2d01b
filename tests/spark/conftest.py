# SPDX-License-Identifier: Apache-2.0

"""Spark with two executors, and a pool that they find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness
from tests.spark import cluster


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
    with cluster.pool(spark, "--unlimited") as running:
        yield running
