# SPDX-License-Identifier: Apache-2.0

"""Sessions over a network, as fast as they go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import plain_stream
from tests.benchmarks import slot
from tests.harness import slots

TITLE = "Remote sessions, in and out at once"
UNIT = "MB/s"
FLOORS = {"tcp": "sockets", "tls": "sockets with TLS 1.3"}
SERVICES = True

_CHUNKS = {"tcp": 256, "tls": 128}


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each transport with each core."""
    for transport, chunks in _CHUNKS.items():
        length_bytes = slot.CHUNK_BYTES * (2 if plan.tiny else chunks)
        data, into = slot.memory(length_bytes), slot.memory(length_bytes)
        with slot.opened(transport) as door:
            for core in ("copy", "aes"):
                yield _row(door, core, data, into, plan)


def _row(
    door: slots.Door,
    core: str,
    data: memoryview,
    into: memoryview,
    plan: measure.Plan,
) -> measure.Row:
    transport = door.slot.transport
    samples, floor_samples = [], []
    stream = plain_stream.Stream(core, transport == "tls", slot.CHUNK_BYTES)
    with contextlib.closing(stream):
        for _ in range(plan.repetitions):
            floor_samples.append(
                stream.run(slot.pieces(data), slot.pieces(into))
            )
            samples.append(slot.run(door, core, data, into))
    return measure.Row(
        name=f"{core}, {transport}",
        unit=UNIT,
        samples=samples,
        floor=FLOORS[transport],
        floor_samples=floor_samples,
    )
