# SPDX-License-Identifier: Apache-2.0

"""Slots: the reconfigurable regions of devices."""

from __future__ import annotations

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


def _documents(
    call: calls.Call, pool: inventories.Inventory, sees_all: bool
) -> list[dict[str, Any]]:
    return [_document(call, slot, sees_all) for slot in pool.slots]


def _document(
    call: calls.Call, slot: inventories.Slot, sees_all: bool
) -> dict[str, Any]:
    record, device, holder = slot.record, slot.device, slot.holder
    accelerator = holder.accelerator if holder else None
    # Tenants must not be able to observe each other's sessions.
    shown = holder is not None and (
        sees_all or holder.project_id == call.caller.project_id
    )
    return {
        **views.members(description.SLOT, record, call.version),
        "id": slot.id,
        "device_id": device.id,
        "device_name": device.record.name,
        "host_uuid": device.host.uuid,
        "host_name": device.host.name,
        "state": slot.state,
        **inventory.probation(slot.fault, sees_all),
        "accelerator": calls.public_key(call, accelerator, lambda: shown),
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
    _documents,
    codes.SLOT_NOT_FOUND,
    rights.SESSIONS_ALL_PROJECTS,
)
