# SPDX-License-Identifier: Apache-2.0

"""Hosts of the pool."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import hardware
from fpgapool.api.answers import views
from fpgapool.api.backends import inventory
from fpgapool.db import inventory as inventories
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory as description


def index(call: calls.Call) -> calls.Answer:
    """List the hosts."""
    return _HOSTS.index(call)


def show(call: calls.Call) -> calls.Answer:
    """Show a host."""
    return _HOSTS.show(call)


def change(call: calls.Call) -> calls.Answer:
    """Enable, drain or disable a host; the setting applies to its devices."""
    return _HOSTS.change(
        call, lambda host: hardware.administer(call, host, host["uuid"])
    )


def _documents(
    call: calls.Call, pool: inventories.Inventory, sees_all: bool
) -> list[dict[str, Any]]:
    documents = {
        host.id: {
            **views.members(description.HOST, host, call.version),
            "up": host.up,
            "devices": 0,
            "slots": 0,
            "sessions": 0,
            "faulty_accelerators": [
                {
                    "accelerator": fault.accelerator,
                    "shape": fault.shape,
                    "reason": fault.reason,
                    **inventory.probation(fault, sees_all),
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


# All callers who may see hosts may also see data of other projects.
_HOSTS = hardware.Hardware(
    "host", description.HOST, _documents, codes.HOST_NOT_FOUND, key="uuid"
)
