# SPDX-License-Identifier: Apache-2.0

"""Units that failures have taken out of use, and the tests of them.

:mod:`fpgapool.core.health` decides. This module applies its decisions to the
    slots' entries, to rows, and to orders to agents, and reads the results of
    tests in agents' reports. The core gives the slot to the test, so that no
    other holder gets it.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions import stored_enums
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.hardware import self_tests
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import events
from fpgapool.core import health
from fpgapool.core import instructions
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

_MAX_ERROR_LENGTH = 1000

# The members that rows and faults share.
_KEPT = (
    "reason",
    "failures",
    "since",
    "tests",
    "tries",
    "last_test",
    "last_test_at",
    "next_test_at",
)

#: Codes of sessions' ends that count as failures of the slot.
SLOT_FAILURES = frozenset(
    {
        codes.CORE_FAILED,
        codes.DEVICE_FAILED,
        codes.KERNEL_HUNG,
        codes.WORKER_DIED,
    }
)


class Probation:
    """The units out of use, and the tests of them.

    :param settings: limits.
    :param pool: the hosts and slots.
    :param catalogue: the accelerators for tests.
    :param core: has the holders of slots.
    :param used: the slots that sessions and groups have, or may still have.
    :param rows: the faults in the database.
    :param counts: for metrics.
    :param tell: sends events to the core, and carries out its instructions.
    :param write: records rows.
    :param send: sends orders to agents.
    """

    def __init__(
        self,
        settings: admission.Limits,
        pool: registry.Registry,
        catalogue: bitstreams.Catalogue,
        core: core_state.PoolState,
        used: Container[int],
        rows: Collection[db_api.FaultRecord],
        counts: conductor_counts.Counts,
        *,
        tell: Callable[..., None],
        write: Callable[..., None],
        send: Callable[..., None],
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._catalogue = catalogue
        self._counts = counts
        self._tell = tell
        self._write = write
        self._send = send
        known = [
            (unit, row) for row in rows if (unit := _unit(row)) is not None
        ]
        self._ids = {unit: row.id for unit, row in known}
        self._last_id = max((row.id for row in rows), default=0)
        self._health = health.Health(
            settings.health,
            [_fault(unit, row) for unit, row in known if row.active],
        )
        self._tests: dict[int, self_tests.SelfTest] = {}
        self._bench = self_tests.Bench(
            settings, pool, catalogue, core, used, self.faults
        )
        # The library of the last check for deleted accelerators.
        self._library: library.Library | None = None
        # By device: the time of the last report of a dead worker.
        self._deaths: dict[int, float] = {}
        # By unit: the number of tests begun.
        self._turns: dict[health.Unit, int] = {}

    @property
    def faults(self) -> Mapping[health.Unit, health.Fault]:
        """The units out of use."""
        return self._health.faults

    @property
    def tests(self) -> Mapping[int, self_tests.SelfTest]:
        """The tests that are under way, by slot."""
        return self._tests

    def start(self, now: float) -> None:
        """Apply the faults in the database, after the hosts are restored."""
        for slot in self._pool.slots.values():
            if slot.faulty or self._fault_of(slot) is not None:
                self._refresh(slot)
        self.forget_gone(now)
        for unit in self.faults:
            if unit.level is health.Level.ACCELERATOR:
                self._refresh_all(unit)

    @property
    def off_hosts(self) -> dict[str, frozenset[tuple[str, str]]]:
        """The accelerators that are out of use on hosts, by host UUID.

        Each with the shape of its slots there; empty: any.
        """
        found = collections.defaultdict[str, set[tuple[str, str]]](set)
        for unit in self.faults:
            host = self._pool.hosts_by_id.get(unit.id)
            if unit.level is health.Level.ACCELERATOR and host is not None:
                found[host.uuid].add((unit.accelerator, unit.shape))
        return {uuid: frozenset(names) for uuid, names in found.items()}

    # -- failures ----------------------------------------------------------

    def failed(
        self,
        hold: holds.Hold,
        reason: str,
        now: float,
        *,
        is_preparation: bool = False,
    ) -> None:
        """Count a failure of a slot that its holder did not cause.

        :param is_preparation: whether no client has used the slot.
        """
        profiles = self._catalogue.library.profiles
        profile = profiles.get(hold.accelerator)
        # Tenants' bitstreams may fail in good slots, and an agent that
        # restarts may lose its workers.
        if profile is None or profile.projects or reason == codes.WORKER_LOST:
            return
        found = self._health.failed(
            self_tests.place_of(hold.slot, hold.accelerator),
            reason,
            now,
            is_preparation=is_preparation,
            spares_device=(
                reason == codes.WORKER_DIED
                and not self._is_first_death(hold.slot)
            ),
        )
        self._apply(found, now)

    def _is_first_death(self, slot: registry.SlotEntry) -> bool:
        """Whether a report names no other dead worker of the device.

        Several workers that die at once count as one failure.
        """
        heard_at = slot.host.heard_at
        last = self._deaths.get(slot.device.id)
        self._deaths[slot.device.id] = heard_at
        return heard_at != last

    def finished(
        self, hold: holds.Hold, result: objects.SessionResult, now: float
    ) -> None:
        """Count the end of a session as a failure or success of its slot."""
        if result.state == states.PREPARE_FAILED:
            # The order to leave, or the bitstream, may have caused it.
            if not hold.revoked and result.code not in codes.BITSTREAM_FAULTS:
                self.failed(hold, result.code, now, is_preparation=True)
        elif result.state == states.FAILED and result.code in SLOT_FAILURES:
            self.failed(hold, result.code, now)
        elif result.state == states.CLOSED or not hold.is_unprepared:
            place = self_tests.place_of(hold.slot, hold.accelerator)
            self._health.succeeded(place)

    def repair(self, device: registry.DeviceEntry, now: float) -> None:
        """Bring a device, its slots and its host's accelerators back."""
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
            self._apply(self._health.forgive(unit), now)
        for slot in device.slots.values():
            self._refresh(slot)

    # -- reports -----------------------------------------------------------

    def check_report(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
        now: float,
    ) -> bool:
        """Handle the report of a slot that no session has.

        :returns: whether the slot runs its test.
        """
        if (
            slot.faulty != (self._fault_of(slot) is not None)
            or slot.fault_reason == registry.NOT_REPORTED
        ):
            # A slot that is new, or back, may be of a device that is out.
            self._refresh(slot)
        test = self._tests.get(slot.id)
        if test is None:
            self._follow_agent(slot, report, now)
            return False
        if reconcile.busy(report):
            is_test = report.generation == test.generation
            test.seen |= is_test
            return is_test
        result = report.last_result
        if result is not None and result.generation == test.generation:
            self._take_result(test, report, result, now)
        elif report.seen_generation >= test.generation:
            # The agent restarted and lost the test, which had no result.
            self._end(test, None, now)
        elif now - test.ordered_at >= self._settings.resend_interval_s:
            test.ordered_at = now
            self._send(test.order())
        return False

    def check_missing(self, slot: registry.SlotEntry) -> None:
        """Take a slot out of use that its agent no longer reports."""
        if slot.fault_reason != registry.NOT_REPORTED:
            LOG.warning("Slot %s is out of use: not reported", slot)
            self._refresh(slot)

    def _follow_agent(
        self,
        slot: registry.SlotEntry,
        report: objects.SlotReport,
        now: float,
    ) -> None:
        """Take a slot out, or bring it back, on its agent's report."""
        if not self.faults and report.state != states.SLOT_FAULTY:
            return
        fault = self.faults.get(self_tests.of(slot))
        if report.state == states.SLOT_FAULTY:
            if fault is None:
                found = self._health.take_out(
                    self_tests.of(slot), codes.SLOT_FAULTY, now
                )
                self._apply(found, now)
        elif (
            fault is not None
            and report.state == states.SLOT_IDLE
            and fault.reason == codes.SLOT_FAULTY
            and (fault.last_test or fault.reason).startswith(fault.reason)
        ):
            # Only the agent's report took it out, for example because no
            # worker could be started.
            self._apply(self._health.forgive(fault.unit), now)

    def _take_result(
        self,
        test: self_tests.SelfTest,
        report: objects.SlotReport,
        result: objects.SessionResult,
        now: float,
    ) -> None:
        if result.state == states.PREPARE_FAILED:
            if result.code in codes.BITSTREAM_FAULTS:
                self._end(test, None, now)
                return
            text = result.message.removeprefix(f"{result.code}: ")
            text = f"{result.code}: {text}"[:_MAX_ERROR_LENGTH]
            self._end(test, limits.writable(text), now)
        elif result.state != states.CLOSED:
            # The test was called off, or its worker took it for a session.
            self._end(test, None, now)
        elif report.state == states.SLOT_FAULTY:
            text = f"{codes.SLOT_FAULTY}: the slot cannot be cleaned"
            self._end(test, text, now)
        else:
            self._end(test, "", now)

    def _end(
        self, test: self_tests.SelfTest, error: str | None, now: float
    ) -> None:
        """Note the result of a test.

        :param error: why it failed; empty: it passed; None: it did not take
            place.
        """
        self._release(test)
        text = error
        off = self_tests.on_host(test.slot, test.accelerator) in self.faults
        if error and test.is_check and off:
            # The accelerator is out of use on this host meanwhile: it may be
            # the cause.
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
            self._health.postpone(test.unit, now)
        else:
            found = self._health.tested(test.place, test.unit, error, now)
            if error and test.is_check:
                found += self._health.take_out(
                    test.unit, codes.SELF_TEST_FAILED, now, error
                )
            self._apply(found, now)
        fault = self.faults.get(test.unit)
        if fault is not None:
            self._save(fault)
        self._refresh(test.slot)

    def _drop_test(self, unit: health.Unit) -> None:
        """Call off the tests of a unit."""
        for test in list(self._tests.values()):
            if test.unit == unit:
                self._send(test.call_off())
                self._release(test)

    def _release(self, test: self_tests.SelfTest) -> None:
        del self._tests[test.slot.id]
        self._tell(events.SlotReleased(test.slot.id, test.generation))

    # -- time --------------------------------------------------------------

    def end_overdue(self, now: float) -> None:
        """End overdue tests, and forget deleted accelerators."""
        limit_s = self._settings.prepare_timeout_s
        for test in list(self._tests.values()):
            host = test.slot.host
            if not host.up:
                self._end(test, None, now)
            # Compares with the host's last report: while the host is silent,
            # its test may have passed.
            elif host.heard_at - test.asked_at > limit_s:
                self._time_out(test, now)
        if self._library is not self._catalogue.library:
            self._library = self._catalogue.library
            self._forget_deleted(now)

    def begin_due(self, now: float) -> None:
        """Begin the tests that are due, in free slots."""
        if self.faults:
            found = self._health.due(
                now,
                lambda unit: any(self._bench.candidates(unit, now)),
                self._bench.is_crowded,
            )
            self._apply(found, now)

    def _forget_deleted(self, now: float) -> None:
        """Forget faults of deleted accelerators, which cannot be tested."""
        profiles = self._catalogue.library.profiles
        for unit in list(self.faults):
            if unit.accelerator and unit.accelerator not in profiles:
                self._forget(unit, now)

    def forget_gone(self, now: float) -> None:
        """Forget the faults of removed hosts."""
        known: Mapping[health.Level, Container[int]] = {
            health.Level.ACCELERATOR: self._pool.hosts_by_id,
            health.Level.SLOT: self._pool.slots,
            health.Level.DEVICE: self._pool.devices,
        }
        for unit in list(self.faults):
            if unit.id not in known[unit.level]:
                self._forget(unit, now)

    def _forget(self, unit: health.Unit, now: float) -> None:
        self._drop_test(unit)
        self._apply(self._health.forgive(unit), now)

    def _time_out(self, test: self_tests.SelfTest, now: float) -> None:
        self._send(test.call_off())
        if not test.seen:
            # The agent never began the test, which says nothing about the
            # slot.
            self._end(test, None, now)
            return
        # The slot is out of use until a report shows it idle, whatever was
        # tested: programming may hang.
        test.slot.usable = False
        limit_s = self._settings.prepare_timeout_s
        text = f"{codes.PREPARE_TIMEOUT}: not done in {limit_s:.0f} s"
        self._end(test, text, now)

    def _begin(self, fault: health.Fault, now: float) -> None:
        # The candidates take turns, because the fault may be in only one of
        # them: all slots with one accelerator, then with the next.
        candidates = sorted(
            self._bench.candidates(fault.unit, now), key=operator.itemgetter(1)
        )
        if not candidates:
            self._health.postpone(fault.unit, now)
            return
        # Counts turns and not tries, so that the next test is another one even
        # if this one does not take place.
        turn = self._turns.setdefault(fault.unit, fault.tries)
        self._turns[fault.unit] = turn + 1
        slot, name = candidates[turn % len(candidates)]
        self._order(fault.unit, slot, name, now)

    def _order(
        self,
        unit: health.Unit,
        slot: registry.SlotEntry,
        name: str,
        now: float,
    ) -> None:
        self._tests[slot.id] = self_tests.SelfTest(
            unit=unit,
            slot=slot,
            accelerator=name,
            bitstream=self._catalogue.library.choose(name, slot.shape),
            asked_at=now,
            ordered_at=now,
            is_check=unit not in self.faults,
        )
        self._tell(events.TestRequested(slot.id, name))

    def carry_out(self, order: instructions.Test) -> None:
        """Order an agent to test a slot that the core has given to a test."""
        test = self._tests[order.slot_id]
        test.generation = order.generation
        LOG.info("Slot %s is tested with %s", test.slot, test.accelerator)
        self._send(test.order())

    # -- orders of operators -----------------------------------------------

    def test(
        self, slot: registry.SlotEntry, accelerator: str, now: float
    ) -> exception.FpgapoolException | None:
        """Begin a test now, if the slot is free.

        The tested unit is the slot's device if it is out of use, else the
        slot, else the accelerator on the host. A passed test brings it back.
        If none of them is out, a failed test takes the slot out.

        :param accelerator: with which to test it; empty: any.
        :returns: why there is no test; None if it has begun.
        """
        profile = self._catalogue.library.profiles.get(accelerator)
        if accelerator and (profile is None or profile.projects):
            return exception.SlotNotTested(
                code=codes.UNKNOWN_ACCELERATOR,
                reason=f"there is no public accelerator {accelerator!r:.80}",
            )
        unit = self._bench.unit_of_test(slot, accelerator)
        names = self._bench.names_for(slot, unit, accelerator)
        for code, reason in self._bench.obstacles(slot, unit, now):
            return exception.SlotNotTested(code=code, reason=reason)
        if not names:
            return exception.SlotNotTested(
                code=codes.NO_COMPATIBLE_SLOT,
                reason=f"{accelerator} does not fit it"
                if accelerator
                else "no accelerator fits it",
            )
        # The accelerators take turns, as in due tests.
        turn = self._turns.get(unit, 0)
        self._turns[unit] = turn + 1
        self._health.begin(unit)
        self._order(unit, slot, names[turn % len(names)], now)
        return None

    # -- effects -----------------------------------------------------------

    def _apply(self, found: Iterable[health.Instruction], now: float) -> None:
        for one in found:
            match one:
                case health.TakeOut(fault):
                    LOG.error(
                        "%s is out of use: %s, %d failures in a row",
                        self._name(fault.unit),
                        fault.reason,
                        fault.failures,
                    )
                    self._save(fault)
                    self._refresh_all(fault.unit)
                case health.BringBack(unit):
                    LOG.info("%s is in use again", self._name(unit))
                    self._turns.pop(unit, None)
                    self._write(self._row_of_end(unit, now))
                    self._refresh_all(unit)
                case health.Test(fault):
                    self._begin(fault, now)

    def _refresh_all(self, unit: health.Unit) -> None:
        if unit.level is health.Level.ACCELERATOR:
            is_out = unit in self.faults
            self._tell(
                events.AcceleratorFaulty(unit.id, unit.accelerator, unit.shape)
                if is_out
                else events.AcceleratorRestored(
                    unit.id, unit.accelerator, unit.shape
                )
            )
            return
        for slot in self._bench.slots_of(unit):
            self._refresh(slot)

    def _fault_of(self, slot: registry.SlotEntry) -> health.Fault | None:
        faults = self.faults
        if not faults:
            return None
        return faults.get(self_tests.of(slot)) or faults.get(
            self_tests.of_device(slot)
        )

    def _refresh(self, slot: registry.SlotEntry) -> None:
        """Update a slot's entry, its row and the core."""
        fault = self._fault_of(slot)
        known = slot.faulty, slot.fault_reason
        slot.faulty = fault is not None or slot.missing
        slot.fault_reason = fault.reason if fault else ""
        if slot.missing:
            slot.fault_reason = registry.NOT_REPORTED
        if known != (slot.faulty, slot.fault_reason):
            self._write(registry.slot_row(slot))
        self._tell(self.core_event(slot))

    def core_event(self, slot: registry.SlotEntry) -> events.Event:
        """Return the event for the core about a slot's usability."""
        if slot.faulty or not slot.usable:
            reason = slot.fault_reason or codes.SLOT_FAULTY
            return events.SlotFaulty(slot.id, reason)
        return events.SlotRestored(slot.id)

    def _name(self, unit: health.Unit) -> str:
        """Return the name of a unit for the log; the unit may be gone."""
        if unit.level is health.Level.SLOT:
            return f"Slot {self._pool.slots.get(unit.id, unit.id)}"
        if unit.level is health.Level.DEVICE:
            device = self._pool.devices.get(unit.id)
            if device is None:
                return f"Device {unit.id}"
            return f"Device {device.host.name} {device.name}"
        host = self._pool.hosts_by_id.get(unit.id)
        name = host.name if host is not None else unit.id
        shape = f", shape {unit.shape}" if unit.shape else ""
        return f"{unit.accelerator} on host {name}{shape}"

    def _save(self, fault: health.Fault) -> None:
        unit = fault.unit
        if fault.next_test_at is None:
            return
        if unit not in self._ids:
            self._last_id += 1
            self._ids[unit] = self._last_id
        self._write(
            db_api.FaultRecord(
                id=self._ids[unit],
                level=unit.level.value,
                target_id=unit.id,
                accelerator=unit.accelerator,
                shape=unit.shape,
                **{name: getattr(fault, name) for name in _KEPT},
            )
        )

    def _row_of_end(self, unit: health.Unit, now: float) -> db_api.FaultRecord:
        return db_api.FaultRecord(
            id=self._ids[unit],
            level=unit.level.value,
            target_id=unit.id,
            accelerator=unit.accelerator,
            shape=unit.shape,
            active=False,
            reason="",
            since=now,
            next_test_at=now,
        )


def _unit(row: db_api.FaultRecord) -> health.Unit | None:
    level = stored_enums.read(health.Level, row, "level")
    return level and health.Unit(
        level, row.target_id, row.accelerator, row.shape
    )


def _fault(unit: health.Unit, row: db_api.FaultRecord) -> health.Fault:
    return health.Fault(
        unit=unit, **{name: getattr(row, name) for name in _KEPT}
    )
