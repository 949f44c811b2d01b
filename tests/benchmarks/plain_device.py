# SPDX-License-Identifier: Apache-2.0

"""Floor of OpenCL sessions: the same kernels in a bare loop of pyopencl.

``python -m tests.benchmarks.plain_device`` is what the peer runs: for each
message it computes as many pieces as the message says, one after the other in
the same memory, and sends the message back.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from fpgapool.drivers.opencl import binding
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import manifest as manifests
from tests.benchmarks import measure
from tests.benchmarks import usage

_COUNT = struct.Struct("<Q")


class Peer:
    """A process with a device of PoCL.

    :param accelerator: whose kernels it runs.
    :param params: of the session.
    :param piece_bytes: length of each piece.
    """

    def __init__(
        self, accelerator: str, params: object, piece_bytes: int
    ) -> None:
        ours, theirs = socket.socketpair()
        fd = str(theirs.fileno())
        wanted = [accelerator, json.dumps(params), str(piece_bytes)]
        self._piece_bytes = piece_bytes
        self._peer = subprocess.Popen(
            [sys.executable, "-m", __name__, fd, *wanted],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._sock = ours
        self.pid = self._peer.pid
        # Whatever happens the first time is over.
        self.compute(3)

    def compute(self, count: int) -> float:
        """Compute pieces.

        :returns: how long it took, in seconds.
        """
        place = bytearray(_COUNT.size)
        started_s = time.perf_counter()
        self._sock.sendall(_COUNT.pack(count))
        received_bytes = self._sock.recv_into(place, 0, socket.MSG_WAITALL)
        taken_s = time.perf_counter() - started_s
        if received_bytes < len(place):
            raise AssertionError("the peer has ended")
        return taken_s

    def run(self, count: int) -> measure.Sample:
        """Compute pieces.

        :returns: megabytes per second.
        """
        meter = usage.Meter(self.pid)
        self.compute(count)
        return meter.rate(count * self._piece_bytes / 1e6)

    def close(self) -> None:
        """End the peer."""
        self._sock.close()
        self._peer.wait()


def _loop(
    accelerator: str, params: Any, piece_bytes: int
) -> Callable[[], None]:
    """Return what computes one piece."""
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    import numpy
    import pyopencl as cl

    from tests.harness import pocl

    manifest, source = kernels.read(accelerator)
    bound = binding.Binding(manifests.parse(manifest), params)
    context = cl.Context([pocl.device()])
    queue = cl.CommandQueue(context)
    options = ["-cl-std=CL1.2"]
    program = cl.Program(context, source.decode()).build(options)
    flags = cl.mem_flags

    def over(size_bytes: int) -> Any:
        there = mmap.mmap(-1, max(1, size_bytes))
        there.write(bytes(size_bytes))
        use = flags.READ_WRITE | flags.USE_HOST_PTR
        return cl.Buffer(context, use, hostbuf=memoryview(there))

    copy = flags.READ_WRITE | flags.COPY_HOST_PTR
    buffers = {
        name: cl.Buffer(context, copy, hostbuf=data)
        for name, data in bound.contents.items()
    }
    for name, size_bytes in bound.scratch_bytes(piece_bytes).items():
        buffers[name] = cl.Buffer(context, flags.READ_WRITE, size_bytes)
    places = {
        "input": over(piece_bytes),
        "output": over(bound.max_output_bytes(piece_bytes)),
    }
    numbers = {"uint": numpy.uint32, "ulong": numpy.uint64}
    steps = bound.variant.process.steps
    calls = []
    for launch in bound.launches(piece_bytes, 0):
        kernel = cl.Kernel(program, steps[launch.step].kernel)
        for index, (kind, value) in enumerate(launch.arguments):
            argument = places.get(kind)
            if kind == "buffer":
                argument = buffers[value]
            elif kind == "local":
                argument = cl.LocalMemory(value)
            elif kind in numbers:
                argument = numbers[kind](value)
            kernel.set_arg(index, argument)
        calls.append((kernel, launch.global_size, launch.local_size))
    # A kernel does not keep its arguments.
    kept = [places, buffers]

    def compute() -> None:
        for call in calls:
            event = cl.enqueue_nd_range_kernel(queue, *call)
        event.wait()
        assert kept

    return compute


def _serve(
    sock: socket.socket, accelerator: str, params: Any, piece_bytes: int
) -> None:
    compute = _loop(accelerator, params, piece_bytes)
    place = bytearray(_COUNT.size)
    while sock.recv_into(place, 0, socket.MSG_WAITALL):
        for _ in range(_COUNT.unpack(place)[0]):
            compute()
        sock.sendall(place)


if __name__ == "__main__":
    _serve(
        socket.socket(fileno=int(sys.argv[1])),
        sys.argv[2],
        json.loads(sys.argv[3]),
        int(sys.argv[4]),
    )
