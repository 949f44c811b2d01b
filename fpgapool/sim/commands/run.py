# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim run``: simulate a scenario under one or more strategies."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import rich.console
import rich.markup

from fpgapool.sim import elastic
from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import group_results
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import tables
from fpgapool.sim.plots import observation
from fpgapool.sim.plots import pictures
from fpgapool.vocabulary import shapes

#: By metric: title, meaning, and pattern for values.
_METRICS = {
    "act_s": ("ACT", "average completion time", "{:.2f} s"),
    "tct95_s": ("TCT(95)", "its 95th percentile", "{:.2f} s"),
    "p99_s": ("p99", "its 99th percentile", "{:.2f} s"),
    "sar": ("SAR", "share of that time with a slot", "{:.3f}"),
    "dlr": ("DLR", "share of bytes that stayed local", "{:.3f}"),
    "makespan_s": ("makespan", "end of the last job", "{:.2f} s"),
}
#: The same of the time that jobs wait.
_WAITS = {
    "wait_mean_s": ("wait mean", "average time without a slot", "{:.2f} s"),
    "wait_p95_s": ("wait p95", "its 95th percentile", "{:.2f} s"),
    "wait_p99_s": ("wait p99", "its 99th percentile", "{:.2f} s"),
}
#: Interval between points in plots of groups.
_STEP_S = 1.0
_MOST_SEEDS = 1000


def add_parser(subparsers: typing.Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="simulate a scenario",
        description="Simulate a scenario under one or more strategies, and "
        f"compare each with the first one. {_key(_METRICS | _WAITS)}",
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
        "--seeds",
        type=screen.whole(1, _MOST_SEEDS),
        default=1,
        metavar="N",
        help="run each strategy with N seeds, from --seed on, and show means "
        "with 95 %% confidence intervals; default: 1",
    )
    parser.add_argument(
        "--warm-up-s",
        type=screen.argument(float, shapes.number(0)),
        default=0.0,
        metavar="X",
        help="leave out of the metrics the jobs that arrive in the first X "
        "seconds; default: 0",
    )
    parser.add_argument(
        "--fair-share",
        action="store_true",
        help="share slots evenly between tenants, under every strategy",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="FILE",
        help="write all results to this .json file; or, to a .csv or .parquet "
        "file, a table with a line for each job",
    )
    parser.add_argument(
        "--plot",
        type=pathlib.Path,
        metavar="PATH",
        help="write pictures to this directory, created if needed; or, for "
        "NAME.png, NAME.svg or NAME.pdf, to files whose names begin with "
        "NAME and have this extension",
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
    names_of_pictures = _prepare(scenario, arguments)
    console = screen.make_console()
    observers: dict[str, observation.Observer] = {}
    jobs: dict[str, list[results.Result]] = {}
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
        _write(scenario, arguments, jobs, groups)
    if jobs:
        _show(console, jobs)
    if groups:
        _show_groups(console, groups)
    if names_of_pictures is not None:
        with progress.work("drawing"):
            paths = []
            if jobs:
                paths += pictures.draw(
                    scenario,
                    {name: each[0] for name, each in jobs.items()},
                    observers,
                    names_of_pictures,
                )
            if groups:
                paths.append(
                    pictures.draw_groups(scenario, courses, names_of_pictures)
                )
        screen.say(console, f"pictures: {', '.join(map(str, paths))}")


def _prepare(
    scenario: scenarios.Scenario, arguments: argparse.Namespace
) -> pictures.Files | None:
    """Check before the run what is needed after it.

    :returns: the files for pictures; None: there are none to draw.
    """
    warm_up_s, output = arguments.warm_up_s, arguments.output
    last_s = max((job.arrival_s for job in scenario.jobs), default=0.0)
    if warm_up_s > last_s:
        raise errors.InputError(
            "--warm-up-s",
            "",
            f"no job arrives at {warm_up_s:g} s or later; the last one "
            f"arrives at {last_s:g} s",
        )
    if output is not None:
        tables.check(output)
        if output.suffix in tables.SUFFIXES and scenario.groups:
            raise errors.InputError(
                str(output),
                "",
                "a table has only jobs, and the scenario has groups; name a "
                ".json file",
            )
        files.check_writable(output)
    if arguments.plot is None:
        return None
    return pictures.prepare(arguments.plot, "--plot")


def _run_jobs(
    scenario: scenarios.Scenario,
    name: str,
    arguments: argparse.Namespace,
    observer: observation.Observer | None,
) -> list[results.Result]:
    """Return the results of each seed.

    :param observer: observes the run with the first seed.
    """
    found = []
    for number in range(arguments.seeds):
        seed = arguments.seed + number
        text = f"{name}, seed {seed}" if arguments.seeds > 1 else name
        with progress.work(text, len(scenario.jobs), "jobs") as work:
            outcomes = simulation.run(
                scenario,
                name,
                engine=arguments.engine,
                seed=seed,
                source=str(arguments.scenario),
                watcher=None if number else observer,
                fair_share=arguments.fair_share,
                on_end=work.advance,
            )
            found.append(
                results.evaluate(scenario, outcomes, arguments.warm_up_s)
            )
    return found


def _write(
    scenario: scenarios.Scenario,
    arguments: argparse.Namespace,
    jobs: Mapping[str, Sequence[results.Result]],
    groups: Mapping[str, group_results.GroupsResult],
) -> None:
    if arguments.output.suffix not in tables.SUFFIXES:
        results.write(jobs, arguments.output, groups)
        return
    runs = (
        tables.Run(name, arguments.seed + number, one)
        for name, each in jobs.items()
        for number, one in enumerate(each)
    )
    tables.write(scenario, runs, arguments.output, arguments.warm_up_s)


# -- what the user sees ----------------------------------------------------


def _show(
    console: rich.console.Console,
    every: Mapping[str, Sequence[results.Result]],
) -> None:
    measured = {
        name: [each.measured for each in found]
        for name, found in every.items()
    }
    if len(every) == 1:
        _show_one(console, *measured.popitem())
    else:
        jobs = next(iter(measured.values()))[0].jobs
        _show_all(console, measured, _METRICS, f"jobs: {jobs}")
        _show_all(console, measured, _WAITS, "Waits for a slot")
    found = {name: each[0] for name, each in every.items()}
    _print(
        console,
        "Slowdown, times programmed per job, and fairness between tenants",
        (
            *("mean slowdown", "p95", "p99", "max"),
            *("programmings", "Jain's index"),
        ),
        {
            name: _treatment_cells([each.details.treatment for each in some])
            for name, some in every.items()
            if some[0].details.treatment
        },
    )
    _show_kinds(console, found)
    _show_usage(console, found)
    _show_outages(console, found)
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
    seeds = max(map(len, every.values()))
    if seeds > 1:
        screen.say(
            console,
            f"± is half of the 95 % confidence interval over {seeds} seeds; "
            "values without it are of the first seed.",
        )


def _treatment_cells(
    found: Sequence[metrics.Treatment | None],
) -> Iterator[str]:
    """Return a cell for each member, over the seeds."""
    for member in dataclasses.fields(metrics.Treatment):
        values = [getattr(each, member.name) for each in found]
        yield "" if None in values else _over_seeds(values, "{:.3f}")


def _over_seeds(values: Sequence[float], pattern: str) -> str:
    """Return the mean and, below it, half of its confidence interval."""
    mean, half = gains.confidence(values)
    text = pattern.format(mean)
    if half == math.inf:
        return text
    return f"{text}\n± {pattern.format(half)}"


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
    console: rich.console.Console,
    name: str,
    measured: Sequence[metrics.Metrics],
) -> None:
    table = screen.make_table(
        ("metric",), ("value",), f"{name}, jobs: {measured[0].jobs}"
    )
    table.add_column("meaning", no_wrap=True)
    for member, (title, meaning, pattern) in (_METRICS | _WAITS).items():
        values = [getattr(each, member) for each in measured]
        table.add_row(title, _over_seeds(values, pattern), meaning)
    console.print(table)


