# SPDX-License-Identifier: Apache-2.0

"""Gives the reservations of a scenario their slots, as a pool would."""

from __future__ import annotations

import typing
from collections.abc import Sequence

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.calendar import plan as plans
from fpgapool.core.calendar import promises
from fpgapool.core.calendar import spans
from fpgapool.sim import errors
from fpgapool.sim.engines import base
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.vocabulary import reservation


class Change(typing.NamedTuple):
    """The slots that are reserved from a time on."""

    time_s: float
    event: events.CalendarChanged


def changes(
    scenario: scenarios.Scenario, slots: Sequence[base.Slot], source: str
) -> list[Change]:
    """Return what is reserved when, latest first.

    :param slots: the slots that jobs may have.
    :raises errors.InputError: if a reservation does not fit beside those that
        precede it in the scenario.
    """
    plan, admitted = plans.Plan(), list[plans.Wanted]()
    for at, wanted in enumerate(scenario.reservations):
        one = plans.Wanted(
            str(at), _spans(wanted), wanted.slots, _fitting(wanted, slots)
        )
        found = plan.find(one, {})
        if found is not None:
            plan.bind(one.key, one.spans, found)
        else:
            rearranged = plan.rearranged([*admitted, one], {})
            if rearranged is None:
                raise _refused(plan, one, at, source)
            plan = rearranged
        admitted.append(one)
    return _timeline(scenario.reservations, admitted, plan)


def _spans(wanted: scenarios.Reservation) -> tuple[spans.Span, ...]:
    first = spans.Span(wanted.start_s, wanted.end_s)
    return spans.occurrences(first, wanted.repeat, wanted.times)


def _fitting(
    wanted: scenarios.Reservation, slots: Sequence[base.Slot]
) -> frozenset[model.SlotId]:
    return frozenset(
        slot.number
        for slot in slots
        if not wanted.hosts or slot.host in wanted.hosts
    )


def _refused(
    plan: plans.Plan, wanted: plans.Wanted, at: int, source: str
) -> errors.InputError:
    latest_s = wanted.spans[0].start_s + reservation.HORIZON_S
    next_s = plan.next_start_s(wanted, {}, latest_s)
    later = "" if next_s is None else f"; it fits from {next_s:g} s on"
    return errors.InputError(
        source,
        f"reservations[{at}]",
        f"fewer than {wanted.slots} slots are left at that time{later}",
    )


def _timeline(
    reservations: Sequence[scenarios.Reservation],
    admitted: Sequence[plans.Wanted],
    plan: plans.Plan,
) -> list[Change]:
    owners: dict[model.SlotId, str] = {}
    marks: list[tuple[float, bool, model.SlotId, str]] = []
    for one, wanted in zip(admitted, reservations, strict=True):
        owner = promises.owner_of(wanted.project, wanted.accelerator)
        for slot_id in plan.bound[one.key]:
            for span in one.spans:
                marks.append((span.start_s, True, slot_id, owner))
                marks.append((span.end_s, False, slot_id, owner))
    found: list[Change] = []
    # At one time, ends precede starts.
    for time_s, begins, slot_id, owner in sorted(marks):
        if begins:
            owners[slot_id] = owner
        else:
            del owners[slot_id]
        event = events.CalendarChanged(tuple(sorted(owners.items())))
        if found and found[-1].time_s == time_s:
            found.pop()
        found.append(Change(time_s, event))
    return found[::-1]
