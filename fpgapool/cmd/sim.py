# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim``: simulate a cluster before it is bought or changed."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool import version
from fpgapool.cmd import launch
from fpgapool.common import interrupts
from fpgapool.sim import commands
from fpgapool.sim import errors
from fpgapool.sim import progress

# The libraries of this command are those of the extra ``sim``. They are
# imported with this module, so that the launcher can name a missing one.
from fpgapool.sim.commands import run as _run  # noqa: F401

SUCCESS = 0
FAILURE = 1
USAGE = 2

PROGRAM = "fpgapool-sim"
DESCRIPTION = "Simulate an FPGA pool with its own scheduling code."


def parser(
    modules: Mapping[str, str] = commands.MODULES,
    program: str = PROGRAM,
    description: str = DESCRIPTION,
) -> argparse.ArgumentParser:
    """Return the parser of a command line.

    :param modules: modules of the commands, by command name.
    """
    made = argparse.ArgumentParser(prog=program, description=description)
    made.add_argument(
        "--version", action="version", version=version.version_string()
    )
    subparsers = made.add_subparsers(
        metavar="COMMAND", required=True, dest="command"
    )
    for module in modules.values():
        importlib.import_module(module).add_parser(subparsers)
    return made


def main(
    argv: Sequence[str] | None = None,
    modules: Mapping[str, str] = commands.MODULES,
    program: str = PROGRAM,
    description: str = DESCRIPTION,
) -> int:
    """Run one of the commands.

    :returns: 0; 1 if the real system failed or a comparison missed its goal; 2
        if the input is invalid; 130 after a signal such as Ctrl-C.
    """
    given = sys.argv[1:] if argv is None else argv
    # Importing the other commands' libraries takes longer than a small run.
    wanted = {name: modules[name] for name in given[:1] if name in modules}
    arguments = parser(wanted or modules, program, description).parse_args(
        given
    )
    try:
        with (
            interrupts.interruptible(),
            progress.reporting(program, arguments.command),
        ):
            status: int | None = arguments.run(arguments)
    except errors.InputError as error:
        return launch.failed(program, error, USAGE)
    except errors.SystemFailed as error:
        return launch.failed(program, error, FAILURE)
    except KeyboardInterrupt:
        return launch.INTERRUPTED
    return SUCCESS if status is None else status


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
