# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices and slots in the API's terms."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool.api import times
from fpgapool.core import health
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.objects import instance
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True)
class Device:
    """A device with its host.

    :ivar fault: why the conductor has declared it faulty, if it has.
    """

    id: str
    record: db_api.DeviceRecord
    host: db_api.HostRecord
    reserved_slots: int = 0
    fault: db_api.FaultRecord | None = None

    @property
    def state(self) -> str:
        """``up``, ``down``, ``faulty``, ``draining`` or ``disabled``."""
        wishes = (self.record.admin_state, self.host.admin_state)
        if states.DRAINING in wishes:
            return states.DRAINING
        if wishes != (states.ENABLED, states.ENABLED):
            return states.DISABLED
        if not self.record.healthy or self.fault is not None:
            return states.FAULTY
        return states.UP if self.host.up else states.DOWN


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot with its device and its session.

    :ivar project_id: of the instance that has reserved it, if known.
    :ivar own_fault: why the conductor has declared it faulty, if it has.
    """

    id: str
    record: db_api.SlotRecord
    device: Device
    holder: db_api.SlotHolder | None
    project_id: str | None = None
    own_fault: db_api.FaultRecord | None = None

    @property
    def fault(self) -> db_api.FaultRecord | None:
        """The fault of the slot, or else of its device."""
        return self.own_fault or self.device.fault

    @property
    def serves_reservation(self) -> bool:
        """Whether it is reserved, works, and no other session has it."""
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


class Inventory:
    """All of the pool's hardware at one time.

    :param found: the database's inventory.
    """

    def __init__(self, found: db_api.Inventory) -> None:
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
        #: The number of slots of each device, by the device's identifier.
        self.slot_counts = collections.Counter(
            slot.device.id for slot in self.slots
        )
        #: The number of them that sessions have.
        self.session_counts = collections.Counter(
            slot.device.id for slot in self.slots if slot.holder is not None
        )

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
        """Return the current inventory of a database."""
        return cls(database.inventory())

    def pending_reservations(self, device: Device) -> int:
        """Return how many reservations of a device have no slot yet."""
        # The rows of both are written one after the other.
        return max(device.reserved_slots - self._serving[device.id], 0)

    @property
    def devices(self) -> list[Device]:
        """All devices."""
        return list(self._devices.values())

    def kept_off(self, host: db_api.HostRecord) -> list[db_api.FaultRecord]:
        """Return the accelerators that the pool does not run on a host."""
        return self._kept_off.get(host.id, [])

    def devices_of(self, host: db_api.HostRecord) -> Iterator[Device]:
        """Yield the devices of a host."""
        return (one for one in self.devices if one.host is host)

    def slots_of(self, device: Device) -> Iterator[Slot]:
        """Yield the slots of a device."""
        return (one for one in self.slots if one.device is device)


def administration(
    record: db_api.HostRecord | db_api.DeviceRecord,
) -> dict[str, Any]:
    """Return the members about the operators' setting of a device or host.

    :param record: its row.
    """
    return {
        "admin_state": record.admin_state,
        "admin_reason": record.admin_reason,
        "drain_deadline_at": times.text(record.drain_deadline_at),
    }


def probation(
    fault: db_api.FaultRecord | None, sees_all: bool
) -> dict[str, Any]:
    """Return the members about a fault and its self-tests.

    :param fault: None: it works, or only its driver reports a fault.
    :param sees_all: whether the caller may see messages of hosts.
    """
    return {
        "failures": fault.failures if fault else 0,
        "self_tests": fault.tests if fault else 0,
        "last_self_test": fault.last_test if fault and sees_all else "",
        "next_self_test_at": times.text(fault.next_test_at if fault else None),
    }


def snapshot(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the snapshot for Nova, made of the conductor's.

    A host omits accelerators for which it has no usable slot.

    :param found: see
        :meth:`fpgapool.rpcapi.conductor.ConductorAPI.pool_snapshot`.
    """
    content = {name: found[name] for name in found if name != "generated_at"}
    text = json.dumps(content, sort_keys=True).encode()
    # Most hosts of a cloud are equal.
    known: dict[tuple[tuple[str, int, int], ...], dict[str, Any]] = {}
    hosts = {}
    for host_uuid, host in found["hosts"].items():
        key = tuple(
            (shape, usable, free)
            for shape, (usable, free) in sorted(host["shapes"].items())
        )
        if key not in known:
            known[key] = _accelerators(key, found["accelerators"])
        hosts[host_uuid] = {
            "name": host["name"],
            "up": host["up"],
            "nic_bytes_per_s": host["nic_bytes_per_s"],
            "nic_load": host["nic_load"],
            "queued": host["queued"],
            "slots": {
                "total": host["slots"],
                "usable": sum(usable for _, usable, _ in key),
                "free": sum(free for _, _, free in key),
            },
            "accelerators": known[key],
        }
    return {
        "generated_at": times.text(found["generated_at"]),
        "generation": hashlib.sha256(text).hexdigest()[:32],
        "hosts": hosts,
        "queued": found["queued"],
    }


def _accelerators(
    counts: tuple[tuple[str, int, int], ...],
    library: Mapping[str, list[str]],
) -> dict[str, dict[str, int]]:
    """:returns: the numbers of usable and of free slots for each."""
    found = {}
    for name, shapes in library.items():
        fitting = [one for one in counts if not shapes or one[0] in shapes]
        if fitting:
            found[name] = {
                "usable": sum(usable for _, usable, _ in fitting),
                "free": sum(free for _, _, free in fitting),
            }
    return found


def find(members: list[dict[str, Any]], key: str, value: str) -> Any:
    """Return the member with a value, None if there is none.

    :param members: of a list.
    :param key: name of the member's key.
    :param value: the value to find.
    """
    return next((one for one in members if one[key] == value), None)
