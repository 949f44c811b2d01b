# SPDX-License-Identifier: Apache-2.0

"""The health and power of a host's boards."""

from __future__ import annotations

import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.agent.host import energy
from fpgapool.agent.slots import orders
from fpgapool.drivers import base as drivers

LOG = logging.getLogger(__name__)

_Healths: typing.TypeAlias = dict[str, drivers.Health]
#: Power in W by board, and how long it took to read all.
_Readings: typing.TypeAlias = tuple[dict[str, float | None], float]

#: Interval at which the agent calls :meth:`Boards.check`.
CHECK_S = 1.0


class Boards:
    """Calls a driver in other threads; used only in the loop's thread.

    :param report: called in the loop's thread with a device's name and its
        fault (None if it is healthy).
    :ivar power_cap_w: the operator's power cap for the host, or None.
    :ivar meter: divides the boards' energy among the holders of their slots.
    """

    def __init__(
        self,
        driver: drivers.Driver,
        devices: Sequence[drivers.DeviceInfo],
        loop: agent_loop.Loop,
        caller: sender.Caller,
        report: Callable[[str, str | None], None],
    ) -> None:
        self._driver = driver
        self._names = [device.name for device in devices]
        self._loop = loop
        self._caller = caller
        self._report = report
        self.meter = energy.Meter(
            [
                (device.name, slot.number)
                for device in devices
                for slot in device.slots
            ]
        )
        self._asking = self._check_due = False
        self._timer: agent_loop.Timer | None = None
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
        self._check_due = True
        self._ask()

    def set_holders(self, generations: Mapping[orders.Key, int]) -> None:
        """Record which slots are held, and by which assignment."""
        self.meter.set_holders(generations, self._loop.now())
        self._plan_reading()

    def _plan_reading(self) -> None:
        """Read the power before the next check, if holders need that."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delay_s = self.meter.next_reading_s() - self._loop.now()
        if delay_s < CHECK_S:
            self._timer = self._loop.call_later(delay_s, self._ask)

    def _ask(self) -> None:
        """Read the power of all boards; check them, too, if that is due."""
        if not self._names or self._asking:
            return
        healths = self._healths if self._check_due else dict
        self._asking, self._check_due = True, False
        self._caller.submit(
            lambda: (healths(), self._readings()), self._take, self._failed
        )

    def _healths(self) -> _Healths:
        self._read_power_cap()
        return {name: self._driver.health(name) for name in self._names}

    def _readings(self) -> _Readings:
        begin_s = self._loop.now()
        powers_w = {name: self._power_w(name) for name in self._names}
        return powers_w, self._loop.now() - begin_s

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

    def _take(self, found: tuple[_Healths, _Readings]) -> None:
        self._asking = False
        healths, (powers_w, taken_s) = found
        for name, power_w in powers_w.items():
            self.meter.set_power(name, power_w, self._loop.now())
        self.meter.rest(taken_s, self._loop.now())
        for name, health in healths.items():
            self._report(name, _fault(health))
        if self._check_due:
            # It had to wait for this answer.
            self._ask()
        else:
            self._plan_reading()

    def _failed(self, error: Exception) -> None:
        self._asking = False
        LOG.warning("Cannot read the health of the boards: %s", error)


def _fault(health: drivers.Health) -> str | None:
    if health.healthy:
        return None
    return drivers.one_line(health.message) or "the driver reports a fault"
