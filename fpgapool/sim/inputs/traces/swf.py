# SPDX-License-Identifier: Apache-2.0

"""The Standard Workload Format of the Parallel Workloads Archive, version 2.

A line is a job with 18 numbers, of which -1 is unknown; ``;`` starts comments.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from fpgapool.sim import errors
from fpgapool.sim.inputs.traces import rows

_FIELDS = (
    *("job number", "submit time", "wait time", "run time"),
    *("allocated processors", "average CPU time", "used memory"),
    *("requested processors", "requested time", "requested memory"),
    *("status", "user", "group", "executable", "queue", "partition"),
    *("preceding job", "think time"),
)
#: The names of all fields, as messages show them.
FIELDS = tuple(f"{at} ({name})" for at, name in enumerate(_FIELDS, 1))
(_JOB, _SUBMIT, _, _RUN, _PROCESSORS, _, _, _WANTED, _, _) = FIELDS[:10]
(_STATUS, _USER, _GROUP, _EXECUTABLE) = FIELDS[10:14]
COLUMNS = {"arrival_s": _SUBMIT, "run_s": _RUN, "size_bytes": _RUN}
#: The status of lines that repeat parts of a job, which has its own line.
_PARTS = ("2", "3", "4")


def read(text: str, source: str) -> Iterator[rows.Row]:
    """Yield the jobs.

    :raises errors.InputError: if a line is not one of the format.
    """
    for number, content in enumerate(io.StringIO(text), 1):
        values = content.partition(";")[0].split()
        if not values:
            continue
        if len(values) != len(FIELDS):
            raise errors.InputError(
                source,
                f"line {number}",
                f"has {len(values)} values; a job of the Standard Workload "
                f"Format has {len(FIELDS)}{_another(content)}",
            )
        line = rows.Line(
            source, number, dict(zip(FIELDS, values, strict=True))
        )
        if line.values[_STATUS] not in _PARTS:
            yield _job(line)


def _another(content: str) -> str:
    """Return the hint that a line may be of another format."""
    if "|" in content:
        return "; is it another format? --trace-format sacct"
    if "," in content:
        return "; is it another format? --trace-format csv"
    return ""


def _job(line: rows.Line) -> rows.Row:
    run_s = line.number_of(_RUN)
    processors = line.number_of(_PROCESSORS)
    if processors < 1:
        processors = line.number_of(_WANTED)
    known = {
        column: "" if line.values[column].startswith("-") else value
        for column, value in line.values.items()
    }
    user, group = known[_USER], known[_GROUP]
    return rows.Row(
        line.place,
        line.number_of(_SUBMIT),
        run_s=run_s if run_s >= 0 else None,
        host=user or line.values[_JOB],
        tenant=f"g{group}" if group else f"u{user}" if user else "",
        id=line.values[_JOB],
        kind=known[_EXECUTABLE],
        processors=int(processors),
    )
