# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.worker SETTINGS``."""

from __future__ import annotations

import functools
import sys
import typing
from collections.abc import Mapping

from fpgapool.agent.child import certificate
from fpgapool.agent.child import process
from fpgapool.agent.child import room
from fpgapool.agent.worker import service
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.drivers import base as drivers
from fpgapool.drivers import helper
from fpgapool.drivers import loader

_run = functools.partial(process.run, service.Worker, drivers.DriverError)


def warm_up(
    driver: str, driver_settings: Mapping[str, typing.Any], tls: bool
) -> None:
    """Do once what all workers of an agent would do; they are forked later.

    :param tls: whether workers need certificates.
    :raises drivers.DriverError: if there is no such driver, or its settings
        are invalid.
    """
    loader.load_driver_class(driver).warm_up(driver_settings)
    room.warm_up()
    if tls:
        # OpenSSL's tables. It seeds its random numbers anew in each fork.
        certificate.Certificate().context()


def prepare(
    driver: str, driver_settings: Mapping[str, typing.Any], tls: bool
) -> None:
    """Do once what one worker does before it knows its slot.

    Called in a process of its own, with the arguments of :func:`warm_up`.
    """
    if tls:
        certificate.prepare()
    if loader.load_driver_class(driver).has_helper:
        helper.prepare()


def main() -> int:
    """Run the process; return its exit status."""
    return process.main("fpgapool.agent.worker", worker_settings.parse, _run)


if __name__ == "__main__":
    sys.exit(main())
