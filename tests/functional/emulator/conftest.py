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

"""Directories and accelerators of the emulator's tests."""

from __future__ import annotations

import pytest

from fpgapool.accelerators import base as accelerators
from tests.functional.agent import harness as agent_harness
from tests.functional.emulator import harness
from tests.functional.worker.conftest import start

__all__ = ["start"]


@pytest.fixture
def profiles(directory, monkeypatch):
    """Let workers know the accelerators of these tests."""
    path = directory / "accelerators"
    path.mkdir()
    harness.write_profiles(path)
    monkeypatch.setenv(accelerators.DIRECTORY_VARIABLE, str(path))


@pytest.fixture
def host(directory):
    """A host with an agent, which is started by the test."""
    with agent_harness.running_host(directory) as running:
        yield running
