# SPDX-License-Identifier: Apache-2.0

"""Caps on the power that slots draw in addition to idle hosts and boards.

A slot counts as the highest power of any accelerator in its shape, whichever
it runs. So caps always hold, and no job waits because of the power of another
job.
"""

import collections
import math
from collections import abc

from fpgapool.core import model
from fpgapool.core.topology import idle_slots
from fpgapool.core.topology import slots as pool_slots

# Sums of watts are compared with this tolerance.
_EPSILON_W = 1e-6


class Power:
    """Hides slots from strategies if their use would exceed a cap."""

    def __init__(self, table: idle_slots.IdleSlots) -> None:
        self._table = table
        self._hosts_w: dict[model.HostId, float] = {}
        self._slots_w: dict[str, float] = {}
        self._pool_w = math.inf
        self.is_set = False

    def set_caps(self, caps: model.PowerCaps) -> None:
        """Set the caps; lower caps take no slots away."""
        self._pool_w = math.inf if caps.pool_w is None else caps.pool_w
        self._hosts_w = dict(caps.hosts_w)
        self._slots_w = dict(caps.slots_w)
        self.is_set = caps.is_set

    def slot_w(self, slot: pool_slots.Slot) -> float:
        return self._slots_w.get(slot.spec.shape, 0.0)

    def withholds(self, slots: abc.Iterable[pool_slots.Slot]) -> bool:
        """Return whether none of these idle slots may be assigned now."""
        if not self.is_set:
            return False
        left = self._left()
        return not any(left.has_room(slot) for slot in slots)

    def allows(self, slot: pool_slots.Slot) -> bool:
        """Return whether an idle slot may be assigned now."""
        return not self.withholds([slot])

    def allows_all(self, slots: abc.Iterable[pool_slots.Slot]) -> bool:
        """Return whether all of these idle slots may be assigned together."""
        return not self.is_set or not self._choose(slots)[1]

    def rounds(
        self, near: abc.Callable[[], abc.Set[model.HostId]]
    ) -> abc.Generator[None]:
        """Offer idle slots in rounds, each of which stays within the caps.


        Each idle slot that is allowed is offered once. After the last round,
        all idle slots are visible.

        :param near: returns the hosts with waiting jobs of their own, which
            come first.
        """
        table = self._table
        waiting = list(table.idle_slots())
        if self._choose(waiting)[1]:
            first = near()
            waiting.sort(key=lambda slot: slot.host.id not in first)
            yield from self._take_turns(waiting)
        else:
            yield

    def _take_turns(
        self, waiting: list[pool_slots.Slot]
    ) -> abc.Iterator[None]:
        table, every = self._table, waiting
        for slot in every:
            table.hide(slot)
        try:
            while waiting:
                shown, waiting = self._choose(waiting)
                if not shown:
                    break
                for slot in shown:
                    table.show(slot)
                yield
                for slot in shown:
                    if table.is_idle(slot.id):
                        table.hide(slot)
        finally:
            for slot in every:
                if table.is_idle(slot.id):
                    table.show(slot)

    def _choose(
        self, waiting: abc.Iterable[pool_slots.Slot]
    ) -> tuple[list[pool_slots.Slot], list[pool_slots.Slot]]:
        """Return the slots that may all be assigned, and the others."""
        left = self._left()
        shown: list[pool_slots.Slot] = []
        others: list[pool_slots.Slot] = []
        for slot in waiting:
            if left.has_room(slot):
                left.take(slot)
                shown.append(slot)
            else:
                others.append(slot)
        return shown, others

    def _left(self) -> "_Left":
        """Return the power left for further slots."""
        left = _Left(self, self._pool_w, self._hosts_w)
        for hold in self._table.assignments.values():
            if hold.slot is not None:
                left.take(hold.slot)
        return left


class _Left:
    """The power left below the caps."""

    def __init__(
        self,
        power: Power,
        pool_w: float,
        hosts_w: abc.Mapping[model.HostId, float],
    ) -> None:
        self._power = power
        self._pool_w = pool_w
        self._hosts_w = collections.defaultdict[model.HostId, float](
            _unlimited, hosts_w
        )

    def has_room(self, slot: pool_slots.Slot) -> bool:
        """Return whether another slot fits below the caps."""
        left_w = min(self._pool_w, self._hosts_w[slot.host.id])
        return self._power.slot_w(slot) <= left_w + _EPSILON_W

    def take(self, slot: pool_slots.Slot) -> None:
        slot_w = self._power.slot_w(slot)
        self._pool_w -= slot_w
        self._hosts_w[slot.host.id] -= slot_w


def _unlimited() -> float:
    return math.inf
