#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Has pytest's JUnit file tell what the gate asks for."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell by what name a test can run again, and whether it may."""
    for item in items:
        item.user_properties.append(("nodeid", item.nodeid))
        if item.get_closest_marker("security") is not None:
            item.user_properties.append(("security", "yes"))
