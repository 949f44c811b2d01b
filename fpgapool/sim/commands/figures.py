#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""``fpgapool-sim figures``: reproduce the figures of the paper."""

from __future__ import annotations

import argparse
import pathlib
import typing

from fpgapool.sim import errors
from fpgapool.sim import figures
from fpgapool.sim import files
from fpgapool.sim import screen

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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Make the figures and say what they show."""
    chosen = _chosen(arguments.figures)
    _check_matplotlib()
    out_dir: pathlib.Path = arguments.out
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.unusable(out_dir, error) from error
    console = screen.make_console()
    for name in chosen:
        with screen.busy(console, f"figure {name} …"):
            try:
                sentence = figures.FIGURES[name].make(out_dir)
            except OSError as error:
                raise files.unusable(out_dir, error) from error
        screen.say(console, sentence)
    screen.say(console, f"The files are in {out_dir}.")


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
