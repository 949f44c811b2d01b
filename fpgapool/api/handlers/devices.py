# SPDX-License-Identifier: Apache-2.0

"""Devices: the FPGA boards of hosts."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import hardware
from fpgapool.api.answers import views
from fpgapool.api.backends import inventory
from fpgapool.api.http import rights
from fpgapool.db import inventory as inventories
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory as description


def index(call: calls.Call) -> calls.Answer:
    """List the devices."""
    return _DEVICES.index(call)


def show(call: calls.Call) -> calls.Answer:
    """Show a device."""
    return _DEVICES.show(call)


def change(call: calls.Call) -> calls.Answer:
    """Enable, drain or disable a device, or set its reservable slots."""
    return _DEVICES.change(
        call,
        lambda device: hardware.administer(
            call, device, device["host_uuid"], device["name"]
        ),
    )


_VALUES: Mapping[str, Callable[[inventories.Device], Any]] = {
    "id": lambda device: device.id,
    "name": lambda device: device.record.name,
    "state": lambda device: device.state,
    "host_uuid": lambda device: device.host.uuid,
    "host_name": lambda device: device.host.name,
}


def _document(
    call: calls.Call,
    pool: inventories.Inventory,
    device: inventories.Device,
    sees_all: bool,
) -> dict[str, Any]:
    record, host = device.record, device.host
    return {
        **views.members(description.DEVICE, record, call.version),
        "id": device.id,
        "host_uuid": host.uuid,
        "host_name": host.name,
        "state": device.state,
        "fault_reason": record.fault_reason
        or (device.fault.reason if device.fault else ""),
        **inventory.probation(device.fault, sees_all),
        "slots": pool.slot_counts[device.id],
        "sessions": pool.session_counts[device.id],
        "reserved_slots": device.reserved_slots,
        "pending_reservations": pool.pending_reservations(device),
        "links": calls.self_link(call.url("devices", device.id)),
    }


_DEVICES = hardware.Hardware(
    "device",
    description.DEVICE,
    lambda pool: pool.devices,
    lambda _call, _sees_all, member, device: _VALUES[member](device),
    _document,
    codes.DEVICE_NOT_FOUND,
    rights.SESSIONS_ALL_PROJECTS,
)
