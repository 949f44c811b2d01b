#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Hosts, devices and slots, as the database has them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

from fpgapool.db import api as db_api


def device_id(host_uuid: str, device_name: str) -> str:
    """Return the identifier of a device, which is the same for ever."""
    return str(uuid.uuid5(uuid.UUID(host_uuid), device_name))


def slot_id(of_device_id: str, number: int) -> str:
    """Return the identifier of a slot, which is the same for ever."""
    return str(uuid.uuid5(uuid.UUID(of_device_id), str(number)))


@dataclasses.dataclass(frozen=True)
class Device:
    """A device and what it belongs to."""

    id: str
    record: db_api.DeviceRecord
    host: db_api.HostRecord

    @property
    def state(self) -> str:
        """``up``, ``down``, ``faulty`` or ``disabled``."""
        if not self.record.enabled:
            return "disabled"
        if not self.record.healthy:
            return "faulty"
        return "up" if self.host.up else "down"


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot, what it belongs to, and who has it."""

    id: str
    record: db_api.SlotRecord
    device: Device
    holder: db_api.SlotHolder | None

    @property
    def state(self) -> str:
        """What it does, or why it does nothing."""
        if self.holder is not None:
            return self.holder.phase.lower()
        if self.record.faulty or self.device.state in ("faulty", "disabled"):
            return "faulty"
        return "idle" if self.device.host.up else "down"


class Inventory:
    """All of the pool's hardware at one time.

    :param found: what the database holds.
    """

    def __init__(self, found: db_api.Inventory) -> None:
        self.hosts = found.hosts
        hosts = {host.id: host for host in found.hosts}
        self._devices = {
            record.id: Device(
                device_id(hosts[record.host_id].uuid, record.name),
                record,
                hosts[record.host_id],
            )
            for record in found.devices
        }
        holders = {holder.slot_id: holder for holder in found.holders}
        self.slots = [
            Slot(
                slot_id(self._devices[record.device_id].id, record.number),
                record,
                self._devices[record.device_id],
                holders.get(record.id),
            )
            for record in found.slots
        ]

    @classmethod
    def load(cls, database: db_api.Database) -> Inventory:
        """Return what a database holds now."""
        return cls(database.inventory())

    @property
    def devices(self) -> list[Device]:
        """All devices."""
        return list(self._devices.values())

    def devices_of(self, host: db_api.HostRecord) -> Iterator[Device]:
        """Yield the devices of a host."""
        return (one for one in self.devices if one.host is host)

    def slots_of(self, device: Device) -> Iterator[Slot]:
        """Yield the slots of a device."""
        return (one for one in self.slots if one.device is device)


def find(members: list[dict[str, Any]], key: str, value: str) -> Any:
    """Return the member with some value, None if there is none.

    :param members: of a list.
    :param key: name of what identifies a member.
    :param value: that is looked for.
    """
    return next((one for one in members if one[key] == value), None)
