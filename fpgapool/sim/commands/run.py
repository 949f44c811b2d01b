# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim run``: simulate a scenario under one or more strategies."""

from __future__ import annotations

import argparse
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import rich.console
import rich.markup

from fpgapool.sim import elastic
from fpgapool.sim import files
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import group_results
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results
from fpgapool.sim.plots import observation
from fpgapool.sim.plots import pictures

#: By metric: title, meaning, and pattern for values.
_METRICS = {
    "act_s": ("ACT", "average completion time", "{:.2f} s"),
    "tct95_s": ("TCT(95)", "its 95th percentile", "{:.2f} s"),
    "p99_s": ("p99", "its 99th percentile", "{:.2f} s"),
    "sar": ("SAR", "share of that time with a slot", "{:.3f}"),
    "dlr": ("DLR", "share of bytes that stayed local", "{:.3f}"),
    "makespan_s": ("makespan", "end of the last job", "{:.2f} s"),
}
#: Interval between points in plots of groups.
_STEP_S = 1.0


def add_parser(subparsers: typing.Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="simulate a scenario",
        description="Simulate a scenario under one or more strategies, and "
        "compare each with the first one.",
    )
    parser.add_argument(
        "scenario",
        type=pathlib.Path,
        metavar="SCENARIO",
        help="a scenario file",
    )
    screen.add_strategies(
        parser,
        "strategy to simulate: one of the scenario's, or an installed one "
        "with its default options; may be repeated; default: all of the "
        "scenario's",
    )
    parser.add_argument(
        "--engine",
        choices=sorted(simulation.ENGINES),
        default="fluid",
        help="how data moves: fluid, at steady rates, or chunk, which is "
        "slower but closer to the real data plane; default: fluid",
    )
    parser.add_argument(
        "--seed",
        type=screen.whole(0),
        default=0,
        metavar="N",
        help="seed of the strategies' random choices; default: 0",
    )
    parser.add_argument(
        "--fair-share",
        action="store_true",
        help="share slots evenly between tenants, under every strategy",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="OUT.json",
        help="write all results to this JSON file",
    )
    parser.add_argument(
        "--plot",
        type=pathlib.Path,
        metavar="DIR",
        help="write plots to this directory; created if needed",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Simulate, and show the results.

    :raises errors.InputError: for invalid input.
    """
    source = str(arguments.scenario)
    scenario = scenario_files.read(arguments.scenario)
    names = list(dict.fromkeys(arguments.strategy or scenario.strategies))
    for name in names:
        if scenario.jobs:
            simulation.check(scenario, name, arguments.seed, source)
        if scenario.groups:
            elastic.check(scenario, name, source)
    if arguments.output is not None:
        files.check_writable(arguments.output)
    if arguments.plot is not None:
        pictures.prepare(arguments.plot, "--plot")
    console = screen.make_console()
    observers: dict[str, observation.Observer] = {}
    jobs: dict[str, results.Result] = {}
    groups: dict[str, group_results.GroupsResult] = {}
    courses: dict[str, group_results.Course] = {}
    for name in names:
        if scenario.jobs:
            if arguments.plot is not None:
                observers[name] = observation.Observer(
                    scenario, rates_hold=arguments.engine == "fluid"
                )
            jobs[name] = _run_jobs(
                scenario, name, arguments, observers.get(name)
            )
        if scenario.groups:
            with progress.work(f"{name}: {len(scenario.groups)} groups"):
                groups[name], courses[name] = elastic.run(
                    scenario,
                    name,
                    seed=arguments.seed,
                    source=source,
                    step_s=None if arguments.plot is None else _STEP_S,
                )
    if arguments.output is not None:
        results.write(jobs, arguments.output, groups)
    if jobs:
        _show(console, jobs)
    if groups:
        _show_groups(console, groups)
    if arguments.plot is not None:
        with progress.work("drawing"):
            paths = []
            if jobs:
                paths += pictures.draw(
                    scenario, jobs, observers, arguments.plot
                )
            if groups:
                paths.append(
                    pictures.draw_groups(scenario, courses, arguments.plot)
                )
        screen.say(console, f"pictures: {', '.join(map(str, paths))}")


def _run_jobs(
    scenario: scenarios.Scenario,
    name: str,
    arguments: argparse.Namespace,
    observer: observation.Observer | None,
) -> results.Result:
    with progress.work(name, len(scenario.jobs), "jobs") as work:
        outcomes = simulation.run(
            scenario,
            name,
            engine=arguments.engine,
            seed=arguments.seed,
            source=str(arguments.scenario),
            watcher=observer,
            fair_share=arguments.fair_share,
            on_end=work.advance,
        )
        return results.evaluate(scenario, outcomes)


# -- what the user sees ----------------------------------------------------


def _show(
    console: rich.console.Console, found: Mapping[str, results.Result]
) -> None:
    measured = {name: each.measured for name, each in found.items()}
    if len(found) == 1:
        _show_one(console, *measured.popitem())
    else:
        _show_all(console, measured)
    _show_usage(console, found)
    _print(
        console,
        "Deadlines: share met, and energy of the run per deadline met",
        ("SLA", "kJ per SLA", "frames/s", "wasted frames"),
        {
            name: (
                f"{each.sla:.1%}",
                _optional(each.energy_j_per_sla, "{:.2f}", 1e-3),
                _optional(each.frames_per_s, "{:.1f}"),
                _optional(each.wasted_frames, "{:.0f}"),
            )
            for name, one in found.items()
            if (each := one.service) is not None
        },
    )
    _print(
        console,
        "Containers: slots programmed, and makespan above the bound",
        ("reprogrammings", "distance to the bound"),
        {
            name: (
                str(spread.reprogrammings),
                f"{spread.distance_to_bound:.1%}",
            )
            for name, one in found.items()
            if (spread := one.packing) is not None
        },
    )


def _print(
    console: rich.console.Console,
    title: str,
    columns: Sequence[str],
    rows: Mapping[str, Iterable[str]],
) -> None:
    """Print a table with a row for each strategy, unless it is empty."""
    if not rows:
        return
    table = screen.make_table(("strategy",), columns, title)
    for name, cells in rows.items():
        table.add_row(rich.markup.escape(name), *cells)
    console.print(table)


def _optional(value: float | None, pattern: str, factor: float = 1.0) -> str:
    return "" if value is None else pattern.format(factor * value)


def _show_one(
    console: rich.console.Console, name: str, measured: metrics.Metrics
) -> None:
    table = screen.make_table(
        ("metric",), ("value",), f"{name}, jobs: {measured.jobs}"
    )
    table.add_column("meaning", no_wrap=True)
    for member, (title, meaning, pattern) in _METRICS.items():
        table.add_row(
            title, pattern.format(getattr(measured, member)), meaning
        )
    console.print(table)


def _show_all(
    console: rich.console.Console, measured: Mapping[str, metrics.Metrics]
) -> None:
    first_name, first = next(iter(measured.items()))
    table = screen.make_table(
        ("strategy",),
        (title for title, _, _ in _METRICS.values()),
        f"jobs: {first.jobs}",
        caption=f"× is the improvement over {first_name}: above 1 is better.",
    )
    for name, each in measured.items():
        factors = metrics.improvement(first, each)
        cells = []
        for member, (_, _, pattern) in _METRICS.items():
            text = pattern.format(getattr(each, member))
            if each is not first:
                factor = getattr(factors, member.removesuffix("_s"))
                text += f"\n{factor:.2f} ×"
            cells.append(text)
        table.add_row(rich.markup.escape(name), *cells)
    console.print(table)


def _show_usage(
    console: rich.console.Console, found: Mapping[str, results.Result]
) -> None:
    has_energy = any(each.details.energy for each in found.values())
    has_preempted = any(each.details.preemptions for each in found.values())
    names = {
        "slots": "slots",
        "DMA pipes": "dma",
        "NICs, sending": "nic_egress",
        "NICs, receiving": "nic_ingress",
    }
    # Jobs of other models use no pipes.
    shares = [each.details.utilisation for each in found.values()]
    if any(used.cores is not None for used in shares):
        names = {"slots": "slots", "cores": "cores"}
    elif any(each.packing for each in found.values()):
        names = {"slots": "slots"}
    rows = {}
    for name, each in found.items():
        used, energy = each.details.utilisation, each.details.energy
        rows[name] = [
            *(
                _optional(getattr(used, member), "{:.1%}")
                for member in names.values()
            ),
            *([f"{energy.total_j / 1e3:.1f} kJ"] if energy else []),
            *([str(each.details.preemptions)] if has_preempted else []),
        ]
    _print(
        console,
        "Share of the capacity used until the last job ended",
        [
            *names,
            *(["energy"] if has_energy else []),
            *(["preemptions"] if has_preempted else []),
        ],
        rows,
    )


def _show_groups(
    console: rich.console.Console,
    found: Mapping[str, group_results.GroupsResult],
) -> None:
    _print(
        console,
        "Groups: shares of slot time, and latency of accepted batches",
        ("busy", "programming", "idle", *_LATENCIES),
        {
            name: (
                *(
                    f"{share:.1%}"
                    for share in (each.busy, each.programming, each.idle)
                ),
                *_latency_cells(each.latency),
            )
            for name, each in found.items()
        },
    )
    table = screen.make_table(
        ("strategy", "group"), ("tasks", "moves", *_LATENCIES, "goal")
    )
    for name, each in found.items():
        for group in each.groups:
            table.add_row(
                rich.markup.escape(name),
                rich.markup.escape(group.name),
                str(group.tasks),
                str(group.moves),
                *_latency_cells(group.latency),
                _goal_cell(group.goal),
            )
    console.print(table)


_LATENCIES = ("mean", "p95", "worst", "batches", "refused")


def _latency_cells(latency: group_results.Latency) -> Iterator[str]:
    for value_s in (latency.mean_s, latency.p95_s, latency.worst_s):
        yield _optional(value_s, "{:.3g} s")
    yield str(latency.batches)
    yield str(latency.refused)


def _goal_cell(goal: group_results.GoalResult | None) -> str:
    if goal is None:
        return ""
    if not goal.admitted:
        return "refused"
    text = "met" if goal.met else "missed"
    return text if goal.ended_s is None else f"{text} at {goal.ended_s:.1f} s"
