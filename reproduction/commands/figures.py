# SPDX-License-Identifier: Apache-2.0

"""The command ``figures``: reproduce the figures of papers."""

from __future__ import annotations

import argparse
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim.experiments import crews
from fpgapool.sim.plots import pictures
from reproduction import figures
from reproduction.figures import figure

_ALL = "all"
_Found = typing.TypeVar("_Found")


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
        help="write the files into this directory; created if needed",
    )
    crews.add_processes(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Make the figures, and say which claims hold."""
    chosen = _chosen(arguments.figures)
    out_dir: pathlib.Path = arguments.out
    pictures.prepare(out_dir, "figures")
    console = screen.make_console()
    laboratory = _Laboratory(arguments.processes)
    for name in chosen:
        laboratory.purpose = name
        try:
            with progress.work(f"{_title(name)}, its numbers and pictures"):
                sentence = figures.FIGURES[name].make(out_dir, laboratory)
        except OSError as error:
            raise files.unusable(out_dir, error) from error
        screen.say(console, sentence)
    screen.say(console, f"The files are in {out_dir}.")


class _Laboratory:
    """Does each simulation once; some figures share simulations.

    :ivar purpose: the figure that needs them.
    """

    def __init__(self, processes: int | None) -> None:
        self.purpose = ""
        self._processes = processes
        self._known: dict[figure.Run[typing.Any], typing.Any] = {}

    def __call__(
        self, runs: Sequence[figure.Run[_Found]], /
    ) -> dict[figure.Run[_Found], _Found]:
        """Do the simulations that are new, and show the progress."""
        new = [run for run in dict.fromkeys(runs) if run not in self._known]
        with progress.work(_title(self.purpose), len(new)) as work:
            for run, measured in self._work(new):
                self._known[run] = measured
                work.advance()
        return {run: self._known[run] for run in runs}

    def _work(
        self, runs: Sequence[figure.Run[_Found]]
    ) -> Iterator[tuple[figure.Run[_Found], _Found]]:
        if self._processes == 1:
            return ((run, run.measure()) for run in runs)
        return crews.work_here(figure.measure_one, runs, self._processes)


def _title(name: str) -> str:
    return f"figure {name}" if name.isdecimal() else name


def _chosen(names: list[str]) -> list[str]:
    for name in names:
        if name != _ALL and name not in figures.FIGURES:
            raise errors.InputError(
                "figures",
                name,
                "unknown figure; known: "
                f"{', '.join((*figures.FIGURES, _ALL))}",
            )
    if _ALL in names:
        return list(figures.FIGURES)
    return [name for name in figures.FIGURES if name in names]
