# SPDX-License-Identifier: Apache-2.0

"""Finds the log lines of a request in the logs of all services."""

from __future__ import annotations

import argparse
import contextlib
import io
import pathlib
import re
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from typing import IO
from typing import NamedTuple

from fpgapool.cmd.managing import commands
from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.vocabulary import rules

STANDARD = "-"

# The start of a record, with time and IDs, as oslo.log and the workers' logs
# have it. All other lines continue the record before.
_HEAD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d+)"
    r"(?: \d+)? [A-Z]+ \S+ \[(?P<ids>[^]]*)\]"
)
# IDs that belong to one request if they are in one line.
_ID = re.compile(r"\breq-[0-9A-Za-z]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}")
_NAME = re.compile(rules.REQUEST_ID)


class _Record(NamedTuple):
    """A log record; ``lines`` includes a traceback."""

    time: str
    source: str
    lines: list[str]


def find(database: db_api.Database, args: argparse.Namespace) -> int:
    """Print the lines of a request; fail if there are none."""
    if not _NAME.fullmatch(args.request_id):
        raise exception.ConfigurationError(
            reason=f"{args.request_id!r:.80} is not a request ID: it must be"
            f" {rules.REQUEST_ID_WORDS}"
        )
    with contextlib.ExitStack() as stack, commands.usable_files():
        sources = [
            (name, stack.enter_context(stream))
            for name, stream in _streams(_places(args))
        ]
        wanted = {args.request_id}
        for record in _records(sources, wanted):
            wanted.update(_ID.findall(record.lines[0]))
        found = sorted(_records(sources, wanted), key=lambda one: one.time)
    for record in found:
        for line in record.lines:
            print(f"{record.source}: {line}")
    if not found:
        names = ", ".join(name for name, _ in sources) or "no file"
        print(
            f"no line has {args.request_id}; searched: {names}",
            file=sys.stderr,
        )
    return 0 if found else 1


COMMAND = commands.Command(
    "trace",
    find,
    "Print the log lines of a request, by its ID in an error message: those"
    " of all services whose logs are given, in order of time, with"
    " tracebacks. Lines with an ID that shares a line with this one are"
    " included.",
    arguments.Argument("request_id", help="ID of the request"),
    arguments.Argument(
        "places",
        nargs="*",
        help="log files, directories with files named *.log, or '-' for"
        " standard input; the default is [DEFAULT] log_dir",
    ),
    on_database=False,
)


def _places(args: argparse.Namespace) -> list[str]:
    """Return the given files and directories, or those of the options."""
    if args.places:
        return list(args.places)
    if not args.conf.log_dir:
        raise exception.ConfigurationError(
            reason="[DEFAULT] log_dir is not set: name log files or"
            " directories, or '-' for standard input, for example from"
            " journalctl"
        )
    return [args.conf.log_dir]


def _streams(places: Iterable[str]) -> Iterator[tuple[str, IO[str]]]:
    for place in places:
        if place == STANDARD:
            # A pipe cannot be read twice.
            yield "standard input", io.StringIO(sys.stdin.read())
            continue
        path = pathlib.Path(place)
        for file in sorted(path.glob("*.log")) if path.is_dir() else [path]:
            yield (
                str(file),
                file.open(encoding="utf-8", errors="backslashreplace"),
            )


def _records(
    sources: Iterable[tuple[str, IO[str]]], wanted: set[str]
) -> Iterator[_Record]:
    """Yield the records that contain one of these IDs."""
    ids = "|".join(map(re.escape, wanted))
    has_id = re.compile(rf"(?<![\w.:-])(?:{ids})(?![\w:-])").search
    for source, stream in sources:
        stream.seek(0)
        record: _Record | None = None
        for line in stream:
            line = line.rstrip("\n")
            head = _HEAD.match(line)
            if head is None:
                if record is not None:
                    record.lines.append(line)
                continue
            if record is not None and has_id(record.lines[0]):
                yield record
            moment = head["time"].replace("T", " ").replace(",", ".")
            record = _Record(moment, source, [line])
        if record is not None and has_id(record.lines[0]):
            yield record
