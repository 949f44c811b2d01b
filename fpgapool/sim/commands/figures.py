# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim figures``: reproduce the figures of the paper."""

from __future__ import annotations

import argparse
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console
import rich.progress

from fpgapool.sim import crews
from fpgapool.sim import errors
from fpgapool.sim import figures
from fpgapool.sim import files
from fpgapool.sim import metrics
from fpgapool.sim import screen
from fpgapool.sim.figures import experiments

_ALL = "all"


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "figures",
        help="reproduce the paper's figures",
        description="Reproduce figures of the paper, each as a picture "
        "(PNG), its numbers (CSV) and a sentence on whether the paper's claim "
        "holds.",
    )
    parser.add_argument(
        "figures",
        nargs="+",
        metavar="FIGURE",
        help=f"one or more of {', '.join((*figures.FIGURES, _ALL))}",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="where the files go; is made if it is not there",
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="that simulate; default: one for each processor",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Make the figures and say what they show."""
    chosen = _chosen(arguments.figures)
    if arguments.processes is not None and arguments.processes < 1:
        raise errors.InputError(
            "--processes", "", f"must be at least 1, not {arguments.processes}"
        )
    _check_matplotlib()
    out_dir: pathlib.Path = arguments.out
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.unusable(out_dir, error) from error
    console = screen.make_console()
    laboratory = _Laboratory(console, arguments.processes)
    for name in chosen:
        laboratory.purpose = name
        try:
            sentence = figures.FIGURES[name].make(out_dir, laboratory)
        except OSError as error:
            raise files.unusable(out_dir, error) from error
        screen.say(console, sentence)
    screen.say(console, f"The files are in {out_dir}.")


class _Laboratory:
    """Has simulations done, each once: figures share some of them.

    :ivar purpose: the figure that they are for.
    """

    def __init__(
        self, console: rich.console.Console, processes: int | None
    ) -> None:
        self.purpose = ""
        self._console = console
        self._processes = processes
        self._known: dict[experiments.Run, metrics.Metrics] = {}

    def __call__(
        self, runs: Sequence[experiments.RunT], /
    ) -> dict[experiments.RunT, metrics.Metrics]:
        """Simulate what is not known yet, and show how far it is."""
        new = [run for run in dict.fromkeys(runs) if run not in self._known]
        with rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.TextColumn("{task.completed} of {task.total} runs"),
            rich.progress.BarColumn(),
            rich.progress.TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            transient=True,
        ) as progress:
            bar = progress.add_task(_title(self.purpose), total=len(new))
            for run, measured in self._work(new):
                self._known[run] = measured
                progress.advance(bar)
        return {run: self._known[run] for run in runs}

    def _work(
        self, runs: Sequence[experiments.RunT]
    ) -> Iterator[tuple[experiments.RunT, metrics.Metrics]]:
        if not runs:
            return iter(())
        if self._processes == 1:
            return ((run, run.measure()) for run in runs)
        return crews.work_here(experiments.measure_one, runs, self._processes)


def _title(name: str) -> str:
    return f"figure {name}" if name.isdecimal() else name


def _chosen(names: list[str]) -> list[str]:
    for name in names:
        if name != _ALL and name not in figures.FIGURES:
            raise errors.InputError(
                "figures",
                name,
                "there is no such figure; known: "
                f"{', '.join((*figures.FIGURES, _ALL))}",
            )
    if _ALL in names:
        return list(figures.FIGURES)
    return [name for name in figures.FIGURES if name in names]


def _check_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise errors.InputError(
            "figures",
            "",
            "matplotlib is not installed; it comes with the extra "
            "'sim': pip install fpgapool[sim]",
        ) from error
