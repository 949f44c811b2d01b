# SPDX-License-Identifier: Apache-2.0

"""Pools for chains: one host with all slots, and two hosts with one each."""

from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness


@pytest.fixture(scope="module")
def pool() -> Iterator[harness.Pool]:
    """Give a pool with four slots on one host."""
    options = "--hosts=1", "--boards=1", "--slots=4", "--unlimited"
    with harness.running_pool(*options) as running:
        yield running


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[harness.Pool]:
    """Give a pool with two slots, on two hosts, with TLS."""
    with harness.short_directory() as directory:
        config = directory / "tls.conf"
        config.write_text("[agent]\ntls = true\n")
        options = "--hosts=2", "--boards=2", "--slots=1", "--unlimited"
        with harness.running_pool(
            *options, f"--config-file={config}"
        ) as running:
            yield running
