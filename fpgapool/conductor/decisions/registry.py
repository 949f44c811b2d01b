# SPDX-License-Identifier: Apache-2.0

"""Names and numbers: agents speak of names, the core of integers."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions import unknown_words
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import identity

# An agent that restarts often must not make this set grow for ever; reports
# older than this many restarts no longer travel.
_MAX_OLD_BOOTS = 16
# Further apart than a report is on its way.
_CLOCK_TOLERANCE_S = 5.0
# One may be on its way while its agent is started anew.
_DOUBLES = 3
# So many reports after a clock was set back its host is understood again.
_CLOCK_READINGS = 4
# What was said while the conductor stood still is all read by then.
_CLOCK_SETTLES_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Administration:
    """What the operator says of a device or host.

    :param deadline_at: when what still runs there is taken back, by the wall
        clock; None: never.
    """

    state: model.AdminState = model.AdminState.ENABLED
    reason: str = ""
    deadline_at: float | None = None

    @classmethod
    def of_row(
        cls, row: db_api.HostRecord | db_api.DeviceRecord
    ) -> Administration:
        """Return what a row says."""
        return cls(
            # The row stays: its agent reports the hardware anyway.
            state=unknown_words.read(model.AdminState, row, "admin_state")
            or model.AdminState.DISABLED,
            reason=row.admin_reason,
            deadline_at=row.drain_deadline_at,
        )


@dataclasses.dataclass(slots=True)
class SlotEntry:
    """A slot and what its agent last said of it."""

    id: int
    number: int
    shape: str
    device: DeviceEntry
    programmed: str | None = None
    programming_time_s: float = 0.0
    #: Not in the database: the next report says it again.
    bitstream_id: str | None = None
    resources: Mapping[str, int] | None = None
    #: The library has something newer for what is programmed.
    outdated: bool = False
    faulty: bool = False
    fault_reason: str = ""
    usable: bool = True
    #: The instance that alone may have it.
    reserved_for: str | None = None
    #: When its agent was last told to release a holder that is not known.
    stray_told_at: float = -math.inf

    @property
    def host(self) -> HostEntry:
        """The host that the slot is in."""
        return self.device.host

    @property
    def programmed_now(self) -> str | None:
        """Which accelerator it can run without being programmed again."""
        return None if self.outdated else self.programmed

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
    fault_reason: str = ""
    admin: Administration = Administration()
    #: How many of its slots instances can reserve, and how many they have.
    reservable_slots: int = 0
    reservations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    slots: dict[int, SlotEntry] = dataclasses.field(default_factory=dict)

    @property
    def uuid(self) -> str:
        """What the API and Placement call it.

        :raises ValueError: if its host's name for it is not a UUID.
        """
        return identity.device_id(self.host.uuid, self.name)

    @property
    def reserved_slots(self) -> int:
        """How many of its slots are reserved."""
        return sum(self.reservations.values())


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
    #: By how much its wall clock was behind ours, and how long on their way
    #: its last reports were.
    clock_readings_s: collections.deque[float] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=_CLOCK_READINGS)
    )
    #: Whether operators were told that its clock is wrong, and when the last
    #: reading said otherwise than the one before it.
    clock_told_wrong: bool = False
    clock_turned_at: float = -math.inf
    #: Why its network card is not capped though it should, if so.
    link_message: str | None = None
    admin: Administration = Administration()
    compute: db_api.ComputeState = db_api.ComputeState.NONE
    old_boots: list[str] = dataclasses.field(default_factory=list)
    #: How many reports of a former agent were sent since the present one was
    #: started.
    doubles: int = 0
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

    def is_double(self, boot_id: str, sent_at: float | None) -> bool:
        """Whether the sender of a late report still runs beside ours.

        :param sent_at: when it was sent, by the clock of the host.
        """
        started_ns, _, _ = self.boot_id.partition("-")
        if (
            boot_id in self.old_boots
            and sent_at is not None
            and started_ns.isdecimal()
            and sent_at > int(started_ns) / 1e9 + _CLOCK_TOLERANCE_S
        ):
            self.doubles += 1
        return self.doubles >= _DOUBLES

    def note_report(self, boot_id: str, sequence: int, now: float) -> None:
        """Remember the newest report."""
        if self.boot_id and boot_id != self.boot_id:
            self.old_boots.append(self.boot_id)
            del self.old_boots[:-_MAX_OLD_BOOTS]
            self.doubles = 0
        self.boot_id = boot_id
        self.sequence = sequence
        self.heard_at = now

    def note_clock(
        self, boot_id: str, sent_at: float | None, now: float
    ) -> None:
        """Compare the host's clock with ours; before :meth:`note_report`.

        :param sent_at: what it said when its report was sent; None if its
            agent does not tell.
        """
        was_wrong = self.clock_is_wrong
        if boot_id != self.boot_id:
            self.clock_readings_s.clear()
        if sent_at is not None:
            self.clock_readings_s.append(now - sent_at)
        if self.clock_is_wrong is not was_wrong:
            self.clock_turned_at = now

    def turned_clock(self) -> bool:
        """Whether operators have to be told that its clock is wrong or not.

        :returns: True once for each turn that later reports have confirmed.
        """
        if (
            self.clock_is_wrong is self.clock_told_wrong
            or self.heard_at - self.clock_turned_at < _CLOCK_SETTLES_S
        ):
            return False
        self.clock_told_wrong = self.clock_is_wrong
        return True

    @property
    def clock_behind_s(self) -> float:
        """How much its wall clock is behind ours; negative: it is ahead."""
        # The report that was fastest says most: the bus may be slow now.
        return min(self.clock_readings_s, default=0.0)

    @property
    def clock_is_wrong(self) -> bool:
        """Whether it and ours are too far apart."""
        return abs(self.clock_behind_s) > _CLOCK_TOLERANCE_S

    def our_time(self, at: float) -> float:
        """Return by our clock when something happened.

        :param at: when it did by the clock of the host.
        """
        return at + self.clock_behind_s

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
        slots=tuple(
            model.SlotSpec(
                id=device.slots[number].id,
                device_id=device.id,
                host_id=host.id,
                number=first_number + position,
                shape=device.slots[number].shape,
                programmed=device.slots[number].programmed_now,
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
        self.devices: dict[int, DeviceEntry] = {}
        self._devices_by_uuid: dict[str, DeviceEntry] = {}
        self.slots: dict[int, SlotEntry] = {}
        self._last_id = {"host": 0, "device": 0, "slot": 0}

    def restore(
        self,
        hosts: list[db_api.HostRecord],
        devices: list[db_api.DeviceRecord],
        slots: list[db_api.SlotRecord],
        now: float,
        used_host_ids: Iterable[int] = (),
    ) -> None:
        """Rebuild from rows; every host is down until its agent reports.

        :param used_host_ids: of hosts that sessions come from; they may have
            been forgotten, and are given to no other one.
        """
        for used in used_host_ids:
            self._note_id("host", used)
        for host in sorted(hosts, key=lambda row: row.id):
            self._add_host(
                HostEntry(
                    id=host.id,
                    uuid=host.uuid,
                    name=host.name,
                    nic_bytes_per_s=host.nic_bytes_per_s,
                    heard_at=now,
                    admin=Administration.of_row(host),
                    compute=unknown_words.read(
                        db_api.ComputeState, host, "compute_state"
                    )
                    or db_api.ComputeState.NONE,
                )
            )
        for row in sorted(devices, key=lambda row: row.id):
            self._add_device(
                DeviceEntry(
                    id=row.id,
                    name=row.name,
                    host=self.hosts_by_id[row.host_id],
                    model=row.model,
                    dma_bytes_per_s=row.dma_bytes_per_s,
                    healthy=row.healthy,
                    fault_reason=row.fault_reason,
                    admin=Administration.of_row(row),
                    reservable_slots=row.reservable_slots,
                )
            )
        for slot in sorted(slots, key=lambda row: row.id):
            self._add_slot(
                SlotEntry(
                    id=slot.id,
                    number=slot.number,
                    shape=slot.shape,
                    device=self.devices[slot.device_id],
                    programmed=slot.programmed,
                    programming_time_s=slot.programming_time_s,
                    faulty=slot.faulty,
                    fault_reason=slot.fault_reason,
                    reserved_for=slot.reserved_for,
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
            device = self._add_device(
                DeviceEntry(
                    id=self._next_id("device"), name=report.name, host=host
                )
            )
        if _assign(
            device,
            model=report.model,
            dma_bytes_per_s=report.dma_bytes_per_s,
            healthy=report.healthy,
            fault_reason=(
                "" if report.healthy else limits.writable(report.message)
            ),
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
            slot.resources = slot_report.resources
            if _assign(
                slot,
                shape=slot_report.shape,
                programming_time_s=slot_report.programming_time_s,
            ):
                rows.append(slot_row(slot))
        return rows

    def capacities(self) -> dict[str, dict[str, int]]:
        """Return how much slots have of what bitstreams take, by shape.

        If slots of one shape differ, it is what all of them have. One that
        does not say how much it has, has any number.
        """
        found: dict[str, dict[str, int]] = {}
        for slot in self.slots.values():
            capacity = found.setdefault(slot.shape, {})
            for name, count in (slot.resources or {}).items():
                capacity[name] = min(count, capacity.get(name, count))
        return found

    def _add_host(self, host: HostEntry) -> HostEntry:
        self.hosts[host.uuid] = host
        self.hosts_by_id[host.id] = host
        self._note_id("host", host.id)
        return host

    @property
    def computes(self) -> dict[str, db_api.ComputeState]:
        """What Nova has of each host, by UUID."""
        return {uuid: host.compute for uuid, host in self.hosts.items()}

    def note_compute(
        self, host_uuid: str, state: db_api.ComputeState
    ) -> list[db_api.Record]:
        """Note what Nova has of a host.

        :returns: the row to write, if the host is known and that is news.
        """
        host = self.hosts.get(host_uuid)
        if host is None or not _assign(host, compute=state):
            return []
        return [host_row(host)]

    def forget(self, host: HostEntry) -> db_api.HostRecord:
        """Remove a host that has no devices.

        :returns: the row that says so.
        """
        if host.devices:
            raise ValueError(f"host {host.name} has devices")
        del self.hosts[host.uuid]
        del self.hosts_by_id[host.id]
        return dataclasses.replace(host_row(host), admin_state=db_api.DELETED)

    def _add_device(self, device: DeviceEntry) -> DeviceEntry:
        device.host.devices[device.name] = device
        self.devices[device.id] = device
        # A host that is called otherwise is unknown to Nova and the API.
        with contextlib.suppress(ValueError):
            self._devices_by_uuid[device.uuid] = device
        self._note_id("device", device.id)
        return device

    def find_device(self, device_uuid: str) -> DeviceEntry | None:
        """Return the device that the API and Placement call so."""
        return self._devices_by_uuid.get(device_uuid)

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
        admin_state=host.admin.state.value,
        admin_reason=host.admin.reason,
        drain_deadline_at=host.admin.deadline_at,
        compute_state=host.compute.value,
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
        fault_reason=device.fault_reason,
        admin_state=device.admin.state.value,
        admin_reason=device.admin.reason,
        drain_deadline_at=device.admin.deadline_at,
        reservable_slots=device.reservable_slots,
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
        reserved_for=slot.reserved_for,
    )
