# SPDX-License-Identifier: Apache-2.0

"""What a worker's memory grows to in a long session."""

from __future__ import annotations

from collections.abc import Iterator

from fpgapool import client
from tests.benchmarks import measure
from tests.benchmarks import slot
from tests.benchmarks import usage

TITLE = "Memory of a worker in a long session"
UNIT = "MiB"
SERVICES = True

_SIZE_BYTES = 20 * 10**9
_TINY_BYTES = 16 * 10**6
#: What it may be: the window in both directions, and the program itself.
LIMIT_BYTES = 2 * slot.WINDOW_CHUNKS * slot.CHUNK_BYTES + (64 << 20)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each transport, with a worker of its own."""
    size_bytes = _TINY_BYTES if plan.tiny else _SIZE_BYTES
    for transport in ("shm", "tcp"):
        yield measure.Row(
            f"{size_bytes / 1e9:.3g} GB, {transport} "
            f"(limit: {LIMIT_BYTES >> 20})",
            UNIT,
            [_sample(transport, size_bytes)],
        )


class _Stream:
    """Bytes without an end, and where they may go."""

    def readinto(self, buffer: memoryview) -> int:
        return len(buffer)

    def write(self, data: memoryview) -> int:
        return len(data)


def _sample(transport: str, size_bytes: int) -> measure.Sample:
    with slot.opened(transport) as door:
        meter = slot.meter(door)
        report = client.run_stream(
            "copy", _Stream(), _Stream(), size_bytes, front_door=door.path
        )
        assert report.output_bytes == size_bytes
        whole = meter.rate(size_bytes)
        peak_bytes = usage.peak_memory_bytes(door.worker.process.pid)
        return measure.Sample(peak_bytes / 2**20, whole.wall_s, whole.cpu_s)
