# SPDX-License-Identifier: Apache-2.0

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
