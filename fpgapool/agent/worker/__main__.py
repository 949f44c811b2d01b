# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.worker SETTINGS``.

Exit status: 0, 1 if the worker cannot run, 2 if its settings are wrong, 3 if
another worker runs the slot.
"""

from __future__ import annotations

import logging
import os
import sys

from fpgapool.agent.child import port
from fpgapool.agent.child import process
from fpgapool.agent.worker import service
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.drivers import base as drivers

LOG = logging.getLogger("fpgapool.agent.worker")


def _run(settings: worker_settings.Settings) -> int:
    try:
        worker = service.Worker(settings)
    except process.Taken as exc:
        LOG.error("%s", exc)
        return process.EXIT_TAKEN
    except (drivers.DriverError, port.PortUnavailable, OSError) as exc:
        LOG.error("worker cannot start: %s", exc)
        return process.EXIT_FAILURE
    process.exit_on_signals(worker.exit)
    worker.run()
    if worker.is_spent:
        # Libraries would wait for their threads.
        logging.shutdown()
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(
        process.main(
            "fpgapool.agent.worker",
            sys.argv[1:],
            worker_settings.parse,
            _run,
        )
    )
