# SPDX-License-Identifier: Apache-2.0

"""Devices: FPGA boards of hosts."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import administration
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.backends import inventory
from fpgapool.api.http import rights
from fpgapool.db import inventory as inventories
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory as description


def index(call: calls.Call) -> calls.Answer:
    """List the devices."""
    sees_all = call.may(rights.SESSIONS_ALL_PROJECTS)

    def document(pool: inventories.Inventory) -> dict[str, Any]:
        members = paging.matching(
            call,
            _documents(call, pool, sees_all),
            {"host": "host_uuid", "state": "state"},
        )
        return paging.listing(call, "devices", members, sort_key="name")

    return call.from_inventory("devices", sees_all, document)


def show(call: calls.Call) -> calls.Answer:
    """Show a device."""
    return calls.Answer(document={"device": _found(call)})


def change(call: calls.Call) -> calls.Answer:
    """Enable, drain or disable a device; or set its reservable slots."""
    known = call.backends.inventory
    # The device may be new.
    known.forget()
    device = _found(call)
    administration.remember(call, device)
    name = device["host_uuid"], device["name"]
    try:
        if "reservable_slots" in call.body:
            call.backends.conductor.set_reservable_slots(
                *name, call.body["reservable_slots"]
            )
        if "state" in call.body:
            administration.change(call, *name)
    finally:
        known.forget()
    return calls.Answer(document={"device": _found(call)})


def _found(call: calls.Call) -> dict[str, Any]:
    """Return the device of the path.

    :raises ApiError: if there is none.
    """
    documents = _documents(
        call,
        call.backends.inventory.get(),
        call.may(rights.SESSIONS_ALL_PROJECTS),
    )
    name = call.path["device_id"]
    return inventory.find(
        documents, "id", name, codes.DEVICE_NOT_FOUND, "device"
    )


def _documents(
    call: calls.Call, pool: inventories.Inventory, sees_all: bool
) -> list[dict[str, Any]]:
    return [_document(call, pool, device, sees_all) for device in pool.devices]


def _document(
    call: calls.Call,
    pool: inventories.Inventory,
    device: inventories.Device,
    sees_all: bool,
) -> dict[str, Any]:
    record, host = device.record, device.host
    return {
        **views.members(
            description.DEVICE, record, call.version, recorded=True
        ),
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