def _key(members: Mapping[str, tuple[str, str, str]]) -> str:
    """Return what the titles of metrics mean."""
    each = "; ".join(
        f"{title}: {meaning}" for title, meaning, _ in members.values()
    )
    return f"{each}."


def _show_all(
    console: rich.console.Console,
    measured: Mapping[str, Sequence[metrics.Metrics]],
    members: Mapping[str, tuple[str, str, str]],
    heading: str,
) -> None:
    first_name, firsts = next(iter(measured.items()))
    first = metrics.mean(firsts)
    table = screen.make_table(
        ("strategy",),
        (title for title, _, _ in members.values()),
        heading,
        caption=f"{_key(members)} × is the improvement over {first_name}: "
        "above 1 is better.",
    )
    for name, found in measured.items():
        each = metrics.mean(found)
        factors = metrics.improvement(first, each)
        cells = []
        for member, (_, _, pattern) in members.items():
            text = _over_seeds(
                [getattr(one, member) for one in found], pattern
            )
            if name != first_name:
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


def _show_kinds(
    console: rich.console.Console, found: Mapping[str, results.Result]
) -> None:
    """Show how long single jobs, sets and chains waited and took."""
    if not any(each.details.kinds for each in found.values()):
        return
    table = screen.make_table(
        ("strategy", "kind"),
        ("number", "wait mean", "wait p95", "took mean", "took p95"),
        "Sets and chains: waits for all slots, and times with them",
    )
    for name, each in found.items():
        for kind, one in each.details.kinds.items():
            table.add_row(
                rich.markup.escape(name),
                kind,
                str(one.count),
                *(
                    f"{value_s:.2f} s"
                    for value_s in (
                        one.wait_mean_s,
                        one.wait_p95_s,
                        one.took_mean_s,
                        one.took_p95_s,
                    )
                ),
            )
    console.print(table)


def _show_outages(
    console: rich.console.Console, found: Mapping[str, results.Result]
) -> None:
    _print(
        console,
        "Outages of hosts, and jobs that lost the slots that worked for them",
        ("outages", "lost slot time", "interruptions"),
        {
            name: (
                str(lost.count),
                f"{lost.lost_slot_s:.0f} slot-s",
                str(lost.interruptions),
            )
            for name, one in found.items()
            if (lost := one.details.outages) is not None
        },
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
