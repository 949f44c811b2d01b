# SPDX-License-Identifier: Apache-2.0

"""``python -m reproduction``: figures of papers, and what validates the
simulator."""

import sys
from collections.abc import Sequence

from fpgapool.cmd import launch
from fpgapool.cmd import sim
from reproduction import commands

PROGRAM = "python -m reproduction"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands, and return the exit code."""
    return sim.main(argv, commands.MODULES, PROGRAM, __doc__)


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
