# SPDX-License-Identifier: Apache-2.0

"""One slot, for benchmarks of the data plane: a worker at its defaults."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator

from fpgapool import client
from fpgapool.agent.worker import settings
from tests.benchmarks import measure
from tests.benchmarks import plain_stream
from tests.benchmarks import usage
from tests.harness import slots

_DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(settings.WorkerSettings)
}
CHUNK_BYTES: int = _DEFAULTS["chunk_bytes"]
WINDOW_CHUNKS: int = _DEFAULTS["window_chunks"]
#: What they get, for those that need anything.
PARAMS = {"aes": plain_stream.AES_PARAMS, "fft": {"frame_samples": 1024}}


@contextlib.contextmanager
def opened(transport: str, **settings: object) -> Iterator[slots.Door]:
    """Start a worker without a limit of its rate.

    :param transport: ``shm``, ``tcp`` or ``tls``.
    :param settings: of the worker, besides its defaults.
    """
    # Not where files of other programs are: paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="fpgapool-") as name:
        with slots.Door(
            pathlib.Path(name),
            transport,
            chunk_bytes=CHUNK_BYTES,
            window_chunks=WINDOW_CHUNKS,
            **settings,
        ) as door:
            yield door


def meter(*doors: slots.Door) -> usage.Meter:
    """Measure this process and workers."""
    return usage.Meter(*(door.worker.process.pid for door in doors))


def memory(length_bytes: int) -> memoryview:
    """Make memory that the system has given already, with bytes in it."""
    return memoryview(bytearray(b"fpga") * (length_bytes // 4))


def pieces(memory: memoryview) -> list[memoryview]:
    """Divide memory into chunks."""
    return [
        memory[start : start + CHUNK_BYTES]
        for start in range(0, len(memory), CHUNK_BYTES)
    ]


def run(
    door: slots.Door, core: str, data: memoryview, into: memoryview
) -> measure.Sample:
    """Send data through a session.

    :returns: megabytes per second. Opening is not in the time, but in the
        processor time.
    """
    measured = meter(door)
    _, report = client.run_buffer(
        core,
        data,
        into=into,
        params=PARAMS.get(core),
        front_door=door.path,
    )
    return measured.rate(report.input_bytes / 1e6, report.ran_s)
