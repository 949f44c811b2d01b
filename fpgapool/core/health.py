# SPDX-License-Identifier: Apache-2.0

"""Decides which accelerators, slots and devices are out of use.

It has no side effects: failures and times come in, instructions come out.

Each consecutive failure counts against three units: the accelerator in the
slot, the slot with any accelerator, and the device with all its slots. A unit
whose count reaches its limit is taken out of use. An accelerator is taken off
all slots of the same shape on this host, because they share its
implementation. The limits grow with the unit, so that repeated failures take
out larger units.

A unit that is out of use is on probation: after some time it is tested. A
passed test brings it back. A failed test lengthens the time to the next one.
That time is not reset if a unit is brought back and fails again before any
work has succeeded.
"""

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool.core import model

# Keeps ``factor ** tries`` from overflowing.
_MAX_EXPONENT = 64


class Level(enum.StrEnum):
    """The kinds of units that can be out of use, smallest first."""

    ACCELERATOR = "accelerator"
    SLOT = "slot"
    DEVICE = "device"


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """A device, a slot, or an accelerator in a host's slots of one shape.

    :param id: id of the device or slot, or of the accelerator's host.
    :param accelerator: its name; empty for devices and slots.
    :param shape: shape of the accelerator's slots; empty for any shape, and
        for devices and slots.
    """

    level: Level
    id: int
    accelerator: str = ""
    shape: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The slot and accelerator of a failure or success."""

    host_id: model.HostId
    device_id: model.DeviceId
    slot_id: model.SlotId
    accelerator: str
    shape: str = ""

    def units(self) -> tuple[Unit, Unit, Unit]:
        """Return the units that it counts against, smallest first."""
        return (
            Unit(
                Level.ACCELERATOR, self.host_id, self.accelerator, self.shape
            ),
            Unit(Level.SLOT, self.slot_id),
            Unit(Level.DEVICE, self.device_id),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """Limits on failures, and times between tests.

    :param accelerator_limit: consecutive failures that take an accelerator off
        a host. Failed preparations in more than this many slots of a shape
        also take it off.
    """

    accelerator_limit: int = 2
    slot_limit: int = 3
    device_limit: int = 6
    first_s: float = 60.0
    factor: float = 2.0
    max_s: float = 6 * 3600.0

    def __post_init__(self) -> None:
        limits = (self.accelerator_limit, self.slot_limit, self.device_limit)
        if min(limits) < 1:
            raise ValueError("fault limits must be at least 1")
        if not (0 < self.first_s <= self.max_s and self.factor >= 1):
            raise ValueError(
                "times between tests must be positive and not decrease"
            )

    def limit(self, level: Level) -> int:
        """Return how many consecutive failures take a unit out."""
        return {
            Level.ACCELERATOR: self.accelerator_limit,
            Level.SLOT: self.slot_limit,
            Level.DEVICE: self.device_limit,
        }[level]

    def wait_s(self, tries: int) -> float:
        """Return the time until the next test."""
        growth = self.factor ** min(tries, _MAX_EXPONENT)
        return min(self.first_s * growth, self.max_s)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a unit is out of use, and its tests. Times are in seconds.

    :param failures: number of consecutive failures that took it out.
    :param next_test_at: when the next test may begin; None during a test.
    """

    unit: Unit
    reason: str
    failures: int
    since: float
    tests: int = 0
    tries: int = 0
    last_test: str = ""
    last_test_at: float | None = None
    next_test_at: float | None = None

    @property
    def is_tested(self) -> bool:
        """Whether a test is running."""
        return self.next_test_at is None


@dataclasses.dataclass(frozen=True, slots=True)
class TakeOut:
    """Take a unit out of use."""

    fault: Fault


@dataclasses.dataclass(frozen=True, slots=True)
class BringBack:
    """Bring a unit back into use."""

    unit: Unit


@dataclasses.dataclass(frozen=True, slots=True)
class TestUnit:
    """Test a unit, and report the result to :meth:`Health.tested`."""

    fault: Fault


