# SPDX-License-Identifier: Apache-2.0

"""One pool for the tests that do not end it."""

from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness


@pytest.fixture(scope="module")
def pool() -> Iterator[harness.Pool]:
    """Give a pool with a host with and a host without boards."""
    with harness.running_pool() as running:
        yield running
