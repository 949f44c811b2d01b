# SPDX-License-Identifier: Apache-2.0

"""Hosts of the pool."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import hardware
from fpgapool.api.answers import views
from fpgapool.api.backends import inventory
from fpgapool.db import api as db_api
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


def _document(
    call: calls.Call,
    pool: inventories.Inventory,
    host: db_api.HostRecord,
    sees_all: bool,
) -> dict[str, Any]:
    ids = [device.id for device in pool.devices_of(host)]
    return {
        **views.members(description.HOST, host, call.version),
        "up": host.up,
        "devices": len(ids),
        "slots": sum(map(pool.slot_counts.__getitem__, ids)),
        "sessions": sum(map(pool.session_counts.__getitem__, ids)),
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


# All callers who may see hosts may also see data of other projects.
_HOSTS = hardware.Hardware(
    "host",
    description.HOST,
    lambda pool: pool.hosts,
    lambda _call, _sees_all, member, host: getattr(host, member),
    _document,
    codes.HOST_NOT_FOUND,
    key="uuid",
)
