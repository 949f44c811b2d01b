# SPDX-License-Identifier: Apache-2.0

"""Hosts of the pool."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import administration
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.backends import inventory
from fpgapool.db import inventory as inventories
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory as description


def index(call: calls.Call) -> calls.Answer:
    """List the hosts."""

    def document(pool: inventories.Inventory) -> dict[str, Any]:
        members = paging.matching(
            call, _documents(call, pool), {"name": "name", "up": "up"}
        )
        return paging.listing(
            call, "hosts", members, sort_key="name", key="uuid"
        )

    # Only callers who see everything see hosts.
    return call.from_inventory("hosts", True, document)


def show(call: calls.Call) -> calls.Answer:
    """Show a host."""
    return calls.Answer(document={"host": _found(call)})


def change(call: calls.Call) -> calls.Answer:
    """Enable, drain or disable a host; this applies to all its devices."""
    known = call.backends.inventory
    # The host may be new.
    known.forget()
    host = _found(call)
    administration.remember(call, host)
    administration.change(call, host["uuid"], None)
    known.forget()
    return calls.Answer(document={"host": _found(call)})


def _found(call: calls.Call) -> dict[str, Any]:
    """Return the host of the path.

    :raises ApiError: if there is none.
    """
    documents = _documents(call, call.backends.inventory.get())
    name = call.path["host_uuid"]
    return inventory.find(
        documents, "uuid", name, codes.HOST_NOT_FOUND, "host"
    )


def _documents(
    call: calls.Call, pool: inventories.Inventory
) -> list[dict[str, Any]]:
    documents = {
        host.id: {
            **views.members(
                description.HOST, host, call.version, recorded=True
            ),
            "up": host.up,
            "devices": 0,
            "slots": 0,
            "sessions": 0,
            "faulty_accelerators": [
                {
                    "accelerator": fault.accelerator,
                    "shape": fault.shape,
                    "reason": fault.reason,
                    # Only callers who see everything see hosts.
                    **inventory.probation(fault, True),
                }
                for fault in pool.kept_off(host)
            ],
            "links": calls.self_link(call.url("hosts", host.uuid)),
        }
        for host in pool.hosts
    }
    for device in pool.devices:
        document = documents[device.host.id]
        document["devices"] += 1
        document["slots"] += pool.slot_counts[device.id]
        document["sessions"] += pool.session_counts[device.id]
    return list(documents.values())
