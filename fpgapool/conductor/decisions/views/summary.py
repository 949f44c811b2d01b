# SPDX-License-Identifier: Apache-2.0

"""Figures about the pool, for the API and metrics."""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import states

Holds: TypeAlias = Mapping[int, holds.Hold]

#: The name for all projects or groups that are not listed individually.
OTHER = "other"

_HOST_DOWN = "host_down"
#: States of groups that want no slots.
_ENDED = (states.GROUP_DRAINING, states.GROUP_FAILED)

SLOT_STATES = (
    states.SLOT_IDLE,
    *(phase.value.lower() for phase in model.Phase),
    states.FAULTY,
    states.DISABLED,
    _HOST_DOWN,
)

# Decimal places of loads: tiny variations must not appear as changes.
_LOAD_DIGITS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """Figures of one group, or the sums of several.

    :ivar wanted: target number of slots.
    """

    wanted: int = 0
    programming: int = 0
    serving: int = 0
    waiting: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures for metrics.

    :ivar queued_by_size: number of waiting sessions, by priority queue.
    :ivar slots: number of slots by state; those whose host does not report
        count as ``host_down``.
    :ivar clocks_behind_s: how far each host's clock is behind the leader's.
    :ivar reservations: number of reserved slots: ``ready`` and ``pending``.
    :ivar budgets: number of budgets by state.
    :ivar calendar: number of reservations by calendar, by state.
    :ivar local_reserve: number of slots that may be kept for sessions of
        their own hosts: those ``kept``, and those ``open`` to others.
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
    groups: Mapping[str, GroupFigures]
    budgets: Mapping[str, int]
    calendar: Mapping[str, int]
    local_reserve: Mapping[str, int]


def _slot_state(slot: registry.SlotEntry, hold: holds.Hold | None) -> str:
    if hold is not None:
        return hold.phase.value.lower()
    if slot.faulty or not slot.usable:
        return states.FAULTY
    enabled = administration.state(slot.device) is model.AdminState.ENABLED
    return states.SLOT_IDLE if enabled else states.DISABLED


def shown_state(slot: registry.SlotEntry, hold: holds.Hold | None) -> str:
    """Return the state of a slot that users see.

    It is that of :class:`fpgapool.db.inventory.Slot`, but slots that the
    leader cannot use now are faulty.
    """
    if hold is not None:
        return hold.phase.value.lower()
    if not slot.usable:
        return states.FAULTY
    if administration.state(slot.device) is not model.AdminState.ENABLED:
        return states.DISABLED
    if slot.faulty or not slot.device.healthy:
        return states.FAULTY
    return states.SLOT_IDLE if slot.host.up else states.DOWN


def slots_by_state(pool: registry.Registry, held: Holds) -> dict[str, int]:
    return collections.Counter(
        _slot_state(slot, held.get(slot.id)) if slot.host.up else _HOST_DOWN
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

    :param pending: returns a device's number of reservations without a slot.
    """
    waiting = sum(map(pending, pool.devices))
    total = sum(device.reserved_slots for device in pool.devices.values())
    return {"ready": total - waiting, "pending": waiting}


def nic_loads(
    pool: registry.Registry,
    held: Iterable[holds.Hold],
    readings: holds.Traffic,
) -> dict[int, float]:
    """Return the used share of each host's network card, by host id.

    The busier direction counts; hosts with idle cards are omitted.
    """
    used: dict[int, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for hold in held:
        if not isinstance(hold, sessions.SessionHold):
            continue
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
    return {
        host.id: round(
            min(max(used[host.id]) / host.nic_bytes_per_s, 1.0), _LOAD_DIGITS
        )
        for host in pool.hosts.values()
        if host.id in used and host.nic_bytes_per_s > 0
    }


def groups(
    rows: Iterable[db_api.GroupRecord],
    members: Iterable[holds.Member],
    waiting: Mapping[str, int],
    most: int,
) -> dict[str, GroupFigures]:
    """Return the figures of the largest groups, and sums of the rest."""
    programming = collections.Counter[str]()
    serving = collections.Counter[str]()
    for one in members:
        is_ready = one.phase is not model.Phase.PREPARING
        (serving if is_ready else programming)[one.public_id] += 1
    found = [
        (
            one.group_id,
            GroupFigures(
                wanted=0 if one.state in _ENDED else one.size,
                programming=programming[one.group_id],
                serving=serving[one.group_id],
                waiting=waiting.get(one.group_id, 0),
            ),
        )
        for one in rows
    ]
    # Among groups of the same size, older ones come first.
    found.sort(
        key=lambda pair: max(
            pair[1].wanted, pair[1].serving + pair[1].programming
        ),
        reverse=True,
    )
    shown = dict(found[:most])
    rest = [figures for _, figures in found[most:]]
    names = [one.name for one in dataclasses.fields(GroupFigures)]
    shown[OTHER] = GroupFigures(
        **{name: sum(getattr(one, name) for one in rest) for name in names}
    )
    return shown


def largest(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the largest counts by name, and the sum of all others."""
    top = heapq.nlargest(
        most, ((count, name) for name, count in counts.items() if count)
    )
    shown = {name: count for count, name in top}
    left = sum(counts.values()) - sum(shown.values())
    shown[OTHER] = shown.get(OTHER, 0) + left
    return shown
