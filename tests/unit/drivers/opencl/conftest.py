# SPDX-License-Identifier: Apache-2.0

"""A device, and the built-in kernels built for it."""

import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers.opencl import core as cores
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl import waiting
from fpgapool.drivers.opencl.contents import manifest
from tests.harness import pocl
from tests.unit.drivers.opencl import gating


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a device of PoCL."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("pocl")
        for name, value in pocl.environment(directory).items():
            patch.setenv(name, value)
        yield pocl.device()


@pytest.fixture(scope="session")
def program(device: Any) -> Callable[[str], Any]:
    """Give what builds a built-in kernel, once."""
    from fpgapool.drivers.opencl import runner

    @functools.cache
    def build(name: str) -> runner.programs.Program:
        data, source = kernels.read(name)
        return runner.programs.Program(
            device, manifest.parse(data), pocl.binary(device, source)
        )

    return build


@pytest.fixture
def runner(device):
    from fpgapool.drivers.opencl import runner

    return runner


@pytest.fixture
def start(runner, program):
    """Open a session of a built-in kernel."""

    def make(name, params, piece_bytes=gating.PIECE_BYTES):
        waiter = waiting.Waiter(gating.LIMIT_S)
        made = runner.Runner(
            program(name), params, piece_bytes, wait=waiter.wait
        )
        profile = accelerators.load_profile(name)
        return cores.OpenCLCore(made, profile, waiter, gating.LIMIT_S, 1)

    return make


@pytest.fixture
def own_memory(runner, monkeypatch):
    """Treat the device as one with memory of its own."""
    monkeypatch.setattr(runner.programs, "is_unified", lambda device: False)
