# SPDX-License-Identifier: Apache-2.0

"""Recorded jobs in a CSV file.

The first line names the columns: ``arrival_s``, ``host``, ``size_bytes``,
``accelerator`` and, if wanted, ``id``, ``tenant``, ``priority``,
``deadline_s`` and ``claimed_bytes``, in any order. The last four may be empty.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from collections.abc import Collection

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.vocabulary import rules

_NEEDED = ("arrival_s", "host", "size_bytes", "accelerator")
_KNOWN = (*_NEEDED, "id", "tenant", "priority", "deadline_s", "claimed_bytes")


def read(
    path: pathlib.Path, hosts: int, accelerators: Collection[str]
) -> list[scenarios.JobSpec]:
    """Read a trace.

    :param hosts: number of the cluster's hosts.
    :returns: the jobs, in the order of the file; without a column of ids, the
        ids count from 0.
    :raises errors.InputError: if it cannot be read, or has an invalid value;
        the error names file, line and column.
    """
    source = str(path)
    text = files.read_text(path)
    rows = files.read_table(text, source)
    _, names = next(rows, (1, []))
    if not names:
        raise errors.InputError(source, "", "is empty")
    _check_columns(names, source)
    jobs: list[scenarios.JobSpec] = []
    seen: dict[int, int] = {}
    for line, values in rows:
        row = _Row(source, line, names, values)
        job = _job(row, len(jobs), hosts, accelerators)
        if job.id in seen:
            raise row.error(
                "id", f"{job.id} is used twice, first in line {seen[job.id]}"
            )
        seen[job.id] = line
        if jobs and job.arrival_s < jobs[-1].arrival_s:
            raise row.error(
                "arrival_s",
                f"{job.arrival_s:g} is before {jobs[-1].arrival_s:g} of the "
                "job above; arrivals must be sorted",
            )
        jobs.append(job)
    if not jobs:
        raise errors.InputError(source, "", "there are no jobs")
    return jobs


def _check_columns(names: list[str], source: str) -> None:
    for at, name in enumerate(names):
        if name not in _KNOWN:
            raise errors.InputError(
                source,
                "line 1",
                f"unknown column {name!r}; known: {', '.join(_KNOWN)}",
            )
        if name in names[:at]:
            raise errors.InputError(
                source, "line 1", f"has the column {name!r} twice"
            )
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise errors.InputError(
            source, "line 1", f"columns are missing: {', '.join(missing)}"
        )


class _Row:
    """A line of the file."""

    def __init__(
        self, source: str, line: int, names: list[str], values: list[str]
    ) -> None:
        self._source = source
        self._line = line
        if len(values) != len(names):
            raise errors.InputError(
                source,
                f"line {line}",
                f"has {len(values)} values for {len(names)} columns",
            )
        self._values = dict(zip(names, values, strict=True))

    def error(self, column: str, reason: str) -> errors.InputError:
        """Make an error about a column."""
        return errors.InputError(
            self._source, f"line {self._line}, column {column}", reason
        )

    def text(self, column: str, default: str = "") -> str:
        return self._values.get(column, default)

    def whole(self, column: str) -> int:
        """Convert a column to a whole number of at least 0."""
        text = self.text(column)
        if not (text.isascii() and text.isdecimal()):
            raise self.error(
                column, f"{text!r} is not a whole number of at least 0"
            )
        # Longer numbers do not fit into 64 bits.
        if len(text) > 18:
            raise self.error(column, f"{text[:18]}… is too large")
        return int(text)

    def number(
        self, column: str, is_right: Callable[[float], bool], range_text: str
    ) -> float:
        """Convert a column to a finite number.

        :param is_right: returns whether the number is in its range.
        :param range_text: the range, for the message.
        """
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, f"{text!r} is not a number") from None
        if not (math.isfinite(value) and is_right(value)):
            raise self.error(
                column, f"{text} is not a finite number {range_text}"
            )
        return value


def _priority(row: _Row) -> int:
    highest = rules.MAX_PRIORITY
    return int(
        row.number(
            "priority",
            lambda value: value.is_integer() and abs(value) <= highest,
            f"from {-highest} to {highest}, without a fraction",
        )
    )


def _job(
    row: _Row, number: int, hosts: int, accelerators: Collection[str]
) -> scenarios.JobSpec:
    host = row.whole("host") if row.text("host") else None
    if host is not None and host >= hosts:
        raise row.error(
            "host", f"there is no host {host}, only 0 to {hosts - 1}"
        )
    accelerator = row.text("accelerator")
    if accelerator not in accelerators:
        raise row.error(
            "accelerator",
            f"unknown accelerator {accelerator!r}; known: "
            f"{', '.join(sorted(accelerators))}",
        )
    return scenarios.JobSpec(
        id=row.whole("id") if row.text("id", "-") != "-" else number,
        host=host,
        size_bytes=row.number("size_bytes", lambda size: size > 0, "above 0"),
        arrival_s=row.number(
            "arrival_s", lambda time_s: time_s >= 0, "of at least 0"
        ),
        accelerator=accelerator,
        tenant=row.text("tenant"),
        deadline_s=row.number("deadline_s", lambda s: s > 0, "above 0")
        if row.text("deadline_s")
        else None,
        priority=_priority(row) if row.text("priority") else 0,
        claimed_bytes=row.number(
            "claimed_bytes", lambda size: size > 0, "above 0"
        )
        if row.text("claimed_bytes")
        else None,
    )
