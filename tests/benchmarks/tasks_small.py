# SPDX-License-Identifier: Apache-2.0

"""Small tasks on an open session: what each costs beyond its bytes."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool import client
from fpgapool.protocol import frames
from tests.benchmarks import measure
from tests.benchmarks import plain_pingpong
from tests.benchmarks import slot
from tests.benchmarks import usage
from tests.harness import slots

TITLE = "Small tasks on an open session"
UNIT = "µs/task"
FLOOR = "bare ping-pong"
SERVICES = True
#: Values may be 0 or less.
DIFFERENCES = True

_SIZES = {"64 B": 64, "1 KiB": 1024, "16 KiB": 16 << 10, "64 KiB": 64 << 10}


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each size, one task at a time and pipelined, and what is added."""
    for transport in ("shm", "tcp"):
        with slot.opened(transport) as door:
            for size, length_bytes in _SIZES.items():
                yield from _of_size(
                    door, f"{size}, {transport}", length_bytes, plan
                )


def _of_size(
    door: slots.Door, name: str, length_bytes: int, plan: measure.Plan
) -> Iterator[measure.Row]:
    count = 20 if plan.tiny else 2000
    worker = door.worker.process.pid
    bare = _floor(door.slot.transport, length_bytes)
    with (
        contextlib.closing(bare),
        client.acc_open("copy", 1, front_door=door.path) as session,
    ):
        yield from _rows(
            f"{name}, one at a time",
            plan,
            _sampler(
                lambda: one_at_a_time(session, length_bytes, count), worker
            ),
            _sampler(lambda: bare.one_at_a_time(count), bare.pid),
        )
        yield from _rows(
            f"{name}, pipelined",
            plan,
            _sampler(lambda: pipelined(session, length_bytes, count), worker),
            _sampler(
                lambda: bare.pipelined(count, slot.WINDOW_CHUNKS), bare.pid
            ),
        )


def _floor(transport: str, length_bytes: int) -> plain_pingpong.PingPong:
    # With shared memory only headers use the socket.
    local = transport == "shm"
    message_bytes = frames.HEADER_BYTES if local else length_bytes
    return plain_pingpong.PingPong(local, message_bytes)


def _sampler(
    run: Callable[[], list[float]], pid: int
) -> Callable[[], measure.Sample]:
    def sample() -> measure.Sample:
        meter = usage.Meter(pid)
        taken_s = run()
        whole = meter.rate(1)
        return measure.Sample(
            1e6 * statistics.median(taken_s), whole.wall_s, whole.cpu_s
        )

    return sample


def _rows(
    name: str,
    plan: measure.Plan,
    sample: Callable[[], measure.Sample],
    sample_floor: Callable[[], measure.Sample],
) -> Iterator[measure.Row]:
    floors, samples, added = [], [], []
    for _ in range(plan.repetitions):
        floor, ours = sample_floor(), sample()
        floors.append(floor)
        samples.append(ours)
        added.append(
            measure.Sample(ours.value - floor.value, ours.wall_s, ours.cpu_s)
        )
    yield measure.Row(name, UNIT, samples, FLOOR, floors)
    yield measure.Row(f"{name}, added", UNIT, added)


def one_at_a_time(
    session: client.Session, length_bytes: int, count: int
) -> list[float]:
    """Return how long each task took, in seconds."""
    taken_s = []
    for _ in range(count):
        started_s = time.perf_counter()
        session.run(length_bytes)
        taken_s.append(time.perf_counter() - started_s)
    return taken_s


def pipelined(
    session: client.Session, length_bytes: int, count: int
) -> list[float]:
    """Return how long each task took, as part of all, in seconds.

    Goes the way of :func:`fpgapool.client.run_buffer`, with pieces that are
    shorter than a chunk.
    """
    flow = session.flow
    place = memoryview(bytearray(length_bytes))

    def send() -> None:
        for _ in range(count):
            piece = flow.reserve(length_bytes, filled=True, deadline_s=None)
            piece.data = piece.data[:length_bytes]
            flow.send(piece, end=False, deadline_s=None)

    end_bytes = flow.acknowledged_bytes + length_bytes * count
    sender = threading.Thread(target=send)
    with session.using():
        started_s = time.perf_counter()
        sender.start()
        while flow.acknowledged_bytes < end_bytes:
            flow.receive(place, None)
        taken_s = time.perf_counter() - started_s
        sender.join()
    return [taken_s / count]
