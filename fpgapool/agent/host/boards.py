# SPDX-License-Identifier: Apache-2.0

"""The health and power of a host's boards."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.agent import sender
from fpgapool.drivers import base as drivers

LOG = logging.getLogger(__name__)


class Boards:
    """Calls a driver in other threads; used only in the loop's thread.

    :param report: called in the loop's thread with a device's name, its fault
        (None if it is healthy) and its power in W (None if it is not
        measured).
    :ivar power_cap_w: the operator's power cap for the host, or None.
    """

    def __init__(
        self,
        driver: drivers.Driver,
        devices: Iterable[drivers.DeviceInfo],
        caller: sender.Caller,
        report: Callable[[str, str | None, float | None], None],
    ) -> None:
        self._driver = driver
        self._names = [device.name for device in devices]
        self._caller = caller
        self._report = report
        self._asking = False
        self.power_cap_w: float | None = None
        self._read_power_cap()

    def try_all(self) -> dict[str, str | None]:
        """Check all boards before they are used. May block for seconds.

        :returns: the fault of each board, or None, by the board's name.
        """
        return {name: self._try(name) for name in self._names}

    def _try(self, name: str) -> str | None:
        try:
            return _fault(self._driver.check(name))
        except Exception as error:
            # A driver may raise any exception.
            return drivers.one_line(f"{type(error).__name__}: {error}")

    def check(self) -> None:
        """Check all boards, unless a check is already running."""
        if self._names and not self._asking:
            self._asking = True
            self._caller.submit(self._ask, self._take, self._failed)

    def _ask(self) -> list[tuple[str, drivers.Health, float | None]]:
        self._read_power_cap()
        return [
            (name, self._driver.health(name), self._power_w(name))
            for name in self._names
        ]

    def _read_power_cap(self) -> None:
        try:
            self.power_cap_w = self._driver.power_cap_w()
        except Exception as error:
            # The last known cap still applies.
            LOG.debug("Cannot read the power cap: %s", error)

    def _power_w(self, device: str) -> float | None:
        try:
            return self._driver.telemetry(device).power_w
        except Exception as error:
            # A broken sensor must not prevent the health check, which reports
            # faults.
            LOG.debug("Cannot read the power of %s: %s", device, error)
            return None

    def _take(
        self, found: list[tuple[str, drivers.Health, float | None]]
    ) -> None:
        self._asking = False
        for name, health, power_w in found:
            self._report(name, _fault(health), power_w)

    def _failed(self, error: Exception) -> None:
        self._asking = False
        LOG.warning("Cannot read the health of the boards: %s", error)


def _fault(health: drivers.Health) -> str | None:
    if health.healthy:
        return None
    return drivers.one_line(health.message) or "the driver reports a fault"
