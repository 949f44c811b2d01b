# SPDX-License-Identifier: Apache-2.0

"""A device, and the built-in kernels built for it."""

import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import manifest
from tests.harness import pocl


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
        return runner.programs.Program(device, manifest.parse(data), source)

    return build
