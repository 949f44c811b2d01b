# SPDX-License-Identifier: Apache-2.0

"""Handles requests about hardware, reservations, limits and tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False, repr=False)
class Operators(parts.Room):
    """Sets hardware states, reservations, limits, tokens; starts tests."""

    _registry: registry.Registry
    _holds: holds.Holds
    _probation: probation.Probation
    _quotas: quotas.QuotaBook
    _instances: instances.Directory

    # -- devices and hosts -------------------------------------------------

    @parts.handles(inputs.Administer)
    def _administer(self, item: inputs.Administer) -> None:
        with self._answering(item.future):
            host, device = self._find(item.host_uuid, item.device)
            if item.device is not None and device is None:
                raise exception.DeviceNotFound(
                    device=item.device, host_uuid=item.host_uuid
                )
            if host is None:
                raise exception.HostNotFound(host_uuid=item.host_uuid)
            deadline_at = None
            if item.drain_within_s is not None:
                deadline_at = self._clock.now + item.drain_within_s
            entry = device or host
            self._set_admin(
                entry,
                registry.Administration(
                    state=item.state,
                    reason=item.reason or _kept(entry.admin, item.state),
                    deadline_at=deadline_at,
                ),
            )

    def _find(
        self, host_uuid: str, device: str | None
    ) -> tuple[registry.HostEntry | None, registry.DeviceEntry | None]:
        host = self._registry.hosts.get(host_uuid)
        return host, host.devices.get(device or "") if host else None

    def _set_admin(
        self,
        entry: administration.Administered,
        wanted: registry.Administration,
    ) -> None:
        self._apply_admin(entry, wanted)
        if wanted.state is model.AdminState.ENABLED:
            for device in administration.devices_of(entry):
                self._probation.repair(device)
        self._finish_drain(entry)

    def _apply_admin(
        self,
        entry: administration.Administered,
        wanted: registry.Administration,
    ) -> None:
        entry.admin = wanted
        LOG.info(
            "%s is %s: %s",
            administration.name(entry),
            wanted.state.value,
            wanted.reason or "no reason given",
        )
        self._outbox.write(administration.row(entry))
        devices = administration.devices_of(entry)
        self._link.tell(*map(administration.core_event, devices))

    def finish_drains(self) -> None:
        """Disable devices and hosts that have been drained."""
        for entry in administration.draining(self._registry):
            self._finish_drain(entry)

    @parts.handles(instructions.Drained)
    def _drained(self, order: instructions.Drained) -> None:
        device = self._registry.devices[order.device_id]
        self._finish_drain(device)
        self._finish_drain(device.host)

    def _finish_drain(self, entry: administration.Administered) -> None:
        """Disable a device or host that is draining, if it is empty."""
        if (
            entry.admin.state is model.AdminState.DRAINING
            and administration.is_empty(entry, self.taken())
        ):
            self._apply_admin(
                entry,
                registry.Administration(
                    state=model.AdminState.DISABLED, reason=entry.admin.reason
                ),
            )

    def taken(self) -> Iterator[registry.SlotEntry]:
        """Yield the slots that sessions or tests use."""
        for hold in self._holds.values():
            yield hold.slot
        for test in self._probation.tests.values():
            yield test.slot

    # -- tests -------------------------------------------------------------

    @parts.handles(inputs.TestNow)
    def _test_now(self, item: inputs.TestNow) -> None:
        with self._answering(item.future):
            _, device = self._find(item.host_uuid, item.device)
            slot = device.slots.get(item.slot) if device else None
            if slot is None:
                raise exception.SlotNotFound(
                    slot=item.slot,
                    device=item.device,
                    host_uuid=item.host_uuid,
                )
            self._probation.test(slot, item.accelerator)

    # -- reservations ------------------------------------------------------

    @parts.handles(inputs.Reservations)
    def _reserve(self, item: inputs.Reservations) -> None:
        rows = reservations.replace(self._registry, item.by_device)
        if rows:
            self._outbox.write(*rows)
            self._link.tell(reservations.core_event(self._registry))

    @parts.handles(inputs.SetReservable)
    def _set_reservable(self, item: inputs.SetReservable) -> None:
        with self._answering(item.future):
            _, found = self._find(item.host_uuid, item.device)
            device = reservations.check(item, found)
            LOG.info(
                "Device %s %s: instances can now reserve %d slots",
                device.host.name,
                device.name,
                item.slots,
            )
            device.reservable_slots = item.slots
            self._outbox.write(registry.device_row(device))
            self._link.tell(
                events.ReservableSlotsChanged(device.id, item.slots)
            )

    @parts.handles(instructions.Reserve)
    def _set_reserved(self, order: instructions.Reserve) -> None:
        slot = self._registry.slots[order.slot_id]
        if slot.reserved_for != order.instance_id:
            LOG.info("Slot %s is reserved for %s", slot, order.instance_id)
            slot.reserved_for = order.instance_id
            self._outbox.write(registry.slot_row(slot))

    # -- limits ------------------------------------------------------------

    @parts.handles(inputs.NewQuotas)
    def _replace_quotas(self, item: inputs.NewQuotas) -> None:
        self._quotas.replace(item.quotas)
        self._link.tell(self._quotas.session_limits())

    @parts.handles(inputs.NewTree)
    def _replace_tree(self, item: inputs.NewTree) -> None:
        self._link.tell(events.ShareTreeChanged(item.places))

    @parts.handles(inputs.SetQuota)
    def _set_quota(self, item: inputs.SetQuota) -> None:
        rows = self._quotas.set(item.project_id, item.limits)
        if rows:
            self._outbox.write(*rows)
            self._link.tell(self._quotas.session_limits())

    # -- instances ---------------------------------------------------------

    @parts.handles(inputs.AdmitInstance)
    def _admit_instance(self, item: inputs.AdmitInstance) -> None:
        self._instances.admit(item.entry, item.lost_hash, self._clock.now)

    @parts.handles(inputs.RevokeInstance)
    def _revoke_instance(self, item: inputs.RevokeInstance) -> None:
        self._instances.revoke(item.instance_id)


def _kept(before: registry.Administration, state: model.AdminState) -> str:
    """Return the reason that stays if an operator names none."""
    # A drain that is complete is disabled, still for the same reason.
    enabled = model.AdminState.ENABLED
    same = (before.state is enabled) == (state is enabled)
    return before.reason if same else ""
