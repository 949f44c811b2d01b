# SPDX-License-Identifier: Apache-2.0

"""Sessions on the host of the board, against the core alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fpgapool import client
from fpgapool.accelerators import base
from tests.benchmarks import measure
from tests.benchmarks import slot
from tests.benchmarks import usage
from tests.harness import slots

TITLE = "Local sessions, in shared memory"
UNIT = "MB/s"
FLOOR = "core in process"
SERVICES = True

#: So many that the first use of fresh memory, which a session begins with,
#: is a small part of the time.
_CHUNKS = {"aes": 1536, "sha": 512, "fft": 512}


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Data made and used in the session's buffers; then in other memory."""
    with slot.opened("shm") as door:
        for core, chunks in _CHUNKS.items():
            yield _in_place(door, core, 4 if plan.tiny else chunks, plan)
        for core in _CHUNKS:
            yield _copied(door, core, 4 if plan.tiny else 128, plan)


class _Source:
    """A program that makes its data where the accelerator takes it.

    It costs nothing but the first time, as data does that is there already.
    """

    def __init__(self) -> None:
        self._data = slot.memory(slot.CHUNK_BYTES)

    def readinto(self, buffer: memoryview) -> int:
        if buffer[:4] != self._data[:4]:
            buffer[:] = self._data[: len(buffer)]
        return len(buffer)


class _Sink:
    """A program that uses the results where they are."""

    def write(self, data: memoryview) -> int:
        return len(data)


def _in_place(
    door: slots.Door, core: str, chunks: int, plan: measure.Plan
) -> measure.Row:
    places = [slot.memory(slot.CHUNK_BYTES) for _ in range(16)]
    inputs = itertools.islice(itertools.cycle(places[:8]), chunks)
    outputs = itertools.cycle(places[8:])
    pieces = list(zip(inputs, outputs, strict=False))
    samples, floors = [], []
    for _ in range(plan.repetitions):
        floors.append(_floor(core, pieces))
        meter = slot.meter(door)
        report = client.run_stream(
            core,
            _Source(),
            _Sink(),
            chunks * slot.CHUNK_BYTES,
            params=slot.PARAMS.get(core),
            front_door=door.path,
        )
        samples.append(meter.rate(report.input_bytes / 1e6, report.ran_s))
    return measure.Row(f"{core}, in place", UNIT, samples, FLOOR, floors)


def _copied(
    door: slots.Door, core: str, chunks: int, plan: measure.Plan
) -> measure.Row:
    data, into = (slot.memory(chunks * slot.CHUNK_BYTES) for _ in range(2))
    pieces = list(zip(slot.pieces(data), slot.pieces(into), strict=True))
    samples, floors = [], []
    for _ in range(plan.repetitions):
        floors.append(_floor(core, pieces))
        samples.append(slot.run(door, core, data, into))
    return measure.Row(f"{core}, with copies", UNIT, samples, FLOOR, floors)


def _floor(
    core: str, pieces: list[tuple[memoryview, memoryview]]
) -> measure.Sample:
    made = base.load_core(core)(slot.PARAMS.get(core, {}))
    offset_bytes = 0
    meter = usage.Meter()
    for piece, place in pieces:
        made.process(piece, place, offset_bytes)
        offset_bytes += len(piece)
    made.finish(pieces[0][1])
    return meter.rate(offset_bytes / 1e6)
