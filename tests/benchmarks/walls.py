# SPDX-License-Identifier: Apache-2.0

"""What it costs that workers and desks give up what they do not need."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from unittest import mock

from fpgapool.agent import service
from fpgapool.vocabulary import codes
from tests.benchmarks import group
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.benchmarks import slot
from tests.functional.agent import harness
from tests.functional.worker import harness as worker_harness
from tests.harness import cloud as clouds
from tests.walls import sessions

TITLE = "Workers and desks with walls, and without"
SERVICES = True
FLOOR = "without"

_WITH, _WITHOUT = "preferred", "none"
_LIMIT_BYTES = 256 << 20


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Starts, streams, tasks of a group, and opens."""
    slots = 2 if plan.tiny else 16
    yield _row(
        f"start of {slots} workers", "ms", plan, lambda one: _start(one, slots)
    )
    yield from _neighbour(plan)
    with contextlib.ExitStack() as stack:
        for transport in ("shm", "tcp"):
            yield _streams(stack, transport, plan)
        yield _tasks(stack, plan)
        yield _opens(stack, plan)


def _row(
    name: str,
    unit: str,
    plan: measure.Plan,
    sample: Callable[[str], measure.Sample],
) -> measure.Row:
    samples, floors = [], []
    for _ in range(plan.repetitions):
        floors.append(sample(_WITHOUT))
        samples.append(sample(_WITH))
    return measure.Row(name, unit, samples, FLOOR, floors)


def _start(isolation: str, slots: int) -> measure.Sample:
    # Not where files of other programs are: paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="fpgapool-") as name:
        board = {**harness.BOARDS["boards"][0], "slots": slots}
        with (
            mock.patch.dict(harness.BOARDS, boards=[board]),
            harness.running_host(
                pathlib.Path(name), isolation=isolation
            ) as host,
        ):
            with measure.stopwatch() as watch:
                host.start()
                for number in range(slots):
                    host.conductor.wait_for_slot(
                        number, lambda one: one.state == "idle"
                    )
    return measure.Sample(1e3 * watch.wall_s, watch.wall_s, watch.cpu_s)


def _neighbour(plan: measure.Plan) -> list[measure.Row]:
    """Beside a tenant whose sessions take memory until they end for that.

    Busy ones end in the same way and use the processors as much, but hold
    little memory.
    """
    count = 1 if plan.tiny else 40
    alone: list[measure.Sample] = []
    busy: list[measure.Sample] = []
    samples: list[measure.Sample] = []
    with (
        tempfile.TemporaryDirectory(prefix="fpgapool-") as name,
        worker_harness.closed_channels(),
        harness.running_host(
            pathlib.Path(name),
            driver_path=sessions.DRIVER,
            isolation=_WITH,
            worker_memory_bytes=_LIMIT_BYTES,
        ) as host,
    ):
        agent = host.start()
        for slot_number in (0, 1):
            host.conductor.wait_for_slot(
                slot_number, lambda one: one.state == "idle"
            )
        generations = itertools.count(1)
        first = next(generations)
        others = sessions.open_session(host, agent, first, slot=1)

        def beside(take: str) -> measure.Sample:
            ended = threading.Event()
            greedy = threading.Thread(
                target=_take,
                args=(host, agent, itertools.islice(generations, count)),
                kwargs={"take": take, "ended": ended},
            )
            greedy.start()
            sample = _slow_pieces(others, ended)
            greedy.join()
            return sample

        for _ in range(plan.repetitions):
            over = threading.Event()
            threading.Timer(0.01 if plan.tiny else 2.0, over.set).start()
            alone.append(_slow_pieces(others, over))
            busy.append(beside("processor"))
            samples.append(beside("memory"))
    name = "99 of 100 pieces beside sessions that"
    return [
        measure.Row(f"{name} compute", "ms", busy, "alone", alone),
        measure.Row(f"{name} take all", "ms", samples, "that compute", busy),
    ]


def _take(
    host: harness.Host,
    agent: service.Agent,
    generations: Iterator[int],
    *,
    take: str,
    ended: threading.Event,
) -> None:
    try:
        for generation in generations:
            code = sessions.take_memory(host, agent, generation, take)
            if code != codes.OUT_OF_MEMORY:
                raise RuntimeError(f"the session ended with {code}")
    finally:
        ended.set()


def _slow_pieces(
    client: worker_harness.Client, ended: threading.Event
) -> measure.Sample:
    """Measure what 99 of 100 pieces take at most, until an event."""
    data = bytes(range(256)) * 16
    times_s = []
    with measure.stopwatch() as watch:
        while not ended.is_set() or len(times_s) < 2:
            start_s = time.perf_counter()
            if client.run(data) != data:
                raise RuntimeError("the output is wrong")
            times_s.append(time.perf_counter() - start_s)
    worst_s = statistics.quantiles(times_s, n=100, method="inclusive")[-1]
    return measure.Sample(1e3 * worst_s, watch.wall_s, watch.cpu_s)


def _streams(
    stack: contextlib.ExitStack, transport: str, plan: measure.Plan
) -> measure.Row:
    chunks = 4 if plan.tiny else 128
    doors = {
        one: stack.enter_context(slot.opened(transport, isolation=one))
        for one in (_WITH, _WITHOUT)
    }
    data, into = (slot.memory(chunks * slot.CHUNK_BYTES) for _ in range(2))
    return _row(
        f"stream through copy, {transport}",
        "MB/s",
        plan,
        lambda one: slot.run(doors[one], "copy", data, into),
    )


def _tasks(stack: contextlib.ExitStack, plan: measure.Plan) -> measure.Row:
    count = 50 if plan.tiny else 5000
    groups = {
        one: stack.enter_context(
            stack.enter_context(group.opened(1, 1, isolation=one)).open(0)
        )
        for one in (_WITH, _WITHOUT)
    }
    data = bytes(64)
    return _row(
        "a task of a group",
        opener.UNIT,
        plan,
        lambda one: opener.timed(
            lambda: groups[one].run(data), count
        ).median(),
    )


def _opens(stack: contextlib.ExitStack, plan: measure.Plan) -> measure.Row:
    count = 4 if plan.tiny else 300
    doors = {}
    for one in (_WITH, _WITHOUT):
        cloud = stack.enter_context(
            servers.running_cloud(
                clouds.HostPlan("board", slots=1),
                options={"agent": {"isolation": one}},
            )
        )
        doors[one] = cloud.hosts["board"].socket_path(clouds.PROJECT)
    return _row(
        "open and close",
        opener.UNIT,
        plan,
        lambda one: opener.timed(
            lambda: opener.open_and_close(doors[one]), count
        ).median(),
    )
