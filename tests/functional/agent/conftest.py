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
