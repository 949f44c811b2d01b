# SPDX-License-Identifier: Apache-2.0

"""Devices: FPGA boards of hosts."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import administration
from fpgapool.api.answers import paging
from fpgapool.api.backends import inventory
from fpgapool.api.http import errors
from fpgapool.db import inventory as inventories
from fpgapool.policies import sessions as policies
from fpgapool.vocabulary import codes


def index(call: calls.Call) -> calls.Answer:
    """List the devices."""
    sees_all = call.may(policies.ALL_PROJECTS)

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
    """Enable, drain or disable a device, or set its reservable slots."""
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
    pool = call.backends.inventory.get()
    wanted = call.path["device_id"]
    sees_all = call.may(policies.ALL_PROJECTS)
    device = inventory.find(
        _documents(call, pool, sees_all), "id", wanted.lower()
    )
    if device is None:
        raise errors.ApiError(
            codes.DEVICE_NOT_FOUND, f"there is no device {wanted!r:.80}"
        )
    found: dict[str, Any] = device
    return found


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
        "id": device.id,
        "name": record.name,
        "host_uuid": host.uuid,
        "host_name": host.name,
        "model": record.model,
        "dma_bytes_per_s": record.dma_bytes_per_s,
        "state": device.state,
        "fault_reason": record.fault_reason
        or (device.fault.reason if device.fault else ""),
        **inventory.probation(device.fault, sees_all),
        **inventory.administration(record),
        "slots": pool.slot_counts[device.id],
        "sessions": pool.session_counts[device.id],
        "reservable_slots": record.reservable_slots,
        "reserved_slots": device.reserved_slots,
        "pending_reservations": pool.pending_reservations(device),
        "links": calls.self_link(call.url("devices", device.id)),
    }
