# SPDX-License-Identifier: Apache-2.0

"""Clients that do the same again and again, all at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks import measure

# One interpreter would be busier than the pool.
_PROCESSES = 2
_LIMIT_S = 120


def act_for(
    action: Callable[[], Any], clients: int, duration_s: float
) -> tuple[measure.Sample, list[Any]]:
    """Let clients act for a while.

    :param action: it must be possible to pickle it; each client's is the next
        one when it returns.
    :returns: how often they acted in a second, and what the actions returned.
    """
    # Spawned, since a fork copies locks that other threads hold.
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(_PROCESSES)
    with contextlib.ExitStack() as stack:
        pipes = []
        for _ in range(_PROCESSES):
            ours, theirs = context.Pipe()
            arguments = (theirs, begin, action, clients // _PROCESSES)
            process = context.Process(
                target=_work, args=(*arguments, duration_s)
            )
            process.start()
            stack.callback(process.join)
            pipes.append(ours)
        parts = []
        for pipe in pipes:
            if not pipe.poll(_LIMIT_S):
                raise RuntimeError("the clients do not come to an end")
            parts.append(pipe.recv())
    results = [result for part in parts for result in part[0]]
    wall_s = max(part[1] for part in parts)
    cpu_s = sum(part[2] for part in parts)
    return measure.Sample(len(results) / wall_s, wall_s, cpu_s), results


def _work(
    pipe: Any,
    begin: Any,
    action: Callable[[], Any],
    clients: int,
    duration_s: float,
) -> None:
    """Be some of the clients, in a process of their own."""
    results: list[Any] = []
    action()
    begin.wait(_LIMIT_S)
    with measure.stopwatch() as watch:
        ends_s = time.monotonic() + duration_s

        def act() -> None:
            while time.monotonic() < ends_s:
                results.append(action())

        threads = [threading.Thread(target=act) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    pipe.send((results, watch.wall_s, watch.cpu_s))
