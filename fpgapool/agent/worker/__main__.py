# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.worker SETTINGS``."""

from __future__ import annotations

import functools
import sys

from fpgapool.agent.child import process
from fpgapool.agent.worker import service
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.drivers import base as drivers

_run = functools.partial(process.run, service.Worker, drivers.DriverError)

if __name__ == "__main__":
    sys.exit(
        process.main("fpgapool.agent.worker", worker_settings.parse, _run)
    )
