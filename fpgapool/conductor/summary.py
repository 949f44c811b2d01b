#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The pool at a glance, for operators and the curious."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

from fpgapool.conductor import reconcile
from fpgapool.conductor import registry

Holds: TypeAlias = Mapping[int, reconcile.Hold]


def hosts(pool: registry.Registry, holds: Holds) -> list[dict[str, Any]]:
    """Return hosts, devices and slots; nothing that is a tenant's."""
    return [
        _host(host, holds)
        for host in sorted(pool.hosts.values(), key=lambda host: host.id)
    ]


def _host(host: registry.HostEntry, holds: Holds) -> dict[str, Any]:
    return {
        "uuid": host.uuid,
        "name": host.name,
        "up": host.up,
        "link_message": host.link_message,
        "last_report_at": host.heard_at,
        "devices": [
            {
                "name": device.name,
                "healthy": device.healthy,
                "slots": [
                    _slot(device.slots[number], holds)
                    for number in sorted(device.slots)
                ],
            }
            for device in sorted(host.devices.values(), key=lambda d: d.id)
        ],
    }


def _slot(slot: registry.SlotEntry, holds: Holds) -> dict[str, Any]:
    hold = holds.get(slot.id)
    state = hold.phase.value.lower() if hold else "idle"
    if not hold and (slot.faulty or not slot.usable):
        state = "faulty"
    return {
        "slot": slot.number,
        "shape": slot.shape,
        "state": state,
        "accelerator": hold.session.accelerator if hold else None,
        "programmed": slot.programmed,
    }
