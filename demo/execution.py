# SPDX-License-Identifier: Apache-2.0

"""Runs all jobs, each at its time, through the front door of its host."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import time
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from demo import errors
from demo import workload
from fpgapool import client
from fpgapool.sim.outcomes import metrics


class Display(typing.Protocol):
    """Shows the progress of jobs; its methods are called in many threads."""

    def submitted(self, job: workload.Job) -> None:
        """A job has arrived."""

    def progress(self, job: workload.Job, done_bytes: int) -> None:
        """Some of a job's input has been processed."""

    def finished(self, job: workload.Job, report: client.RunReport) -> None:
        """A job is done."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A finished job; times count from the start of the run.

    :ivar arrival_s: when the demo asked for it.
    """

    job: workload.Job
    report: client.RunReport
    arrival_s: float

    def result(self) -> metrics.JobResult:
        """Return the job for the metrics."""
        report = self.report
        start_s = self.arrival_s + report.waited_s
        return metrics.JobResult(
            job_id=str(self.job.number),
            kind=self.job.accelerator,
            origin=self.job.host,
            size_bytes=report.input_bytes,
            arrival_s=self.arrival_s,
            start_s=start_s,
            finish_s=start_s + report.ran_s,
            host=str(report.host),
            device=str(report.device),
            slot=report.slot or 0,
            local=report.local,
        )


def run_jobs(
    jobs: Sequence[workload.Job],
    front_doors: Mapping[str, str],
    display: Display,
) -> list[Outcome]:
    """Run all jobs, each from its arrival on; stop all when one fails.

    :param jobs: the jobs.
    :param front_doors: socket of each host's front door.
    :param display: shows the progress.
    :returns: their outcomes, in the order of the jobs.
    :raises DemoError: if a job fails.
    """
    cancel = client.CancelToken()
    started_s = time.monotonic()

    def run(job: workload.Job) -> Outcome:
        cancel.wait(max(0.0, started_s + job.arrival_s - time.monotonic()))
        arrival_s = time.monotonic() - started_s
        display.submitted(job)
        report = client.run_file(
            job.accelerator,
            job.source,
            job.output,
            params=job.params,
            front_door=front_doors[job.host],
            progress=lambda done_bytes, _all: display.progress(
                job, done_bytes
            ),
            cancel=cancel,
        )
        display.finished(job, report)
        return Outcome(job, report, arrival_s)

    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as executor:
        try:
            # An interrupt during submission cancels the jobs, too.
            futures = [executor.submit(run, job) for job in jobs]
            concurrent.futures.wait(
                futures, return_when=concurrent.futures.FIRST_EXCEPTION
            )
        finally:
            # If all went well, this changes nothing.
            cancel.cancel()
    _raise_failure(jobs, futures)
    return [future.result() for future in futures]


def _raise_failure(
    jobs: Sequence[workload.Job],
    futures: Sequence[concurrent.futures.Future[Outcome]],
) -> None:
    failures = [
        (job, error)
        for job, future in zip(jobs, futures, strict=True)
        if (error := future.exception()) is not None
    ]
    # Cancelled jobs come last: another failure is the cause.
    failures.sort(key=lambda item: isinstance(item[1], client.Cancelled))
    for job, error in failures:
        raise errors.DemoError(
            errors.JOB_FAILED, f"job {job.number} from {job.host}: {error}"
        ) from error
