# SPDX-License-Identifier: Apache-2.0

"""Which slots are promised to which reservations, and when.

A reservation has the same slots in all of its spans. Two reservations never
have a slot at the same time, so that all promises can be kept together.
"""

import bisect
import heapq
import itertools
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core.calendar import spans as times

#: Slots and spans that one search for the next time compares.
_MOST_PROBES = 200_000


#: A promise of a slot: start, end, reservation.
_Mark: typing.TypeAlias = tuple[float, float, str]


class Wanted(typing.NamedTuple):
    """What a reservation needs.

    :param spans: its times, in order.
    :param slots: the number of slots that it has in each of them.
    :param fitting: the slots that it may have.
    """

    key: str
    spans: tuple[times.Span, ...]
    slots: int
    fitting: frozenset[model.SlotId]

    def later(self, delay_s: float) -> "Wanted":
        """Return the same after a delay."""
        spans = tuple(span.later(delay_s) for span in self.spans)
        return self._replace(spans=spans)


class Plan:
    """The promises of all slots.

    :ivar bound: the slots of each reservation.
    """

    def __init__(self) -> None:
        self.bound: dict[str, tuple[model.SlotId, ...]] = {}
        self._spans: dict[str, tuple[times.Span, ...]] = {}
        # In order, by slot.
        self._taken: dict[model.SlotId, list[_Mark]] = {}

    @classmethod
    def of(
        cls,
        promises: abc.Iterable[
            tuple[str, tuple[times.Span, ...], abc.Iterable[model.SlotId]]
        ],
    ) -> "Plan":
        """Return a plan with many promises, much faster than one by one.

        :param promises: the key, the spans and the slots of reservations,
            each of which comes once.
        """
        found = cls()
        marks: list[_Mark] = []
        lists: dict[str, list[list[_Mark]]] = {}
        for key, spans, slots in promises:
            found.bound[key], found._spans[key] = tuple(slots), spans
            marks += _marks(key, spans)
            lists[key] = [
                found._taken.setdefault(slot_id, [])
                for slot_id in found.bound[key]
            ]
        for mark in sorted(marks):
            for taken in lists[mark[2]]:
                taken.append(mark)
        return found

    def bind(
        self,
        key: str,
        spans: tuple[times.Span, ...],
        slots: abc.Iterable[model.SlotId],
    ) -> None:
        """Promise slots to a reservation, which loses its former ones."""
        former = set(self.bound.get(key, ()))
        before = _marks(key, self._spans.get(key, ()))
        after = _marks(key, spans)
        self.bound[key], self._spans[key] = tuple(slots), spans
        for slot_id in former.difference(self.bound[key]):
            self._drop(slot_id, before)
        # Most changes leave most times as they were.
        gone, new = before - after, after - before
        for slot_id in self.bound[key]:
            taken = self._taken.setdefault(slot_id, [])
            for mark in new if slot_id in former else after:
                bisect.insort(taken, mark)
            if slot_id in former:
                self._drop(slot_id, gone)

    def forget(self, key: str) -> None:
        """End all promises of a reservation."""
        marks = _marks(key, self._spans.pop(key, ()))
        for slot_id in self.bound.pop(key, ()):
            self._drop(slot_id, marks)

    def _drop(self, slot_id: model.SlotId, marks: set[_Mark]) -> None:
        taken = self._taken[slot_id]
        for mark in marks:
            del taken[bisect.bisect_left(taken, mark)]
        if not taken:
            del self._taken[slot_id]

    def is_free(self, slot_id: model.SlotId, span: times.Span) -> bool:
        """Return whether a slot is promised to nobody in a span."""
        taken = self._taken.get(slot_id, ())
        place = bisect.bisect_left(taken, (span.end_s,))
        # Promises of a slot do not overlap: the last one that begins before
        # the span's end also ends last.
        return not place or taken[place - 1][1] <= span.start_s

    def find(
        self,
        wanted: Wanted,
        free_from: abc.Mapping[model.SlotId, float],
        own: abc.Collection[model.SlotId] = (),
    ) -> tuple[model.SlotId, ...] | None:
        """Return slots for a reservation; None: it does not fit.

        It must not be in the plan itself.

        :param free_from: when the holders of slots will have left that nobody
            can take them from; other slots are free at once.
        :param own: slots that it has already, which come first.
        """
        start_s = wanted.spans[0].start_s
        able = [
            slot_id
            for slot_id in wanted.fitting
            if free_from.get(slot_id, -math.inf) <= start_s
            and all(self.is_free(slot_id, span) for span in wanted.spans)
        ]
        if len(able) < wanted.slots:
            return None
        able.sort(
            key=lambda slot_id: (
                slot_id not in own,
                # Leave long gaps to others.
                start_s - self._free_since_s(slot_id, start_s),
                slot_id,
            )
        )
        return tuple(able[: wanted.slots])

    def _free_since_s(self, slot_id: model.SlotId, time_s: float) -> float:
        taken = self._taken.get(slot_id, ())
        place = bisect.bisect_right(taken, (time_s, math.inf))
        return taken[place - 1][1] if place else -math.inf

    def rearranged(
        self,
        wanted: abc.Iterable[Wanted],
        free_from: abc.Mapping[model.SlotId, float],
    ) -> "Plan | None":
        """Return a plan in which all of these have other slots, if need be.

        Those that the plan has and that are not listed keep theirs.

        :returns: None if they do not all fit.
        """
        moving = sorted(wanted, key=lambda one: (one.spans, one.key))
        keys = {one.key for one in moving}
        found = Plan.of(
            (key, self._spans[key], slots)
            for key, slots in self.bound.items()
            if key not in keys
        )
        for one in moving:
            chosen = found.find(one, free_from)
            if chosen is None:
                return None
            found.bind(one.key, one.spans, chosen)
        return found

    def next_start_s(
        self,
        wanted: Wanted,
        free_from: abc.Mapping[model.SlotId, float],
        latest_s: float,
    ) -> float | None:
        """Return the earliest start at which a reservation fits beside all.

        :param latest_s: the latest start.
        :returns: None if there is none, or it takes too long to find.
        """
        first_s = wanted.spans[0].start_s
        if len(wanted.fitting) < wanted.slots:
            return None
        frees = {free_from[id_] for id_ in wanted.fitting if id_ in free_from}
        ends = {
            span.end_s
            for key, slots in self.bound.items()
            if not wanted.fitting.isdisjoint(slots)
            for span in self._spans[key]
        }
        in_order = sorted(ends)
        starts = heapq.merge(
            sorted(frees),
            *(
                _starts(in_order, first_s, span.start_s - first_s)
                for span in wanted.spans
            ),
        )
        cost = len(wanted.fitting) * len(wanted.spans)
        probes = max(_MOST_PROBES // max(cost, 1), 1)
        last_s = first_s
        for start_s in itertools.islice(starts, _MOST_PROBES):
            if start_s > latest_s:
                break
            if start_s <= last_s:
                continue
            if self.find(wanted.later(start_s - first_s), free_from):
                return start_s
            last_s = start_s
            probes -= 1
            if not probes:
                break
        return None

    def next_of(self, slot_id: model.SlotId, now: float) -> _Mark | None:
        """Return a slot's present or next promise: start, end, reservation."""
        taken = self._taken.get(slot_id, ())
        # Promises of a slot do not overlap, so the first ends first.
        place = bisect.bisect_right(taken, now, key=lambda one: one[1])
        return taken[place] if place < len(taken) else None


def _marks(key: str, spans: tuple[times.Span, ...]) -> set[_Mark]:
    return {(span.start_s, span.end_s, key) for span in spans}


def _starts(
    ends: abc.Sequence[float], first_s: float, delay_s: float
) -> abc.Iterator[float]:
    """Yield the starts after the first one at which a span begins at an end.

    :param ends: the ends of promises, in order.
    :param delay_s: how long after the start the span begins.
    """
    place = bisect.bisect_right(ends, first_s + delay_s)
    return (end_s - delay_s for end_s in itertools.islice(ends, place, None))
