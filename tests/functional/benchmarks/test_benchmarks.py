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

"""Benchmarks of real processes run; those without are in tests/unit."""

import pathlib

import pytest

from tests.benchmarks import smoke


# Some start a broker, a database and a cloud.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", smoke.names(services=True))
def test_a_tiny_run_of_each(name: str, tmp_path: pathlib.Path) -> None:
    smoke.check(name, tmp_path, smoke.run(name, tmp_path))
