# SPDX-License-Identifier: Apache-2.0

"""Boards with idle slots as vectors, for strategies that compare all pairs."""

import bisect
import operator
import typing

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core.queues import queued
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slots

_Numbers: typing.TypeAlias = npt.NDArray[np.int64]

_NUMBER = operator.attrgetter("number")


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Target:
    """The idle slots of one shape on a board."""

    __slots__ = ("number", "shape", "slots")

    def __init__(self, number: int, shape: str) -> None:
        self.number = number
        self.shape = shape
        self.slots: list[slots.Slot] = []

    def slot_for(
        self, group: queued.JobGroup, accelerator: str
    ) -> slots.Slot | None:
        """Return the slot that a group's job gets, if any fits."""
        if not group.fits_shape(self.shape):
            return None
        found: slots.Slot | None = None
        for slot in self.slots:
            if slot.id in group.avoiding:
                continue
            if slot.starts_at_once(accelerator):
                return slot
            found = found or slot
        return found


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Boards:
    """The targets of a pool.

    A target keeps its number. The vectors have spare entries at the end.

    :ivar slot_counts: the number of slots of the target's board, idle or not.
    """

    def __init__(self, loads: pipe_loads.Loads) -> None:
        self._loads = loads
        self._by_board: dict[tuple[model.DeviceId, str], Target] = {}
        self.targets: list[Target] = []
        # The numbers of the targets with idle slots.
        self._idle: set[int] = set()
        self.host_ids: _Numbers = np.zeros(16, dtype=np.int64)
        self.dma: _Numbers = np.zeros(16, dtype=np.int64)
        self.ingress: _Numbers = np.zeros(16, dtype=np.int64)
        self.egress: _Numbers = np.zeros(16, dtype=np.int64)
        self.slot_counts: _Numbers = np.zeros(16, dtype=np.int64)

    def _grow(self) -> None:
        more = np.zeros(len(self.host_ids), dtype=np.int64)
        self.host_ids = np.append(self.host_ids, more)
        self.dma = np.append(self.dma, more)
        self.ingress = np.append(self.ingress, more)
        self.egress = np.append(self.egress, more)
        self.slot_counts = np.append(self.slot_counts, more)

    def with_idle(self) -> list[Target]:
        """Return the targets with idle slots, by number."""
        return [self.targets[number] for number in sorted(self._idle)]

    def of(self, slot: slots.Slot) -> Target:
        """Return the target of an idle slot."""
        return self._by_board[slot.spec.device_id, slot.shape]

    def add(self, slot: slots.Slot) -> None:
        """Add a slot that has become idle."""
        key = (slot.spec.device_id, slot.shape)
        target = self._by_board.get(key)
        if target is None:
            target = Target(len(self.targets), slot.shape)
            self._by_board[key] = target
            self.targets.append(target)
            if target.number == len(self.host_ids):
                self._grow()
        if target.slots:
            bisect.insort(target.slots, slot, key=_NUMBER)
        else:
            # The board or its host may have been replaced.
            target.slots.append(slot)
            self._describe(target.number, slot)
            self._idle.add(target.number)

    def _describe(self, number: int, slot: slots.Slot) -> None:
        host_id, loads = slot.host.id, self._loads
        known = self.host_ids.item(number), self.slot_counts.item(number)
        if known == (host_id, slot.device_slots):
            return
        self.host_ids[number] = host_id
        self.dma[number] = loads.dma(slot.spec.device_id)
        self.ingress[number] = loads.ingress(host_id)
        self.egress[number] = loads.egress(host_id)
        self.slot_counts[number] = slot.device_slots

    def remove(self, slot: slots.Slot) -> None:
        """Remove a slot that is no longer idle."""
        target = self._by_board[slot.spec.device_id, slot.shape]
        target.slots.remove(slot)
        if not target.slots:
            self._idle.remove(target.number)
