# SPDX-License-Identifier: Apache-2.0
"""Administrative states of devices and hosts.

A device's slots get sessions only if the device and its host are both enabled.
The core drains the device if either is draining.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import shapes

Administered = registry.HostEntry | registry.DeviceEntry

_ENABLED = model.AdminState.ENABLED
_DRAINING = model.AdminState.DRAINING

#: The length of the database columns, in characters.
MAX_REASON_LENGTH = 255

#: Maximum time for a drain: a year; a longer one is probably a mistake.
MAX_DRAIN_S = 366 * 86400.0

_REQUEST = shapes.Members(
    {
        "host_uuid": shapes.text(),
        "device": shapes.nullable(shapes.text()),
        "state": shapes.one_of([state.value for state in model.AdminState]),
        "reason": shapes.text(MAX_REASON_LENGTH, storable=True),
        "drain_within_s": shapes.nullable(shapes.number(0, MAX_DRAIN_S)),
    }
)


def checked(**wanted: Any) -> inputs.Administer:
    """Check an operator's request, and return it as an input."""
    found = limits.argument(_REQUEST, wanted, "")
    found["state"] = model.AdminState(found["state"])
    if found["drain_within_s"] is not None and found["state"] is not _DRAINING:
        raise exception.InvalidRequest(
            reason="drain_within_s is allowed only when draining"
        )
    return inputs.Administer(**found)


def state(device: registry.DeviceEntry) -> model.AdminState:
    """Return a device's effective state, which also depends on its host."""
    found = {device.admin.state, device.host.admin.state}
    if _DRAINING in found:
        return _DRAINING
    return _ENABLED if found == {_ENABLED} else model.AdminState.DISABLED


def core_event(device: registry.DeviceEntry) -> events.Event:
    """Return the event for the core about a device's state."""
    match state(device):
        case model.AdminState.ENABLED:
            return events.DeviceEnabled(device.id)
        case model.AdminState.DISABLED:
            return events.DeviceDisabled(device.id)
    deadlines = [
        one.deadline_at
        for one in (device.admin, device.host.admin)
        if one.state is _DRAINING and one.deadline_at is not None
    ]
    return events.DrainRequested(device.id, min(deadlines, default=None))


def devices_of(entry: Administered) -> list[registry.DeviceEntry]:
    """Return the given device, or all devices of the given host."""
    if isinstance(entry, registry.DeviceEntry):
        return [entry]
    return sorted(entry.devices.values(), key=lambda device: device.id)


def core_events(
    devices: Iterable[registry.DeviceEntry],
) -> Iterator[events.Event]:
    """Yield the events for the core about devices that are not enabled."""
    return (core_event(one) for one in devices if state(one) is not _ENABLED)


def draining(pool: registry.Registry) -> list[Administered]:
    """Return the devices and hosts that are draining."""
    every: list[Administered] = [*pool.devices.values(), *pool.hosts.values()]
    return [one for one in every if one.admin.state is _DRAINING]


def is_empty(entry: Administered, taken: Iterable[registry.SlotEntry]) -> bool:
    """Whether no slot of a device or host is taken."""
    owner = "device" if isinstance(entry, registry.DeviceEntry) else "host"
    return not any(getattr(slot, owner) is entry for slot in taken)


def name(entry: Administered) -> str:
    """Return the name of a device or host for the log."""
    if isinstance(entry, registry.DeviceEntry):
        return f"Device {entry.host.name} {entry.name}"
    return f"Host {entry.name} ({entry.uuid})"


def row(entry: Administered) -> db_api.Record:
    """Return the row of a device or host."""
    if isinstance(entry, registry.DeviceEntry):
        return registry.device_row(entry)
    return registry.host_row(entry)
