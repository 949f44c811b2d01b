# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim run``: simulate a scenario under one or more strategies."""

from __future__ import annotations

import argparse
import pathlib
import typing
from collections.abc import Mapping

import rich.console
import rich.markup

from fpgapool.sim import files
from fpgapool.sim import metrics
from fpgapool.sim import observation
from fpgapool.sim import pictures
from fpgapool.sim import results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import screen
from fpgapool.sim import simulation

#: By metric: title, meaning, and pattern for values.
_METRICS = {
    "act_s": ("ACT", "average completion time", "{:.2f} s"),
    "tct95_s": ("TCT(95)", "its 95th percentile", "{:.2f} s"),
    "p99_s": ("p99", "its 99th percentile", "{:.2f} s"),
    "sar": ("SAR", "share of that time with a slot", "{:.3f}"),
    "dlr": ("DLR", "share of bytes that stayed local", "{:.3f}"),
    "makespan_s": ("makespan", "end of the last job", "{:.2f} s"),
}


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
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
    parser.add_argument(
        "--strategy",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help="simulate these: strategies of the scenario, or installed ones "
        "with their default options; may be repeated; default: all strategies "
        "of the scenario",
    )
    parser.add_argument(
        "--engine",
        choices=sorted(simulation.ENGINES),
        default="fluid",
        help="how data moves: as a fluid at a steady rate, or in chunks, "
        "which is slower and closer to the data plane; default: fluid",
    )
    parser.add_argument(
        "--seed",
        type=screen.seed,
        default=0,
        metavar="N",
        help="seed of the strategies' random choices; default: 0",
    )
    parser.add_argument(
        "--fair-share",
        action="store_true",
        help="under every strategy, share the slots evenly between the jobs' "
        "tenants",
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
        help="draw pictures into this directory; it is made if needed",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Simulate, and show the results.

    :raises errors.InputError: for invalid input.
    """
    source = str(arguments.scenario)
    scenario = scenarios.read(arguments.scenario)
    names = list(dict.fromkeys(arguments.strategy or scenario.strategies))
    for name in names:
        simulation.make_strategy(
            scenario.strategies, name, arguments.seed, source
        )
    if arguments.output is not None:
        files.check_writable(arguments.output)
    if arguments.plot is not None:
        pictures.prepare(arguments.plot, "--plot")
    console = screen.make_console()
    found: dict[str, results.Result] = {}
    courses: dict[str, observation.Course] = {}
    for name in names:
        observer = None
        if arguments.plot is not None:
            observer = observation.Observer(
                scenario, rates_hold=arguments.engine == "fluid"
            )
        with screen.busy(console, f"{name}: {len(scenario.jobs)} jobs"):
            outcomes = simulation.run(
                scenario,
                name,
                engine=arguments.engine,
                seed=arguments.seed,
                source=source,
                watcher=observer,
                fair_share=arguments.fair_share,
            )
            found[name] = results.evaluate(scenario, outcomes)
        if observer is not None:
            courses[name] = observer.course()
    if arguments.output is not None:
        results.write(found, arguments.output)
    _show(console, found)
    if arguments.plot is not None:
        with screen.busy(console, "drawing"):
            paths = pictures.draw(scenario, found, courses, arguments.plot)
        screen.say(console, f"pictures: {', '.join(map(str, paths))}")


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
    names = ["slots", "DMA pipes", "NICs, sending", "NICs, receiving"]
    table = screen.make_table(
        ("strategy",),
        [*names, "energy"] if has_energy else names,
        "Share of the capacity used until the last job ended",
    )
    for name, each in found.items():
        used, energy = each.details.utilisation, each.details.energy
        table.add_row(
            rich.markup.escape(name),
            *(
                "" if share is None else f"{share:.1%}"
                for share in (
                    used.slots,
                    used.dma,
                    used.nic_egress,
                    used.nic_ingress,
                )
            ),
            *([f"{energy.total_j / 1e3:.1f} kJ"] if energy else []),
        )
    console.print(table)
