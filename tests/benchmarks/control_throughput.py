# SPDX-License-Identifier: Apache-2.0

"""Sessions that many clients open at once, beside bare calls of as many."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from tests.benchmarks import bare_rpc
from tests.benchmarks import crowd
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.harness import cloud as clouds

TITLE = "sessions opened and closed by 32 clients at once, RabbitMQ, MariaDB"
SERVICES = True
UNIT = "1/s"

_CLIENTS = 32
_FEW_CLIENTS = 4


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
    action = functools.partial(opener.open_and_close, front_door)
    sample, _ = crowd.act_for(action, clients, duration_s)
    return sample
