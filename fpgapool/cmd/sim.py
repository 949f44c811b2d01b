# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim``: simulate a cluster before it is bought or changed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fpgapool import version
from fpgapool.cmd import launch
from fpgapool.common import interrupts
from fpgapool.sim import commands
from fpgapool.sim import errors
from fpgapool.sim import progress

SUCCESS = 0
FAILURE = 1
USAGE = 2

PROGRAM = "fpgapool-sim"

# The libraries of this command are those of the extra ``sim``. They are
# imported with this module, so that the launcher can name a missing one.
commands.module("run")


def parser(names: Sequence[str] = commands.NAMES) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    :param names: of the commands that it knows.
    """
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Simulate an FPGA pool with its own scheduling code.",
    )
    made.add_argument(
        "--version", action="version", version=version.version_string()
    )
    subparsers = made.add_subparsers(
        metavar="COMMAND", required=True, dest="command"
    )
    for name in names:
        commands.module(name).add_parser(subparsers)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands.

    :returns: the exit code: 0; 1 if the real system failed, or a comparison
        missed its goal; 2 for invalid input; 130 after Ctrl-C or another
        signal that ends it.
    """
    given = sys.argv[1:] if argv is None else argv
    wanted = [name for name in commands.NAMES if name in given[:1]]
    arguments = parser(wanted or commands.NAMES).parse_args(given)
    try:
        with (
            interrupts.interruptible(),
            progress.reporting(PROGRAM, arguments.command),
        ):
            status: int | None = arguments.run(arguments)
    except errors.InputError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return USAGE
    except errors.SystemFailed as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt:
        return launch.INTERRUPTED
    return SUCCESS if status is None else status


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
