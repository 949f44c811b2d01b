# SPDX-License-Identifier: Apache-2.0

"""What Slurm's ``sacct --parsable2`` writes, with its line of names.

``Submit`` and ``Elapsed`` or ``ElapsedRaw`` are needed; ``JobID``, ``User``,
``Account``, ``JobName``, ``Start`` and ``AllocCPUS`` or ``NCPUS`` are used.
Steps of jobs are left out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from fpgapool.sim import errors
from fpgapool.sim.inputs.traces import rows

COLUMNS = {
    "arrival_s": "Submit",
    "run_s": "Elapsed",
    "size_bytes": "Elapsed",
}
_FORMAT = "JobID,User,Account,Submit,Start,ElapsedRaw,AllocCPUS"
#: Instead of a time: the job has not started.
_NEVER = ("Unknown", "None")
_ELAPSED = re.compile(
    r"(?:(?:(\d{1,9})-)?(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d+)?)", re.ASCII
)


def read(text: str, source: str) -> Iterator[rows.Row]:
    """Yield the jobs.

    :raises errors.InputError: if it is not such a table, or lacks a column.
    """
    names: list[str] = []
    for number, content in enumerate(io.StringIO(text, newline=None), 1):
        values = content.rstrip("\n").split("|")
        if not content.strip():
            continue
        if not names:
            names = values
            _check(names, source, number)
            continue
        if len(values) != len(names):
            raise errors.InputError(
                source,
                f"line {number}",
                f"has {len(values)} values for {len(names)} columns; names of "
                "jobs may contain |, so call sacct with --parsable2 "
                f"--format={_FORMAT}",
            )
        line = rows.Line(source, number, dict(zip(names, values, strict=True)))
        if "." not in line.values.get("JobID", ""):
            yield _job(line)


def _check(names: list[str], source: str, number: int) -> None:
    missing = [name for name in ("Submit",) if name not in names]
    if not {"Elapsed", "ElapsedRaw"} & set(names):
        missing.append("ElapsedRaw")
    if missing:
        raise errors.InputError(
            source,
            f"line {number}",
            f"missing columns: {', '.join(missing)}; call sacct with "
            f"--allocations --parsable2 --format={_FORMAT}",
        )


def _job(line: rows.Line) -> rows.Row:
    values = line.values
    user, account = values.get("User", ""), values.get("Account", "")
    job = values.get("JobID", "")
    ran = values.get("Start", "") not in _NEVER
    return rows.Row(
        line.place,
        line.moment_s("Submit"),
        run_s=_run_s(line) if ran else None,
        host=user or job or str(line.number),
        tenant=account or user,
        id=job,
        kind=values.get("JobName", ""),
        processors=_processors(line),
    )


def _run_s(line: rows.Line) -> float:
    if "ElapsedRaw" in line.values:
        return line.number_of("ElapsedRaw", 0)
    text = line.values["Elapsed"]
    found = _ELAPSED.fullmatch(text)
    if found is None:
        raise line.wrong(
            "Elapsed",
            f"{rows.shown(text)} is not [days-]hours:minutes:seconds",
        )
    days, hours, minutes, seconds = (
        float(part or 0) for part in found.groups()
    )
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _processors(line: rows.Line) -> int:
    for column in ("AllocCPUS", "NCPUS"):
        if line.values.get(column):
            return int(line.number_of(column, 0))
    return 1
