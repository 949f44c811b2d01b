# SPDX-License-Identifier: Apache-2.0

"""Draws the arrival times of batches from the clients of groups.

A seed determines everything. Each client has its own random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios

#: More tasks would not fit into memory.
MOST_TASKS = 20_000_000


def load_end_s(groups: Sequence[scenarios.Group]) -> float | None:
    """Return when the last load ends; None: no client has a load."""
    ends_s = [
        math.fsum(length_s for length_s, _ in client.load)
        for group in groups
        for client in group.clients
        if client.load is not None
    ]
    return max(ends_s, default=None)


def draw(
    groups: Sequence[scenarios.Group], seed: int, source: str
) -> list[list[list[float]]]:
    """Return the arrival times of batches in order, by group and client.

    :raises errors.InputError: if there are too many tasks.
    """
    count = sum(len(group.clients) for group in groups)
    streams = iter(np.random.SeedSequence(seed).spawn(count))
    tasks = 0
    found: list[list[list[float]]] = []
    for at, group in enumerate(groups):
        found.append([])
        for client_at, client in enumerate(group.clients):
            stream = next(streams)
            tasks += _expected_tasks(client)
            if tasks > MOST_TASKS:
                raise errors.InputError(
                    source,
                    f"groups[{at}].clients[{client_at}]",
                    "this client and those before it send more than "
                    f"{MOST_TASKS:.0e} tasks in total",
                )
            found[-1].append(_arrivals_s(client, stream))
    return found


def _expected_tasks(client: scenarios.GroupClient) -> int:
    if client.load is None:
        return client.batch_tasks * len(client.arrivals_s or ())
    work_s = math.fsum(length_s * slots for length_s, slots in client.load)
    return math.ceil(min(work_s / client.task_s, 2 * MOST_TASKS))


def _arrivals_s(
    client: scenarios.GroupClient, seed: np.random.SeedSequence
) -> list[float]:
    if client.load is None:
        return sorted(client.arrivals_s or ())
    # A Poisson process of rate 1 on the scale of expected batches, converted
    # to times.
    edges_s = np.cumsum([0.0, *(length_s for length_s, _ in client.load)])
    batch_s = client.task_s * client.batch_tasks
    batches = np.cumsum(
        [0.0, *(each[0] * each[1] / batch_s for each in client.load)]
    )
    random = np.random.Generator(np.random.PCG64(seed))
    found: list[float] = []
    at = 0.0
    while at < batches[-1]:
        gaps = -np.log1p(-random.random(1000))
        some = at + np.cumsum(gaps)
        at = float(some[-1])
        found += np.interp(some[some < batches[-1]], batches, edges_s).tolist()
    return found
