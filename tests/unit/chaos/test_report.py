# SPDX-License-Identifier: Apache-2.0

"""One table of several runs."""

from __future__ import annotations

import dataclasses

from tests.chaos import measure
from tests.chaos import report


def row(title: str, **members: object) -> dict[str, object]:
    made = measure.Row(title, **members)  # type: ignore[arg-type]
    return dataclasses.asdict(made)


def test_rows_of_several_runs_are_added_up() -> None:
    first = row(
        "worker-kill",
        times=1,
        down_s=[1.0],
        recovery_s=[2.0],
        jobs=5,
        lost_stateful=1,
        codes={"WORKER_DIED": 1},
    )
    second = row(
        "worker-kill",
        times=2,
        down_s=[3.0, 4.0],
        unrecovered=1,
        jobs=6,
        codes={"WORKER_DIED": 2, "TIMEOUT": 1},
    )
    other = row("api-kill", times=1)
    api, worker = report.together([[first], [second, other]])
    assert api.title == "api-kill"
    assert worker == measure.Row(
        "worker-kill",
        times=3,
        down_s=[1.0, 3.0, 4.0],
        recovery_s=[2.0],
        unrecovered=1,
        jobs=11,
        lost_stateful=1,
        codes={"WORKER_DIED": 3, "TIMEOUT": 1},
    )


def test_cells_show_the_mean_and_the_worst() -> None:
    (total,) = report.together(
        [[row("x", times=1, down_s=[1.0])], [row("x", times=1, down_s=[2.0])]]
    )
    assert report.cells(total)[:4] == ["x", "2", "0.0", "1.5 (2.0)"]
