# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim sweep``: many runs, over parameters, seeds and policies."""

from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console
import rich.markup
import rich.progress
import rich.table

from fpgapool.sim import crews
from fpgapool.sim import errors
from fpgapool.sim import screen
from fpgapool.sim import sweeps

_SHOWN = (("act_s", "ACT"), ("tct95_s", "TCT(95)"), ("dlr", "DLR"))
#: Longer tables are left to the file.
_MAX_SHOWN = 60

# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
_STUDENT = (
    *(12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL = 1.96


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "sweep",
        help="simulate many scenarios",
        description="Simulate all combinations of parameters, seeds and "
        "policies. What is in the directory already is not done again.",
    )
    parser.add_argument(
        "specification",
        type=pathlib.Path,
        metavar="SWEEP.yaml",
        help="what is fixed, what varies, seeds and policies",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help=f"directory for {sweeps.RESULTS}; made if needed",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="of this machine; default: one for each processor",
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of an existing Dask cluster, as tcp://host:8786",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Do what is left to do.

    :raises errors.InputError: for input that makes no sense.
    """
    if arguments.processes is not None and arguments.processes < 1:
        raise errors.InputError(
            "--processes", "", f"must be at least 1, not {arguments.processes}"
        )
    specification = sweeps.read(arguments.specification)
    tasks = sweeps.tasks(specification, str(arguments.specification))
    console = screen.make_console()
    with sweeps.Journal(arguments.out, specification) as journal:
        left = [task for task in tasks if task.key not in journal.rows]
        done = _work(arguments, left)
        for task, row in _tracked(console, done, len(tasks), len(left)):
            journal.add(task, row)
        _show(console, tasks, journal)
        screen.say(console, f"{len(tasks)} runs: {journal.path}")


def _work(
    arguments: argparse.Namespace, tasks: Sequence[sweeps.Task]
) -> Iterator[tuple[sweeps.Task, list[float]]]:
    if not tasks:
        return iter(())
    if arguments.scheduler is not None:
        return crews.work_there(sweeps.run, tasks, arguments.scheduler)
    return crews.work_here(sweeps.run, tasks, arguments.processes)


def _tracked(
    console: rich.console.Console,
    done: Iterator[tuple[sweeps.Task, list[float]]],
    total: int,
    left: int,
) -> Iterator[tuple[sweeps.Task, list[float]]]:
    with rich.progress.Progress(
        rich.progress.TextColumn("{task.completed} of {task.total} runs"),
        rich.progress.BarColumn(),
        rich.progress.TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        bar = progress.add_task("", total=total, completed=total - left)
        for each in done:
            progress.advance(bar)
            yield each


def _show(
    console: rich.console.Console,
    tasks: Sequence[sweeps.Task],
    journal: sweeps.Journal,
) -> None:
    """The means over all seeds, with 95 % confidence intervals."""
    points = list(sweeps.points(tasks))
    if len(points) > _MAX_SHOWN:
        return
    table = rich.table.Table(box=None)
    names = [*points[0][0].values, "policy"]
    for at, name in enumerate([*names, *(title for _, title in _SHOWN)]):
        justify: typing.Literal["left", "right"] = (
            "left" if at < len(names) else "right"
        )
        table.add_column(rich.markup.escape(name), justify=justify)
    for first, group in points:
        rows = [journal.rows[task.key] for task in group]
        cells = [str(value) for value in first.values.values()]
        for name, _ in _SHOWN:
            column = [row[sweeps.METRICS.index(name)] for row in rows]
            cells.append(_mean_text(column))
        cells.insert(len(first.values), first.policy)
        table.add_row(*map(rich.markup.escape, cells))
    console.print(table)


def _mean_text(values: Sequence[float]) -> str:
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    freedom = len(values) - 1
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.3f} ± {half:.3f}"
