# SPDX-License-Identifier: Apache-2.0

"""Reads a trace in any of the known formats."""

from __future__ import annotations

import pathlib
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs.traces import batsim
from fpgapool.sim.inputs.traces import rows
from fpgapool.sim.inputs.traces import sacct
from fpgapool.sim.inputs.traces import swf
from fpgapool.sim.inputs.traces import table


class _Format(typing.NamedTuple):
    """A format of job logs, which have neither sizes nor accelerators.

    :ivar columns: by member of a job, what the format calls it.
    """

    read: Callable[[str, str], Iterator[rows.Row]]
    columns: Mapping[str, str]


_LOGS = {
    "batsim": _Format(batsim.read, batsim.COLUMNS),
    "sacct": _Format(sacct.read, sacct.COLUMNS),
    "swf": _Format(swf.read, swf.COLUMNS),
}
_CSV = "csv"
#: The names of the formats.
FORMATS = (*_LOGS, _CSV)
_SUFFIXES = {".csv": _CSV, ".json": "batsim", ".swf": "swf"}


def read(
    path: pathlib.Path,
    wanted: str | None = None,
    *,
    renamed: Mapping[str, str] | None = None,
    skips: bool = False,
) -> rows.Log:
    """Read a trace, which may be compressed with gzip.

    :param wanted: one of :data:`FORMATS`; None: what the file's name or its
        content says.
    :param renamed: for CSV: by column, what the file calls it.
    :param skips: for CSV: whether jobs that lack a value are left out.
    :returns: the jobs in the order of the file.
    :raises errors.InputError: if it cannot be read; the error names file, line
        and column.
    """
    source = str(path)
    text = files.read_text(path)
    name = wanted or _format_of(path, text)
    if name == _CSV:
        columns = renamed or {}
        made = table.read(text, source, columns, skips)
    else:
        if renamed or skips:
            raise errors.InputError(
                source,
                "",
                "only CSV files have columns to rename, or lack values; this "
                f"is {name} (--trace-format)",
            )
        found = _LOGS[name]
        columns, made = found.columns, found.read(text, source)
    jobs: list[rows.Row] = []
    for row in made:
        jobs.append(row)
        if len(jobs) > scenarios.MAX_JOBS:
            raise errors.InputError(
                source,
                "",
                f"has more than {scenarios.MAX_JOBS} jobs; cut it into parts",
            )
    if not jobs:
        raise errors.InputError(source, "", "contains no jobs")
    return rows.Log(source, jobs, columns, names_hosts=name == _CSV)


def _format_of(path: pathlib.Path, text: str) -> str:
    suffixes = [one for one in path.suffixes if one != ".gz"]
    if suffixes and suffixes[-1].lower() in _SUFFIXES:
        return _SUFFIXES[suffixes[-1].lower()]
    first = text.lstrip()[:4096].partition("\n")[0]
    if first.startswith("{"):
        return "batsim"
    if first.startswith(";") or len(first.split()) == len(swf.FIELDS):
        return "swf"
    return "sacct" if "|" in first else _CSV
