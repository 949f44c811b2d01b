# SPDX-License-Identifier: Apache-2.0

"""Batsim's workloads in JSON: jobs, and the profiles that they name.

A job runs for the time of its profile, if that is a ``delay``, and otherwise
for its ``walltime``.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator

import msgspec

from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.inputs.traces import rows

COLUMNS = {
    "arrival_s": "subtime",
    "run_s": "profile",
    "size_bytes": "profile",
}


class _Profile(msgspec.Struct, frozen=True):
    type: str = ""
    delay: float | None = None


class _Job(msgspec.Struct, frozen=True):
    id: str | int
    subtime: float
    profile: str
    res: int = 1
    walltime: float | None = None
    user: str | int = ""


class _Workload(msgspec.Struct, frozen=True):
    jobs: typing.Annotated[
        list[_Job], msgspec.Meta(max_length=scenarios.MAX_JOBS)
    ]
    profiles: dict[str, _Profile]


def read(text: str, source: str) -> Iterator[rows.Row]:
    """Yield the jobs.

    :raises errors.InputError: if it is not such a workload, or a job's time is
        unknown.
    """
    workload = scenario_files.decode(text.encode(), _Workload, source)
    for at, job in enumerate(workload.jobs):
        place = f"jobs[{at}]."
        user = str(job.user)
        yield rows.Row(
            place,
            job.subtime,
            run_s=_run_s(job, workload.profiles, source, place),
            host=user or str(job.id),
            tenant=user,
            id=str(job.id),
            kind=job.profile,
            processors=job.res,
        )


def _run_s(
    job: _Job, profiles: dict[str, _Profile], source: str, place: str
) -> float:
    profile = profiles.get(job.profile)
    if profile is None:
        raise errors.InputError(
            source,
            f"{place}profile",
            f"there is no profile {rows.shown(job.profile)}",
        )
    run_s = profile.delay if profile.type == "delay" else job.walltime
    if run_s is None or run_s < 0:
        raise errors.InputError(
            source,
            f"{place}profile",
            f"profile {rows.shown(job.profile)} of type "
            f"{rows.shown(profile.type)} has no time; give the job a "
            "walltime, or use a profile of type delay",
        )
    return run_s
