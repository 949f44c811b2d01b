# SPDX-License-Identifier: Apache-2.0

"""Finds hosts, devices and slots: by name for agents, by id for the core."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.conductor.decisions import limits
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.vocabulary import fields

# Former boot ids to remember per host: reports from before that many agent
# restarts no longer arrive.
_MAX_OLD_BOOTS = 16
#: Reason for devices and slots that their agent no longer reports.
NOT_REPORTED = "not reported"
#: Built-in accelerators of slots, as JSON, before the agent has reported them.
UNKNOWN = "null"
# Difference between clocks to tolerate; longer than a report's transit time.
_CLOCK_TOLERANCE_S = 5.0
# Number of reports from a former agent that show that two agents are running;
# a single one may just be late.
_DOUBLES = 3
# Readings of a host's clock to keep. When a clock is set back, this many
# reports must arrive before its measurement is correct again.
_CLOCK_READINGS = 4
# Time to read the reports that arrived while the conductor was suspended.
_CLOCK_SETTLES_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Administration:
    """The administrative state of a device or host.

    :param deadline_at: wall-clock time at which a drain revokes the remaining
        slots; None: never.
    """

    state: model.AdminState = model.AdminState.ENABLED
    reason: str = ""
    deadline_at: float | None = None

    @classmethod
    def of_row(
        cls, row: db_api.HostRecord | db_api.DeviceRecord
    ) -> Administration:
        """Read the administrative columns of a row."""
        return cls(
            # A row with an unknown state must not be dropped, because the
            # agent reports the hardware anyway.
            state=limits.read_enum(model.AdminState, row, "admin_state")
            or model.AdminState.DISABLED,
            reason=row.admin_reason,
            deadline_at=row.drain_deadline_at,
        )

    def columns(self) -> dict[str, Any]:
        """Return the administrative columns of a row."""
        return {
            "admin_state": self.state.value,
            "admin_reason": self.reason,
            "drain_deadline_at": self.deadline_at,
        }


@dataclasses.dataclass(slots=True)
class SlotEntry:
    """A slot, as its agent last reported it."""

    id: int
    number: int
    shape: str
    device: DeviceEntry
    programmed: str | None = None
    programming_time_s: float = 0.0
    #: Each report contains it, so it is not in the database.
    bitstream_id: str | None = None
    resources: Mapping[str, int] | None = None
    #: Whether the library has a newer bitstream for the accelerator.
    outdated: bool = False
    faulty: bool = False
    fault_reason: str = ""
    usable: bool = True
    #: Whether its agent no longer reports it: the board has fewer slots now.
    missing: bool = False
    #: UUID of the instance for which the slot is reserved.
    reserved_for: str | None = None
    #: The slot's part of the last report.
    reported: objects.SlotReport | None = dataclasses.field(
        default=None, repr=False
    )
    #: When its agent was last ordered to release an unknown holder.
    stray_ordered_at: float = -math.inf
    host: HostEntry = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.host = self.device.host

    @property
    def programmed_now(self) -> str | None:
        """The accelerator that it can run without reprogramming."""
        return None if self.outdated else self.programmed

    def __str__(self) -> str:
        return f"{self.host.name} {self.device.name} {self.number}"


@dataclasses.dataclass(slots=True)
class DeviceEntry:
    """A board, as its agent last reported it."""

    id: int
    name: str
    host: HostEntry
    model: str = ""
    dma_bytes_per_s: float = 0.0
    healthy: bool = True
    fault_reason: str = ""
    admin: Administration = Administration()
    #: Number of slots that instances can reserve, and the number that each
    #: instance has reserved.
    reservable_slots: int = 0
    reservations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: Built-in accelerators as JSON; not in the database, because each report
    #: contains them.
    builtins: str = UNKNOWN
    slots: dict[int, SlotEntry] = dataclasses.field(default_factory=dict)

    @property
    def uuid(self) -> str:
        """Its UUID in the API and in Placement.

        :raises ValueError: if its host's UUID is not valid.
        """
        return identity.device_id(self.host.uuid, self.name)

    @property
    def reserved_slots(self) -> int:
        """How many of its slots are reserved."""
        return sum(self.reservations.values())


@dataclasses.dataclass(slots=True)
class HostEntry:
    """A host, its boards, and the state of its agent's reports."""

    id: int
    uuid: str
    name: str
    nic_bytes_per_s: float = 0.0
    up: bool = False
    heard_at: float = 0.0
    #: When a report was last requested from it because of its silence.
    asked_at: float = -math.inf
    boot_id: str = ""
    sequence: int = -1
    #: For each of the last reports, how far the host's wall clock was behind
    #: the conductor's, plus the transit time.
    clock_readings_s: collections.deque[float] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=_CLOCK_READINGS)
    )
    #: Whether the host's clock has been logged as wrong, and when it last
    #: became wrong or right.
    clock_logged_wrong: bool = False
    clock_turned_at: float = -math.inf
    #: Why the rate of the network card could not be capped as configured;
    #: None: no error.
    link_message: str | None = None
    isolation_message: str | None = None
    #: The host's power cap, and the longest piece that its workers accept;
    #: None: not reported. Not in the database: each report contains them.
    power_cap_w: float | None = None
    chunk_bytes: int | None = None
    agent_version: str = ""
    admin: Administration = Administration()
    compute: db_api.ComputeState = db_api.ComputeState.NONE
    old_boots: list[str] = dataclasses.field(default_factory=list)
    #: Number of reports by a former agent since the current one started.
    doubles: int = 0
    devices: dict[str, DeviceEntry] = dataclasses.field(default_factory=dict)

    def slots(self) -> Iterator[SlotEntry]:
        """Yield the host's slots, in index order."""
        for device in sorted(self.devices.values(), key=lambda d: d.id):
            yield from (device.slots[n] for n in sorted(device.slots))

    def accepts(self, boot_id: str, sequence: int) -> bool:
        """Whether a report is newer than all those processed so far."""
        if boot_id == self.boot_id:
            return sequence > self.sequence
        return boot_id not in self.old_boots

    def is_double(self, boot_id: str, sent_at: float | None) -> bool:
        """Whether a late report shows that a second agent is running."""
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
        """Record the newest report."""
        if self.boot_id and boot_id != self.boot_id:
            self.old_boots.append(self.boot_id)
            del self.old_boots[:-_MAX_OLD_BOOTS]
            self.doubles = 0
        self.boot_id = boot_id
        self.sequence = sequence
        self.heard_at = now

    def check_clock(
        self, boot_id: str, sent_at: float | None, now: float
    ) -> None:
        """Compare the host's clock with ours; must precede
        :meth:`note_report`.

        :param sent_at: when it was sent, by the host's clock; None: unknown.
        """
        was_wrong = self.clock_is_wrong
        if boot_id != self.boot_id:
            self.clock_readings_s.clear()
        if sent_at is not None:
            self.clock_readings_s.append(now - sent_at)
        if self.clock_is_wrong is not was_wrong:
            self.clock_turned_at = now

    def turned_clock(self) -> bool:
        """Whether to log that the host's clock has become wrong or right."""
        if (
            self.clock_is_wrong is self.clock_logged_wrong
            or self.heard_at - self.clock_turned_at < _CLOCK_SETTLES_S
        ):
            return False
        self.clock_logged_wrong = self.clock_is_wrong
        return True

    @property
    def clock_behind_s(self) -> float:
        """How far the host's wall clock is behind ours; negative: ahead."""
        # The report with the shortest transit time is the most accurate.
        return min(self.clock_readings_s, default=0.0)

    @property
    def clock_is_wrong(self) -> bool:
        """Whether the host's clock differs too much from the conductor's."""
        return abs(self.clock_behind_s) > _CLOCK_TOLERANCE_S

    def our_time(self, at: float) -> float:
        """Convert a time from the host's clock to the conductor's."""
        return at + self.clock_behind_s

    def spec(self) -> model.HostSpec:
        """Return the host's description for the core."""
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
    present = [n for n in sorted(device.slots) if not device.slots[n].missing]
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
            for position, number in enumerate(present)
        ),
    )


