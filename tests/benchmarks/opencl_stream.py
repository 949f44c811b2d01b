# SPDX-License-Identifier: Apache-2.0

"""Sessions on a device of PoCL, and small tasks, beside bare pyopencl.

PoCL has one thread in both.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import statistics
import tempfile
import unittest.mock
from collections.abc import Iterator

from fpgapool import client
from tests.benchmarks import measure
from tests.benchmarks import plain_device
from tests.benchmarks import slot
from tests.benchmarks import tasks_small
from tests.benchmarks import usage
from tests.functional.opencl import harness
from tests.harness import pocl
from tests.harness import slots

TITLE = "Sessions on an OpenCL device, and small tasks"
UNIT = "MB/s"
SMALL_UNIT = "µs/task"
SERVICES = True

_CHUNKS = {"copy": 128, "aes": 24, "fft": 48}
_SMALL_BYTES = 64 << 10


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each accelerator in long sessions, then small tasks."""
    with (
        tempfile.TemporaryDirectory(prefix="fpgapool-") as name,
        _one_thread(pathlib.Path(name)),
    ):
        directory = pathlib.Path(name)
        settings = harness.settings(
            directory / "board", directory / "binaries"
        )
        with slot.opened("shm", **settings) as door:
            for accelerator, chunks in _CHUNKS.items():
                count = 2 if plan.tiny else chunks
                yield _stream(door, accelerator, count, plan)
            for accelerator in _CHUNKS:
                yield _small(door, accelerator, plan)


@contextlib.contextmanager
def _one_thread(directory: pathlib.Path) -> Iterator[None]:
    (directory / "binaries").mkdir()
    variables = {
        **pocl.environment(directory / "pocl"),
        "POCL_MAX_PTHREAD_COUNT": "1",
    }
    with unittest.mock.patch.dict(os.environ, variables):
        yield


def _stream(
    door: slots.Door, accelerator: str, chunks: int, plan: measure.Plan
) -> measure.Row:
    params = slot.PARAMS.get(accelerator, {})
    length_bytes = slot.CHUNK_BYTES * chunks
    data, into = slot.memory(length_bytes), slot.memory(length_bytes)
    peer = plain_device.Peer(accelerator, params, slot.CHUNK_BYTES)
    samples, floors = [], []
    with contextlib.closing(peer):
        # The first one compiles.
        slot.run(door, accelerator, data[: slot.CHUNK_BYTES], into)
        for _ in range(plan.repetitions):
            floors.append(peer.run(chunks))
            samples.append(slot.run(door, accelerator, data, into))
    return measure.Row(
        accelerator, UNIT, samples, "a bare loop of pyopencl", floors
    )


def _small(
    door: slots.Door, accelerator: str, plan: measure.Plan
) -> measure.Row:
    count = 20 if plan.tiny else 500
    params = slot.PARAMS.get(accelerator, {})
    peer = plain_device.Peer(accelerator, params, _SMALL_BYTES)
    worker = door.worker.process.pid
    samples, floors = [], []
    with (
        contextlib.closing(peer),
        client.acc_open(
            accelerator, 1, params=params, front_door=door.path
        ) as session,
    ):
        tasks_small.one_at_a_time(session, _SMALL_BYTES, 10)
        for _ in range(plan.repetitions):
            meter = usage.Meter(peer.pid)
            taken_s = [peer.compute(1) for _ in range(count)]
            floors.append(_median(taken_s, meter))
            meter = usage.Meter(worker)
            taken_s = tasks_small.one_at_a_time(session, _SMALL_BYTES, count)
            samples.append(_median(taken_s, meter))
    return measure.Row(
        f"{accelerator}, 64 KiB, one at a time",
        SMALL_UNIT,
        samples,
        "bare pyopencl behind an echo",
        floors,
    )


def _median(taken_s: list[float], meter: usage.Meter) -> measure.Sample:
    whole = meter.rate(1)
    return measure.Sample(
        1e6 * statistics.median(taken_s), whole.wall_s, whole.cpu_s
    )
