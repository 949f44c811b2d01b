# SPDX-License-Identifier: Apache-2.0

"""Counts of the pool, made once for all who ask."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.views import summary
from fpgapool.vocabulary import capacity

# Counting takes about a microsecond per slot. So it takes at most one percent
# of the time, and the counts of 10,000 slots are at most a second old. A small
# pool is counted for everyone who asks.
_AGE_S_PER_SLOT = 1e-4
_FEW_SLOTS = 100


@dataclasses.dataclass(eq=False, repr=False)
class Census:
    """Counts the pool's hardware, at most as often as it can afford."""

    _registry: registry.Registry
    _holds: holds.Holds
    _traffic: holds.Traffic
    _clock: parts.Clock

    def __post_init__(self) -> None:
        self._counted_at = -math.inf
        self._hardware: dict[str, Any] = {}
        self._generation = 0
        self._loads: Mapping[int, float] = {}

    def hardware(self) -> dict[str, Any]:
        """Return the numbers of hosts, devices and slots.

        ``generation`` grows whenever a number changes.
        """
        self._count()
        return {"generation": self._generation, **self._hardware}

    def nic_loads(self) -> Mapping[int, float]:
        """Return the used share of hosts' network cards, by host id."""
        self._count()
        return self._loads

    def _count(self) -> None:
        pool, now = self._registry, self._clock.now
        age_s = (len(pool.slots) - _FEW_SLOTS) * _AGE_S_PER_SLOT
        if now - self._counted_at < age_s:
            return
        self._counted_at = now
        self._loads = summary.nic_loads(
            pool, self._holds.values(), self._traffic
        )
        hosts, devices = pool.hosts.values(), pool.devices.values()
        counted = {
            "hosts": len(hosts),
            "hosts_up": sum(one.up for one in hosts),
            "devices": len(devices),
            "devices_healthy": sum(one.healthy for one in devices),
            "slots": capacity.by_shape(
                (one.shape, summary.shown_state(one, self._holds.get(one.id)))
                for one in pool.slots.values()
            ),
        }
        if counted != self._hardware:
            self._hardware = counted
            self._generation += 1