class Registry:
    """All known hosts, devices and slots, by name and id.

    :ivar chunk_bytes: longest piece that all workers accept; None: unknown.
    """

    def __init__(self) -> None:
        self.hosts: dict[str, HostEntry] = {}
        self.hosts_by_id: dict[int, HostEntry] = {}
        self.devices: dict[int, DeviceEntry] = {}
        self._devices_by_uuid: dict[str, DeviceEntry] = {}
        self.slots: dict[int, SlotEntry] = {}
        self.chunk_bytes: int | None = None
        # Pairs of shape and built-in accelerators; removed hosts' remain.
        self._builtins: set[tuple[str, str]] = set()
        self._last_id = {"host": 0, "device": 0, "slot": 0}

    def restore(
        self,
        hosts: list[db_api.HostRecord],
        devices: list[db_api.DeviceRecord],
        slots: list[db_api.SlotRecord],
        now: float,
        used_host_ids: Iterable[int] = (),
    ) -> None:
        """Restore the registry from rows; hosts are down until they report.

        :param used_host_ids: ids of hosts in sessions' rows; they are not
            reused, even if the host was removed.
        """
        for used in used_host_ids:
            self._note_id("host", used)
        for host in sorted(hosts, key=lambda row: row.id):
            self._add_host(
                HostEntry(
                    **_host_columns(host) | {"up": False},
                    heard_at=now,
                    admin=Administration.of_row(host),
                    compute=limits.read_enum(
                        db_api.ComputeState, host, "compute_state"
                    )
                    or db_api.ComputeState.NONE,
                )
            )
        for row in sorted(devices, key=lambda row: row.id):
            self._add_device(
                DeviceEntry(
                    **_device_columns(row),
                    host=self.hosts_by_id[row.host_id],
                    admin=Administration.of_row(row),
                )
            )
        self._builtins = {
            (slot.shape, UNKNOWN)
            for slot in slots
            if slot.fault_reason != NOT_REPORTED
        }
        for slot in sorted(slots, key=lambda row: row.id):
            self._add_slot(
                SlotEntry(
                    **_slot_columns(slot),
                    device=self.devices[slot.device_id],
                    missing=slot.fault_reason == NOT_REPORTED,
                )
            )

    def update(
        self, report: objects.AgentReport
    ) -> tuple[HostEntry, bool, list[db_api.Record]]:
        """Update the hardware from a report.

        :returns: the host, whether its hardware, accelerators or power cap
            changed, and the rows to write.
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
        host.link_message = report.link_message
        host.isolation_message = report.isolation_message
        host.agent_version = report.agent_version
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
        if _assign(host, chunk_bytes=report.chunk_bytes):
            self._update_chunk_bytes()
        cap_w = report.power_cap_w
        # A faulty driver may return a negative value.
        cap_w = None if cap_w is None else max(cap_w, 0.0)
        capped = _assign(host, power_cap_w=cap_w)
        offered = self._note_builtins(report)
        return host, bool(rows) or capped or offered, rows

    def _update_chunk_bytes(self) -> None:
        known = (host.chunk_bytes for host in self.hosts.values())
        self.chunk_bytes = min(
            (one for one in known if one is not None), default=None
        )

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
            if slot.reported is slot_report:
                continue
            slot.reported = slot_report
            slot.resources = slot_report.resources
            if _assign(
                slot,
                shape=slot_report.shape,
                programming_time_s=slot_report.programming_time_s,
                missing=False,
            ):
                rows.append(slot_row(slot))
        present = {slot_report.slot for slot_report in report.slots}
        for number, slot in device.slots.items():
            if number not in present and _assign(
                slot, missing=True, reported=None
            ):
                rows.append(slot_row(slot))
        return rows

    @property
    def is_whole(self) -> bool:
        """Whether all hosts are up, so that the core knows all slots."""
        return all(host.up for host in self.hosts.values())

    def present_slots(self) -> Iterator[SlotEntry]:
        """Yield the slots that boards have."""
        return (slot for slot in self.slots.values() if not slot.missing)

    def capacities(self) -> dict[str, dict[str, int]]:
        """Return the capacity of slots, by shape and resource.

        If slots of the same shape differ, the minimum applies. A resource that
        no slot reports is unlimited.
        """
        found: dict[str, dict[str, int]] = {}
        for slot in self.present_slots():
            capacity = found.setdefault(slot.shape, {})
            for name, count in (slot.resources or {}).items():
                capacity[name] = min(count, capacity.get(name, count))
        return found

    def builtins(self) -> dict[str, library.Builtins | None]:
        """Return the accelerators built into all slots of each shape; None:
        unknown.
        """
        found: dict[str, library.Builtins | None] = {}
        for shape, text in self._builtins:
            found[shape] = library.common(
                found.get(shape), library.read_builtins(json.loads(text))
            )
        return found

    def _note_builtins(self, report: objects.AgentReport) -> bool:
        """Update the accelerators built into a host's slots."""
        host, replaced = self.hosts[report.host_uuid], False
        for device_report in report.devices:
            device = host.devices[device_report.name]
            text = json.dumps(device_report.builtins, sort_keys=True)
            replaced |= device.builtins not in (UNKNOWN, text)
            device.builtins = text
        hosts = self.hosts.values() if replaced else [host]
        found = {
            (slot.shape, device.builtins)
            for host in hosts
            for device in host.devices.values()
            for slot in device.slots.values()
            if not slot.missing
        }
        if not replaced:
            found |= self._builtins
        changed = found != self._builtins
        self._builtins = found
        return changed

    def _add_host(self, host: HostEntry) -> HostEntry:
        self.hosts[host.uuid] = host
        self.hosts_by_id[host.id] = host
        self._note_id("host", host.id)
        return host

    @property
    def computes(self) -> dict[str, db_api.ComputeState]:
        """The state of each host's compute node in Nova, by UUID."""
        return {uuid: host.compute for uuid, host in self.hosts.items()}

    def set_compute(
        self, host_uuid: str, state: db_api.ComputeState
    ) -> list[db_api.Record]:
        """Set the state of a compute node; return the rows to write."""
        host = self.hosts.get(host_uuid)
        if host is None or not _assign(host, compute=state):
            return []
        return [host_row(host)]

    def forget(self, host: HostEntry) -> db_api.HostRecord:
        """Remove a host that has no devices."""
        if host.devices:
            raise ValueError(f"host {host.name} has devices")
        del self.hosts[host.uuid]
        del self.hosts_by_id[host.id]
        self._update_chunk_bytes()
        return dataclasses.replace(host_row(host), admin_state=db_api.DELETED)

    def _add_device(self, device: DeviceEntry) -> DeviceEntry:
        device.host.devices[device.name] = device
        self.devices[device.id] = device
        # A host whose UUID is not valid is in neither Nova nor the API.
        with contextlib.suppress(ValueError):
            self._devices_by_uuid[device.uuid] = device
        self._note_id("device", device.id)
        return device

    def find_device(self, device_uuid: str) -> DeviceEntry | None:
        """Return a device by its UUID in the API and in Placement."""
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
    """Mark boards that the report lacks as failed; return their rows."""
    present = {device.name for device in report.devices}
    return [
        device_row(device)
        for name, device in host.devices.items()
        if name not in present
        and _assign(device, healthy=False, fault_reason=NOT_REPORTED)
    ]


