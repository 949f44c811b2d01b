# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices and slots, as the database and the conductor know them."""

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
    """A device and what it belongs to.

    :ivar fault: why the conductor has taken it out of use, if it has.
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
    """A slot, what it belongs to, and who has it.

    :ivar project_id: of the instance that it is reserved for, if known.
    :ivar own_fault: why the conductor has taken it out of use, if it has.
    """

    id: str
    record: db_api.SlotRecord
    device: Device
    holder: db_api.SlotHolder | None
    project_id: str | None = None
    own_fault: db_api.FaultRecord | None = None

    @property
    def fault(self) -> db_api.FaultRecord | None:
        """Why it is out of use, if not by itself then with its device."""
        return self.own_fault or self.device.fault

    @property
    def serves_reservation(self) -> bool:
        """Whether it is reserved, works, and nobody else has it."""
        instance_id = self.record.reserved_for
        if instance_id is None or self.record.faulty:
            return False
        if self.holder is None:
            return self.device.state == states.UP
        return instance.id_of(self.holder.user_id) == instance_id

    @property
    def state(self) -> str:
        """What it does, or why it does nothing."""
        if self.holder is not None:
            return self.holder.phase.lower()
        if self.device.state in (states.DRAINING, states.DISABLED):
            return states.DISABLED
        if self.record.faulty or self.device.state == "faulty":
            return states.FAULTY
        return states.SLOT_IDLE if self.device.host.up else states.DOWN


class Inventory:
    """All of the pool's hardware at one time.

    :param found: what the database holds.
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
        #: How many slots each device has, by its identifier.
        self.slot_counts = collections.Counter(
            slot.device.id for slot in self.slots
        )
        #: How many of them sessions have.
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
        """Return what a database holds now."""
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
        """Return the accelerators that are kept off a host."""
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
    """Return what is shown of what operators say of a device or host.

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
    """Return what is shown of why something is out of use.

    :param fault: None: it is not, or by its driver's word only.
    :param sees_all: whether the caller may read what a host says.
    """
    return {
        "failures": fault.failures if fault else 0,
        "self_tests": fault.tests if fault else 0,
        "last_self_test": fault.last_test if fault and sees_all else "",
        "next_self_test_at": times.text(fault.next_test_at if fault else None),
    }


def snapshot(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Nova is told, made of what the conductor says.

    Accelerators that none of a host's slots is for are left out there.

    :param found: see
        :meth:`fpgapool.rpcapi.conductor.ConductorAPI.pool_snapshot`.
    """
    content = {name: found[name] for name in found if name != "generated_at"}
    text = json.dumps(content, sort_keys=True).encode()
    # Most hosts of a cloud are alike.
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
    """:returns: the slots that can be used and are free for each."""
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
    """Return the member with some value, None if there is none.

    :param members: of a list.
    :param key: name of what identifies a member.
    :param value: that is looked for.
    """
    return next((one for one in members if one[key] == value), None)
