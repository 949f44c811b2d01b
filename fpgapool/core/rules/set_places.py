# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions, and the slots that they could have."""

import math
import operator
from collections import abc

from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.calendar import promises
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.topology import seats
from fpgapool.core.topology import slots

# Maximum number of cached answers to what could hold a set.
_MOST_KEPT = 1000
_NAME = operator.attrgetter("accelerator")


class SessionSet:
    """The jobs of a set whose slots have not been granted.

    :ivar group_id: the group whose first slots they get; None: they are
        sessions.
    :ivar records: its jobs; the first is the leader.
    :ivar key: its project and name.
    :ivar number: the id of the job that was submitted first.
    :ivar limit_s: when it is rejected if it has not its slots.
    :ivar waits_until_s: the first end of a ``wait_timeout_s`` of its jobs.
    :ivar area: the board or host for which it collected last.
    :ivar able: the areas whose usable slots could hold it.
    :ivar ready: those of its slots that are ready.
    :ivar lacking: how many of its jobs have not been submitted.
    """

    def __init__(self, first: model.Job, together: model.Together) -> None:
        self.together = together
        self.group_id = first.group_id
        self.key = first.project, together.set_id
        self.number = first.id
        self.records: list[queued.JobRecord] = []
        # As they were submitted.
        self.jobs: dict[model.JobId, model.Job] = {}
        self.limit_s = self.waits_until_s = math.inf
        self.area: int | None = None
        self.able: abc.Collection[int] = ()
        self.ready: set[model.SlotId] = set()
        self.lacking = together.size

    @property
    def leader(self) -> queued.JobRecord:
        """The job that waits in the queue until it is the set's turn."""
        return self.records[0]

    @property
    def is_starting(self) -> bool:
        """Whether it has its slots."""
        return self.leader.slot_id is not None


class Places:
    """Finds slots for sets.

    :ivar kept: returns the slots that their holders keep as long as they want.
    """

    def __init__(
        self, view: pool_view.PoolView, queue: admission.Admission
    ) -> None:
        self._view = view
        self._queue = queue
        # The areas that could hold what sets need, until the topology changes.
        self._able: dict[tuple[object, ...], set[int]] = {}
        self._seen_change = -1
        self.kept: abc.Callable[[], frozenset[model.SlotId]] = frozenset

    def needs(self, one: SessionSet) -> list[seats.Need]:
        view = self._view
        return [
            seats.Need(
                record.job.accelerator,
                view.shapes_for(view.accelerators[record.job.accelerator]),
                promises.owner_of(record.job.project, record.job.accelerator),
            )
            for record in one.records
        ]

    def areas(self, one: SessionSet, *, is_up: bool) -> set[int]:
        """Return the areas that could hold a set, from a cache.

        :param is_up: whether only usable slots count; if not, all known ones.
        """
        view = self._view
        if self._seen_change != view.changes or len(self._able) > _MOST_KEPT:
            self._able.clear()
            self._seen_change = view.changes
        needs = self.needs(one)
        found: list[slots.Slot] = [*view.slots.slots.values()]
        key = (is_up, one.together.placement, *sorted(needs, key=_NAME))
        if key not in self._able:
            if is_up:
                found = [slot for slot in found if _is_open(slot, needs)]
            else:
                needs = [
                    seats.Need(
                        need.accelerator, slots.shown_shapes(accelerator)
                    )
                    for need in needs
                    for accelerator in [view.accelerators[need.accelerator]]
                ]
            self._able[key] = _able(needs, found, one.together.placement)
        return self._able[key]

    def choose(
        self, one: SessionSet, taken: abc.Container[model.SlotId]
    ) -> list[slots.Slot | None]:
        """Choose the idle slots that a set gets, or collects."""
        needs, view = self.needs(one), self._view
        placement = one.together.placement
        one.able = self.areas(one, is_up=True)
        kept = self.kept() if one.able else frozenset()
        if kept:
            # Slots would be withheld for nothing, perhaps for ever.
            one.able = self._areas_without(one, needs, kept)
        shunned = self._queue.shunned
        avoided = frozenset().union(
            *(
                record.avoided
                | shunned.get(record.job.accelerator, frozenset())
                for record in one.records
            )
        )
        # What is reserved for the set's own project comes first.
        idle = [
            slot
            for owner in sorted({need.owner or "" for need in needs})
            for slot in view.slots.reserved_idle.get(owner, {}).values()
        ]
        idle += [s for s in view.slots.idle_slots() if s.id not in taken]
        if self._could_avoid(one, needs, avoided):
            idle = [slot for slot in idle if slot.id not in avoided]
        best: list[slots.Slot | None] = []
        rank = (0, False)
        for area, found in sorted(seats.areas(placement, idle).items()):
            if area not in one.able:
                continue
            chosen = seats.fit(needs, found, placement)
            count = len(chosen) - chosen.count(None)
            if (count, area == one.area) > rank:
                best, rank = chosen, (count, area == one.area)
                best_area = area
        if best:
            one.area = best_area
        return best

    def _could_avoid(
        self,
        one: SessionSet,
        needs: list[seats.Need],
        avoided: frozenset[model.SlotId],
    ) -> bool:
        """Return whether usable slots other than these could hold a set."""
        return bool(avoided and self._areas_without(one, needs, avoided))

    def _areas_without(
        self,
        one: SessionSet,
        needs: list[seats.Need],
        avoided: frozenset[model.SlotId],
    ) -> set[int]:
        """Return the areas whose usable slots, but for these, could hold a
        set.
        """
        found = [
            slot
            for slot in self._view.slots.slots.values()
            if _is_open(slot, needs) and slot.id not in avoided
        ]
        return _able(needs, found, one.together.placement)


def _is_open(slot: slots.Slot, needs: abc.Iterable[seats.Need]) -> bool:
    """Return whether a slot works and is not reserved for somebody else."""
    return slot.up or (
        slot.is_usable
        and slot.reserved_for is not None
        and any(slot.reserved_for == need.owner for need in needs)
    )


def _able(
    needs: list[seats.Need],
    found: abc.Iterable[slots.Slot],
    placement: str | None,
) -> set[int]:
    """Return the areas whose slots could hold all jobs."""
    return {
        area
        for area, own in seats.areas(placement, found).items()
        if len(own) >= len(needs)
        and None not in seats.fit(needs, own, placement)
    }
