# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.groupdesk SETTINGS``.

Exit status: 0, 1 if the desk cannot run, 2 if its settings are wrong, 3 if
another process is this desk.
"""

from __future__ import annotations

import logging
import sys

from fpgapool.agent.child import port as data_ports
from fpgapool.agent.child import process
from fpgapool.agent.groupdesk import service
from fpgapool.agent.groupdesk import settings as desk_settings

LOG = logging.getLogger("fpgapool.agent.groupdesk")


def _run(settings: desk_settings.Settings) -> int:
    try:
        desk = service.Desk(settings)
    except process.Taken as exc:
        LOG.error("%s", exc)
        return process.EXIT_TAKEN
    except (data_ports.PortUnavailable, OSError) as exc:
        LOG.error("the desk cannot start: %s", exc)
        return process.EXIT_FAILURE
    process.exit_on_signals(desk.exit)
    desk.run()
    return 0


if __name__ == "__main__":
    sys.exit(
        process.main(
            "fpgapool.agent.groupdesk",
            sys.argv[1:],
            desk_settings.parse,
            _run,
        )
    )
