# SPDX-License-Identifier: Apache-2.0

"""Self-tests of slots: their orders, and the choice of slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import health
from fpgapool.core import model
from fpgapool.core import state as core_state
from fpgapool.vocabulary import codes

_NOBODY = ""


@dataclasses.dataclass(slots=True)
class SelfTest:
    """The conductor's part of a running test's state; the core has the rest.

    :ivar is_check: whether an operator requested it for a unit in service.
    :ivar generation: generation of the assignment; 0 until the core has
        assigned the slot.
    """

    unit: health.Unit
    slot: registry.SlotEntry
    accelerator: str
    bitstream: objects.BitstreamRef | None
    asked_at: float
    ordered_at: float
    generation: int = 0
    seen: bool = False
    is_check: bool = False

    @property
    def place(self) -> health.Place:
        """The place that is tested: a slot with an accelerator."""
        return place_of(self.slot, self.accelerator)

    @property
    def session_id(self) -> str:
        """Its session id in messages to agents."""
        return f"self-test-{self.generation}"

    def order(self) -> effects.TestSlot:
        return effects.TestSlot(
            agent_orders.request(
                self.slot,
                self.bitstream,
                session_id=self.session_id,
                generation=self.generation,
                project_id=_NOBODY,
                accelerator=self.accelerator,
                self_test=True,
                **holds.WITHOUT_CLIENT,
            )
        )

    def call_off(self) -> effects.ReleaseSlot:
        """Return the order that ends the test."""
        return agent_orders.release_slot(
            self.slot, self.session_id, self.generation, codes.PREPARE_TIMEOUT
        )


@dataclasses.dataclass(eq=False, repr=False)
class Bench:
    """Selects the slots in which to test a unit.

    :ivar _used: ids of the slots that have, or may still have, a holder.
    """

    _settings: admission.PoolLimits
    _pool: registry.Registry
    _catalogue: bitstreams.Catalogue
    _core: core_state.PoolState
    _used: Container[int]
    _faults: Mapping[health.Unit, health.Fault]

    def candidates(
        self, unit: health.Unit, now: float
    ) -> Iterator[tuple[registry.SlotEntry, str]]:
        """Yield the pairs of slot and accelerator that can test a unit now."""
        silent_before = now - self._settings.report_timeout_s
        for slot in self.slots_of(unit):
            # A silent host would not report the result.
            if slot.host.heard_at < silent_before:
                continue
            if not self._is_free(slot, unit):
                continue
            for name in self._accelerators(slot, unit):
                yield slot, name

    def is_crowded(self, unit: health.Unit) -> bool:
        """Whether busy slots alone prevent the test of an accelerator."""
        if unit.level is not health.Level.ACCELERATOR:
            # Slots that are out of service get no sessions and become idle.
            return False
        return any(
            slot.id in self._used and self._accelerators(slot, unit)
            for slot in self.slots_of(unit)
            if slot.host.up and not slot.faulty
        )

    def slots_of(self, unit: health.Unit) -> list[registry.SlotEntry]:
        """Return the slots that belong to a unit."""
        if unit.level is health.Level.SLOT:
            found = self._pool.slots.get(unit.id)
            return [found] if found else []
        if unit.level is health.Level.DEVICE:
            device = self._pool.devices.get(unit.id)
            return list(device.slots.values()) if device else []
        host = self._pool.hosts_by_id.get(unit.id)
        return [
            slot
            for slot in (host.slots() if host else ())
            if unit.shape in ("", slot.shape)
        ]

    def _is_free(self, slot: registry.SlotEntry, unit: health.Unit) -> bool:
        """Whether a slot can be tested without disturbing sessions."""
        by_level = {
            one.level
            for one in (of(slot), of_device(slot))
            if one in self._faults and one != unit
        }
        if unit.level is health.Level.SLOT and by_level:
            # The device must pass a test first.
            return False
        if unit.level is health.Level.ACCELERATOR and (
            by_level or slot.reserved_for is not None or not slot.usable
        ):
            return False
        return (
            slot.host.up
            and slot.device.healthy
            and not slot.missing
            and slot.id not in self._used
            and self._core.hold(slot.id) is None
            and administration.state(slot.device) is model.AdminState.ENABLED
        )

    def _accelerators(
        self, slot: registry.SlotEntry, unit: health.Unit
    ) -> list[str]:
        profiles = self._catalogue.library.profiles
        if unit.accelerator:
            names = [unit.accelerator] if unit.accelerator in profiles else []
        else:
            # Do not use projects' own accelerators.
            names = sorted(
                n for n, one in profiles.items() if not one.projects
            )
        return [
            name
            for name in names
            if not profiles[name].shapes or slot.shape in profiles[name].shapes
        ]

    # -- orders of operators -----------------------------------------------

    def unit_of_test(
        self, slot: registry.SlotEntry, accelerator: str
    ) -> health.Unit:
        """Return the unit to test when an operator tests a slot."""
        for unit in (of_device(slot), of(slot)):
            if unit in self._faults:
                return unit
        off = on_host(slot, accelerator)
        return off if off in self._faults else of(slot)

    def names_for(
        self, slot: registry.SlotEntry, unit: health.Unit, accelerator: str
    ) -> list[str]:
        """Return the accelerators for a test that an operator requests.

        :param accelerator: the only one to use; empty: any.
        """
        names = self._accelerators(slot, unit)
        if accelerator:
            return [accelerator] if accelerator in names else []
        # Accelerators that are out of service say nothing about the slot.
        return [
            name
            for name in names
            if unit in self._faults or on_host(slot, name) not in self._faults
        ]

    def obstacles(
        self, slot: registry.SlotEntry, unit: health.Unit, now: float
    ) -> Iterator[tuple[str, str]]:
        """Yield the reasons why a slot cannot be tested now: code and text."""
        if (
            not slot.host.up
            or slot.host.heard_at < now - self._settings.report_timeout_s
        ):
            yield codes.HOST_DOWN, "its host is not reporting"
        # A disabled device may be tested before it is enabled.
        if administration.state(slot.device) is model.AdminState.DRAINING:
            yield codes.SLOT_NOT_TESTABLE, "its device is being drained"
        if slot.missing:
            yield codes.SLOT_NOT_TESTABLE, "its agent does not report it"
        if not slot.device.healthy:
            yield (
                codes.SLOT_NOT_TESTABLE,
                "its driver reports the device as faulty",
            )
        if slot.id in self._used:
            yield codes.SLOT_IN_USE, "a session or group is using it"
        fault = self._faults.get(unit)
        if self._core.hold(slot.id) or (fault and fault.is_tested):
            yield codes.SLOT_IN_USE, "a test is already running"
        if fault is not None and unit.level is not health.Level.ACCELERATOR:
            return
        # The slot is in service, so the following reasons apply, too.
        if slot.reserved_for is not None:
            yield codes.SLOT_IN_USE, "it is reserved for an instance"
        if not slot.usable:
            yield (
                codes.SLOT_NOT_TESTABLE,
                "its agent does not report it as idle",
            )


def place_of(slot: registry.SlotEntry, accelerator: str) -> health.Place:
    return health.Place(
        host_id=slot.host.id,
        device_id=slot.device.id,
        slot_id=slot.id,
        accelerator=accelerator,
        shape=slot.shape,
    )


def of(slot: registry.SlotEntry) -> health.Unit:
    return health.Unit(health.Level.SLOT, slot.id)


def of_device(slot: registry.SlotEntry) -> health.Unit:
    return health.Unit(health.Level.DEVICE, slot.device.id)


def on_host(slot: registry.SlotEntry, accelerator: str) -> health.Unit:
    """Return the unit of an accelerator on a slot's host, in its shape."""
    return health.Unit(
        health.Level.ACCELERATOR, slot.host.id, accelerator, slot.shape
    )
