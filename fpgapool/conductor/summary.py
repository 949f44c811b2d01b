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

import collections
import dataclasses
import heapq
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from fpgapool.conductor import reconcile
from fpgapool.conductor import registry
from fpgapool.core import model

Holds: TypeAlias = Mapping[int, reconcile.Hold]

#: The projects that are not told one by one.
OTHER = "other"

_IDLE = "idle"
_FAULTY = "faulty"
_HOST_DOWN = "host_down"

SLOT_STATES = (
    _IDLE,
    *(phase.value.lower() for phase in model.Phase),
    _FAULTY,
    _HOST_DOWN,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """How many there are of what, for metrics.

    :ivar queued_by_project: sessions that wait.
    :ivar queued_by_size: the same, by priority queue.
    :ivar queued_bytes: what they claim.
    :ivar sessions: live ones, by state.
    :ivar slots: by state; ``host_down`` where it cannot be known.
    :ivar hosts: whether each is up, by name.
    """

    queued_by_project: Mapping[str, int]
    queued_by_size: Sequence[int]
    queued_bytes: int
    sessions: Mapping[str, int]
    slots: Mapping[str, int]
    hosts: Mapping[str, bool]


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
    return {
        "slot": slot.number,
        "shape": slot.shape,
        "state": _slot_state(slot, hold),
        "accelerator": hold.session.accelerator if hold else None,
        "programmed": slot.programmed,
    }


def _slot_state(slot: registry.SlotEntry, hold: reconcile.Hold | None) -> str:
    if hold is not None:
        return hold.phase.value.lower()
    return _FAULTY if slot.faulty or not slot.usable else _IDLE


def slots_by_state(pool: registry.Registry, holds: Holds) -> dict[str, int]:
    """Return how many slots are in each state."""
    return collections.Counter(
        _slot_state(slot, holds.get(slot.id)) if slot.host.up else _HOST_DOWN
        for slot in pool.slots.values()
    )


def largest(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the largest counts by name, and all others together.

    :param counts: by name.
    :param most: how many names to return besides OTHER.
    """
    top = heapq.nlargest(
        most, ((count, name) for name, count in counts.items() if count)
    )
    shown = {name: count for count, name in top}
    left = sum(counts.values()) - sum(shown.values())
    shown[OTHER] = shown.get(OTHER, 0) + left
    return shown
