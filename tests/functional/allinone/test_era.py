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

"""A whole pool that decides by era."""

import concurrent.futures

import pytest

from tests.functional.allinone import harness
from tests.functional.allinone import test_allinone as plain

# In the gate: tests/property/test_era.py and test_allinone.py.
pytestmark = pytest.mark.long


def test_hosts_with_and_without_boards_are_served() -> None:
    """More sessions at once than there are slots; all outputs are right."""
    with harness.running_pool(*harness.SMALL, "--strategy=era") as pool:
        doors = [pool.front_door(door) for door in ("node1", "node2")] * 3
        assert harness.ask_pool(doors[0])["strategy"] == "era"
        with concurrent.futures.ThreadPoolExecutor(len(doors)) as executor:
            reports = list(executor.map(plain.encrypt, doors))
    assert [report.local for report in reports] == [True, False] * 3
