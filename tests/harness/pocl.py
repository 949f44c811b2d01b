# SPDX-License-Identifier: Apache-2.0

"""An OpenCL device that computes on the processor: PoCL, from Debian."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

#: Few threads, so that tests can run side by side.
THREADS = 2
MEMORY_GIB = 1
PLATFORM = "Portable Computing Language"


def environment(directory: pathlib.Path) -> Mapping[str, str]:
    """Return variables that have to be set before PoCL is first used."""
    return {
        "POCL_CACHE_DIR": str(directory),
        "POCL_MAX_PTHREAD_COUNT": str(THREADS),
        "POCL_MEMORY_LIMIT": str(MEMORY_GIB),
    }


def device() -> Any:
    import pyopencl

    for platform in pyopencl.get_platforms():
        if platform.name == PLATFORM:
            return platform.get_devices()[0]
    raise AssertionError("PoCL is missing: apt install pocl-opencl-icd")


@functools.cache
def binary(device: Any, source: bytes) -> bytes:
    """Compile a program for a device, in this process."""
    import pyopencl

    from fpgapool.drivers.opencl import compiling

    program = pyopencl.Program(pyopencl.Context([device]), source.decode())
    built = program.build(list(compiling.BUILD_OPTIONS), [device])
    return bytes(built.binaries[0])
