# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim advise``: recorded sessions under every strategy."""

from __future__ import annotations

import argparse
import datetime
import pathlib
import typing
from collections.abc import Mapping

import rich.console
import rich.markup

from fpgapool.sim import errors
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.experiments import advising
from fpgapool.sim.experiments import crews
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import metrics
from fpgapool.vocabulary import shapes

#: Titles, and by column the measure in it and how to show it.
_TABLES: dict[str, dict[str, tuple[int, str]]] = {
    "Completion time": {
        "mean": (0, "{:.3g} s"),
        "p95": (1, "{:.3g} s"),
        "p99": (2, "{:.3g} s"),
    },
    "Wait": {
        "mean": (3, "{:.3g} s"),
        "p95": (4, "{:.3g} s"),
        "p99": (5, "{:.3g} s"),
    },
    "Slowdown, and fairness between projects": {
        "mean slowdown": (6, "{:.3g}"),
        "Jain's index": (advising.JAIN, "{:.3f}"),
    },
}
_MAX_S = 300.0
#: How far the replay may be off the records without a word.
_FAITHFUL = 1.5


def add_parser(subparsers: typing.Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "advise",
        help="compare strategies on a pool's own sessions",
        description="Replay the sessions that a pool has kept under all "
        "strategies, and say what each would have given compared with the "
        "configured one. 'fpgapool-manage session export' writes the file.",
    )
    parser.add_argument(
        "scenario",
        type=pathlib.Path,
        metavar="FILE",
        help="the exported sessions, or any scenario file; its first "
        "strategy is the configured one",
    )
    screen.add_strategies(
        parser,
        "strategy to compare with the configured one: one of the file's, or "
        "an installed one with the configured one's options; may be repeated; "
        "default: all of the file's, and all installed",
    )
    parser.add_argument(
        "--fair-share",
        action="store_true",
        help="share slots evenly between projects, under every strategy",
    )
    parser.add_argument(
        "--seed",
        type=screen.whole(0),
        default=0,
        metavar="N",
        help="seed of the strategies' random choices; default: 0",
    )
    parser.add_argument(
        "--max-s",
        type=screen.argument(float, shapes.number(above=0)),
        default=_MAX_S,
        metavar="X",
        help="leave out a strategy whose replay takes longer than X seconds; "
        f"default: {_MAX_S:.0f}",
    )
    crews.add_processes(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Replay the sessions, and show what each strategy gives.

    :raises errors.InputError: for invalid input, or too few sessions.
    """
    source = str(arguments.scenario)
    scenario = scenario_files.read(arguments.scenario)
    if len(scenario.jobs) < advising.MIN_JOBS:
        raise errors.InputError(
            source,
            "jobs",
            f"{len(scenario.jobs)} sessions are too few to compare "
            f"strategies, at least {advising.MIN_JOBS} are needed; export "
            "again when the pool has served more, or raise [database] "
            "retention_days; if no pool has exported this scenario, compare "
            "strategies with fpgapool-sim run",
        )
    console = screen.make_console()
    configured = next(iter(scenario.strategies))
    names = [configured]
    every = [*scenario.strategies, *sorted(simulation.installed())]
    for name in arguments.strategy or every:
        if name not in names and _is_usable(
            scenario, name, arguments, console
        ):
            names.append(name)
    found = _replay(arguments, names, console)
    _show(console, scenario, found, configured)


def _is_usable(
    scenario: scenarios.Scenario,
    name: str,
    arguments: argparse.Namespace,
    console: rich.console.Console,
) -> bool:
    """Return whether a strategy can be compared; say why if not.

    :raises errors.InputError: if the user asked for one that cannot.
    """
    try:
        simulation.check(
            advising.with_all(scenario, [name]),
            name,
            arguments.seed,
            str(arguments.scenario),
        )
    except errors.InputError as error:
        if arguments.strategy:
            raise
        screen.say(console, f"left out: {error}")
        return False
    return True


def _replay(
    arguments: argparse.Namespace,
    names: list[str],
    console: rich.console.Console,
) -> dict[str, metrics.Floats]:
    """Return the measures of the strategies that can be compared.

    :raises errors.InputError: if the first one, the configured, has none.
    """
    tasks = [
        advising.Task(
            arguments.scenario,
            name,
            arguments.seed,
            arguments.fair_share,
            arguments.max_s,
        )
        for name in names
    ]
    found = {}
    with progress.work("replaying", len(tasks), "strategies") as work:
        for task, measured in crews.work_here(
            advising.replay, tasks, arguments.processes
        ):
            found[task.name] = measured
            work.advance()
    measured_of = {}
    for name in names:
        measured = found[name]
        if not isinstance(measured, str):
            measured_of[name] = measured
        elif name == names[0]:
            raise errors.InputError(
                str(arguments.scenario), f"strategies.{name}", measured
            )
        else:
            screen.say(console, f"left out: {name}: {measured}")
    return measured_of


# -- what the user sees ----------------------------------------------------


def _show(
    console: rich.console.Console,
    scenario: scenarios.Scenario,
    found: Mapping[str, metrics.Floats],
    configured: str,
) -> None:
    arrivals_s = [job.arrival_s for job in scenario.jobs]
    span_s = round(max(arrivals_s) - min(arrivals_s))
    screen.say(
        console,
        f"sessions: {len(arrivals_s)} in {datetime.timedelta(seconds=span_s)},"
        f" projects: {len({job.tenant for job in scenario.jobs})}, slots: "
        f"{scenario.slot_count}, configured strategy: {configured}",
    )
    ratios = advising.compare(found, configured)
    for title, columns in _TABLES.items():
        table = screen.make_table(("strategy",), columns, title)
        for name, measured in found.items():
            cells = []
            for at, pattern in columns.values():
                cell = pattern.format(measured[0, at])
                if name != configured:
                    cell += f"\n{advising.shown(ratios[name][at])}"
                cells.append(cell)
            table.add_row(rich.markup.escape(name), *cells)
        console.print(table)
    screen.say(
        console,
        f"× is the ratio to {configured}, with the 95 % interval that holds "
        "for all strategies at once (bootstrap of blocks of the history).",
    )
    _show_fidelity(console, scenario, found[configured], configured)
    text = advising.advice(found, configured)
    screen.say(console, f"Advice: {text}")


def _show_fidelity(
    console: rich.console.Console,
    scenario: scenarios.Scenario,
    measured: metrics.Floats,
    configured: str,
) -> None:
    """Compare the replay with what the pool recorded, if known."""
    expected = (scenario.expected or {}).get(configured)
    recorded_s = expected and expected.metrics.get("act_s")
    if not recorded_s:
        return
    replayed_s = float(measured[0, 0])
    text = (
        f"Mean completion time: {recorded_s:.3g} s recorded by the pool, "
        f"{replayed_s:.3g} s in the replay under {configured}."
    )
    if not 1 / _FAITHFUL <= replayed_s / recorded_s <= _FAITHFUL:
        text += (
            " They differ much: the pool was not always as it is now, or "
            "sessions keep slots for other reasons than their data, so the "
            "advice is about the replay rather than the pool."
        )
    screen.say(console, text)
