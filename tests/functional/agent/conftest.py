# SPDX-License-Identifier: Apache-2.0

"""Hosts for functional tests of the agent."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.functional.agent import harness


@pytest.fixture
def host(directory: pathlib.Path) -> Iterator[harness.Host]:
    with harness.running_host(directory) as running:
        yield running


@pytest.fixture
def staying_host(directory: pathlib.Path) -> Iterator[harness.Host]:
    """A host whose workers outlive their agent."""
    with harness.running_host(
        directory, workers_outlive_agent=True
    ) as running:
        yield running
