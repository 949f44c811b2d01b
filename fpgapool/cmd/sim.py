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

"""``fpgapool-sim``: simulate a cluster before it is bought or changed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fpgapool.sim import commands
from fpgapool.sim import errors

SUCCESS = 0
USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands.

    :returns: the exit code: 0, or 2 for input that makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="fpgapool-sim",
        description="Simulate an FPGA pool with its own scheduling code.",
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands.COMMANDS:
        command.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except errors.InputError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return USAGE
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
