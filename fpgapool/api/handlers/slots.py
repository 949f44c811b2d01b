# SPDX-License-Identifier: Apache-2.0

"""Slots: the reconfigurable regions of devices."""

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
    """List the slots."""
    return _SLOTS.index(call)


def show(call: calls.Call) -> calls.Answer:
    """Show a slot."""
    return _SLOTS.show(call)


def test(call: calls.Call) -> calls.Answer:
    """Start a self-test of a slot."""

    def start(slot: dict[str, Any]) -> None:
        call.audit.before = {"state": slot["state"]}
        call.backends.conductor.test_slot(
            slot["host_uuid"],
            slot["device_name"],
            slot["number"],
            call.body["test"].get("accelerator", ""),
        )

    return _SLOTS.change(call, start, status=202)


_VALUES: Mapping[str, Callable[[inventories.Slot], Any]] = {
    "id": lambda slot: slot.id,
    "number": lambda slot: slot.record.number,
    "state": lambda slot: slot.state,
    "device_id": lambda slot: slot.device.id,
    "device_name": lambda slot: slot.device.record.name,
    "host_uuid": lambda slot: slot.device.host.uuid,
    "host_name": lambda slot: slot.device.host.name,
}


def _value(
    call: calls.Call, sees_all: bool, member: str, slot: inventories.Slot
) -> Any:
    if member == "accelerator":
        return _accelerator(call, slot, sees_all)
    return _VALUES[member](slot)


def _shows_holder(
    call: calls.Call, slot: inventories.Slot, sees_all: bool
) -> bool:
    """Whether the caller may see the slot's session.

    Tenants must not be able to observe each other's sessions.
    """
    return slot.holder is not None and (
        sees_all or slot.holder.project_id == call.caller.project_id
    )


def _accelerator(
    call: calls.Call, slot: inventories.Slot, sees_all: bool
) -> str | None:
    return calls.public_key(
        call,
        slot.holder and slot.holder.accelerator,
        lambda: _shows_holder(call, slot, sees_all),
    )


def _document(
    call: calls.Call,
    pool: inventories.Inventory,
    slot: inventories.Slot,
    sees_all: bool,
) -> dict[str, Any]:
    record, device, holder = slot.record, slot.device, slot.holder
    shown = _shows_holder(call, slot, sees_all)
    return {
        **views.members(description.SLOT, record, call.version),
        "id": slot.id,
        "device_id": device.id,
        "device_name": device.record.name,
        "host_uuid": device.host.uuid,
        "host_name": device.host.name,
        "state": slot.state,
        **inventory.probation(slot.fault, sees_all),
        "accelerator": _accelerator(call, slot, sees_all),
        "programmed": calls.public_key(
            call, record.programmed, lambda: sees_all
        ),
        "session_id": holder.session_id if holder and shown else None,
        "reserved_for": (
            record.reserved_for
            if sees_all or slot.project_id == call.caller.project_id
            else None
        ),
        "links": calls.self_link(call.url("slots", slot.id)),
    }


_SLOTS = hardware.Hardware(
    "slot",
    description.SLOT,
    lambda pool: pool.slots,
    _value,
    _document,
    codes.SLOT_NOT_FOUND,
    rights.SESSIONS_ALL_PROJECTS,
)
