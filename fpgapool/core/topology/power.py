# SPDX-License-Identifier: Apache-2.0

"""Caps on the power that slots take in addition to idle hosts and boards.

A slot counts with the most that an accelerator takes in its shape, whatever
its holder runs: so a cap holds for all, and no job waits for the sake of
another one's power.
"""

import collections
import dataclasses
import math
from collections import abc

from fpgapool.core import model
from fpgapool.core.topology import slot_table
from fpgapool.core.topology import slots as pool_slots

# Sums of watts are compared with this tolerance.
_EPSILON_W = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Caps:
    """The power that held slots may take.

    :param pool_w: of all slots together; None: any power.
    :param hosts_w: of the slots of some hosts.
    :param slots_w: of a slot in use, by shape; 0 for other shapes.
    :raises ValueError: if a power is negative, or not a number.
    """

    pool_w: float | None = None
    hosts_w: tuple[tuple[model.HostId, float], ...] = ()
    slots_w: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        values = [value for _, value in (*self.hosts_w, *self.slots_w)]
        for value in (*values, self.pool_w or 0.0):
            if not 0 <= value < math.inf:
                raise ValueError(f"a power must not be {value} W")

    @property
    def is_set(self) -> bool:
        """Whether there is any cap."""
        return self.pool_w is not None or bool(self.hosts_w)


class Power:
    """Keeps strategies from slots whose use would exceed a cap.

    :param table: the slots.
    """

    def __init__(self, table: slot_table.SlotTable) -> None:
        self._table = table
        self._hosts_w: dict[model.HostId, float] = {}
        self._slots_w: dict[str, float] = {}
        self._pool_w = math.inf
        self.is_set = False

    def set_caps(self, caps: Caps) -> None:
        """Set the caps. Lower ones take no slot away."""
        self._pool_w = math.inf if caps.pool_w is None else caps.pool_w
        self._hosts_w = dict(caps.hosts_w)
        self._slots_w = dict(caps.slots_w)
        self.is_set = caps.is_set

    def slot_w(self, slot: pool_slots.Slot) -> float:
        """The power of a slot in use."""
        return self._slots_w.get(slot.spec.shape, 0.0)

    def withholds(self, slots: abc.Iterable[pool_slots.Slot]) -> bool:
        """Whether none of these idle slots may be given now."""
        if not self.is_set:
            return False
        left = self._left()
        return not any(left.has_room(slot) for slot in slots)

    def allows(self, slot: pool_slots.Slot) -> bool:
        """Whether an idle slot may be given now."""
        return not self.withholds([slot])

    def rounds(
        self, near: abc.Callable[[], abc.Set[model.HostId]]
    ) -> abc.Iterator[None]:
        """Show strategies, in each round, idle slots that may all be given.

        Each idle slot that may be given is shown once, so that a job finds one
        that fits. After the last round, all idle slots are shown.

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
        """Return the slots that may all be given, and the others."""
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
        """Return what slots may take beside those that are held."""
        left = _Left(self, self._pool_w, self._hosts_w)
        for hold in self._table.assignments.values():
            if hold.slot is not None:
                left.take(hold.slot)
        return left


class _Left:
    """The power that is left below the caps."""

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
        """Whether a slot may be given, too."""
        left_w = min(self._pool_w, self._hosts_w[slot.host.id])
        return self._power.slot_w(slot) <= left_w + _EPSILON_W

    def take(self, slot: pool_slots.Slot) -> None:
        """Count a slot."""
        slot_w = self._power.slot_w(slot)
        self._pool_w -= slot_w
        self._hosts_w[slot.host.id] -= slot_w


def _unlimited() -> float:
    return math.inf
