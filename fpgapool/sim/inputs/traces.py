# SPDX-License-Identifier: Apache-2.0

"""Recorded jobs in a CSV file.

The first line names the columns: ``arrival_s``, ``host``, ``size_bytes``,
``accelerator`` and, optionally, ``id``, ``tenant``, ``priority``,
``deadline_s`` and ``claimed_bytes``, in any order. Values of ``host`` and of
the last four may be empty.
"""

from __future__ import annotations

import pathlib
from collections.abc import Collection

import msgspec

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs import scenario as scenarios

_NEEDED = ("arrival_s", "host", "size_bytes", "accelerator")
_OPTIONAL = ("tenant", "priority", "deadline_s", "claimed_bytes")
_KNOWN = (*_NEEDED, "id", *_OPTIONAL)
_MAY_BE_EMPTY = ("host", *_OPTIONAL)


def read(
    path: pathlib.Path, hosts: int, accelerators: Collection[str]
) -> list[scenarios.JobSpec]:
    """Read a trace.

    :returns: the jobs, in the order of the file; without a column of ids, ids
        count from 0.
    :raises errors.InputError: if it cannot be read, or has an invalid value;
        the error names file, line and column.
    """
    source = str(path)
    rows = files.read_table(files.read_text(path), source)
    _, names = next(rows, (1, []))
    if not names:
        raise errors.InputError(source, "", "is empty")
    _check_columns(names, source)
    jobs: list[scenarios.JobSpec] = []
    seen: dict[int, int] = {}
    for line, values in rows:
        place = f"line {line}"
        if len(values) != len(names):
            raise errors.InputError(
                source,
                place,
                f"has {len(values)} values for {len(names)} columns",
            )
        row = dict(zip(names, values, strict=True))
        try:
            job = _job(row, len(jobs))
            _check(job, jobs[-1:], hosts, accelerators)
            if job.id in seen:
                raise _Wrong(
                    "id",
                    f"{job.id} is used twice, first in line {seen[job.id]}",
                )
        except _Wrong as wrong:
            raise errors.InputError(
                source, f"{place}, column {wrong.column}", wrong.reason
            ) from wrong
        seen[job.id] = line
        jobs.append(job)
    if not jobs:
        raise errors.InputError(source, "", "contains no jobs")
    return jobs


class _Wrong(Exception):
    """A column has an invalid value."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


def _check_columns(names: list[str], source: str) -> None:
    for at, name in enumerate(names):
        if name not in _KNOWN:
            raise errors.InputError(
                source,
                "line 1",
                f"unknown column {name!r}; known columns: {', '.join(_KNOWN)}",
            )
        if name in names[:at]:
            raise errors.InputError(
                source, "line 1", f"duplicate column {name!r}"
            )
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise errors.InputError(
            source, "line 1", f"missing columns: {', '.join(missing)}"
        )


def _job(row: dict[str, str], number: int) -> scenarios.JobSpec:
    given = {
        name: text
        for name, text in row.items()
        if text or name not in _MAY_BE_EMPTY
    }
    try:
        return msgspec.convert(
            {"id": number, "host": None, **given},
            scenarios.JobSpec,
            strict=False,
        )
    except msgspec.ValidationError as error:
        reason, _, column = str(error).partition(" - at `$.")
        column = column.rstrip("`")
        raise _Wrong(
            column, f"{row[column]!r}: {reason[:1].lower()}{reason[1:]}"
        ) from error


def _check(
    job: scenarios.JobSpec,
    before: list[scenarios.JobSpec],
    hosts: int,
    accelerators: Collection[str],
) -> None:
    """Check a job against the cluster and the job before it, if any."""
    if job.host is not None and job.host >= hosts:
        raise _Wrong(
            "host",
            f"there is no host {job.host}; hosts are numbered 0 to "
            f"{hosts - 1}",
        )
    if job.accelerator not in accelerators:
        raise _Wrong(
            "accelerator",
            f"unknown accelerator {job.accelerator!r}; known accelerators: "
            f"{', '.join(sorted(accelerators))}",
        )
    for last in before:
        if job.arrival_s < last.arrival_s:
            raise _Wrong(
                "arrival_s",
                f"{job.arrival_s:g} is earlier than the previous job's "
                f"{last.arrival_s:g}; jobs must be sorted by arrival",
            )
