# SPDX-License-Identifier: Apache-2.0

"""The metrics against worked examples, and against what they mean."""

import dataclasses
import json
import pathlib
import typing

import pytest

from fpgapool.sim.outcomes import metrics

CASES = sorted((pathlib.Path(__file__).parents[2] / "cases").glob("*.json"))

JOB = metrics.JobResult(
    job_id="1",
    origin="a",
    size_bytes=10,
    arrival_s=1,
    start_s=2,
    finish_s=5,
    host="a",
    device="board0",
    slot=0,
    local=True,
)


def schedules() -> list[typing.Any]:
    """Every schedule of every case, with the metrics that it must have."""
    found = []
    for path in CASES:
        case = json.loads(path.read_text())
        for strategy, expected in case["expected"].items():
            found.append(
                pytest.param(
                    case["jobs"], expected, id=f"{path.stem}-{strategy}"
                )
            )
    return found


def results_of(jobs: list, placed: list) -> list[metrics.JobResult]:
    """Join a case's jobs with where and when they ran."""
    by_id = {job["id"]: job for job in jobs}
    return [
        metrics.JobResult(
            job_id=str(row["id"]),
            origin=str(by_id[row["id"]]["host"]),
            size_bytes=by_id[row["id"]]["size_bytes"],
            arrival_s=by_id[row["id"]]["arrival_s"],
            start_s=row["start_s"],
            finish_s=row["finish_s"],
            host=str(row["host"]),
            device="board0",
            slot=row["slot"],
            local=row["local"],
        )
        for row in placed
    ]


def test_there_are_cases() -> None:
    assert len(CASES) >= 5


@pytest.mark.parametrize(("jobs", "expected"), schedules())
def test_worked_examples(jobs: list, expected: dict) -> None:
    measured = metrics.measure(results_of(jobs, expected["jobs"]))
    assert measured.jobs == len(jobs)
    for name, value in expected["metrics"].items():
        # What the cases write is rounded.
        assert getattr(measured, name) == pytest.approx(value, rel=1e-6)


def make(*completions_s: float) -> list[metrics.JobResult]:
    """Jobs that arrive at 0, wait for half of their time and run."""
    return [
        dataclasses.replace(
            JOB, arrival_s=0, start_s=each_s / 2, finish_s=each_s
        )
        for each_s in completions_s
    ]


def test_percentiles_are_interpolated() -> None:
    measured = metrics.measure(make(10, 20, 30, 40, 50))
    assert measured.p50_s == pytest.approx(30)
    assert measured.tct95_s == pytest.approx(48)
    assert measured.p99_s == pytest.approx(49.6)


def test_waits_are_the_time_without_a_slot() -> None:
    measured = metrics.measure(make(10, 20, 30, 40, 50))
    assert measured.wait_mean_s == pytest.approx(15)
    assert measured.wait_p95_s == pytest.approx(24)
    assert measured.wait_p99_s == pytest.approx(24.8)


def test_order_does_not_matter() -> None:
    assert metrics.measure(make(1, 2, 7)) == metrics.measure(make(7, 1, 2))


def test_access_ratio_is_a_mean_of_ratios() -> None:
    jobs = [
        dataclasses.replace(JOB, arrival_s=0, start_s=0, finish_s=100),
        dataclasses.replace(JOB, arrival_s=0, start_s=3, finish_s=4),
    ]
    assert metrics.measure(jobs).sar == pytest.approx((1 + 0.25) / 2)


def test_locality_is_weighed_by_bytes() -> None:
    remote = dataclasses.replace(JOB, size_bytes=30, local=False, host="b")
    assert metrics.measure([JOB, remote]).dlr == pytest.approx(0.25)


def test_makespan_counts_from_zero() -> None:
    later = dataclasses.replace(JOB, arrival_s=50, start_s=51, finish_s=52)
    assert metrics.measure([later, JOB]).makespan_s == 52


def test_improvement_is_above_one_where_it_is_better() -> None:
    before = metrics.measure(make(20, 40))
    after = metrics.measure(make(10, 10))
    found = metrics.improvement(before, after)
    assert found.act == pytest.approx(3)
    assert found.tct95 == pytest.approx(3.9)
    assert found.makespan == pytest.approx(4)
    assert found.wait_mean == pytest.approx(3)
    assert found.wait_p95 == pytest.approx(3.9)
    assert found.sar == found.dlr == pytest.approx(1)
    assert metrics.improvement(after, before).act == pytest.approx(1 / 3)


def test_improvement_of_shares() -> None:
    before = dataclasses.replace(metrics.measure([JOB]), sar=0.2, dlr=0.1)
    after = dataclasses.replace(before, sar=0.1, dlr=0.4)
    found = metrics.improvement(before, after)
    assert (found.sar, found.dlr) == (pytest.approx(0.5), pytest.approx(4))


def test_improvement_on_no_locality_at_all() -> None:
    some = metrics.measure([JOB])
    none = dataclasses.replace(some, dlr=0.0)
    assert metrics.improvement(none, some).dlr == float("inf")
    assert metrics.improvement(none, none).dlr == 1


def test_nothing_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="no jobs"):
        metrics.measure([])
