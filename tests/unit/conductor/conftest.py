# SPDX-License-Identifier: Apache-2.0

"""Pools that most tests of decisions begin with."""

import pytest

from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Host a with two slots, host b without a board."""
    return world.Conductor(world.hosts(a=2, b=0))


@pytest.fixture
def single() -> world.Conductor:
    """Host a with one slot."""
    return world.Conductor(world.hosts(a=1))
