# SPDX-License-Identifier: Apache-2.0

"""How the boards of a host do."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.agent import sender
from fpgapool.drivers import base as drivers

LOG = logging.getLogger(__name__)


class Boards:
    """Asks a driver away from the loop's thread, which uses this.

    :param driver: of the boards.
    :param devices: the boards.
    :param caller: has the threads.
    :param tell: called in the loop's thread with a device's name, what is
        wrong with it, None if nothing is, and its power in W, None if it does
        not measure that.
    """

    def __init__(
        self,
        driver: drivers.Driver,
        devices: Iterable[drivers.DeviceInfo],
        caller: sender.Caller,
        tell: Callable[[str, str | None, float | None], None],
    ) -> None:
        self._driver = driver
        self._names = [device.name for device in devices]
        self._caller = caller
        self._tell = tell
        self._asking = False

    def check(self) -> None:
        """Find out how all boards do, unless that is being asked."""
        if self._names and not self._asking:
            self._asking = True
            self._caller.submit(self._ask, self._take, self._failed)

    def _ask(self) -> list[tuple[str, drivers.Health, float | None]]:
        return [
            (name, self._driver.health(name), self._power_w(name))
            for name in self._names
        ]

    def _power_w(self, device: str) -> float | None:
        try:
            return self._driver.telemetry(device).power_w
        except Exception as error:
            # Its health says what is wrong with a board, and a sensor must
            # not keep that from being asked.
            LOG.debug("Power of %s cannot be read: %s", device, error)
            return None

    def _take(
        self, found: list[tuple[str, drivers.Health, float | None]]
    ) -> None:
        self._asking = False
        for name, health, power_w in found:
            fault = None if health.healthy else health.message or "not healthy"
            self._tell(name, fault, power_w)

    def _failed(self, error: Exception) -> None:
        self._asking = False
        LOG.warning("The driver cannot tell its boards' health: %s", error)
