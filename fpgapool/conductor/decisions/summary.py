# SPDX-License-Identifier: Apache-2.0

"""Summaries of the pool, for operators and metrics."""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

from fpgapool import objects
from fpgapool.conductor.decisions import administration
from fpgapool.conductor.decisions import rates
from fpgapool.conductor.decisions import registry
from fpgapool.conductor.decisions import sessions
from fpgapool.core import model
from fpgapool.vocabulary import states

Holds: TypeAlias = Mapping[int, sessions.Hold]

#: Stands for all projects that are not listed by name.
OTHER = "other"

_HOST_DOWN = "host_down"

SLOT_STATES = (
    states.SLOT_IDLE,
    *(phase.value.lower() for phase in model.Phase),
    states.FAULTY,
    states.DISABLED,
    _HOST_DOWN,
)

# Rounds loads, so that small changes do not count as changes.
_LOAD_DIGITS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """Numbers for metrics.

    :ivar queued_by_project: waiting sessions, by project.
    :ivar queued_by_size: waiting sessions, by priority queue.
    :ivar queued_bytes: the bytes that waiting sessions claim.
    :ivar sessions: live sessions, by state.
    :ivar slots: by state; ``host_down`` if the host is silent.
    :ivar hosts: whether each is up, by name.
    :ivar clocks_behind_s: by how much each wall clock is behind ours.
    :ivar devices: by administrative state.
    :ivar reservations: of slots, ``ready`` and ``pending``.
    """

    queued_by_project: Mapping[str, int]
    queued_by_size: Sequence[int]
    queued_bytes: int
    sessions: Mapping[str, int]
    slots: Mapping[str, int]
    hosts: Mapping[str, bool]
    clocks_behind_s: Mapping[str, float]
    devices: Mapping[str, int]
    reservations: Mapping[str, int]


class Queued(NamedTuple):
    """Numbers of waiting sessions.

    :ivar by_host: by the id of the host that they come from.
    :ivar by_accelerator: by accelerator.
    """

    by_host: Mapping[int | None, int]
    by_accelerator: Mapping[str, int]


def hosts(
    pool: registry.Registry, holds: Holds, pending: Callable[[int], int]
) -> list[dict[str, Any]]:
    """Return hosts, devices and slots, without tenants' data.

    :param pending: returns the number of a device's reservations without a
        usable slot.
    """
    return [
        _host(host, holds, pending)
        for host in sorted(pool.hosts.values(), key=lambda host: host.id)
    ]


def _host(
    host: registry.HostEntry, holds: Holds, pending: Callable[[int], int]
) -> dict[str, Any]:
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
                "reservable_slots": device.reservable_slots,
                "reserved_slots": device.reserved_slots,
                "pending_reservations": pending(device.id),
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


def _slot_state(slot: registry.SlotEntry, hold: sessions.Hold | None) -> str:
    if hold is not None:
        return hold.phase.value.lower()
    if slot.faulty or not slot.usable:
        return states.FAULTY
    enabled = administration.state(slot.device) is model.AdminState.ENABLED
    return states.SLOT_IDLE if enabled else states.DISABLED


def slots_by_state(pool: registry.Registry, holds: Holds) -> dict[str, int]:
    """Return the numbers of slots by state."""
    return collections.Counter(
        _slot_state(slot, holds.get(slot.id)) if slot.host.up else _HOST_DOWN
        for slot in pool.slots.values()
    )


def devices_by_state(pool: registry.Registry) -> dict[str, int]:
    """Return the numbers of devices by administrative state."""
    counts = collections.Counter(
        administration.state(device) for device in pool.devices.values()
    )
    return {state.value: counts[state] for state in model.AdminState}


def reservations_by_state(
    pool: registry.Registry, pending: Callable[[int], int]
) -> dict[str, int]:
    """Return the numbers of ready and pending reservations.

    :param pending: as in :func:`hosts`.
    """
    waiting = sum(map(pending, pool.devices))
    total = sum(device.reserved_slots for device in pool.devices.values())
    return {"ready": total - waiting, "pending": waiting}


def snapshot(
    pool: registry.Registry,
    holds: Holds,
    library: Mapping[str, objects.AcceleratorProfile],
    readings: rates.Traffic,
    queued: Queued,
    now: float,
) -> dict[str, Any]:
    """Return the data for the placement of instances.

    Slots are counted by shape, which is shorter than by accelerator; a reader
    adds up the shapes of an accelerator.

    :param library: the accelerators, by name.
    :param now: wall clock.
    """
    used = _nic_use(holds.values(), readings)
    return {
        "generated_at": now,
        "hosts": {
            host.uuid: {
                "name": host.name,
                "up": host.up,
                "nic_bytes_per_s": host.nic_bytes_per_s,
                "nic_load": _nic_load(host, used),
                "queued": queued.by_host.get(host.id, 0),
                "slots": sum(len(d.slots) for d in host.devices.values()),
                "shapes": _shapes(host, holds),
            }
            for host in pool.hosts.values()
        },
        "queued": {
            name: count
            for name, count in queued.by_accelerator.items()
            if count
        },
        "accelerators": {
            profile.name: sorted(profile.shapes)
            for profile in library.values()
        },
    }


def _shapes(host: registry.HostEntry, holds: Holds) -> dict[str, list[int]]:
    """:returns: the numbers of usable and of free slots, by shape."""
    counts: dict[str, list[int]] = {}
    if not host.up:
        return counts
    for device in host.devices.values():
        if (
            not device.healthy
            or administration.state(device) is not model.AdminState.ENABLED
        ):
            continue
        for slot in device.slots.values():
            if slot.usable and not slot.faulty:
                count = counts.setdefault(slot.shape, [0, 0])
                count[0] += 1
                count[1] += slot.id not in holds and not slot.reserved_for
    return counts


def _nic_use(
    holds: Iterable[sessions.Hold], readings: rates.Traffic
) -> dict[int, tuple[float, float]]:
    """:returns: bytes/s that leave and enter each host, by id."""
    used: dict[int, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for hold in holds:
        reading = readings.of(hold.slot.id)
        origin, target = hold.session.host_id, hold.slot.host.id
        if (
            reading is None
            or reading.generation != hold.generation
            or hold.abandoned
            or origin == target
        ):
            continue
        sent, returned = reading.input_bytes_per_s, reading.output_bytes_per_s
        used[target][0] += returned
        used[target][1] += sent
        if origin is not None:
            used[origin][0] += sent
            used[origin][1] += returned
    return {id_: (out, into) for id_, (out, into) in used.items()}


def _nic_load(
    host: registry.HostEntry, used: Mapping[int, tuple[float, float]]
) -> float:
    if host.id not in used or host.nic_bytes_per_s <= 0:
        return 0.0
    load = max(used[host.id]) / host.nic_bytes_per_s
    return round(min(load, 1.0), _LOAD_DIGITS)


def largest(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the largest counts by name, and the sum of all others.

    :param counts: by name.
    :param most: the number of names besides OTHER.
    """
    top = heapq.nlargest(
        most, ((count, name) for name, count in counts.items() if count)
    )
    shown = {name: count for count, name in top}
    left = sum(counts.values()) - sum(shown.values())
    shown[OTHER] = shown.get(OTHER, 0) + left
    return shown
