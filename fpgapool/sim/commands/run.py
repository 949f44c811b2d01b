# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim run``: simulate a scenario under one or more policies."""

from __future__ import annotations

import argparse
import pathlib
import typing
from collections.abc import Mapping
from collections.abc import Sequence

import rich.console
import rich.markup
import rich.table

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import metrics
from fpgapool.sim import observation
from fpgapool.sim import pictures
from fpgapool.sim import results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import screen
from fpgapool.sim import simulation

#: Member of the metrics and of their improvement, name, meaning, pattern.
_METRICS = (
    ("act", "act_s", "ACT", "average completion time", "{:.2f} s"),
    ("tct95", "tct95_s", "TCT(95)", "its 95th percentile", "{:.2f} s"),
    ("p99", "p99_s", "p99", "its 99th percentile", "{:.2f} s"),
    ("sar", "sar", "SAR", "share of that time with a slot", "{:.3f}"),
    ("dlr", "dlr", "DLR", "share of bytes that stayed local", "{:.3f}"),
    ("makespan", "makespan_s", "makespan", "until all were done", "{:.2f} s"),
)


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="simulate a scenario",
        description="Simulate a scenario under one or more policies, which "
        "are compared with the first one.",
    )
    parser.add_argument(
        "scenario",
        type=pathlib.Path,
        metavar="SCENARIO",
        help="a scenario file",
    )
    parser.add_argument(
        "--policy",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help="a policy of the scenario, or a strategy, which then has its "
        "default options; may be repeated; default: all of the scenario",
    )
    parser.add_argument(
        "--engine",
        choices=sorted(simulation.ENGINES),
        default="fluid",
        help="the model of the data's ways; default: fluid",
    )
    parser.add_argument(
        "--seed",
        type=screen.seed,
        default=0,
        metavar="N",
        help="of the policies' random choices; default: 0",
    )
    parser.add_argument(
        "--fair-share",
        action="store_true",
        help="let the tenants of the jobs share the slots evenly, under every "
        "policy",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="OUT.json",
        help="write all results to this file",
    )
    parser.add_argument(
        "--plot",
        type=pathlib.Path,
        metavar="DIR",
        help="draw pictures into this directory, which is made if needed",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Simulate and show what came out.

    :raises errors.InputError: for input that makes no sense.
    """
    source = str(arguments.scenario)
    scenario = scenarios.read(arguments.scenario)
    policies = list(dict.fromkeys(arguments.policy or scenario.policies))
    for policy in policies:
        check_policy(scenario, policy, arguments.seed, source)
    if arguments.output is not None:
        files.check_writable(arguments.output)
    if arguments.plot is not None:
        pictures.prepare(arguments.plot)
    console = screen.make_console()
    found: dict[str, results.Result] = {}
    courses: dict[str, observation.Course] = {}
    for policy in policies:
        observer = None
        if arguments.plot is not None:
            observer = observation.Observer(
                scenario, rates_hold=arguments.engine == "fluid"
            )
        with screen.busy(console, f"{policy}: {len(scenario.jobs)} jobs"):
            outcomes = simulation.run(
                scenario,
                policy,
                engine=arguments.engine,
                seed=arguments.seed,
                source=source,
                watcher=observer,
                fair_share=arguments.fair_share,
            )
            found[policy] = results.evaluate(scenario, outcomes)
        if observer is not None:
            courses[policy] = observer.course()
    if arguments.output is not None:
        results.write(found, arguments.output)
    _show(console, found)
    if arguments.plot is not None:
        with screen.busy(console, "drawing"):
            paths = pictures.draw(scenario, found, courses, arguments.plot)
        screen.say(console, f"pictures: {', '.join(map(str, paths))}")


def check_policy(
    scenario: scenarios.Scenario, policy: str, seed: int, source: str
) -> None:
    """Make sure that a policy can be simulated.

    :param policy: name of one of the scenario's, or of a strategy.
    :param seed: of random choices.
    :param source: the scenario's file, for the message.
    :raises errors.InputError: if it cannot.
    """
    options = scenario.policies.get(policy)
    if options is None:
        strategies = simulation.strategy_names()
        if policy not in strategies:
            raise errors.InputError(
                source,
                f"policies.{policy}",
                f"there is no policy {policy!r}; known: "
                f"{', '.join(scenario.policies)} (of the scenario), "
                f"{', '.join(strategies)} (strategies)",
            )
        options = scenarios.Policy()
    simulation.make_strategy(policy, options, seed, source)


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
    table = _table(
        f"{name}, jobs: {measured.jobs}", ["metric", "value", "meaning"]
    )
    table.columns[2].justify = "left"
    for _, member, title, meaning, pattern in _METRICS:
        table.add_row(
            title, pattern.format(getattr(measured, member)), meaning
        )
    console.print(table)


def _show_all(
    console: rich.console.Console, measured: Mapping[str, metrics.Metrics]
) -> None:
    first_name, first = next(iter(measured.items()))
    table = _table(
        f"jobs: {first.jobs}",
        ["policy", *(title for _, _, title, _, _ in _METRICS)],
        f"× is the improvement over {first_name}: above 1 is better.",
    )
    for name, each in measured.items():
        factors = metrics.improvement(first, each)
        cells = []
        for factor, member, _, _, pattern in _METRICS:
            text = pattern.format(getattr(each, member))
            if each is not first:
                text += f"\n{getattr(factors, factor):.2f} ×"
            cells.append(text)
        table.add_row(rich.markup.escape(name), *cells)
    console.print(table)


def _show_usage(
    console: rich.console.Console, found: Mapping[str, results.Result]
) -> None:
    has_energy = any(each.details.energy for each in found.values())
    table = _table(
        "Used, of what there was until all were done",
        [
            "policy",
            "slots",
            "DMA pipes",
            "NICs, sending",
            "NICs, receiving",
            *(["energy"] if has_energy else []),
        ],
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


def _table(
    title: str, names: Sequence[str], caption: str | None = None
) -> rich.table.Table:
    """A table whose first column is on the left, the others on the right."""
    table = rich.table.Table(
        title=rich.markup.escape(title),
        title_justify="left",
        caption=caption and rich.markup.escape(caption),
        caption_justify="left",
        box=None,
    )
    for at, name in enumerate(names):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table
