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

"""Names and numbers: agents speak of names, the core of integers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from fpgapool import objects
from fpgapool.core import model
from fpgapool.db import api as db_api

# An agent that restarts often must not make this set grow for ever; reports
# older than this many restarts no longer travel.
_MAX_OLD_BOOTS = 16


@dataclasses.dataclass(slots=True)
class SlotEntry:
    """A slot and what its agent last said of it."""

    id: int
    number: int
    shape: str
    device: DeviceEntry
    programmed: str | None = None
    programming_time_s: float = 0.0
    faulty: bool = False
    fault_reason: str = ""
    usable: bool = True
    #: When its agent was last told to release a holder that is not known.
    stray_told_at: float = -math.inf

    @property
    def host(self) -> HostEntry:
        """The host that the slot is in."""
        return self.device.host

    def __str__(self) -> str:
        return f"{self.host.name} {self.device.name} {self.number}"


@dataclasses.dataclass(slots=True)
class DeviceEntry:
    """A board and what its agent last said of it."""

    id: int
    name: str
    host: HostEntry
    model: str = ""
    dma_bytes_per_s: float = 0.0
    healthy: bool = True
    enabled: bool = True
    fault_reason: str = ""
    slots: dict[int, SlotEntry] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class HostEntry:
    """A host, its boards, and when its agent was last heard."""

    id: int
    uuid: str
    name: str
    nic_bytes_per_s: float = 0.0
    up: bool = False
    heard_at: float = 0.0
    #: When it was last asked whether it is still there.
    asked_at: float = -math.inf
    boot_id: str = ""
    sequence: int = -1
    #: Why its network card is not capped though it should, if so.
    link_message: str | None = None
    old_boots: list[str] = dataclasses.field(default_factory=list)
    devices: dict[str, DeviceEntry] = dataclasses.field(default_factory=dict)

    def slots(self) -> Iterator[SlotEntry]:
        """Yield the host's slots, in index order."""
        for device in sorted(self.devices.values(), key=lambda d: d.id):
            yield from (device.slots[n] for n in sorted(device.slots))

    def accepts(self, boot_id: str, sequence: int) -> bool:
        """Whether a report is newer than all that came before it."""
        if boot_id == self.boot_id:
            return sequence > self.sequence
        return boot_id not in self.old_boots

    def note_report(self, boot_id: str, sequence: int, now: float) -> None:
        """Remember the newest report."""
        if self.boot_id and boot_id != self.boot_id:
            self.old_boots.append(self.boot_id)
            del self.old_boots[:-_MAX_OLD_BOOTS]
        self.boot_id = boot_id
        self.sequence = sequence
        self.heard_at = now

    def spec(self) -> model.HostSpec:
        """Return the host as the core describes it."""
        first_number = 0
        devices = []
        for device in sorted(self.devices.values(), key=lambda d: d.id):
            devices.append(_device_spec(self, device, first_number))
            first_number += len(device.slots)
        return model.HostSpec(
            id=self.id,
            name=self.name,
            nic_bytes_per_s=self.nic_bytes_per_s,
            devices=tuple(devices),
        )


def _device_spec(
    host: HostEntry, device: DeviceEntry, first_number: int
) -> model.DeviceSpec:
    return model.DeviceSpec(
        id=device.id,
        host_id=host.id,
        name=device.name,
        dma_bytes_per_s=device.dma_bytes_per_s,
        healthy=device.healthy,
        enabled=device.enabled,
        slots=tuple(
            model.SlotSpec(
                id=device.slots[number].id,
                device_id=device.id,
                host_id=host.id,
                number=first_number + position,
                shape=device.slots[number].shape,
                programmed=device.slots[number].programmed,
                programming_time_s=device.slots[number].programming_time_s,
            )
            for position, number in enumerate(sorted(device.slots))
        ),
    )


