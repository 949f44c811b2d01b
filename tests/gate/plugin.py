# SPDX-License-Identifier: Apache-2.0

"""Has pytest's JUnit file tell what the gate asks for."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell by what name a test can run again, and whether it may."""
    for item in items:
        item.user_properties.append(("nodeid", item.nodeid))
        if item.get_closest_marker("security") is not None:
            item.user_properties.append(("security", "yes"))
