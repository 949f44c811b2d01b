# SPDX-License-Identifier: Apache-2.0

"""Prints the devices of this host's OpenCL runtimes, as JSON.

It also tests the devices that its arguments name. If a runtime hangs or
crashes, only this process is affected.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import glob
import json
import sys

import numpy
import pyopencl as cl

from fpgapool.drivers import base
from fpgapool.drivers.opencl import platforms
from fpgapool.drivers.opencl.compiling import compiler

_TRIED_BYTES = 4096
_TRIED_SOURCE = b"""
kernel void invert(global uchar *data)
{
    data[get_global_id(0)] = ~data[get_global_id(0)];
}
"""


def fault(device: cl.Device, builds: bool) -> str | None:
    """Check whether a device works; this may block forever.

    :param builds: whether to also build and run a kernel, given a compiler.
    :returns: why it does not work, in one line; None if it works.
    """
    try:
        context = cl.Context([device])
        if not device.type & (cl.device_type.CPU | cl.device_type.GPU):
            # Before a board is programmed, its memory is not accessible.
            return None
        queue = cl.CommandQueue(context)
        there = cl.Buffer(context, cl.mem_flags.READ_WRITE, _TRIED_BYTES)
        cl.enqueue_fill_buffer(queue, there, b"\x5a", 0, _TRIED_BYTES)
        back = numpy.zeros(_TRIED_BYTES, numpy.uint8)
        cl.enqueue_copy(queue, back, there)
        if (back != 0x5A).any():
            return "the device's memory corrupts data"
        if builds and device.compiler_available:
            binary = compiler.compile_source(
                _TRIED_SOURCE,
                (),
                glob.escape(device.platform.name.strip()),
                glob.escape(device.name.strip()),
            )
            program = cl.Program(context, [device], [binary]).build()
            kernel = cl.Kernel(program, "invert")
            kernel(queue, (_TRIED_BYTES,), None, there)
            cl.enqueue_copy(queue, back, there)
            if (back != 0xA5).any():
                return "the device's kernels compute wrong results"
    except (cl.Error, base.DriverError) as error:
        return base.one_line(str(error)) or type(error).__name__
    return None


def main(arguments: collections.abc.Sequence[str]) -> int:
    """Print all devices, and the faults of those that were tested.

    :param arguments: names of the devices to test, preceded by ``--build`` to
        build kernels for them.
    :returns: the exit status: 0, or 1 if there is no runtime.
    """
    try:
        found = platforms.listed()
    except base.DriverError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    builds = arguments[:1] == ["--build"]
    names = arguments[builds:]
    document = [
        {
            "device": dataclasses.asdict(each),
            "fault": fault(device, builds) if each.name in names else None,
        }
        for each, device in found
    ]
    sys.stdout.write(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
