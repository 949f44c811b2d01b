# SPDX-License-Identifier: Apache-2.0

"""Jobs are asked for in their time, and none any more when one fails."""

import concurrent.futures
import dataclasses
import pathlib
import threading
import typing

import pytest

from demo import errors
from demo import execution
from demo import workload
from fpgapool import client
from tests.harness import threads
from tests.harness import waiting

DOORS = {"node1": "/door1", "node2": "/door2"}
#: Nobody waits that long.
NEVER_S = 3600.0
#: Only reached where something is wrong.

FIELDS = dataclasses.fields(client.RunReport)
REPORT = {
    "waited_s": 0.5,
    "ran_s": 1.5,
    "input_bytes": 10,
    "host": "node2",
    "device": "board0",
    "slot": 3,
    "local": False,
}


class Display:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def submitted(self, job: workload.Job) -> None:
        self.events.append(("submitted", job.number))

    def progress(self, job: workload.Job, done_bytes: int) -> None:
        self.events.append(("progress", job.number))

    def finished(self, job: workload.Job, report: client.RunReport) -> None:
        self.events.append(("finished", job.number))


class Pool:
    """Stands for the client library, and ends every job at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, object]] = []
        self.error: Exception | None = None
        monkeypatch.setattr(client, "run_file", self._run_file)

    def _run_file(
        self,
        accelerator: str,
        _source: pathlib.Path,
        _output: pathlib.Path,
        **options: object,
    ) -> client.RunReport:
        self.asked.append(
            (accelerator, str(options["front_door"]), options["params"])
        )
        if self.error is not None:
            raise self.error
        # What else a report has does not matter here.
        rest = {field.name: None for field in FIELDS}
        return client.RunReport(**{**rest, **REPORT})


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    return Pool(monkeypatch)


def make_job(number: int, arrival_s: float = 0.0) -> workload.Job:
    path = pathlib.Path(f"job{number}")
    return workload.Job(
        number=number,
        host="node1",
        accelerator="fft",
        params={"frame_samples": number},
        source=path,
        output=path,
        size_bytes=10,
        arrival_s=arrival_s,
    )


def test_jobs_are_asked_for_in_their_time(pool: Pool) -> None:
    jobs = [make_job(1, 0.3), make_job(2), make_job(3, 0.15)]
    display = Display()
    outcomes = execution.run_jobs(jobs, DOORS, display)
    assert [outcome.job for outcome in outcomes] == jobs
    for outcome in outcomes:
        assert outcome.arrival_s >= outcome.job.arrival_s
    for number in (1, 2, 3):
        assert ("fft", "/door1", {"frame_samples": number}) in pool.asked
        assert display.events.index(
            ("submitted", number)
        ) < display.events.index(("finished", number))


def test_results_count_from_the_start_of_all(pool: Pool) -> None:
    (outcome,) = execution.run_jobs([make_job(4, 0.1)], DOORS, Display())
    result = outcome.result()
    assert (result.job_id, result.kind, result.origin) == ("4", "fft", "node1")
    assert (result.host, result.slot, result.local) == ("node2", 3, False)
    assert result.arrival_s >= 0.1
    assert result.start_s == pytest.approx(result.arrival_s + 0.5)
    assert result.finish_s == pytest.approx(result.start_s + 1.5)


def test_failure_keeps_back_what_is_to_come(pool: Pool) -> None:
    pool.error = client.SessionFailed("CORE_FAILED", "it broke")
    begun = threads.NewThreads()
    with pytest.raises(errors.DemoError, match="job 1 from node1") as caught:
        execution.run_jobs(
            [make_job(1), make_job(2, NEVER_S)], DOORS, Display()
        )
    assert caught.value.code == errors.JOB_FAILED
    assert len(pool.asked) == 1
    assert begun.count() == 0


def test_interrupt_while_jobs_are_submitted_cancels_them(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job that has started would wait for its pool for ever."""
    started, cancelled = threading.Event(), threading.Event()

    def wait_for_slot(*_args: object, **options: typing.Any) -> None:
        started.set()
        try:
            options["cancel"].wait(waiting.LIMIT_S)
        except client.Cancelled:
            cancelled.set()
            raise

    submit = concurrent.futures.ThreadPoolExecutor.submit

    def interrupted(*args: typing.Any, **options: typing.Any) -> None:
        submit(*args, **options)
        assert started.wait(waiting.LIMIT_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "run_file", wait_for_slot)
    monkeypatch.setattr(
        concurrent.futures.ThreadPoolExecutor, "submit", interrupted
    )
    with pytest.raises(KeyboardInterrupt):
        execution.run_jobs([make_job(1), make_job(2)], DOORS, Display())
    assert cancelled.is_set()
