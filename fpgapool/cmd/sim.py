# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim``: simulate a cluster before it is bought or changed."""

from __future__ import annotations

import argparse
import signal
import sys
import typing
from collections.abc import Sequence

from fpgapool import version
from fpgapool.cmd import launch
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

    :returns: the exit code: 0; 1 if the real system failed, a comparison
        missed its goal, or standard output cannot be written; 2 for invalid
        input; 130 after Ctrl-C or SIGTERM.
    """
    given = sys.argv[1:] if argv is None else argv
    wanted = [name for name in commands.NAMES if name in given[:1]]
    arguments = parser(wanted or commands.NAMES).parse_args(given)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with progress.reporting(PROGRAM, arguments.command):
            status: int | None = arguments.run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except errors.InputError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return USAGE
    except errors.SystemFailed as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILURE
    except OSError as error:
        # Those of files are InputErrors by now.
        launch.discard_output()
        print(f"{PROGRAM}: {error.strerror or error}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt:
        return launch.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, previous)
    return SUCCESS if status is None else status


def _interrupt(_number: int, _frame: object) -> typing.NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
