# SPDX-License-Identifier: Apache-2.0

"""What it costs that workers and desks give up what they do not need."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from unittest import mock

from tests.benchmarks import group
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.benchmarks import slot
from tests.functional.agent import harness
from tests.harness import cloud as clouds

TITLE = "Workers and desks with walls, and without"
SERVICES = True
FLOOR = "without"

_WITH, _WITHOUT = "preferred", "none"


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Starts, streams, tasks of a group, and opens."""
    slots = 2 if plan.tiny else 16
    yield _row(
        f"start of {slots} workers", "ms", plan, lambda one: _start(one, slots)
    )
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
