# SPDX-License-Identifier: Apache-2.0

"""Handles operators' requests, reservations, limits and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model

LOG = logging.getLogger(__name__)


class Operators:
    """Sets administrative states, tests, reservations and limits."""

    def __init__(self, pool: pools.Pool) -> None:
        self._pool = pool

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The handlers of inputs."""
        pool = self._pool
        return {
            inputs.Administer: self._administer,
            inputs.TestNow: self._test_now,
            inputs.Reservations: self._reserve,
            inputs.SetReservable: self._set_reservable,
            inputs.NewQuotas: self._replace_quotas,
            inputs.SetQuota: self._set_quota,
            inputs.AdmitInstance: lambda item: pool.instances.admit(
                item.entry, pool.now
            ),
            inputs.ReplaceToken: lambda item: pool.instances.replace_token(
                item.instance_id, item.lost_hash, item.nonce, item.hash_
            ),
            inputs.RevokeInstance: lambda item: pool.instances.revoke(
                item.instance_id
            ),
            inputs.InstanceChanged: lambda item: pool.instances.note(
                item.instance_id, item.host_uuid, item.max_sessions
            ),
        }

    @property
    def instructed(self) -> Mapping[type, pools.Handler]:
        """The handlers of the core's instructions."""
        return {
            instructions.Drained: self._drained,
            instructions.Reserve: self._set_reserved,
        }

    # -- devices and hosts -------------------------------------------------

    def _administer(self, item: inputs.Administer) -> None:
        pool = self._pool
        host = pool.registry.hosts.get(item.host_uuid)
        entry: administration.Administered | None = host
        if host is not None and item.device is not None:
            entry = host.devices.get(item.device)
        if entry is not None:
            deadline_at = None
            if item.drain_within_s is not None:
                deadline_at = pool.now + item.drain_within_s
            self._set_admin(
                entry,
                registry.Administration(
                    state=item.state,
                    reason=item.reason,
                    deadline_at=deadline_at,
                ),
            )
        pool.outbox.send(effects.Answer(item.future, entry is not None))

    def _set_admin(
        self,
        entry: administration.Administered,
        wish: registry.Administration,
    ) -> None:
        pool = self._pool
        self._apply_admin(entry, wish)
        if wish.state is model.AdminState.ENABLED:
            for device in administration.devices_of(entry):
                pool.probation.repair(device, pool.now)
        self._finish_drain(entry)

    def _apply_admin(
        self,
        entry: administration.Administered,
        wish: registry.Administration,
    ) -> None:
        entry.admin = wish
        LOG.info(
            "%s is %s: %s",
            administration.name(entry),
            wish.state.value,
            wish.reason or "no reason given",
        )
        self._pool.outbox.write(administration.row(entry))
        devices = administration.devices_of(entry)
        self._pool.tell(*map(administration.core_event, devices))

    def finish_drains(self) -> None:
        """Disable drained devices and hosts; also those of lost hosts."""
        for entry in administration.draining(self._pool.registry):
            self._finish_drain(entry)

    def _drained(self, order: instructions.Drained) -> None:
        device = self._pool.registry.devices[order.device_id]
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
        for hold in self._pool.holds.values():
            yield hold.slot
        for test in self._pool.probation.tests.values():
            yield test.slot

    # -- tests -------------------------------------------------------------

    def _test_now(self, item: inputs.TestNow) -> None:
        pool = self._pool
        host = pool.registry.hosts.get(item.host_uuid)
        device = host.devices.get(item.device) if host else None
        slot = device.slots.get(item.slot) if device else None
        refusal: exception.FpgapoolException | None
        if slot is None:
            refusal = exception.SlotNotFound(
                slot=item.slot, device=item.device, host_uuid=item.host_uuid
            )
        else:
            refusal = pool.probation.test(slot, item.accelerator, pool.now)
        pool.outbox.send(effects.Answer(item.future, refusal))

    # -- reservations ------------------------------------------------------

    def _reserve(self, item: inputs.Reservations) -> None:
        pool = self._pool
        rows = reservations.replace(pool.registry, item.by_device)
        if rows:
            pool.outbox.write(*rows)
            pool.tell(reservations.core_event(pool.registry))

    def _set_reservable(self, item: inputs.SetReservable) -> None:
        pool = self._pool
        host = pool.registry.hosts.get(item.host_uuid)
        device = host.devices.get(item.device) if host else None
        refusal = reservations.refusal(item, device)
        if device is not None and refusal is None:
            LOG.info(
                "Device %s %s: %d slots are reservable",
                device.host.name,
                device.name,
                item.slots,
            )
            device.reservable_slots = item.slots
            pool.outbox.write(registry.device_row(device))
            pool.tell(events.ReservableSlotsChanged(device.id, item.slots))
        pool.outbox.send(effects.Answer(item.future, refusal))

    def _set_reserved(self, order: instructions.Reserve) -> None:
        slot = self._pool.registry.slots[order.slot_id]
        if slot.reserved_for != order.instance_id:
            LOG.info("Slot %s is reserved for %s", slot, order.instance_id)
            slot.reserved_for = order.instance_id
            self._pool.outbox.write(registry.slot_row(slot))

    # -- limits ------------------------------------------------------------

    def _replace_quotas(self, item: inputs.NewQuotas) -> None:
        self._pool.quotas.replace(item.quotas)
        self._pool.tell(self._pool.quotas.session_limits())

    def _set_quota(self, item: inputs.SetQuota) -> None:
        pool = self._pool
        rows = pool.quotas.set(item.project_id, item.limits)
        if rows:
            pool.outbox.write(*rows)
            pool.tell(pool.quotas.session_limits())
