# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim sweep``: many runs, over parameters, seeds and strategies."""

from __future__ import annotations

import argparse
import math
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console
import rich.markup

from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim.experiments import crews
from fpgapool.sim.experiments import journals
from fpgapool.sim.experiments import sweeps
from fpgapool.sim.outcomes import gains

_SHOWN = (
    ("act_s", "ACT, s"),
    ("tct95_s", "TCT(95), s"),
    ("dlr", "DLR, share of bytes"),
    ("wait_mean_s", "wait mean, s"),
    ("wait_p95_s", "wait p95, s"),
)
#: Longer tables are not shown; their results are only in the file.
_MAX_SHOWN = 60


def add_parser(subparsers: typing.Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "sweep",
        help="simulate many scenarios",
        description="Simulate all combinations of parameters, seeds and "
        "strategies. The command skips runs whose results are already in the "
        "directory.",
    )
    parser.add_argument(
        "specification",
        type=pathlib.Path,
        metavar="SWEEP.yaml",
        help="YAML file with seeds, strategies, and the fixed and varied "
        "options for 'fpgapool-sim generate'",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help=f"write {sweeps.RESULTS} to this directory; created if needed",
    )
    where = parser.add_mutually_exclusive_group()
    crews.add_processes(where)
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run the simulations on the Dask cluster whose scheduler has "
        "this address, for example tcp://host:8786",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Simulate the runs that have no results yet.

    :raises fpgapool.sim.errors.InputError: for invalid input.
    """
    specification = sweeps.read(arguments.specification)
    tasks = sweeps.tasks(specification, str(arguments.specification))
    console = screen.make_console()
    with sweeps.open_journal(arguments.out, specification) as journal:
        left = [task for task in tasks if task.key not in journal.rows]
        done = _work(arguments, left)
        with progress.work("simulating", len(tasks)) as work:
            work.done = len(tasks) - len(left)
            for task, row in done:
                journal.add(task.key, row)
                work.advance()
        _show(console, tasks, journal)
        screen.say(console, f"{len(tasks)} runs: {journal.path}")


def _work(
    arguments: argparse.Namespace, tasks: Sequence[sweeps.Task]
) -> Iterator[tuple[sweeps.Task, list[float]]]:
    if arguments.scheduler is not None:
        return crews.work_there(sweeps.run, tasks, arguments.scheduler)
    return crews.work_here(sweeps.run, tasks, arguments.processes)


def _show(
    console: rich.console.Console,
    tasks: Sequence[sweeps.Task],
    journal: journals.Journal,
) -> None:
    """Show the means over all seeds, with 95 % confidence intervals."""
    points = list(sweeps.points(tasks))
    if len(points) > _MAX_SHOWN:
        return
    seeds = len(points[0][1])
    table = screen.make_table(
        (*points[0][0].values, "strategy"),
        (title for _, title in _SHOWN),
        caption=f"Means over {seeds} seeds ± half of the 95 % interval."
        if seeds > 1
        else "One seed.",
    )
    for first, group in points:
        rows = [journal.rows[task.key] for task in group]
        cells = [str(value) for value in first.values.values()]
        for name, _ in _SHOWN:
            column = [row[sweeps.METRICS.index(name)] for row in rows]
            cells.append(_mean_text(column))
        cells.insert(len(first.values), first.strategy)
        table.add_row(*map(rich.markup.escape, cells))
    console.print(table)


def _mean_text(values: Sequence[float]) -> str:
    mean, half = gains.confidence(values)
    return f"{mean:.3f}" + (f" ± {half:.3f}" if half < math.inf else "")
