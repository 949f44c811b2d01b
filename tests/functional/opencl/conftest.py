# SPDX-License-Identifier: Apache-2.0

"""What workers of these tests share: files of PoCL's compiler."""

from __future__ import annotations

import pytest

from tests.functional.opencl import harness
from tests.functional.worker.conftest import start
from tests.harness import pocl

__all__ = ["start"]


@pytest.fixture(scope="session")
def binaries(tmp_path_factory):
    """Give a directory of binaries."""
    return tmp_path_factory.mktemp("binaries")


@pytest.fixture(autouse=True, scope="session")
def compiled(tmp_path_factory):
    """Let workers find what PoCL has compiled for others."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("pocl")
        for name, value in pocl.environment(directory).items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def start_device(start, directory, binaries):
    """Start workers of one slot of PoCL."""

    def start_worker(board=None, **members):
        made = harness.settings(directory, binaries, **(board or {}))
        return start(**{**made, **members})

    return start_worker
