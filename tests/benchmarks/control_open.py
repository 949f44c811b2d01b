# SPDX-License-Identifier: Apache-2.0

"""Opening and closing a session over RabbitMQ, beside one bare call."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from tests.benchmarks import bare_rpc
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.harness import cloud as clouds

TITLE = "acc_open and acc_close, a slot is free, RabbitMQ"
SERVICES = True
FLOOR = "a call"

_SLOTS = 4
_WARM_UP = 5 * _SLOTS


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure on each database."""
    yield from _rows(plan, "MariaDB", None)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "pool.sqlite"
        yield from _rows(plan, "SQLite", f"sqlite:///{path}")


def _rows(
    plan: measure.Plan, name: str, database: str | None
) -> Iterator[measure.Row]:
    count = 3 if plan.tiny else 300
    opens, calls = [], []
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(
            servers.running_cloud(
                clouds.HostPlan("board", slots=_SLOTS), database=database
            )
        )
        bare = stack.enter_context(bare_rpc.running(cloud.transport_url))
        door = cloud.hosts["board"].socket_path()
        for _ in range(_WARM_UP):
            opener.open_and_close(door)
        for _ in range(plan.repetitions):
            calls.append(opener.timed(bare.call, count))
            opens.append(
                opener.timed(lambda: opener.open_and_close(door), count)
            )
    yield measure.Row(
        name=f"open and close, {name}",
        unit=opener.UNIT,
        samples=[one.median() for one in opens],
        floor=FLOOR,
        floor_samples=[one.median() for one in calls],
    )
    yield measure.Row(
        name=f"open and close, {name}, p99",
        unit=opener.UNIT,
        samples=[one.percentile_99() for one in opens],
        floor=f"{FLOOR}, p99",
        floor_samples=[one.percentile_99() for one in calls],
    )
