# SPDX-License-Identifier: Apache-2.0

"""Tasks of a group, beside a session of its own and a bare relay."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool import client
from tests.benchmarks import group
from tests.benchmarks import measure
from tests.benchmarks import plain_relay
from tests.benchmarks import slot
from tests.benchmarks import usage

TITLE = "Tasks through a group"
SERVICES = True
#: Values may be 0 or less.
DIFFERENCES = True

_LENGTH_BYTES = 64
_CLIENTS = 8
_MEMBERS = 4


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """One task at a time, and eight clients at once."""
    yield from _latency(plan)
    yield from _throughput(plan)


def _latency(plan: measure.Plan) -> Iterator[measure.Row]:
    count = 50 if plan.tiny else 5000
    data = bytes(_LENGTH_BYTES)
    with contextlib.ExitStack() as stack:
        parts = stack.enter_context(plain_relay.Parts())
        pool = stack.enter_context(group.opened(1, 1))
        door = stack.enter_context(slot.opened("shm"))
        session = stack.enter_context(
            client.acc_open("copy", 1, front_door=door.path)
        )
        ours = stack.enter_context(pool.open(0))
        direct = plain_relay.open_channel(parts.echo())
        stack.callback(direct.close)
        relayed = plain_relay.open_channel(*parts.relay(1, [parts.echo()]))
        stack.callback(relayed.close)
        pids = [*parts.pids, *pool.pids, door.worker.process.pid]
        runs: dict[str, Callable[[], object]] = {
            "direct": lambda: plain_relay.run(direct, data),
            "relayed": lambda: plain_relay.run(relayed, data),
            "session": lambda: session.run(_LENGTH_BYTES),
            "group": lambda: ours.run(data),
        }
        found: dict[str, list[measure.Sample]] = {name: [] for name in runs}
        for _ in range(plan.repetitions):
            for name, run in runs.items():
                found[name].append(
                    _sampled(pids, functools.partial(_median_us, run, count))
                )
    size = f"{_LENGTH_BYTES} B, one at a time"
    yield measure.Row(
        f"{size}, through a group",
        "µs/task",
        found["group"],
        "on a session of its own",
        found["session"],
    )
    yield measure.Row(
        f"{size}, added by a group",
        "µs/task",
        _differences(found["group"], found["session"]),
        "added by a bare relay",
        _differences(found["relayed"], found["direct"]),
    )


def _throughput(plan: measure.Plan) -> Iterator[measure.Row]:
    count = 20 if plan.tiny else 5000
    tasks = count * _CLIENTS
    with contextlib.ExitStack() as stack:
        parts = stack.enter_context(plain_relay.Parts())
        pool = stack.enter_context(group.opened(_MEMBERS, _CLIENTS))
        ends = parts.relay(_CLIENTS, [parts.echo() for _ in range(_MEMBERS)])
        plain = [parts.client(end, _LENGTH_BYTES) for end in ends]
        ours = [
            pool.client(number, _LENGTH_BYTES) for number in range(_CLIENTS)
        ]
        # In the order in which they were started.
        echoes, relay = parts.pids[:_MEMBERS], parts.pids[_MEMBERS]
        desk, members = pool.pids[0], pool.pids[1 : _MEMBERS + 1]
        sides = {
            "clients": (
                pool.pids[-_CLIENTS:],
                "plain clients",
                parts.pids[-_CLIENTS:],
            ),
            "desk": ([desk], "bare relay", [relay]),
            "members": (members, "workers that echo", echoes),
        }
        floors = [_Rates() for _ in range(plan.repetitions)]
        samples = [_Rates() for _ in range(plan.repetitions)]
        for floor, sample in zip(floors, samples, strict=True):
            floor.run(plain, count, parts.pids)
            sample.run(ours, count, pool.pids)
    size = f"{_LENGTH_BYTES} B, {_CLIENTS} clients, group of {_MEMBERS}"
    yield measure.Row(
        size,
        "tasks/s",
        [one.rate for one in samples],
        "bare relay and workers that echo",
        [one.rate for one in floors],
    )
    for side, (pids, plain_side, plain_pids) in sides.items():
        yield measure.Row(
            f"{size}, processor time of the {side}",
            "µs/task",
            [one.cost_us(pids, tasks) for one in samples],
            plain_side,
            [one.cost_us(plain_pids, tasks) for one in floors],
        )
    yield measure.Row(
        f"{size}, processor time of all",
        "µs/task",
        [one.cost_us(pool.pids, tasks) for one in samples],
        "all of the bare relay",
        [one.cost_us(parts.pids, tasks) for one in floors],
    )


class _Rates:
    """One run of all clients, and what each process took for it."""

    rate: measure.Sample

    def run(
        self,
        clients: list[plain_relay.Client],
        count: int,
        pids: list[int],
    ) -> None:
        """Let each client run so many tasks."""
        before = {pid: usage.cpu_s(pid) for pid in pids}
        started_s = time.perf_counter()
        value = plain_relay.rate(clients, count)
        wall_s = time.perf_counter() - started_s
        self._cpu_s = {pid: usage.cpu_s(pid) - before[pid] for pid in pids}
        self.rate = measure.Sample(value, wall_s, sum(self._cpu_s.values()))

    def cost_us(self, pids: list[int], tasks: int) -> measure.Sample:
        """Return the processor time of some processes for a task."""
        cpu_s = sum(self._cpu_s[pid] for pid in pids)
        return measure.Sample(1e6 * cpu_s / tasks, self.rate.wall_s, cpu_s)


def _median_us(run: Callable[[], object], count: int) -> float:
    taken_s = []
    for _ in range(count):
        started_s = time.perf_counter()
        run()
        taken_s.append(time.perf_counter() - started_s)
    return 1e6 * statistics.median(taken_s)


def _sampled(pids: list[int], run: Callable[[], float]) -> measure.Sample:
    meter = usage.Meter(*pids)
    value = run()
    whole = meter.rate(1)
    return measure.Sample(value, whole.wall_s, whole.cpu_s)


def _differences(
    more: list[measure.Sample], less: list[measure.Sample]
) -> list[measure.Sample]:
    return [
        measure.Sample(one.value - two.value, one.wall_s, one.cpu_s)
        for one, two in zip(more, less, strict=True)
    ]
