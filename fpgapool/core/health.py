# SPDX-License-Identifier: Apache-2.0

"""Which accelerators, slots and devices are out of use, and for how long.

Failures and times come in; what is taken out and brought back comes out.
Failures in a row are counted three times: of an accelerator in a slot, of
the slot with whatever accelerator, and of the device with all its slots.
The first count that reaches its limit takes the accelerator off its host,
the second the slot, the third the device: with limits that grow, what is
taken out grows with what is known.

What is out is on probation: after a while it is tested. A test that is
passed brings it back, one that is not doubles the time to the next. What
was brought back and fails again, with no work done in between, goes on with
the time that it had come to.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool.core import model

# Beyond that, a power of any factor above 1 would only overflow.
_MAX_EXPONENT = 64


class Level(enum.StrEnum):
    """What can be out of use, smallest first."""

    ACCELERATOR = "accelerator"
    SLOT = "slot"
    DEVICE = "device"


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """What is taken out and brought back as one.

    :param id: of the device or slot; of an accelerator's host.
    :param accelerator: empty for devices and slots.
    """

    level: Level
    id: int
    accelerator: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where something has failed or succeeded, and what it was."""

    host_id: model.HostId
    device_id: model.DeviceId
    slot_id: model.SlotId
    accelerator: str

    def units(self) -> tuple[Unit, Unit, Unit]:
        """Return what it is a part of, smallest first."""
        return (
            Unit(Level.ACCELERATOR, self.host_id, self.accelerator),
            Unit(Level.SLOT, self.slot_id),
            Unit(Level.DEVICE, self.device_id),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Limits of counts, and times between tests.

    :param accelerator_limit: failures in a row of an accelerator in a slot
        that take it off the slot's host.
    :param slot_limit: failures in a row that take a slot out.
    :param device_limit: the same for a device.
    :param first_s: from taking something out to its first test.
    :param factor: by which this grows with every test that is not passed.
    :param max_s: the longest time between two tests.
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
            raise ValueError("the times between tests must not shrink")

    def limit(self, level: Level) -> int:
        """Return how many failures in a row take a unit out."""
        return {
            Level.ACCELERATOR: self.accelerator_limit,
            Level.SLOT: self.slot_limit,
            Level.DEVICE: self.device_limit,
        }[level]

    def wait_s(self, tries: int) -> float:
        """Return the time to the next test.

        :param tries: tests that were not passed.
        """
        growth = self.factor ** min(tries, _MAX_EXPONENT)
        return min(self.first_s * growth, self.max_s)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why something is out of use, and what has been tried. Times: seconds.

    :param reason: a code of :mod:`fpgapool.vocabulary.codes`.
    :param failures: in a row, that took it out.
    :param since: when it was taken out.
    :param tests: that it has not passed.
    :param tries: the same, with those before it was brought back last.
    :param last_test: what came of the last one; empty if there was none.
    :param last_test_at: when it ended.
    :param next_test_at: when it may be tested next; None while it is.
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
        """Whether a test of it is under way."""
        return self.next_test_at is None


@dataclasses.dataclass(frozen=True, slots=True)
class TakeOut:
    """Use it no more."""

    fault: Fault


@dataclasses.dataclass(frozen=True, slots=True)
class BringBack:
    """Use it again."""

    unit: Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """Test it, and say by :meth:`Health.tested` what came of it."""

    fault: Fault


Instruction = TakeOut | BringBack | Test


class Health:
    """What is out of use, and what has failed how often.

    :param options: limits and times.
    :param faults: what was out of use before. No test of it is under way any
        more.
    :param now: seconds.
    """

    def __init__(
        self,
        options: Options,
        faults: Iterable[Fault] = (),
        now: float = 0.0,
    ) -> None:
        self._options = options
        self._faults: dict[Unit, Fault] = {}
        # Of accelerators of hosts, in each slot.
        self._pairs: dict[Unit, dict[model.SlotId, int]] = {}
        # Of slots and devices.
        self._counts: dict[Unit, int] = {}
        # Of what was brought back and has done nothing since.
        self._tries: dict[Unit, int] = {}
        for fault in faults:
            if fault.next_test_at is None:
                fault = dataclasses.replace(fault, next_test_at=now)
            self._faults[fault.unit] = fault

    @property
    def faults(self) -> Mapping[Unit, Fault]:
        """What is out of use."""
        return self._faults

    def failures(self, unit: Unit) -> int:
        """Return how often in a row a slot or device has failed."""
        return self._counts.get(unit, 0)

    def failed(
        self,
        place: Place,
        reason: str,
        now: float,
        *,
        spares_device: bool = False,
    ) -> list[Instruction]:
        """Count a failure.

        :param reason: a code of :mod:`fpgapool.vocabulary.codes`.
        :param now: seconds.
        :param spares_device: it is part of what has been held against the
            device already.
        :returns: what is taken out for it, smallest first.
        """
        accelerator, slot, device = place.units()
        pairs = self._pairs.setdefault(accelerator, {})
        pairs[place.slot_id] = pairs.get(place.slot_id, 0) + 1
        counts = {accelerator: pairs[place.slot_id]}
        if not self._is_to_blame(accelerator):
            for unit in (slot,) if spares_device else (slot, device):
                counts[unit] = self._counts[unit] = self.failures(unit) + 1
        found: list[Instruction] = []
        for unit, count in counts.items():
            if count >= self._options.limit(unit.level):
                found += self._take_out(unit, reason, count, now)
        return found

    def _is_to_blame(self, accelerator: Unit) -> bool:
        """Whether it is the accelerator that fails, and not its slots.

        It is out on this host, and has failed in several slots or is out on
        another host, too. It still gets slots if it is out everywhere.
        """
        return accelerator in self._faults and (
            len(self._pairs.get(accelerator, ())) > 1
            or any(
                unit.accelerator == accelerator.accelerator
                and unit != accelerator
                for unit in self._faults
                if unit.level is Level.ACCELERATOR
            )
        )

    def take_out(
        self, unit: Unit, reason: str, now: float, last_test: str = ""
    ) -> list[Instruction]:
        """Take something out at once, if it is not out already.

        :param last_test: that it has just not passed; empty if none was made.
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
        """Work was done in a slot: nothing there fails in a row any more."""
        if self._counts or self._pairs or self._tries:
            self._forget_counts(place)
            for unit in place.units():
                self._tries.pop(unit, None)

    def _forget_counts(self, place: Place) -> None:
        accelerator, slot, device = place.units()
        self._pairs.get(accelerator, {}).pop(place.slot_id, None)
        self._counts.pop(slot, None)
        self._counts.pop(device, None)

    # -- probation ---------------------------------------------------------

    def due(
        self,
        now: float,
        can_test: Callable[[Unit], bool],
        is_crowded_out: Callable[[Unit], bool] = lambda unit: False,
    ) -> Iterator[Instruction]:
        """Yield the tests that have fallen due. They are under way then.

        What could not be tested for as long again as it was out is brought
        back if only work keeps it from being tested: it may be well. If it
        is not, it goes on with the time that it had come to.

        Each must have begun before the next one is asked for: it may take
        what that one would have needed.

        :param can_test: asked for what is due; what cannot be tested now
            stays due.
        :param is_crowded_out: asked for what stays due for long: whether
            all that it could be tested in is at work.
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
                yield Test(self._faults[unit])
            elif late_s > self._options.wait_s(fault.tries) and is_crowded_out(
                unit
            ):
                yield from self._bring_back(unit)
                self._tries[unit] = fault.tries + 1

    def begin(self, unit: Unit) -> None:
        """Note that something is tested now, due or not.

        What is in use stays so meanwhile.
        """
        fault = self._faults.get(unit)
        if fault is not None:
            self._faults[unit] = dataclasses.replace(fault, next_test_at=None)

    def tested(
        self, place: Place, unit: Unit, error: str, now: float
    ) -> list[Instruction]:
        """Take the result of a test.

        :param place: where it was tested.
        :param unit: what was tested; nothing happens if no test of it is
            under way.
        :param error: why it did not pass; empty if it did.
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
        """A test has not taken place; it says nothing of what it was for."""
        fault = self._faults.get(unit)
        if fault is not None and fault.is_tested:
            self._faults[unit] = dataclasses.replace(
                fault, next_test_at=now + self._options.wait_s(fault.tries)
            )

    def forgive(self, unit: Unit) -> list[Instruction]:
        """Begin anew with something: an operator says that it is well."""
        self._counts.pop(unit, None)
        if unit.level is Level.SLOT:
            for pairs in self._pairs.values():
                pairs.pop(unit.id, None)
        found = self._bring_back(unit)
        self._tries.pop(unit, None)
        return found

    def _bring_back(self, unit: Unit) -> list[Instruction]:
        self._counts.pop(unit, None)
        self._pairs.pop(unit, None)
        if self._faults.pop(unit, None) is None:
            return []
        return [BringBack(unit)]
