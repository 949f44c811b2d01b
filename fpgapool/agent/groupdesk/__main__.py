# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.groupdesk SETTINGS``."""

from __future__ import annotations

import functools
import sys

from fpgapool.agent.child import process
from fpgapool.agent.child import room
from fpgapool.agent.groupdesk import service
from fpgapool.agent.groupdesk import settings as desk_settings

_run = functools.partial(process.run, service.Desk, OSError)


def warm_up() -> None:
    """Do once what all desks would do: mainly the imports."""
    room.warm_up()


def main() -> int:
    """Run the process; return its exit status."""
    return process.main("fpgapool.agent.groupdesk", desk_settings.parse, _run)


if __name__ == "__main__":
    sys.exit(main())
