# SPDX-License-Identifier: Apache-2.0

"""Finds slots for several jobs at once."""

import collections
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core.topology import slots
from fpgapool.vocabulary import states


class Need(typing.NamedTuple):
    """What one of the jobs needs.

    :param shapes: the shapes of the slots that fit; empty: any shape.
    :param owner: the owner for whom slots may be reserved; None: any.
    """

    accelerator: str
    shapes: model.Shapes
    owner: str | None = None

    def fits(self, shape: str) -> bool:
        """Return whether slots of this shape fit."""
        return not self.shapes or shape in self.shapes

    def may_have(self, slot: slots.Slot) -> bool:
        """Return whether the job may have a slot."""
        return self.fits(slot.shape) and (
            self.owner is None or slot.reserved_for in (None, self.owner)
        )


#: Slots of which at most one may be used.
_Place = list[slots.Slot]
#: The shapes of a place's slots, and for whom they are reserved.
_Kind = frozenset[tuple[str, str | None]]


def areas(
    placement: str | None, found: abc.Iterable[slots.Slot]
) -> dict[int, list[slots.Slot]]:
    """Return the slots in the areas that may hold all jobs, by area."""
    if placement == states.SAME_BOARD:
        return _by(found, lambda slot: slot.spec.device_id)
    if placement == states.SAME_HOST:
        return _by(found, lambda slot: slot.host.id)
    return {0: list(found)}


def fit(
    needs: abc.Sequence[Need],
    found: abc.Iterable[slots.Slot],
    placement: str | None,
) -> list[slots.Slot | None]:
    """Give as many jobs as possible a slot each; None: it gets none.

    Slots that need no programming come first.

    :param found: the slots of one area, each of which may be given.
    """
    if placement == states.SPREAD:
        boards = _by(found, lambda slot: slot.spec.device_id)
        places = [boards[device_id] for device_id in sorted(boards)]
    else:
        places = [[slot] for slot in found]
    return _Matching(needs, _few_of_each(needs, places)).seated()


def _by(
    found: abc.Iterable[slots.Slot], key: abc.Callable[[slots.Slot], int]
) -> dict[int, list[slots.Slot]]:
    by: dict[int, list[slots.Slot]] = {}
    for slot in found:
        by.setdefault(key(slot), []).append(slot)
    return by


def _few_of_each(
    needs: abc.Sequence[Need], places: list[_Place]
) -> list[_Place]:
    """Leave out places beyond the jobs' number that are like others."""
    wanted = {need.accelerator for need in needs}

    def is_slow(place: _Place) -> bool:
        return not any(
            slot.starts_at_once(name) for slot in place for name in wanted
        )

    kept = []
    counts: collections.Counter[_Kind] = collections.Counter()
    for place in sorted(places, key=is_slow):
        kind = frozenset((slot.shape, slot.reserved_for) for slot in place)
        counts[kind] += 1
        if counts[kind] <= len(needs):
            kept.append(place)
    return kept


class _Matching:
    """Jobs and places, matched along augmenting paths."""

    def __init__(
        self, needs: abc.Sequence[Need], places: list[_Place]
    ) -> None:
        self._needs = needs
        self._places = places
        #: The number of the job that has each place.
        self._jobs: dict[int, int] = {}

    def seated(self) -> list[slots.Slot | None]:
        for job in range(len(self._needs)):
            self._seat(job, set())
        chosen: list[slots.Slot | None] = [None] * len(self._needs)
        for place, job in self._jobs.items():
            chosen[job] = self._slot(job, place)
        return chosen

    def _slot(self, job: int, place: int) -> slots.Slot | None:
        """Return the best slot of a place for a job."""
        need = self._needs[job]
        fitting = [s for s in self._places[place] if need.may_have(s)]
        fitting.sort(key=lambda s: not s.starts_at_once(need.accelerator))
        return fitting[0] if fitting else None

    def _seat(self, job: int, tried: set[int]) -> bool:
        """Seat a job, if need be by moving others."""
        able = []
        for place in range(len(self._places)):
            slot = None if place in tried else self._slot(job, place)
            if slot is not None:
                name = self._needs[job].accelerator
                able.append((not slot.starts_at_once(name), place))
        able.sort()
        for _, place in able:
            if place not in self._jobs:
                self._jobs[place] = job
                return True
        for _, place in able:
            if place not in tried:
                tried.add(place)
                if self._seat(self._jobs[place], tried):
                    self._jobs[place] = job
                    return True
        return False