def _assign(
    entry: HostEntry | DeviceEntry | SlotEntry, **values: object
) -> bool:
    """Set members; return whether any of them changed."""
    changed = False
    for name, value in values.items():
        if getattr(entry, name) != value:
            setattr(entry, name, value)
            changed = True
    return changed


def common(
    entry: type[Any], record: type[Any]
) -> Callable[[Any], dict[str, Any]]:
    """Return a function that copies the members that both classes have."""
    names = {one.name for one in dataclasses.fields(record)}
    return fields.copier(
        one.name for one in dataclasses.fields(entry) if one.name in names
    )


_host_columns = common(HostEntry, db_api.HostRecord)
_device_columns = common(DeviceEntry, db_api.DeviceRecord)
_slot_columns = common(SlotEntry, db_api.SlotRecord)


def host_row(host: HostEntry) -> db_api.HostRecord:
    return db_api.HostRecord(
        **_host_columns(host),
        **host.admin.columns(),
        last_report_at=host.heard_at or None,
        compute_state=host.compute.value,
    )


def device_row(device: DeviceEntry) -> db_api.DeviceRecord:
    return db_api.DeviceRecord(
        **_device_columns(device),
        **device.admin.columns(),
        host_id=device.host.id,
    )


def slot_row(slot: SlotEntry) -> db_api.SlotRecord:
    return db_api.SlotRecord(**_slot_columns(slot), device_id=slot.device.id)
