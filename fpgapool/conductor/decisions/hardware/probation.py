# SPDX-License-Identifier: Apache-2.0

"""Hardware units that are out of service because of failures, and their tests.

:mod:`fpgapool.core.health` makes the decisions; this module carries them out,
and reads the test results in agents' reports. The core assigns a slot to its
test, so that no other holder gets it.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.common import exception
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.hardware import self_tests
from fpgapool.core import events
from fpgapool.core import health
from fpgapool.core import instructions
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

_MAX_ERROR_LENGTH = 1000

_kept = registry.common(health.Fault, db_api.FaultRecord)


@dataclasses.dataclass(eq=False, repr=False)
class Probation(parts.Room):
    """The units that are out of service, and their tests."""

    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _holds: holds.Holds

    def load(self, rows: Collection[db_api.FaultRecord]) -> None:
        """Load the faults from the database; the hosts are loaded later."""
        self._rows = _Rows(rows)
        self._health = health.Health(
            self._settings.health,
            [
                _fault(unit, row)
                for row in rows
                if row.active and (unit := _unit(row)) is not None
            ],
        )
        self.faults = self._health.faults
        # The tests in progress, by slot.
        self.tests: dict[int, self_tests.SelfTest] = {}
        self._bench = self_tests.Bench(
            self._settings,
            self._registry,
            self._catalogue,
            self._core,
            self._holds,
            self.faults,
        )
        # The library when deleted accelerators were last looked for.
        self._library: library.Library | None = None
        # The time when the last dead worker was reported, by device.
        self._deaths: dict[int, float] = {}
        # Number of started tests, by unit.
        self._turns: dict[health.Unit, int] = {}

    def start(self) -> None:
        """Apply the loaded faults, after the hosts have been restored."""
        for slot in self._registry.slots.values():
            if slot.faulty or _fault_of(slot, self.faults) is not None:
                self._refresh(slot)
        self.forget_gone()
        for unit in self.faults:
            if unit.level is health.Level.ACCELERATOR:
                self._refresh_all(unit)

    @property
    def faulty_accelerators(self) -> dict[str, frozenset[tuple[str, str]]]:
        """The accelerators that are out of service and their slot shapes
        (empty: any), by host UUID.
        """
        found = collections.defaultdict[str, set[tuple[str, str]]](set)
        for unit in self.faults:
            host = self._registry.hosts_by_id.get(unit.id)
            if unit.level is health.Level.ACCELERATOR and host is not None:
                found[host.uuid].add((unit.accelerator, unit.shape))
        return {uuid: frozenset(names) for uuid, names in found.items()}

    # -- failures ----------------------------------------------------------

    def failed(
        self,
        hold: holds.Hold,
        reason: str,
        *,
        is_preparation: bool = False,
    ) -> None:
        """Count a slot's failure that its holder did not cause.

        :param is_preparation: whether no client had used the slot yet.
        """
        profiles = self._catalogue.profiles
        profile = profiles.get(hold.accelerator)
        # These failures prove nothing about the slot: a project's own
        # bitstream may be faulty, and a restarting agent may lose its workers.
        if profile is None or profile.projects or reason == codes.WORKER_LOST:
            return
        found = self._health.failed(
            self_tests.place_of(hold.slot, hold.accelerator),
            reason,
            self._clock.now,
            is_preparation=is_preparation,
            spares_device=(
                reason == codes.WORKER_DIED
                and not self._is_first_death(hold.slot)
            ),
        )
        self._apply(found)

    def _is_first_death(self, slot: registry.SlotEntry) -> bool:
        """Whether this is the first dead worker in the device's last report.

        Several workers that die at once count as one failure.
        """
        heard_at = slot.host.heard_at
        last = self._deaths.get(slot.device.id)
        self._deaths[slot.device.id] = heard_at
        return heard_at != last

    def finished(
        self, hold: holds.Hold, result: objects.SessionResult
    ) -> None:
        """Count the end of a session as a failure or success of its slot."""
        if result.state == states.PREPARE_FAILED:
            # A revocation or a faulty bitstream is not the slot's fault.
            if not hold.revoked and result.code not in codes.BITSTREAM_FAULTS:
                self.failed(hold, result.code, is_preparation=True)
        elif (
            result.state == states.FAILED and result.code in codes.SLOT_FAULTS
        ):
            self.failed(hold, result.code)
        elif result.state == states.CLOSED or not hold.is_unprepared:
            place = self_tests.place_of(hold.slot, hold.accelerator)
            self._health.succeeded(place)

    def repair(self, device: registry.DeviceEntry) -> None:
        """Return a device, its slots and host's accelerators to service."""
        units = [health.Unit(health.Level.DEVICE, device.id)]
        units += [self_tests.of(slot) for slot in device.slots.values()]
        units += [
            unit
            for unit in self.faults
            if unit.level is health.Level.ACCELERATOR
            and unit.id == device.host.id
        ]
        for unit in units:
            self._drop_test(unit)
            self._apply(self._health.forgive(unit))
        for slot in device.slots.values():
            self._refresh(slot)

    # -- reports -----------------------------------------------------------

    def check_report(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
    ) -> bool:
        """Process the report of a slot without a holder.

        :returns: whether the slot is running its test.
        """
        if (
            slot.faulty != (_fault_of(slot, self.faults) is not None)
            or slot.fault_reason == registry.NOT_REPORTED
        ):
            # The device of a new or returned slot may be out of service.
            self._refresh(slot)
        test = self.tests.get(slot.id)
        if test is None:
            self._follow_agent(slot, report)
            return False
        if reconcile.busy(report):
            is_test = report.generation == test.generation
            test.seen |= is_test
            return is_test
        result = report.last_result
        if result is not None and result.generation == test.generation:
            self._take_result(test, report, result)
        elif report.seen_generation >= test.generation:
            # The agent restarted, so the test ended without a result.
            self._end(test, None)
        elif (
            self._clock.now - test.ordered_at
            >= self._settings.resend_interval_s
        ):
            test.ordered_at = self._clock.now
            self._outbox.send(test.order())
        return False

    def check_missing(self, slot: registry.SlotEntry) -> None:
        """Take a slot out of service that its agent no longer reports."""
        if slot.fault_reason != registry.NOT_REPORTED:
            LOG.warning(
                "Slot %s is out of service: its agent does not report it", slot
            )
            self._refresh(slot)

    def _follow_agent(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
    ) -> None:
        """Take a slot out of service or return it, as its agent reports."""
        if not self.faults and report.state != states.SLOT_FAULTY:
            return
        fault = self.faults.get(self_tests.of(slot))
        if report.state == states.SLOT_FAULTY:
            if fault is None:
                found = self._health.take_out(
                    self_tests.of(slot), codes.SLOT_FAULTY, self._clock.now
                )
                self._apply(found)
        elif (
            fault is not None
            and report.state == states.SLOT_IDLE
            and fault.reason == codes.SLOT_FAULTY
            and (fault.last_test or fault.reason).startswith(fault.reason)
        ):
            # Only the agent's report had taken the slot out of service, for
            # example because no worker could be started.
            self._apply(self._health.forgive(fault.unit))

    def _take_result(
        self,
        test: self_tests.SelfTest,
        report: objects.SlotReport,
        result: objects.SessionResult,
    ) -> None:
        if result.state == states.PREPARE_FAILED:
            if result.code in codes.BITSTREAM_FAULTS:
                self._end(test, None)
                return
            text = result.message.removeprefix(f"{result.code}: ")
            text = f"{result.code}: {text}"[:_MAX_ERROR_LENGTH]
            self._end(test, limits.writable(text))
        elif result.state != states.CLOSED:
            # The test was cancelled, or the worker treated it as a session.
            self._end(test, None)
        elif report.state == states.SLOT_FAULTY:
            text = f"{codes.SLOT_FAULTY}: the slot cannot be scrubbed"
            self._end(test, text)
        else:
            self._end(test, "")

    def _end(self, test: self_tests.SelfTest, error: str | None) -> None:
        """Record the result of a test.

        :param error: why the test failed; empty: it passed; None: no result.
        """
        self._release(test)
        text = error
        off = self_tests.on_host(test.slot, test.accelerator) in self.faults
        if error and test.is_check and off:
            # The accelerator, now out of service here, may be the cause.
            error = None
        outcome = "none" if error is None else "failed" if error else "passed"
        self._counts.self_tests[outcome] += 1
        LOG.info(
            "Self-test of slot %s with %s: %s",
            test.slot,
            test.accelerator,
            text or outcome,
        )
        if error is None:
            self._health.postpone(test.unit, self._clock.now)
        else:
            found = self._health.tested(
                test.place, test.unit, error, self._clock.now
            )
            if error and test.is_check:
                found += self._health.take_out(
                    test.unit, codes.SELF_TEST_FAILED, self._clock.now, error
                )
            self._apply(found)
        fault = self.faults.get(test.unit)
        if fault is not None:
            self._save(fault)
        self._refresh(test.slot)

    def _drop_test(self, unit: health.Unit) -> None:
        for test in list(self.tests.values()):
            if test.unit == unit:
                self._outbox.send(test.call_off())
                self._release(test)

    def _release(self, test: self_tests.SelfTest) -> None:
        del self.tests[test.slot.id]
        self._link.tell(events.SlotReleased(test.slot.id, test.generation))

    # -- time --------------------------------------------------------------

    def end_overdue(self) -> None:
        """End overdue tests, and forget deleted accelerators."""
        limit_s = self._settings.prepare_timeout_s
        for test in list(self.tests.values()):
            host = test.slot.host
            if not host.up:
                self._end(test, None)
            # heard_at counts, because a test on a silent host may have passed.
            elif host.heard_at - test.asked_at > limit_s:
                self._time_out(test)
        if self._library is not self._catalogue.library:
            self._library = self._catalogue.library
            self._forget_deleted()

    def begin_due(self) -> None:
        """Begin the tests that are due, if there are free slots for them."""
        if self.faults:
            found = self._health.due(
                self._clock.now,
                lambda unit: any(
                    self._bench.candidates(unit, self._clock.now)
                ),
                self._bench.is_crowded,
            )
            self._apply(found)

    def _forget_deleted(self) -> None:
        profiles = self._catalogue.profiles
        for unit in list(self.faults):
            if unit.accelerator and unit.accelerator not in profiles:
                self._forget(unit)

    def forget_gone(self) -> None:
        """Forget the faults of removed hosts."""
        known: Mapping[health.Level, Container[int]] = {
            health.Level.ACCELERATOR: self._registry.hosts_by_id,
            health.Level.SLOT: self._registry.slots,
            health.Level.DEVICE: self._registry.devices,
        }
        for unit in list(self.faults):
            if unit.id not in known[unit.level]:
                self._forget(unit)

    def _forget(self, unit: health.Unit) -> None:
        self._drop_test(unit)
        self._apply(self._health.forgive(unit))

    def _time_out(self, test: self_tests.SelfTest) -> None:
        self._outbox.send(test.call_off())
        if not test.seen:
            # The agent never began the test, which therefore says nothing.
            self._end(test, None)
            return
        # Programming may still be running, so the slot is out of service until
        # a report shows that it is idle.
        test.slot.usable = False
        limit_s = self._settings.prepare_timeout_s
        text = f"{codes.PREPARE_TIMEOUT}: not finished within {limit_s:.0f} s"
        self._end(test, text)

    def _begin(self, fault: health.Fault) -> None:
        # The candidates take turns, because perhaps only one of them is
        # faulty: first all slots with one accelerator, then all with the next.
        candidates = sorted(
            self._bench.candidates(fault.unit, self._clock.now),
            key=operator.itemgetter(1),
        )
        if not candidates:
            self._health.postpone(fault.unit, self._clock.now)
            return
        # Even if this test does not run, the next one uses another candidate.
        turn = self._turns.setdefault(fault.unit, fault.tries)
        self._turns[fault.unit] = turn + 1
        slot, name = candidates[turn % len(candidates)]
        self._order(fault.unit, slot, name)

    def _order(
        self,
        unit: health.Unit,
        slot: registry.SlotEntry,
        name: str,
    ) -> None:
        self.tests[slot.id] = self_tests.SelfTest(
            unit=unit,
            slot=slot,
            accelerator=name,
            bitstream=self._catalogue.library.choose(name, slot.shape),
            asked_at=self._clock.now,
            ordered_at=self._clock.now,
            is_check=unit not in self.faults,
        )
        self._link.tell(events.TestRequested(slot.id, name))

    @parts.handles(instructions.Test)
    def carry_out(self, order: instructions.Test) -> None:
        """Order an agent to begin a test whose slot the core has assigned."""
        test = self.tests[order.slot_id]
        test.generation = order.generation
        LOG.info("Testing slot %s with %s", test.slot, test.accelerator)
        self._outbox.send(test.order())

    # -- orders of operators -----------------------------------------------

    def test(self, slot: registry.SlotEntry, accelerator: str) -> None:
        """Begin a test immediately, if the slot is free.

        It tests the first of these that is out of service, which returns to
        service if the test passes: the slot's device, the slot, the
        accelerator on the host. If all are in service, a failed test takes the
        slot out of service.

        :raises SlotNotTested: if no test was started.
        """
        profile = self._catalogue.profiles.get(accelerator)
        if accelerator and (profile is None or profile.projects):
            raise exception.SlotNotTested(
                code=codes.UNKNOWN_ACCELERATOR,
                reason=f"no public accelerator is named {accelerator!r:.80}",
            )
        unit = self._bench.unit_of_test(slot, accelerator)
        names = self._bench.names_for(slot, unit, accelerator)
        for code, reason in self._bench.obstacles(slot, unit, self._clock.now):
            raise exception.SlotNotTested(code=code, reason=reason)
        if not names:
            raise exception.SlotNotTested(
                code=codes.NO_COMPATIBLE_SLOT,
                reason=f"{accelerator} does not fit the slot"
                if accelerator
                else "no accelerator fits the slot",
            )
        # The accelerators take turns, as in scheduled tests.
        turn = self._turns.get(unit, 0)
        self._turns[unit] = turn + 1
        self._health.begin(unit)
        self._order(unit, slot, names[turn % len(names)])

    # -- effects -----------------------------------------------------------

    def _apply(self, found: Iterable[health.Instruction]) -> None:
        for one in found:
            match one:
                case health.TakeOut(fault):
                    LOG.error(
                        "%s is out of service: %s, %d consecutive failures",
                        _name(fault.unit, self._registry),
                        fault.reason,
                        fault.failures,
                    )
                    self._save(fault)
                    self._refresh_all(fault.unit)
                case health.BringBack(unit):
                    LOG.info(
                        "%s is in service again", _name(unit, self._registry)
                    )
                    self._turns.pop(unit, None)
                    self._outbox.write(
                        self._rows.of_end(unit, self._clock.now)
                    )
                    self._refresh_all(unit)
                case health.TestUnit(fault):
                    self._begin(fault)

    def _refresh_all(self, unit: health.Unit) -> None:
        if unit.level is health.Level.ACCELERATOR:
            is_out = unit in self.faults
            self._link.tell(
                events.AcceleratorFaulty(unit.id, unit.accelerator, unit.shape)
                if is_out
                else events.AcceleratorRestored(
                    unit.id, unit.accelerator, unit.shape
                )
            )
            return
        for slot in self._bench.slots_of(unit):
            self._refresh(slot)

    def _refresh(self, slot: registry.SlotEntry) -> None:
        """Apply the faults to a slot's entry and row, and notify the core."""
        fault = _fault_of(slot, self.faults)
        known = slot.faulty, slot.fault_reason
        slot.faulty = fault is not None or slot.missing
        slot.fault_reason = fault.reason if fault else ""
        if slot.missing:
            slot.fault_reason = registry.NOT_REPORTED
        if known != (slot.faulty, slot.fault_reason):
            self._outbox.write(registry.slot_row(slot))
        self._link.tell(core_event(slot))

    def _save(self, fault: health.Fault) -> None:
        if fault.next_test_at is not None:
            self._outbox.write(self._rows.of_fault(fault))


