# SPDX-License-Identifier: Apache-2.0

"""Output of the demo: bars, tables and lines."""

from __future__ import annotations

import contextlib
import threading
import types
import typing
from collections.abc import Sequence

import rich.console
import rich.markup
import rich.progress
import rich.table

from demo import execution
from demo import workload
from fpgapool import client
from fpgapool.sim.outcomes import metrics


class LiveDisplay:
    """Bars on a terminal: one for all jobs, and one for each running job."""

    def __init__(
        self, console: rich.console.Console, jobs: Sequence[workload.Job]
    ) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._submitted = 0
        self._done = 0
        self._tasks: dict[int, rich.progress.TaskID] = {}
        self._done_bytes = {job.number: 0 for job in jobs}
        self._bars = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.DownloadColumn(),
            rich.progress.TransferSpeedColumn(),
            console=console,
            transient=True,
        )
        self._all = self._bars.add_task(
            self._description(), total=sum(job.size_bytes for job in jobs)
        )

    def __enter__(self) -> typing.Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: types.TracebackType | None,
    ) -> None:
        self._bars.stop()

    def submitted(self, job: workload.Job) -> None:
        """Count it."""
        with self._lock:
            self._submitted += 1
            self._update_all()

    def progress(self, job: workload.Job, done_bytes: int) -> None:
        """Move the bars."""
        with self._lock:
            if job.number not in self._tasks:
                self._tasks[job.number] = self._bars.add_task(
                    f"job {job.number} from {job.host}", total=job.size_bytes
                )
            self._bars.update(self._tasks[job.number], completed=done_bytes)
            self._done_bytes[job.number] = done_bytes
            self._update_all()

    def finished(self, job: workload.Job, report: client.RunReport) -> None:
        """Remove a job's bar."""
        with self._lock:
            self._done += 1
            task = self._tasks.pop(job.number, None)
            if task is not None:
                self._bars.remove_task(task)
            self._done_bytes[job.number] = report.input_bytes
            self._update_all()

    def _update_all(self) -> None:
        self._bars.update(
            self._all,
            completed=sum(self._done_bytes.values()),
            description=self._description(),
        )

    def _description(self) -> str:
        running = len(self._tasks)
        waiting = self._submitted - self._done - running
        text = f"{waiting} waiting, {running} running, {self._done} done"
        to_come = len(self._jobs) - self._submitted
        return f"{to_come} to come, {text}" if to_come else text


class PlainDisplay:
    """Lines about finished jobs, for pipes and log files.

    :param console: where to write them.
    :param jobs: all jobs.
    :param each: number of jobs between two lines.
    """

    def __init__(
        self,
        console: rich.console.Console,
        jobs: Sequence[workload.Job],
        each: int,
    ) -> None:
        self._console = console
        self._each = each
        self._total = len(jobs)
        self._lock = threading.Lock()
        self._done = 0

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def submitted(self, job: workload.Job) -> None:
        """Show nothing."""

    def progress(self, job: workload.Job, done_bytes: int) -> None:
        """Show nothing; a line for every chunk would be too much."""

    def finished(self, job: workload.Job, report: client.RunReport) -> None:
        """Write a line, if it is time for one."""
        with self._lock:
            self._done += 1
            if self._done % self._each and self._done < self._total:
                return
            self._console.print(
                f"  {self._done:3}/{self._total} done: job {job.number},"
                f" {job.host} → {_slot_text(report)},"
                f" {job.size_bytes / 1e6:.1f} MB,"
                f" waited {report.waited_s:.1f} s, ran {report.ran_s:.1f} s"
            )


def make_display(
    console: rich.console.Console,
    jobs: Sequence[workload.Job],
    each: int = 1,
) -> LiveDisplay | PlainDisplay:
    """Return the display that suits the console.

    :param console: where to show it.
    :param jobs: the jobs.
    :param each: number of jobs between two lines in a pipe or log file.
    """
    if console.is_terminal:
        return LiveDisplay(console, jobs)
    return PlainDisplay(console, jobs, each)


def _slot_text(report: client.RunReport) -> str:
    return f"{report.host} {report.device} slot {report.slot}"


