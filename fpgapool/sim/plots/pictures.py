# SPDX-License-Identifier: Apache-2.0

"""The pictures of ``fpgapool-sim run --plot``."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import plots
from fpgapool.sim.engines import base
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import group_results
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import schedules
from fpgapool.sim.plots import observation

# Beyond these limits, bars of single jobs cannot be distinguished.
_MOST_SLOTS = 32
_MOST_JOBS = 300
_MOST_ORIGINS = 9


#: The formats of pictures, by the extension of their files.
SUFFIXES = (".png", ".svg", ".pdf")


class Files(typing.NamedTuple):
    """What pictures are called: directory, start of the names, extension."""

    directory: pathlib.Path
    start: str = ""
    suffix: str = ".png"

    def path(self, name: str) -> pathlib.Path:
        return self.directory / f"{self.start}{name}{self.suffix}"


def prepare(target: pathlib.Path, source: str) -> Files:
    """Check before a run that pictures can be drawn after it.

    :param target: directory for the pictures, created if needed; or, with the
        extension of a picture, a file whose name begins those of all.
    :raises errors.InputError: if they cannot be drawn.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise errors.InputError(
            source,
            "",
            "matplotlib is not installed; install it with: "
            "pip install 'fpgapool[plot]'",
        )
    if target.suffix.lower() not in SUFFIXES or target.is_dir():
        files.make_directory(target)
        return Files(target)
    files.make_directory(target.parent)
    return Files(target.parent, f"{target.stem}-", target.suffix)


def draw(
    scenario: scenarios.Scenario,
    found: Mapping[str, results.Result],
    observers: Mapping[str, observation.Observer],
    names: Files,
) -> list[pathlib.Path]:
    """Draw schedules.

    :raises errors.InputError: if one cannot be written.
    """
    slots = base.slots_of(scenario.cluster)
    subtitle = (
        f"{scenario.name + ': ' if scenario.name else ''}"
        f"{scenario.cluster.hosts} hosts, "
        f"{len(scenario.cluster.fpga_hosts)} boards, "
        f"{len(slots)} slots, {len(scenario.jobs)} jobs"
    )
    completions = names.path("completion-times")
    utilisation = names.path("utilisation")
    timelines = _file_names(names, found)
    # All have the same time axis, because readers compare them side by side.
    end_s = max(
        job.finish_s for each in found.values() for job in each.outcome.jobs
    )
    try:
        for name, path in timelines.items():
            _draw_slots(
                scenario, slots, found[name], path, name, subtitle, end_s
            )
        plots.draw_completions(
            {
                name: _completions_s(scenario, each)
                for name, each in found.items()
            },
            completions,
            subtitle=subtitle,
        )
        plots.draw_utilisation(
            {name: each.course() for name, each in observers.items()},
            utilisation,
            slot_count=len(slots),
            subtitle=subtitle,
        )
    except OSError as error:
        raise files.unusable(names.directory, error) from error
    return [*timelines.values(), completions, utilisation]


def draw_groups(
    scenario: scenarios.Scenario,
    courses: Mapping[str, group_results.Course],
    names: Files,
) -> pathlib.Path:
    """Draw the sizes and queues of groups over time.

    :raises errors.InputError: if it cannot be written.
    """
    path = names.path("groups")
    try:
        plots.draw_groups(
            courses,
            [group.name for group in scenario.groups],
            path,
            subtitle=f"{scenario.name + ': ' if scenario.name else ''}"
            f"{scenario.group_slots} slots for {len(scenario.groups)} groups",
        )
    except OSError as error:
        raise files.unusable(names.directory, error) from error
    return path


def _file_names(
    names: Files, strategies: Mapping[str, object]
) -> dict[str, pathlib.Path]:
    """Return a file for each strategy; its name may be any text."""
    paths: dict[str, pathlib.Path] = {}
    for name in strategies:
        stem = f"timeline-{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:100]}"
        path = names.path(stem)
        number = 2
        while path in paths.values():
            path = names.path(f"{stem}-{number}")
            number += 1
        paths[name] = path
    return paths


def _completions_s(
    scenario: scenarios.Scenario, found: results.Result
) -> metrics.Floats:
    jobs = results.columns(scenario, found.outcome.jobs)
    return jobs.finishes_s - jobs.arrivals_s


def _draw_slots(
    scenario: scenarios.Scenario,
    slots: Sequence[base.Slot],
    found: results.Result,
    path: pathlib.Path,
    strategy: str,
    subtitle: str,
    end_s: float,
) -> None:
    jobs = _job_results(scenario, found)
    names = [_slot_name(slot.host, slot.place) for slot in slots]
    title = f"Slots over time: {strategy}"
    few = (
        len(slots) <= _MOST_SLOTS
        and len(jobs) <= _MOST_JOBS
        and len({job.origin for job in jobs}) <= _MOST_ORIGINS
    )
    drawing = plots.draw_timeline if few else plots.draw_overview
    count = found.details.preemptions
    if count:
        subtitle += f", {count} preemptions"
    drawing(
        jobs, path, slots=names, title=title, subtitle=subtitle, end_s=end_s
    )


def _slot_name(host: int, place: int) -> plots.SlotName:
    return plots.SlotName(f"host{host}", "board0", place)


def _job_results(
    scenario: scenarios.Scenario, found: results.Result
) -> list[metrics.JobResult]:
    """Return the jobs for the pictures, without those of zero length.

    A job appears once for each of its slots, and waits before each.
    """
    return [
        each
        for job, outcome in zip(scenario.jobs, found.outcome.jobs, strict=True)
        for each in _results_of(job, outcome)
    ]


def _results_of(
    job: scenarios.JobSpec, outcome: schedules.JobOutcome
) -> Iterator[metrics.JobResult]:
    if not outcome.stages:
        yield from _bars(job, job.accelerator, [*outcome.stays, outcome])
    for stage in outcome.stages:
        last = schedules.Stay(
            stage.host, stage.slot, stage.start_s, outcome.finish_s, 0
        )
        yield from _bars(job, stage.accelerator, [*stage.stays, last])


def _bars(
    job: scenarios.JobSpec,
    accelerator: str,
    visits: Iterable[schedules.Stay | schedules.JobOutcome],
) -> Iterator[metrics.JobResult]:
    waits_from_s = job.arrival_s
    for visit in visits:
        if visit.start_s < visit.finish_s and visit.slot is not None:
            yield metrics.JobResult(
                job_id=str(job.id),
                origin=None if job.host is None else f"host{job.host}",
                size_bytes=job.size_bytes,
                arrival_s=waits_from_s,
                start_s=visit.start_s,
                finish_s=visit.finish_s,
                host=f"host{visit.host}",
                device="board0",
                slot=visit.slot,
                local=visit.host == job.host,
                kind=accelerator,
            )
        waits_from_s = visit.finish_s
