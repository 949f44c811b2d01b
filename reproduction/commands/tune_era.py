# SPDX-License-Identifier: Apache-2.0

"""The command ``tune-era``: search better values for the options of era."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim.experiments import crews
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.strategies.joint import era
from reproduction.rate_aware import era_tuning

RESULTS = "runs.csv"
#: Where the search begins.
_STARTS = {"default": era.EraOptions(), "as-written": era.AS_WRITTEN}
_MAX_SEEDS = 1000


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "tune-era",
        help="search better values for the options of era",
        description="Try other values of era's options, one after the other, "
        "on the 25 settings of its study, and keep those that make jobs end "
        "sooner. The command prints the values as the conductor's "
        "configuration. If it is interrupted, the same command goes on.",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help=f"write all runs to {RESULTS} in this directory; created if "
        "needed",
    )
    parser.add_argument(
        "--start",
        choices=sorted(_STARTS),
        default="default",
        help="the values that the search begins with: those of era, or those "
        "of its first version; default: %(default)s",
    )
    parser.add_argument(
        "--options",
        nargs="+",
        default=list(era_tuning.CANDIDATES),
        metavar="NAME",
        help="options to be tuned, in this order; default: all",
    )
    parser.add_argument(
        "--settings",
        nargs="+",
        type=screen.whole(1, len(era_tuning.SETTINGS)),
        default=list(range(1, len(era_tuning.SETTINGS) + 1)),
        metavar="N",
        help="numbers of the settings, from 1 to "
        f"{len(era_tuning.SETTINGS)}, in the order of the study; default: all",
    )
    for option, default, kind, what in (
        ("--first-seed", 1, screen.whole(0), "seed of the first workload"),
        (
            "--seeds",
            1,
            screen.whole(1, _MAX_SEEDS),
            "number of workloads of each setting",
        ),
        (
            "--jobs-per-host",
            50,
            screen.whole(1, scenarios.MAX_JOBS // 100),
            "number of jobs from each host",
        ),
    ):
        parser.add_argument(
            option,
            type=kind,
            default=default,
            metavar="N",
            help=f"{what}; default: %(default)s",
        )
    crews.add_processes(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Search, and print what was found.

    :raises errors.InputError: for invalid input.
    """
    _check(arguments)
    files.make_directory(arguments.out)
    console = screen.make_console()
    bench = era_tuning.Bench(
        settings=[number - 1 for number in dict.fromkeys(arguments.settings)],
        seeds=range(
            arguments.first_seed, arguments.first_seed + arguments.seeds
        ),
        jobs_per_host=arguments.jobs_per_host,
        path=arguments.out / RESULTS,
        processes=arguments.processes,
    )
    start = _STARTS[arguments.start]
    table = screen.make_table(
        ("option",),
        (
            "value",
            "ACT, times wra's (95 % interval)",
            "TCT(95), times wra's (95 % interval)",
            "least",
            "",
        ),
        f"{len(bench.settings)} settings, {len(bench.seeds)} seeds: how many "
        "times shorter than under wra",
        caption="least: the smaller gain of ACT and TCT(95) in any setting; "
        "without an interval: one seed.",
    )
    tuned = start
    for trial in _search(bench, start, arguments.options):
        _add_row(table, trial)
        if trial.is_kept:
            tuned = trial.options
    console.print(table)
    _show_result(console, start, tuned)


def _check(arguments: argparse.Namespace) -> None:
    for name in arguments.options:
        if name not in era_tuning.CANDIDATES:
            raise errors.InputError(
                "--options",
                name,
                f"unknown option of era; known: "
                f"{', '.join(era_tuning.CANDIDATES)}",
            )


def _search(
    bench: era_tuning.Bench, start: era.EraOptions, options: Sequence[str]
) -> Iterator[era_tuning.Trial]:
    """Yield the trials, and show how far the search is."""
    total = era_tuning.most_trials(options)
    with progress.work("searching", total, "values") as work:
        for trial in era_tuning.search(bench, start, options):
            yield trial
            work.advance()


def _add_row(table: typing.Any, trial: era_tuning.Trial) -> None:
    score = trial.score
    table.add_row(
        trial.option or "at first",
        "" if trial.value is None else f"{trial.value:g}",
        _text(score.act),
        _text(score.tct95),
        f"{score.least:.3f}",
        "kept" if trial.is_kept else "",
    )


def _text(ratio: typing.Any) -> str:
    return f"{ratio.mean:.3f}" if ratio.low == 0 else str(ratio)


def _show_result(
    console: rich.console.Console,
    start: era.EraOptions,
    tuned: era.EraOptions,
) -> None:
    changed = {
        name: value
        for name, value in dataclasses.asdict(tuned).items()
        if value != getattr(era.EraOptions(), name)
    }
    if tuned == start:
        screen.say(console, "No other value is better.")
    screen.say(
        console,
        "\n".join(
            (
                "",
                "[conductor]",
                "strategy = era",
                *(["", "[scheduler]"] if changed else []),
                *(
                    [
                        "strategy_options = "
                        + ",".join(
                            f"{name}:{value:g}"
                            for name, value in changed.items()
                        )
                    ]
                    if changed
                    else []
                ),
            )
        ),
    )