class _Rows:
    """Creates the rows of faults; each unit has one row."""

    def __init__(self, rows: Collection[db_api.FaultRecord]) -> None:
        self._ids = {unit: row.id for row in rows if (unit := _unit(row))}
        self._last_id = max((row.id for row in rows), default=0)

    def of_fault(self, fault: health.Fault) -> db_api.FaultRecord:
        if fault.unit not in self._ids:
            self._last_id += 1
            self._ids[fault.unit] = self._last_id
        return self._row(fault.unit, **_kept(fault))

    def of_end(self, unit: health.Unit, now: float) -> db_api.FaultRecord:
        return self._row(
            unit, active=False, reason="", since=now, next_test_at=now
        )

    def _row(self, unit: health.Unit, **values: Any) -> db_api.FaultRecord:
        return db_api.FaultRecord(
            id=self._ids[unit],
            level=unit.level.value,
            target_id=unit.id,
            accelerator=unit.accelerator,
            shape=unit.shape,
            **values,
        )


def _fault_of(
    slot: registry.SlotEntry, faults: Mapping[health.Unit, health.Fault]
) -> health.Fault | None:
    if not faults:
        return None
    return faults.get(self_tests.of(slot)) or faults.get(
        self_tests.of_device(slot)
    )


def core_event(slot: registry.SlotEntry) -> events.Event:
    """Return the event for the core about a slot's usability."""
    if slot.faulty or not slot.usable:
        reason = slot.fault_reason or codes.SLOT_FAULTY
        return events.SlotFaulty(slot.id, reason)
    return events.SlotRestored(slot.id)


def _name(unit: health.Unit, pool: registry.Registry) -> str:
    """Return a unit's name for the log; the unit may have been removed."""
    if unit.level is health.Level.SLOT:
        return f"Slot {pool.slots.get(unit.id, unit.id)}"
    if unit.level is health.Level.DEVICE:
        device = pool.devices.get(unit.id)
        if device is None:
            return f"Device {unit.id}"
        return f"Device {device.host.name} {device.name}"
    host = pool.hosts_by_id.get(unit.id)
    name = host.name if host is not None else unit.id
    shape = f", shape {unit.shape}" if unit.shape else ""
    return f"{unit.accelerator} on host {name}{shape}"


def _unit(row: db_api.FaultRecord) -> health.Unit | None:
    level = limits.read_enum(health.Level, row, "level")
    return level and health.Unit(
        level, row.target_id, row.accelerator, row.shape
    )


def _fault(unit: health.Unit, row: db_api.FaultRecord) -> health.Fault:
    return health.Fault(unit=unit, **_kept(row))