class Registry:
    """All hosts, devices and slots that ever reported, by name and id."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostEntry] = {}
        self.hosts_by_id: dict[int, HostEntry] = {}
        self.slots: dict[int, SlotEntry] = {}
        self._last_id = {"host": 0, "device": 0, "slot": 0}

    def restore(
        self,
        hosts: list[db_api.HostRecord],
        devices: list[db_api.DeviceRecord],
        slots: list[db_api.SlotRecord],
        now: float,
    ) -> None:
        """Rebuild from rows; every host is down until its agent reports."""
        for host in sorted(hosts, key=lambda row: row.id):
            self._add_host(
                HostEntry(
                    id=host.id,
                    uuid=host.uuid,
                    name=host.name,
                    nic_bytes_per_s=host.nic_bytes_per_s,
                    heard_at=now,
                )
            )
        devices_by_id = {}
        for row in sorted(devices, key=lambda row: row.id):
            owner = self.hosts_by_id[row.host_id]
            device = DeviceEntry(
                id=row.id,
                name=row.name,
                host=owner,
                model=row.model,
                dma_bytes_per_s=row.dma_bytes_per_s,
                healthy=row.healthy,
                enabled=row.enabled,
                fault_reason=row.fault_reason,
            )
            owner.devices[row.name] = device
            devices_by_id[row.id] = device
            self._note_id("device", row.id)
        for slot in sorted(slots, key=lambda row: row.id):
            self._add_slot(
                SlotEntry(
                    id=slot.id,
                    number=slot.number,
                    shape=slot.shape,
                    device=devices_by_id[slot.device_id],
                    programmed=slot.programmed,
                    programming_time_s=slot.programming_time_s,
                    faulty=slot.faulty,
                    fault_reason=slot.fault_reason,
                )
            )

    def update(
        self, report: objects.AgentReport
    ) -> tuple[HostEntry, bool, list[db_api.Record]]:
        """Take over a report's hardware.

        :returns: the host, whether its hardware differs from what was known,
            and the rows to write.
        """
        rows: list[db_api.Record] = []
        host = self.hosts.get(report.host_uuid)
        if host is None:
            host = self._add_host(
                HostEntry(
                    id=self._next_id("host"),
                    uuid=report.host_uuid,
                    name=report.host_name,
                )
            )
        # Not in the database: the next report says it again.
        host.link_message = report.link_message
        changed = _assign(
            host,
            name=report.host_name,
            nic_bytes_per_s=report.nic_bytes_per_s,
        )
        if changed:
            rows.append(host_row(host))
        for device_report in report.devices:
            rows.extend(self._update_device(host, device_report))
        rows.extend(_missing_devices(host, report))
        return host, bool(rows), rows

    def _update_device(
        self, host: HostEntry, report: objects.DeviceReport
    ) -> list[db_api.Record]:
        rows: list[db_api.Record] = []
        device = host.devices.get(report.name)
        if device is None:
            device = DeviceEntry(
                id=self._next_id("device"), name=report.name, host=host
            )
            host.devices[report.name] = device
        if _assign(
            device,
            model=report.model,
            dma_bytes_per_s=report.dma_bytes_per_s,
            healthy=report.healthy,
            fault_reason="" if report.healthy else report.message,
        ):
            rows.append(device_row(device))
        for slot_report in report.slots:
            slot = device.slots.get(slot_report.slot)
            if slot is None:
                slot = self._add_slot(
                    SlotEntry(
                        id=self._next_id("slot"),
                        number=slot_report.slot,
                        shape="",
                        device=device,
                    )
                )
            if _assign(
                slot,
                shape=slot_report.shape,
                programming_time_s=slot_report.programming_time_s,
            ):
                rows.append(slot_row(slot))
        return rows

    def _add_host(self, host: HostEntry) -> HostEntry:
        self.hosts[host.uuid] = host
        self.hosts_by_id[host.id] = host
        self._note_id("host", host.id)
        return host

    def _add_slot(self, slot: SlotEntry) -> SlotEntry:
        slot.device.slots[slot.number] = slot
        self.slots[slot.id] = slot
        self._note_id("slot", slot.id)
        return slot

    def _note_id(self, kind: str, used: int) -> None:
        self._last_id[kind] = max(self._last_id[kind], used)

    def _next_id(self, kind: str) -> int:
        self._last_id[kind] += 1
        return self._last_id[kind]


def _missing_devices(
    host: HostEntry, report: objects.AgentReport
) -> list[db_api.Record]:
    """A board that is no longer reported has failed."""
    present = {device.name for device in report.devices}
    return [
        device_row(device)
        for name, device in host.devices.items()
        if name not in present
        and _assign(device, healthy=False, fault_reason="not reported")
    ]


def _assign(
    entry: HostEntry | DeviceEntry | SlotEntry, **values: object
) -> bool:
    """Set members; :returns: whether any of them changed."""
    changed = False
    for name, value in values.items():
        if getattr(entry, name) != value:
            setattr(entry, name, value)
            changed = True
    return changed


def host_row(host: HostEntry) -> db_api.HostRecord:
    """Return a host's row."""
    return db_api.HostRecord(
        id=host.id,
        uuid=host.uuid,
        name=host.name,
        nic_bytes_per_s=host.nic_bytes_per_s,
        up=host.up,
        last_report_at=host.heard_at or None,
    )


def device_row(device: DeviceEntry) -> db_api.DeviceRecord:
    """Return a device's row."""
    return db_api.DeviceRecord(
        id=device.id,
        host_id=device.host.id,
        name=device.name,
        model=device.model,
        dma_bytes_per_s=device.dma_bytes_per_s,
        healthy=device.healthy,
        enabled=device.enabled,
        fault_reason=device.fault_reason,
    )


def slot_row(slot: SlotEntry) -> db_api.SlotRecord:
    """Return a slot's row."""
    return db_api.SlotRecord(
        id=slot.id,
        device_id=slot.device.id,
        number=slot.number,
        shape=slot.shape,
        programmed=slot.programmed,
        programming_time_s=slot.programming_time_s,
        faulty=slot.faulty,
        fault_reason=slot.fault_reason,
    )
