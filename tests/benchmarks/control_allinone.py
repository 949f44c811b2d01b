# SPDX-License-Identifier: Apache-2.0

"""Opening and closing a session of the all-in-one pool."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.functional.allinone import harness

TITLE = "acc_open and acc_close, a slot is free, all in one process"
SERVICES = True

_WARM_UP = 50


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure the pool that the command makes if it is told nothing."""
    count = 3 if plan.tiny else 300
    size = harness.SMALL if plan.tiny else ("--unlimited",)
    with harness.running_pool(*size) as pool:
        door = pool.front_door()
        for _ in range(0 if plan.tiny else _WARM_UP):
            opener.open_and_close(door)
        opens = [
            opener.timed(lambda: opener.open_and_close(door), count)
            for _ in range(plan.repetitions)
        ]
    yield measure.Row(
        name="open and close, all in one",
        unit=opener.UNIT,
        samples=[one.median() for one in opens],
    )
    yield measure.Row(
        name="open and close, all in one, p99",
        unit=opener.UNIT,
        samples=[one.percentile_99() for one in opens],
    )
