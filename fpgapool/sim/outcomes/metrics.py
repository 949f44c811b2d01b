# SPDX-License-Identifier: Apache-2.0

"""Metrics of a schedule, measured on its jobs."""

from __future__ import annotations

import dataclasses
import math
import statistics
import typing
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class JobResult:
    """One finished job; its times count from the start of the run.

    :ivar origin: name of the host that it came from; None: none.
    :ivar start_s: when its slot started to work for it.
    :ivar slot: number of the slot in its device.
    :ivar local: whether its data stayed on its own host.
    :ivar kind: its kind, for example the accelerator's name; None: all jobs
        are of one kind.
    """

    job_id: str
    origin: str | None
    size_bytes: float
    arrival_s: float
    start_s: float
    finish_s: float
    host: str
    device: str
    slot: int
    local: bool
    kind: str | None = None


class Columns(typing.NamedTuple):
    """Finished jobs: one vector per property, all in the same order.

    :ivar local_bytes: input that stayed on its host.
    """

    arrivals_s: Floats
    worked_s: Floats
    finishes_s: Floats
    sizes_bytes: Floats
    local_bytes: Floats

    def of(self, jobs: npt.NDArray[typing.Any]) -> Columns:
        """Return some of the jobs.

        :param jobs: their positions, or a flag for each job.
        """
        return Columns(*(values[jobs] for values in self))


@dataclasses.dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a whole schedule.

    A job's completion time runs from its arrival to its finish.

    :ivar tct95_s: tail completion time, the 95th percentile.
    :ivar dlr: data locality ratio, the share of all bytes that stayed on their
        host.
    :ivar makespan_s: when the last job ended.
    :ivar wait_mean_s: mean of the jobs' waits: their completion times without
        the time with a slot.
    """

    jobs: int
    act_s: float
    tct95_s: float
    p50_s: float
    p99_s: float
    sar: float
    dlr: float
    makespan_s: float
    wait_mean_s: float
    wait_p95_s: float
    wait_p99_s: float


def measure(results: Sequence[JobResult]) -> Metrics:
    """Measure a schedule.

    :raises ValueError: if there are no jobs.
    """
    return measure_columns(
        Columns(
            arrivals_s=column(job.arrival_s for job in results),
            worked_s=column(job.finish_s - job.start_s for job in results),
            finishes_s=column(job.finish_s for job in results),
            sizes_bytes=column(job.size_bytes for job in results),
            local_bytes=column(job.size_bytes * job.local for job in results),
        )
    )


def measure_columns(jobs: Columns) -> Metrics:
    """Measure a schedule of many jobs.

    :raises ValueError: if there are no jobs.
    """
    if not jobs.sizes_bytes.size:
        raise ValueError("there are no jobs to measure")
    completions_s = jobs.finishes_s - jobs.arrivals_s
    # The arrival and finish of a tiny job may be equal as floats.
    shares = np.divide(
        jobs.worked_s,
        completions_s,
        out=np.ones_like(completions_s),
        where=completions_s > 0,
    )
    # numpy interpolates percentiles linearly by default.
    p50_s, p95_s, p99_s = np.percentile(completions_s, (50, 95, 99))
    waits_s = waits(jobs)
    wait_p95_s, wait_p99_s = np.percentile(waits_s, (95, 99))
    return Metrics(
        jobs=completions_s.size,
        act_s=float(completions_s.mean()),
        tct95_s=float(p95_s),
        p50_s=float(p50_s),
        p99_s=float(p99_s),
        sar=float(shares.mean()),
        dlr=float(jobs.local_bytes.sum() / jobs.sizes_bytes.sum()),
        makespan_s=float(jobs.finishes_s.max()),
        wait_mean_s=float(waits_s.mean()),
        wait_p95_s=float(wait_p95_s),
        wait_p99_s=float(wait_p99_s),
    )


def waits(jobs: Columns) -> Floats:
    """Return for how many seconds each job had no slot until its finish."""
    waited_s = jobs.finishes_s - jobs.arrivals_s - jobs.worked_s
    # Times of tiny jobs at late times are rounded.
    return np.maximum(0.0, waited_s)


def mean_and_p95(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the 95th percentile."""
    return statistics.fmean(values), float(np.percentile(values, 95))