def _place_text(local: bool) -> str:
    return "local" if local else "remote"


def show_jobs(
    console: rich.console.Console, outcomes: Sequence[execution.Outcome]
) -> None:
    """Write the table of the jobs, all of them verified.

    :param console: where to write.
    :param outcomes: of the jobs.
    """
    table = rich.table.Table(title="Jobs", title_justify="left", box=None)
    for name, justify in (
        ("job", "right"),
        ("from", "left"),
        ("file", "left"),
        ("MB", "right"),
        ("slot", "left"),
        ("data", "left"),
        ("waited s", "right"),
        ("ran s", "right"),
        ("MB/s", "right"),
        ("verified", "left"),
    ):
        table.add_column(
            name,
            justify=typing.cast(rich.console.JustifyMethod, justify),
            no_wrap=name != "file",
        )
    for outcome in outcomes:
        table.add_row(*_row(outcome))
    console.print(table)


def _row(outcome: execution.Outcome) -> tuple[str, ...]:
    job, report = outcome.job, outcome.report
    return (
        str(job.number),
        job.host,
        rich.markup.escape(job.source.name),
        f"{job.size_bytes / 1e6:.1f}",
        _slot_text(report),
        _place_text(report.local),
        f"{report.waited_s:.2f}",
        f"{report.ran_s:.2f}",
        f"{report.bytes_per_s / 1e6:.1f}",
        "yes",
    )


#: Name, meaning, and how a value of it is written.
_METRICS = {
    "act_s": ("ACT", "average completion time", "{:.2f} s"),
    "tct95_s": ("TCT(95)", "its 95th percentile", "{:.2f} s"),
    "sar": ("SAR", "share of that time with a slot", "{:.2f}"),
    "dlr": ("DLR", "share of bytes that stayed local", "{:.2f}"),
    "makespan_s": ("makespan", "end of the last job", "{:.2f} s"),
}


def show_metrics(
    console: rich.console.Console,
    measured: metrics.Metrics,
    energy_j: float | None,
) -> None:
    """Write the metrics of the whole schedule.

    :param console: where to write.
    :param measured: its metrics.
    :param energy_j: of a session; None: not measured.
    """
    table = rich.table.Table(title="Together", title_justify="left", box=None)
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for field, (name, meaning, pattern) in _METRICS.items():
        table.add_row(name, pattern.format(getattr(measured, field)), meaning)
    if energy_j is not None:
        table.add_row(
            "energy",
            f"{energy_j:.3g} J",
            "a session's share of the boards' energy, on average",
        )
    console.print(table)


def show_comparison(
    console: rich.console.Console,
    before: tuple[str, metrics.Metrics],
    after: tuple[str, metrics.Metrics],
) -> None:
    """Write the metrics of two schedules of the same jobs, side by side.

    :param console: where to write.
    :param before: name and metrics of the reference.
    :param after: name and metrics of the other schedule.
    """
    columns = (before, after)
    factors = metrics.improvement(before[1], after[1])
    table = rich.table.Table(
        title="Side by side",
        title_justify="left",
        caption=f"An improvement above 1: {after[0]} is better.",
        caption_justify="left",
        box=None,
    )
    table.add_column("metric")
    for name, _measured in columns:
        table.add_column(name, justify="right")
    table.add_column("improvement", justify="right")
    table.add_column("meaning")
    for field, (name, meaning, pattern) in _METRICS.items():
        factor = getattr(factors, field.removesuffix("_s"))
        table.add_row(
            name,
            *(pattern.format(getattr(each, field)) for _name, each in columns),
            f"{factor:.2f} ×",
            meaning,
        )
    console.print(table)


@contextlib.contextmanager
def counting(
    console: rich.console.Console, text: str, total: int
) -> typing.Iterator[typing.Callable[[], None]]:
    """Show the progress of some work, on a terminal only.

    :param console: where to show it.
    :param text: names the work.
    :param total: number of things.
    :returns: a function to call after each.
    """
    if not console.is_terminal:
        yield lambda: None
        return
    with rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        console=console,
        transient=True,
    ) as bars:
        task = bars.add_task(text, total=total)
        yield lambda: bars.advance(task)
