# SPDX-License-Identifier: Apache-2.0

"""Sessions that many clients open at once, beside bare calls of as many."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Iterator

from tests.benchmarks import bare_rpc
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.harness import cloud as clouds

TITLE = "sessions opened and closed by 32 clients at once, RabbitMQ, MariaDB"
SERVICES = True
UNIT = "1/s"

_CLIENTS = 32
_FEW_CLIENTS = 4
# One interpreter would be busier than the pool.
_PROCESSES = 2
_LIMIT_S = 120


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure; each client opens and closes in a loop."""
    clients = _FEW_CLIENTS if plan.tiny else _CLIENTS
    duration_s = 0.3 if plan.tiny else 6.0
    calls = 5 if plan.tiny else 100
    samples, floor_samples = [], []
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(
            servers.running_cloud(clouds.HostPlan("board", slots=clients))
        )
        bare = stack.enter_context(bare_rpc.running(cloud.transport_url))
        door = cloud.hosts["board"].socket_path()
        _open_for(door, clients, duration_s / 2)
        for _ in range(plan.repetitions):
            floor_samples.append(_call(bare, clients, calls))
            samples.append(_open_for(door, clients, duration_s))
    yield measure.Row(
        name=f"{clients} clients",
        unit=UNIT,
        samples=samples,
        floor=f"calls of {clients} threads",
        floor_samples=floor_samples,
    )


def _call(bare: bare_rpc.Client, threads: int, count: int) -> measure.Sample:
    with measure.stopwatch() as watch:
        bare_rpc.calls_in_threads(bare, threads, count)
    rate = threads * count / watch.wall_s
    return measure.Sample(rate, watch.wall_s, watch.cpu_s)


def _open_for(
    front_door: str, clients: int, duration_s: float
) -> measure.Sample:
    """Let clients open and close for a while."""
    # Spawned, since a fork copies locks that other threads hold.
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(_PROCESSES)
    with contextlib.ExitStack() as stack:
        pipes = []
        for _ in range(_PROCESSES):
            ours, theirs = context.Pipe()
            arguments = (theirs, begin, front_door, clients // _PROCESSES)
            process = context.Process(
                target=_work, args=(*arguments, duration_s)
            )
            process.start()
            stack.callback(process.join)
            pipes.append(ours)
        results = []
        for pipe in pipes:
            if not pipe.poll(_LIMIT_S):
                raise RuntimeError("the clients do not come to an end")
            results.append(pipe.recv())
    count = sum(result[0] for result in results)
    wall_s = max(result[1] for result in results)
    cpu_s = sum(result[2] for result in results)
    return measure.Sample(count / wall_s, wall_s, cpu_s)


def _work(
    pipe: object,
    begin: object,
    front_door: str,
    clients: int,
    duration_s: float,
) -> None:
    """Be some of the clients, in a process of their own."""
    counts = [0] * clients
    opener.open_and_close(front_door)
    begin.wait(_LIMIT_S)
    with measure.stopwatch() as watch:
        ends_s = time.monotonic() + duration_s

        def open_and_close(number: int) -> None:
            while time.monotonic() < ends_s:
                opener.open_and_close(front_door)
                counts[number] += 1

        threads = [
            threading.Thread(target=open_and_close, args=(number,))
            for number in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    pipe.send((sum(counts), watch.wall_s, watch.cpu_s))