def mean(found: Sequence[Metrics]) -> Metrics:
    """Return the means of schedules of the same jobs."""
    return Metrics(
        found[0].jobs,
        *(
            statistics.fmean(getattr(each, member.name) for each in found)
            for member in dataclasses.fields(Metrics)[1:]
        ),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """How well a schedule met its deadlines.

    :ivar sla: the share of the jobs with a deadline that met it.
    :ivar energy_j_per_sla: energy of the whole schedule per job that met its
        deadline; None: no job did, or no power is known.
    :ivar frames_per_s: frames of these jobs per second of the makespan; None:
        the size of chunks is unknown.
    :ivar wasted_frames: frames computed for jobs that missed their deadlines.
    """

    sla: float
    energy_j_per_sla: float | None
    frames_per_s: float | None
    wasted_frames: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Packing:
    """How well containers were spread over hosts.

    :ivar reprogrammings: number in all slots, including the first one in each
        slot.
    :ivar distance_to_bound: the fraction of the makespan, from 0 to 1, that
        exceeds the earliest possible end of any schedule.
    """

    reprogrammings: int
    distance_to_bound: float


@dataclasses.dataclass(frozen=True, slots=True)
class Treatment:
    """How jobs and tenants were treated.

    A job's slowdown is its completion time, divided by the time that it would
    take alone on the fastest slot that is programmed for it.

    :ivar jain: Jain's index of the tenants' mean slowdowns: 1 if all are
        equal, 1 / tenants if only one tenant is slowed down; None: there are
        not two tenants.
    """

    slowdown_mean: float
    slowdown_p95: float
    slowdown_p99: float
    slowdown_max: float
    programmings_per_job: float
    jain: float | None


def treat(
    slowdowns: Floats, programmings: Floats, tenants: Sequence[str]
) -> Treatment:
    """Measure how jobs were treated; all have the same order.

    :raises ValueError: if there are no jobs.
    """
    p95, p99 = np.percentile(slowdowns, (95, 99))
    _, places = np.unique(np.array(tenants), return_inverse=True)
    means = np.bincount(places, slowdowns) / np.bincount(places)
    return Treatment(
        slowdown_mean=float(slowdowns.mean()),
        slowdown_p95=float(p95),
        slowdown_p99=float(p99),
        slowdown_max=float(slowdowns.max()),
        programmings_per_job=float(programmings.mean()),
        jain=jain(means) if means.size > 1 else None,
    )


def jain(values: Floats) -> float:
    """Return Jain's index of fairness of what each gets."""
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


@dataclasses.dataclass(frozen=True, slots=True)
class Improvement:
    """How many times better a schedule is than another for the same jobs.

    A factor above 1 is better: a time is shorter, or a ratio is larger.

    :ivar dlr: factor of the data locality ratio; infinite if the other is 0.
    """

    act: float
    tct95: float
    p99: float
    sar: float
    dlr: float
    makespan: float
    wait_mean: float
    wait_p95: float
    wait_p99: float


def improvement(before: Metrics, after: Metrics) -> Improvement:
    """Compare two schedules of the same jobs."""
    return Improvement(
        act=_ratio(before.act_s, after.act_s),
        tct95=_ratio(before.tct95_s, after.tct95_s),
        p99=_ratio(before.p99_s, after.p99_s),
        sar=_ratio(after.sar, before.sar),
        dlr=_ratio(after.dlr, before.dlr),
        makespan=_ratio(before.makespan_s, after.makespan_s),
        wait_mean=_ratio(before.wait_mean_s, after.wait_mean_s),
        wait_p95=_ratio(before.wait_p95_s, after.wait_p95_s),
        wait_p99=_ratio(before.wait_p99_s, after.wait_p99_s),
    )


def _ratio(value: float, other: float) -> float:
    if other:
        return value / other
    return math.inf if value else 1.0


def column(values: Iterable[float]) -> Floats:
    """Return a vector of numbers, one per job."""
    return np.fromiter(values, dtype=np.float64)
