# SPDX-License-Identifier: Apache-2.0

"""fpgapool-dev: make a new accelerator, driver or strategy, and try it.

Exit codes: 0 success; 1 a step or a check failed; 2 the command line or a file
is invalid.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from fpgapool.allinone import program
from fpgapool.cmd import launch
from fpgapool.cmd.developing import making
from fpgapool.cmd.managing import building
from fpgapool.cmd.managing import commands
from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.common import interrupts

PROGRAM = "fpgapool-dev"


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        with interrupts.interruptible():
            status: int = args.run(args)
            return status
    except exception.ConfigurationError as error:
        return launch.failed(PROGRAM, f"{error.code}: {error.reason}", 2)


def _try(args: argparse.Namespace) -> int:
    # Imported late: it needs the libraries of a whole pool.
    from fpgapool.cmd.developing import trying

    return trying.run(args)


def _new(args: argparse.Namespace) -> int:
    for line in making.make(args.kind, args.name, args.directory):
        print(line)
    return 0


_NEW = (
    arguments.Argument(
        "kind",
        choices=tuple(making.KINDS),
        help="; ".join(f"{k}: {about}" for k, about in making.KINDS.items()),
    ),
    arguments.Argument(
        "name",
        metavar="NAME",
        help="name of the new directory, and of what is in it: lower-case"
        " letters, digits and _",
    ),
    arguments.option(
        "directory",
        "DIR",
        "where to make it; the default is the current directory",
        type=pathlib.Path,
        default=pathlib.Path(),
    ),
)

_TRY = (
    arguments.Argument(
        "file",
        type=pathlib.Path,
        metavar="FILE",
        help="OpenCL program FILE.cl with its manifest FILE.json, or core"
        " FILE.py with its profile FILE.yaml. Optional: FILE.vectors.json, and"
        " for a kernel FILE.py with the function reference()",
    ),
    building.PLATFORM,
    building.DEVICE,
    building.ALLOWED,
    arguments.option(
        "size-mib",
        "MIB",
        "input whose rate is measured, in MiB; the default is 64",
        type=arguments.positive,
        default=64.0,
    ),
    arguments.option(
        "timeout-s",
        "SECONDS",
        "time limit for each session; the default is 120",
        type=arguments.positive,
        default=120.0,
    ),
    arguments.option(
        "start-timeout-s",
        "SECONDS",
        "time limit for the start of the pool; the default is"
        f" {program.START_TIMEOUT_S:g}",
        type=arguments.positive,
        default=program.START_TIMEOUT_S,
    ),
    commands.FORMAT,
)

_COMMANDS = (
    (
        "try",
        _try,
        "Build an accelerator, sign it, start a pool of one slot on this"
        " machine, run it there, compare and measure it. Nothing remains.",
        _TRY,
    ),
    (
        "new",
        _new,
        "Make a directory with a first version, and a test that passes.",
        _NEW,
    ),
)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        PROGRAM, description="For developers of accelerators and plug-ins."
    )
    arguments.VERSION.add_to(made)
    places = made.add_subparsers(dest="command", required=True)
    for name, run, about, declared in _COMMANDS:
        found = places.add_parser(name, help=about, description=about)
        arguments.add(declared, found)
        found.set_defaults(run=run)
    return made


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
