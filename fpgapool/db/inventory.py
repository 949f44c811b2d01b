# SPDX-License-Identifier: Apache-2.0

"""The pool's hardware, derived from its rows: states, holders, summary."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

from fpgapool.core import health
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.objects import instance
from fpgapool.vocabulary import capacity
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True)
class Device:
    """A device with its host."""

    id: str
    record: db_api.DeviceRecord
    host: db_api.HostRecord
    reserved_slots: int = 0
    fault: db_api.FaultRecord | None = None

    @property
    def state(self) -> str:
        """``up``, ``down``, ``faulty``, ``draining`` or ``disabled``."""
        settings = (self.record.admin_state, self.host.admin_state)
        if states.DRAINING in settings:
            return states.DRAINING
        if settings != (states.ENABLED, states.ENABLED):
            return states.DISABLED
        if not self.record.healthy or self.fault is not None:
            return states.FAULTY
        return states.UP if self.host.up else states.DOWN


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot with its device and its holder.

    :ivar project_id: project of the instance that has reserved it, if known.
    """

    id: str
    record: db_api.SlotRecord
    device: Device
    holder: db_api.SlotHolder | None
    project_id: str | None = None
    own_fault: db_api.FaultRecord | None = None

    @property
    def fault(self) -> db_api.FaultRecord | None:
        """The fault of the slot or, if it has none, of its device."""
        return self.own_fault or self.device.fault

    @property
    def is_usable(self) -> bool:
        """Whether sessions can use it, now or later."""
        return self.device.state == states.UP and not self.record.faulty

    @property
    def serves_reservation(self) -> bool:
        """Whether it is reserved, works, and is not held by others."""
        instance_id = self.record.reserved_for
        if instance_id is None or self.record.faulty:
            return False
        if self.holder is None:
            return self.device.state == states.UP
        return instance.id_of(self.holder.user_id) == instance_id

    @property
    def state(self) -> str:
        """Its state, or why it is out of service."""
        if self.holder is not None:
            return self.holder.phase.lower()
        if self.device.state in (states.DRAINING, states.DISABLED):
            return states.DISABLED
        if self.record.faulty or self.device.state == "faulty":
            return states.FAULTY
        return states.SLOT_IDLE if self.device.host.up else states.DOWN

    def state_now(self, unusable: Collection[int]) -> str:
        """Return its state, which is ``faulty`` if the leader cannot use it.

        :param unusable: row ids of the slots that the leader cannot use now.
        """
        if self.holder is None and self.record.id in unusable:
            return states.FAULTY
        return self.state


