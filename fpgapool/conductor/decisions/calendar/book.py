# SPDX-License-Identifier: Apache-2.0

"""All reservations by calendar, their slots, and whether another one fits."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import events
from fpgapool.core.calendar import plan as plans
from fpgapool.core.calendar import promises
from fpgapool.core.calendar import spans as times
from fpgapool.db import api as db_api
from fpgapool.db import calendar as stored
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation

#: Others are taken from a slot so long before it is needed. Who cannot move
#: has to end by then.
AHEAD_S = 10.0
# So late a start may still come.
_LATE_S = 60.0
# With more spans, promises do not move to other slots for a new one.
_MOVABLE_SPANS = 2000
# So many that are over are kept.
_MOST_OVER = 1000

# What its slots depend on, besides their number and its times.
_PLACED_BY = ("accelerator", "repeat", "host_uuids", "device_id")

#: States in which its slots are the owner's.
_RUNNING = (reservation.ACTIVE, reservation.FAILED)


def spans_of(entry: stored.Reservation) -> tuple[times.Span, ...]:
    """Return the present and later spans; none if the reservation is over."""
    if entry.is_over:
        return ()
    first = times.Span(entry.start_s, entry.end_s)
    return times.occurrences(first, entry.repeat, entry.times)


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """Who makes a reservation."""

    project_id: str
    user_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    """The slots of the pool, as they are now.

    :ivar free_from: when the holders of slots will have left that nobody can
        take them from; other slots are free at once.
    :ivar ends_within_s: such holders leave after so many seconds; infinite:
        nobody knows when.
    """

    free_from: Mapping[int, float]
    ends_within_s: float


class Calendar:
    """The reservations of the pool.

    :ivar entries: the reservations by id, also those that are over.
    """

    def __init__(
        self, records: Iterable[db_api.ReservationRecord] = ()
    ) -> None:
        rows = [one for one in records if stored.is_of_calendar(one)]
        self._numbers = stored.Numbers(rows)
        self.entries: dict[str, stored.Reservation] = {
            entry.id: entry
            for one in rows
            if (entry := stored.read(one)) is not None
        }
        self.plan = plans.Plan.of(
            (one.id, spans_of(one), one.bound) for one in self.live()
        )

    def _bind(self, entry: stored.Reservation) -> None:
        if entry.is_over:
            self.plan.forget(entry.id)
        else:
            self.plan.bind(entry.id, spans_of(entry), entry.bound)

    def live(self) -> list[stored.Reservation]:
        """Return the reservations that are not over."""
        return [one for one in self.entries.values() if not one.is_over]

    # -- changes -----------------------------------------------------------

    def new(
        self,
        reservation_id: str,
        owner: Owner,
        wanted: Mapping[str, Any],
        now: float,
    ) -> stored.Reservation:
        """Return a new reservation, which has no slots yet."""
        return stored.Reservation(
            number=0,
            id=reservation_id,
            project_id=owner.project_id,
            user_id=owner.user_id,
            created_at=now,
            **_members(wanted),
        )

    def changed(
        self, entry: stored.Reservation, wanted: Mapping[str, Any]
    ) -> stored.Reservation:
        """Return a reservation with what its owner wants now."""
        return dataclasses.replace(entry, **_members(wanted))

    def admit(
        self,
        entry: stored.Reservation,
        fitting: Callable[[stored.Reservation], frozenset[int]],
        slots: Slots,
        now: float,
    ) -> list[stored.Reservation]:
        """Give a new or changed reservation its slots.

        :param fitting: returns the slots that a reservation may have that has
            not begun, or that is this one.
        :returns: the reservations that have changed, this one included.
        :raises Rejected: if it does not fit; nothing has changed then.
        """
        self._check_time(entry, now)
        former = self.entries.get(entry.id)
        if former is not None:
            self.plan.forget(entry.id)
        try:
            # Slots that do not work now are no reason against having less.
            if former is not None and _keeps_slots(entry, former):
                changed = [entry]
            else:
                changed = self._placed(entry, fitting, slots)
            for one in changed:
                _check_size(one)
        except admission.Rejected:
            if former is not None:
                self._bind(former)
            raise
        if not entry.number:
            entry.number = self._numbers.take()
        for one in changed:
            self.entries[one.id] = one
            self._bind(one)
        return changed

    def _check_time(self, entry: stored.Reservation, now: float) -> None:
        former = self.entries.get(entry.id)
        moved = former is None or former.start_s != entry.start_s
        if moved and entry.start_s < now - _LATE_S:
            raise _invalid(
                "the reservation starts in the past; without a start, it"
                " begins now"
            )
        last = spans_of(entry)[-1]
        if last.end_s <= now:
            raise _invalid("the reservation ends in the past")
        if last.end_s > now + reservation.HORIZON_S:
            days = reservation.HORIZON_S / 86400
            raise _invalid(
                f"the reservation may end {days:g} days ahead at most, also"
                " the last time"
            )
        others = sum(one.times for one in self.live() if one.id != entry.id)
        more = former is None or entry.times > former.times
        if more and others + entry.times > reservation.MAX_SPANS:
            raise admission.Rejected(
                codes.TOO_MANY_RESERVATIONS,
                f"the pool keeps {reservation.MAX_SPANS} times of reservations"
                " at most; try again when others have ended",
            )

    def _placed(
        self,
        entry: stored.Reservation,
        fitting: Callable[[stored.Reservation], frozenset[int]],
        slots: Slots,
    ) -> list[stored.Reservation]:
        wanted = _wanted(entry, fitting(entry))
        if len(wanted.fitting) < entry.slots:
            raise admission.Rejected(
                codes.RESERVATION_CONFLICT,
                f"the reservation wants {entry.slots} slots, and"
                f" {len(wanted.fitting)} working slots of the pool fit",
            )
        found = self.plan.find(wanted, slots.free_from, entry.bound)
        if found is not None:
            entry.bound = found
            return [entry]
        moving = [
            one
            for one in self.live()
            if one.id != entry.id and one.state == reservation.SCHEDULED
        ]
        spans = sum(one.times for one in (*moving, entry))
        arranged = None
        if spans <= _MOVABLE_SPANS and entry.state not in _RUNNING:
            arranged = self.plan.rearranged(
                [wanted, *(_wanted(one, fitting(one)) for one in moving)],
                slots.free_from,
            )
        if arranged is None:
            raise self._conflict(wanted, slots)
        entry.bound = arranged.bound[entry.id]
        return [
            entry,
            *(
                dataclasses.replace(one, bound=arranged.bound[one.id])
                for one in moving
                if set(one.bound) != set(arranged.bound[one.id])
            ),
        ]

    def _conflict(
        self, wanted: plans.Wanted, slots: Slots
    ) -> admission.Rejected:
        first_s, last_s = wanted.spans[0].start_s, wanted.spans[-1].end_s
        next_s = self.plan.next_start_s(
            wanted,
            slots.free_from,
            first_s + reservation.HORIZON_S - (last_s - first_s),
        )
        text = "no later time fits, either"
        if next_s is not None:
            # Times are whole seconds in answers.
            text = f"it fits when it starts at {moment_of(math.ceil(next_s))}"
        return admission.Rejected(
            codes.RESERVATION_CONFLICT,
            f"fewer than {wanted.slots} slots that fit are left at that time;"
            f" {text}",
        )

    def move(
        self,
        entry: stored.Reservation,
        works: frozenset[int],
        fitting: frozenset[int],
        slots: Slots,
        now: float,
    ) -> bool:
        """Replace slots that do not work; return whether any was."""
        bound = list(entry.bound)
        spans = tuple(
            span._replace(start_s=max(span.start_s, now))
            for span in spans_of(entry)
        )
        for place, slot_id in enumerate(bound):
            if slot_id in works:
                continue
            other = self.plan.find(
                plans.Wanted(entry.id, spans, 1, fitting - frozenset(bound)),
                slots.free_from,
            )
            if other is None:
                break
            bound[place] = other[0]
        if tuple(bound) == entry.bound:
            return False
        entry.bound = tuple(bound)
        self._bind(entry)
        return True

    def begin_next(self, entry: stored.Reservation) -> None:
        """Go on to the next time of a reservation that recurs."""
        period_s = reservation.PERIODS_S[entry.repeat]
        entry.start_s += period_s
        entry.end_s += period_s
        entry.times -= 1
        entry.used_at = 0.0
        self._bind(entry)

    def end(self, entry: stored.Reservation, now: float) -> None:
        """End a reservation for good; it is kept for a while."""
        entry.state, entry.over_at = reservation.ENDED, now
        self._bind(entry)

    def remove(self, entry: stored.Reservation) -> None:
        """Forget a reservation."""
        self.plan.forget(entry.id)
        del self.entries[entry.id]
        self._numbers.give_back(entry.number)

    def outdated(self, now: float) -> list[stored.Reservation]:
        """Return those that are over and need not be kept any longer.

        If there are too many, the project that has most loses its oldest.
        """
        over = sorted(
            (one for one in self.entries.values() if one.is_over),
            key=lambda one: one.over_at,
        )
        found = [
            one for one in over if one.over_at + reservation.KEPT_S <= now
        ]
        kept = over[len(found) :]
        of_projects: dict[str, collections.deque[stored.Reservation]] = {}
        for one in kept:
            of_projects.setdefault(one.project_id, collections.deque()).append(
                one
            )
        for _ in range(len(kept) - _MOST_OVER):
            found.append(max(of_projects.values(), key=len).popleft())
        return found

    # -- what it means for slots -------------------------------------------

    def event(self, slots: Slots, now: float) -> events.CalendarChanged:
        """Return what is reserved now and soon, for the core."""
        owners: dict[int, str] = {}
        until_s: dict[int, float] = {}
        for slot_id in self._promised():
            for start_s, _, entry in self._promises_of(slot_id, now):
                taken_s = start_s - AHEAD_S
                if taken_s <= now and slot_id not in owners:
                    owners[slot_id] = promises.owner_of(
                        entry.project_id, entry.accelerator
                    )
                    continue
                if taken_s - slots.ends_within_s <= now:
                    until_s[slot_id] = taken_s
                break
        return events.CalendarChanged(
            tuple(sorted(owners.items())), tuple(sorted(until_s.items()))
        )

    def _promised(self) -> set[int]:
        return {
            slot_id for bound in self.plan.bound.values() for slot_id in bound
        }

    def _promises_of(
        self, slot_id: int, now: float
    ) -> Iterator[tuple[float, float, stored.Reservation]]:
        """Yield the present and later promises of a slot, in order."""
        found = self.plan.next_of(slot_id, now)
        while found is not None:
            start_s, end_s, key = found
            entry = self.entries[key]
            # What was released is not its owner's until the next time.
            if not (
                entry.state == reservation.RELEASED
                and start_s == entry.start_s
            ):
                yield start_s, end_s, entry
            found = self.plan.next_of(slot_id, end_s)


def _wanted(
    entry: stored.Reservation, fitting: frozenset[int]
) -> plans.Wanted:
    return plans.Wanted(entry.id, spans_of(entry), entry.slots, fitting)


def asks_more(entry: stored.Reservation, former: stored.Reservation) -> bool:
    """Return whether a change asks for anything that it has not had."""
    return (
        entry.slots > former.slots
        or entry.times > former.times
        or entry.start_s < former.start_s
        or entry.end_s > former.end_s
        or any(
            getattr(entry, name) != getattr(former, name)
            for name in _PLACED_BY
        )
    )


def _keeps_slots(
    entry: stored.Reservation, former: stored.Reservation
) -> bool:
    """Return whether a change leaves a reservation the slots that it has."""
    return (
        entry.slots == former.slots
        and entry.start_s == former.start_s
        and not asks_more(entry, former)
    )


def _check_size(entry: stored.Reservation) -> None:
    size_bytes = stored.size_bytes(entry)
    if size_bytes > stored.MAX_BYTES:
        raise _invalid(
            f"its row would have {size_bytes} bytes, more than the"
            f" {stored.MAX_BYTES} that fit; reserve fewer slots at once, or"
            " name fewer hosts"
        )


def _members(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **wanted,
        "name": wanted["name"] or "",
        "device_id": wanted["device_id"] or "",
        "host_uuids": tuple(wanted["host_uuids"]),
    }


def _invalid(reason: str) -> admission.Rejected:
    return admission.Rejected(codes.INVALID_RESERVATION, reason)


def moment_of(time_s: float) -> str:
    """Return a time in seconds as text, in UTC."""
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat().replace("+00:00", "Z")