Instruction = TakeOut | BringBack | TestUnit


class Health:
    """The units out of use, and the counts of consecutive failures.

    :param faults: the units that were out of use before a restart. Tests that
        were running then are due again now.
    """

    def __init__(
        self,
        options: HealthOptions,
        faults: Iterable[Fault] = (),
        now: float = 0.0,
    ) -> None:
        self._options = options
        self._faults: dict[Unit, Fault] = {}
        # Failures of an accelerator on a host, by slot.
        self._pairs: dict[Unit, dict[model.SlotId, int]] = {}
        # The slots that could not be prepared with an accelerator since it
        # last worked on the host.
        self._unprepared: dict[Unit, set[model.SlotId]] = {}
        # Failures of slots and devices.
        self._counts: dict[Unit, int] = {}
        # Number of failed tests of units that were brought back but have not
        # worked since.
        self._tries: dict[Unit, int] = {}
        for fault in faults:
            if fault.next_test_at is None:
                fault = dataclasses.replace(fault, next_test_at=now)
            self._faults[fault.unit] = fault

    @property
    def faults(self) -> Mapping[Unit, Fault]:
        return self._faults

    def failures(self, unit: Unit) -> int:
        """Return the number of consecutive failures of a slot or device."""
        return self._counts.get(unit, 0)

    def failed(
        self,
        place: Place,
        reason: str,
        now: float,
        *,
        is_preparation: bool = False,
        spares_device: bool = False,
    ) -> list[Instruction]:
        """Count a failure.

        :param is_preparation: whether the slot failed before a client used it.
        :param spares_device: whether the failure has already been counted
            against the device.
        """
        accelerator, slot, device = place.units()
        pairs = self._pairs.setdefault(accelerator, {})
        pairs[place.slot_id] = pairs.get(place.slot_id, 0) + 1
        counts = {accelerator: pairs[place.slot_id]}
        if is_preparation and not spares_device:
            failed = self._unprepared.setdefault(accelerator, set())
            failed.add(place.slot_id)
            if len(failed) > self._options.accelerator_limit:
                # Faults of individual slots cannot explain this many failures.
                counts[accelerator] = max(pairs[place.slot_id], len(failed))
        if not self._is_to_blame(accelerator):
            for unit in (slot,) if spares_device else (slot, device):
                counts[unit] = self._counts[unit] = self.failures(unit) + 1
        found: list[Instruction] = []
        for unit, count in counts.items():
            if count >= self._options.limit(unit.level):
                found += self._take_out(unit, reason, count, now)
        return found

    def _is_to_blame(self, accelerator: Unit) -> bool:
        """Return whether to blame the accelerator rather than its slots.

        It is to blame if it is out of use on this host, and has failed in
        several slots or is out of use on another host, too. An accelerator
        that is out of use everywhere still gets slots, so it can fail again.
        """
        return accelerator in self._faults and (
            len(self._pairs.get(accelerator, ())) > 1
            or any(
                unit.accelerator == accelerator.accelerator
                and unit.shape == accelerator.shape
                and unit != accelerator
                for unit in self._faults
                if unit.level is Level.ACCELERATOR
            )
        )

    def take_out(
        self, unit: Unit, reason: str, now: float, last_test: str = ""
    ) -> list[Instruction]:
        """Take a unit out of use at once, if it is still in use.

        :param last_test: the error of the test that it has just failed; empty
            if there was no test.
        """
        return self._take_out(
            unit, reason, self.failures(unit), now, last_test
        )

    def _take_out(
        self,
        unit: Unit,
        reason: str,
        failures: int,
        now: float,
        last_test: str = "",
    ) -> list[Instruction]:
        if unit in self._faults:
            return []
        tries = self._tries.pop(unit, 0)
        fault = self._faults[unit] = Fault(
            unit=unit,
            reason=reason,
            failures=failures,
            since=now,
            tries=tries,
            last_test=last_test,
            last_test_at=now if last_test else None,
            next_test_at=now + self._options.wait_s(tries),
        )
        return [TakeOut(fault)]

    def succeeded(self, place: Place) -> None:
        """Reset the counts of a place where work succeeded."""
        if self._counts or self._pairs or self._tries:
            self._forget_counts(place)
            for unit in place.units():
                self._tries.pop(unit, None)

    def _forget_counts(self, place: Place) -> None:
        accelerator, slot, device = place.units()
        self._pairs.get(accelerator, {}).pop(place.slot_id, None)
        self._unprepared.pop(accelerator, None)
        self._counts.pop(slot, None)
        self._counts.pop(device, None)

    # -- probation ---------------------------------------------------------

    def due(
        self,
        now: float,
        can_test: Callable[[Unit], bool],
        is_crowded_out: Callable[[Unit], bool] = lambda unit: False,
    ) -> Iterator[Instruction]:
        """Yield the tests that are due, and mark them as under way.

        If the test of a unit is overdue by more than its waiting time, only
        because all slots for it are busy, the unit is brought back without a
        test. If it fails again, its time to the next test is not reset.

        The caller must start each test before it takes the next one from the
        iterator, because both may need the same slot.

        :param can_test: returns whether a due unit can be tested now; if not,
            it stays due.
        :param is_crowded_out: returns whether all slots in which an overdue
            unit could be tested are busy.
        """
        for unit in list(self._faults):
            fault = self._faults.get(unit)
            if fault is None or fault.next_test_at is None:
                continue
            late_s = now - fault.next_test_at
            if late_s < 0:
                continue
            if can_test(unit):
                self.begin(unit)
                yield TestUnit(self._faults[unit])
            elif late_s > self._options.wait_s(fault.tries) and is_crowded_out(
                unit
            ):
                yield from self._bring_back(unit)
                self._tries[unit] = fault.tries + 1

    def begin(self, unit: Unit) -> None:
        """Mark a unit as under test, whether or not the test is due.

        A unit in use stays in use during the test.
        """
        fault = self._faults.get(unit)
        if fault is not None:
            self._faults[unit] = dataclasses.replace(fault, next_test_at=None)

    def tested(
        self, place: Place, unit: Unit, error: str, now: float
    ) -> list[Instruction]:
        """Process the result of a test.

        :param unit: the tested unit; the result is ignored unless a test of
            this unit is running.
        :param error: why it failed; empty if it passed.
        """
        fault = self._faults.get(unit)
        if fault is None or not fault.is_tested:
            return []
        if not error:
            self._forget_counts(place)
            found = self._bring_back(unit)
            self._tries[unit] = fault.tries + 1
            return found
        self._faults[unit] = dataclasses.replace(
            fault,
            tests=fault.tests + 1,
            tries=fault.tries + 1,
            last_test=error,
            last_test_at=now,
            next_test_at=now + self._options.wait_s(fault.tries + 1),
        )
        return []

    def postpone(self, unit: Unit, now: float) -> None:
        """Reschedule a test that did not take place."""
        fault = self._faults.get(unit)
        if fault is not None and fault.is_tested:
            self._faults[unit] = dataclasses.replace(
                fault, next_test_at=now + self._options.wait_s(fault.tries)
            )

    def forgive(self, unit: Unit) -> list[Instruction]:
        """Bring a unit back on an operator's order; forget its failures."""
        self._counts.pop(unit, None)
        if unit.level is Level.SLOT:
            for pairs in self._pairs.values():
                pairs.pop(unit.id, None)
            for failed in self._unprepared.values():
                failed.discard(unit.id)
        found = self._bring_back(unit)
        self._tries.pop(unit, None)
        return found

    def _bring_back(self, unit: Unit) -> list[Instruction]:
        self._counts.pop(unit, None)
        self._pairs.pop(unit, None)
        self._unprepared.pop(unit, None)
        if self._faults.pop(unit, None) is None:
            return []
        return [BringBack(unit)]
