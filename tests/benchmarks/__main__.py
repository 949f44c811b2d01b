# SPDX-License-Identifier: Apache-2.0

"""Run benchmarks: a table on the terminal, JSON and pictures in files."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import pkgutil
import types

import rich.console

from tests import benchmarks
from tests.benchmarks import measure
from tests.benchmarks import report

_FILE_WIDTH = 140


def find() -> dict[str, types.ModuleType]:
    """Find the benchmarks by their names, in the order of the names."""
    modules = [
        importlib.import_module(f"{benchmarks.__name__}.{info.name}")
        for info in pkgutil.iter_modules(benchmarks.__path__)
        if info.name != "__main__"
    ]
    return {
        module.__name__.rpartition(".")[2]: module
        for module in modules
        if hasattr(module, "rows")
    }


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    known = find()
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="benchmarks to run, all by default: " + ", ".join(known),
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="sizes that only show that it works",
    )
    parser.add_argument(
        "--large",
        action="store_true",
        help="also sizes that take many minutes",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("bench-out"),
        help="directory of the files (default: %(default)s)",
    )
    parser.add_argument(
        "--compare",
        type=pathlib.Path,
        metavar="JSON",
        help="show the medians of an earlier run, too",
    )
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(known))
    if unknown:
        parser.error(
            f"unknown: {', '.join(unknown)}; known are: {', '.join(known)}"
        )
    if args.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    plan = measure.Plan(args.repetitions, args.tiny, args.large)
    before = report.load_medians(args.compare) if args.compare else None
    args.out.mkdir(parents=True, exist_ok=True)
    console = rich.console.Console()
    if not console.is_terminal:
        console = rich.console.Console(width=_FILE_WIDTH)
    rows: list[measure.Row] = []
    for name in args.names or known:
        module = known[name]
        with console.status(module.TITLE):
            found = list(module.rows(plan))
        console.print(report.table(module.TITLE, found, before))
        report.draw(module.TITLE, found, args.out / f"{name}.png")
        rows += found
        # Saved after each, so that an interrupted run is not lost.
        report.save(rows, args.out / "results.json")
    console.print(f"JSON and pictures are in {args.out}")


if __name__ == "__main__":
    main()
