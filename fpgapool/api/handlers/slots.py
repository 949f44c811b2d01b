# SPDX-License-Identifier: Apache-2.0

"""Slots: reconfigurable regions of devices."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.backends import inventory
from fpgapool.api.http import rights
from fpgapool.db import inventory as inventories
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory as description

_FILTERS = {
    "host": "host_uuid",
    "device": "device_id",
    "accelerator": "accelerator",
    "state": "state",
}


def index(call: calls.Call) -> calls.Answer:
    """List the slots."""
    sees_all = call.may(rights.SESSIONS_ALL_PROJECTS)

    def document(pool: inventories.Inventory) -> dict[str, Any]:
        members = paging.matching(
            call, _documents(call, pool, sees_all), _FILTERS
        )
        return paging.listing(call, "slots", members, sort_key="id")

    return call.from_inventory("slots", sees_all, document)


def show(call: calls.Call) -> calls.Answer:
    """Show a slot."""
    return calls.Answer(document={"slot": _found(call)})


def test(call: calls.Call) -> calls.Answer:
    """Start a self-test of a slot."""
    known = call.backends.inventory
    # The slot may be new.
    known.forget()
    slot = _found(call)
    call.audit.before = {"state": slot["state"]}
    try:
        call.backends.conductor.test_slot(
            slot["host_uuid"],
            slot["device_name"],
            slot["number"],
            call.body["test"].get("accelerator", ""),
        )
    finally:
        known.forget()
    return calls.Answer(document={"slot": _found(call)}, status=202)


def _found(call: calls.Call) -> dict[str, Any]:
    """Return the slot of the path.

    :raises ApiError: if there is none.
    """
    documents = _documents(
        call,
        call.backends.inventory.get(),
        call.may(rights.SESSIONS_ALL_PROJECTS),
    )
    name = call.path["slot_id"]
    return inventory.find(documents, "id", name, codes.SLOT_NOT_FOUND, "slot")


def _documents(
    call: calls.Call, pool: inventories.Inventory, sees_all: bool
) -> list[dict[str, Any]]:
    return [_document(call, slot, sees_all) for slot in pool.slots]


def _document(
    call: calls.Call, slot: inventories.Slot, sees_all: bool
) -> dict[str, Any]:
    record, device, holder = slot.record, slot.device, slot.holder
    accelerator = holder.accelerator if holder else None
    # Another project's session would reveal tenants to each other.
    shown = holder is not None and (
        sees_all or holder.project_id == call.caller.project_id
    )
    return {
        **views.members(description.SLOT, record, call.version, recorded=True),
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