class Inventory:
    """All hardware of the pool, at one point in time."""

    def __init__(self, found: db_api.Inventory) -> None:
        self._found = found
        self.hosts = found.hosts
        hosts = {host.id: host for host in found.hosts}
        reserved = {
            row.device_id: sum(row.instances.values())
            for row in found.reservations
        }
        faults = {(row.level, row.target_id): row for row in found.faults}
        self._devices = {
            record.id: Device(
                identity.device_id(hosts[record.host_id].uuid, record.name),
                record,
                hosts[record.host_id],
                reserved.get(record.id, 0),
                faults.get((health.Level.DEVICE.value, record.id)),
            )
            for record in found.devices
        }
        holders = {holder.slot_id: holder for holder in found.holders}
        self.slots = [
            Slot(
                identity.slot_id(
                    self._devices[record.device_id].id, record.number
                ),
                record,
                self._devices[record.device_id],
                holders.get(record.id),
                found.projects.get(record.reserved_for or ""),
                faults.get((health.Level.SLOT.value, record.id)),
            )
            for record in found.slots
        ]
        #: The slots by the ids of their rows.
        self.slots_by_id = {slot.record.id: slot for slot in self.slots}
        self.host_uuids = {host.id: host.uuid for host in found.hosts}
        #: The number of slots of each device, by the device's identifier.
        self.slot_counts = collections.Counter(
            slot.device.id for slot in self.slots
        )
        #: The number of slots of each device that sessions hold.
        self.session_counts = collections.Counter(
            slot.device.id
            for slot in self.slots
            if slot.holder is not None and slot.holder.session_id is not None
        )

        self._devices_of = collections.defaultdict[int, list[Device]](list)
        for device in self._devices.values():
            self._devices_of[device.host.id].append(device)
        self._slots_of = collections.defaultdict[str, list[Slot]](list)
        for slot in self.slots:
            self._slots_of[slot.device.id].append(slot)
        self._kept_off = collections.defaultdict[
            int, list[db_api.FaultRecord]
        ](list)
        for fault in found.faults:
            if fault.level == health.Level.ACCELERATOR.value:
                self._kept_off[fault.target_id].append(fault)
        self._serving = collections.Counter(
            slot.device.id for slot in self.slots if slot.serves_reservation
        )

    @classmethod
    def load(cls, database: db_api.Database) -> Inventory:
        return cls(database.inventory())

    def with_hosts(self, hosts: list[db_api.HostRecord]) -> Inventory:
        """Return the same hardware with other rows of its hosts."""
        return Inventory(dataclasses.replace(self._found, hosts=hosts))

    def pending_reservations(self, device: Device) -> int:
        """Return how many reservations of a device have no slot yet."""
        # The difference may be negative, because the rows of reservations and
        # slots are not written together.
        return max(device.reserved_slots - self._serving[device.id], 0)

    @property
    def devices(self) -> list[Device]:
        return list(self._devices.values())

    def kept_off(self, host: db_api.HostRecord) -> list[db_api.FaultRecord]:
        """Return the faults of accelerators out of service on a host."""
        return self._kept_off.get(host.id, [])

    def devices_of(self, host: db_api.HostRecord) -> Sequence[Device]:
        return self._devices_of.get(host.id, ())

    def slots_of(self, device: Device) -> Sequence[Slot]:
        return self._slots_of.get(device.id, ())

    def summary(
        self,
        unusable: Collection[int],
        shown: Callable[[str | None], str | None] = lambda key: key,
        hosts: Sequence[db_api.HostRecord] | None = None,
    ) -> list[dict[str, Any]]:
        """Return hosts, devices and slots as JSON, without tenants' data.

        :param unusable: row ids of the slots that the leader cannot use now.
        :param shown: returns the form of an accelerator's key that the reader
            may see.
        :param hosts: the hosts to return; None: all of them.
        """
        return [
            self._host_summary(host, unusable, shown)
            for host in (self.hosts if hosts is None else hosts)
        ]

    def _host_summary(
        self,
        host: db_api.HostRecord,
        unusable: Collection[int],
        shown: Callable[[str | None], str | None],
    ) -> dict[str, Any]:
        """Return one host; see :meth:`summary`."""
        return {
            "uuid": host.uuid,
            "name": host.name,
            "up": host.up,
            "devices": [
                {
                    "name": device.record.name,
                    "healthy": device.record.healthy,
                    "reservable_slots": device.record.reservable_slots,
                    "reserved_slots": device.reserved_slots,
                    "pending_reservations": self.pending_reservations(device),
                    "slots": [
                        {
                            "slot": slot.record.number,
                            "shape": slot.record.shape,
                            "state": slot.state_now(unusable),
                            "accelerator": shown(
                                slot.holder and slot.holder.accelerator
                            ),
                            "programmed": shown(slot.record.programmed),
                        }
                        for slot in self.slots_of(device)
                    ],
                }
                for device in self.devices_of(host)
            ],
        }

    def counts(self, unusable: Collection[int] = ()) -> dict[str, Any]:
        """Return the numbers of hosts, devices and slots.

        The leader counts the same, see
        :meth:`fpgapool.rpcapi.conductor.ConductorAPI.pool_counts`.
        """
        return {
            "hosts": len(self.hosts),
            "hosts_up": sum(host.up for host in self.hosts),
            "devices": len(self.devices),
            "devices_healthy": sum(
                one.record.healthy for one in self._devices.values()
            ),
            "slots": capacity.by_shape(
                (slot.record.shape, slot.state_now(unusable))
                for slot in self.slots
            ),
        }
