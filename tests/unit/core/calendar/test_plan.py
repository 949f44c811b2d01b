# SPDX-License-Identifier: Apache-2.0

"""Which reservations fit beside each other."""

import random
from collections.abc import Iterator

import pytest

from fpgapool.core.calendar import plan as plans
from fpgapool.core.calendar import spans

SLOTS = frozenset(range(4))


def want(
    key: str, start_s: float, end_s: float, count: int = 1, **more: object
) -> plans.Wanted:
    fitting = more.pop("fitting", SLOTS)
    assert isinstance(fitting, frozenset)
    first = spans.Span(start_s, end_s)
    times = spans.occurrences(
        first, **({"repeat": "never", "times": 1} | more)
    )
    return plans.Wanted(key, times, count, fitting)


def admit(plan: plans.Plan, wanted: plans.Wanted) -> bool:
    found = plan.find(wanted, {})
    if found is not None:
        plan.bind(wanted.key, wanted.spans, found)
    return found is not None


def test_recurring_ones_have_all_their_spans() -> None:
    day_s = 86400.0
    assert want("a", 10.0, 20.0, repeat="day", times=3).spans == (
        (10.0, 20.0),
        (10.0 + day_s, 20.0 + day_s),
        (10.0 + 2 * day_s, 20.0 + 2 * day_s),
    )


def test_only_what_fits_is_promised() -> None:
    plan = plans.Plan()
    assert admit(plan, want("a", 10.0, 20.0, 3))
    assert not admit(plan, want("b", 15.0, 30.0, 2))
    # An end is no part of a span.
    assert admit(plan, want("c", 20.0, 30.0, 4))
    assert admit(plan, want("d", 0.0, 20.0, 1))
    assert not admit(plan, want("e", 19.0, 21.0, 1))
    assert not admit(plan, want("f", 40.0, 50.0, 5))
    plan.forget("c")
    assert admit(plan, want("g", 20.0, 30.0, 4))


def test_each_span_of_a_recurring_one_must_fit() -> None:
    plan = plans.Plan()
    later = 86400.0
    assert admit(plan, want("a", later + 5.0, later + 15.0, 4))
    wanted = want("b", 0.0, 10.0, 1, repeat="day", times=2)
    assert not admit(plan, wanted)
    assert admit(plan, want("c", 0.0, 10.0, 1))
    assert plan.next_start_s(wanted, {}, 1e6) == 15.0


def test_holders_that_stay_count() -> None:
    plan = plans.Plan()
    staying = {0: 50.0, 1: 70.0}
    wanted = want("a", 10.0, 20.0, 3)
    assert plan.find(wanted, staying) is None
    assert plan.next_start_s(wanted, staying, 1e6) == 50.0
    assert plan.next_start_s(wanted, staying, 40.0) is None
    assert plan.find(wanted.later(40.0), staying) == (0, 2, 3)


def test_the_next_time_is_the_first_that_fits() -> None:
    plan = plans.Plan()
    assert admit(plan, want("a", 10.0, 20.0, 4))
    assert admit(plan, want("b", 25.0, 40.0, 2))
    assert plan.next_start_s(want("c", 12.0, 16.0, 4), {}, 1e6) == 20.0
    assert plan.next_start_s(want("c", 12.0, 18.0, 4), {}, 1e6) == 40.0
    assert plan.next_start_s(want("c", 12.0, 18.0, 2), {}, 1e6) == 20.0
    assert plan.next_start_s(want("c", 12.0, 18.0, 5), {}, 1e6) is None


def test_promises_move_to_other_slots_for_a_new_one() -> None:
    plan = plans.Plan()
    early = want("early", 0.0, 10.0)
    late = want("late", 20.0, 30.0)
    plan.bind("early", early.spans, (0,))
    plan.bind("late", late.spans, (1,))
    pair = frozenset({0, 1})
    whole = want("whole", 5.0, 25.0, 1, fitting=pair)
    assert plan.find(whole, {}) is None
    moving = [late._replace(fitting=pair), whole]
    found = plan.rearranged(moving, {})
    assert found is not None
    assert found.bound == {"early": (0,), "late": (0,), "whole": (1,)}
    assert plan.rearranged([*moving, want("x", 0.0, 30.0, 3)], {}) is None
    # The plan itself has not changed.
    assert plan.bound == {"early": (0,), "late": (1,)}


class _Counted(tuple[spans.Span, ...]):
    """Counts the spans that are looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[spans.Span]:
        for one in super().__iter__():
            self.looked_at += 1
            yield one


def test_the_next_start_is_sought_with_bounded_work() -> None:
    """A full calendar, and a request that fits nowhere in it."""
    plan = plans.Plan()
    for number in range(100):
        start_s = 720.0 * number
        first = spans.Span(start_s, start_s + 360.0)
        plan.bind(str(number), spans.occurrences(first, "day", 100), range(8))
    day = spans.Span(0.0, 86399.0)
    counted = _Counted(spans.occurrences(day, "day", 100))
    wanted = plans.Wanted("whole days", counted, 1, frozenset(range(8)))
    assert plan.find(wanted, {}) is None
    latest_s = 200 * 86400.0
    found = plan.next_start_s(wanted, {}, latest_s)
    assert found is None or plan.find(wanted.later(found), {})
    # The plan has 80,000 promises, for each of 100 spans.
    assert counted.looked_at < 1_000_000


def test_the_present_and_next_promise_of_a_slot() -> None:
    plan = plans.Plan()
    assert plan.next_of(0, 0.0) is None
    plan.bind("a", (spans.Span(10.0, 20.0), spans.Span(30.0, 40.0)), (0,))
    assert plan.next_of(0, 0.0) == (10.0, 20.0, "a")
    assert plan.next_of(0, 19.0) == (10.0, 20.0, "a")
    assert plan.next_of(0, 20.0) == (30.0, 40.0, "a")
    assert plan.next_of(0, 40.0) is None


@pytest.mark.parametrize("seed", range(8))
def test_no_slot_is_promised_twice(seed: int) -> None:
    draw = random.Random(seed)
    plan, wants = plans.Plan(), {}
    for number in range(120):
        key = str(number)
        start_s = draw.uniform(0.0, 1000.0)
        fitting = frozenset(draw.sample(range(6), draw.randint(1, 6)))
        wanted = want(
            key,
            start_s,
            start_s + draw.uniform(1.0, 60.0),
            draw.randint(1, 3),
            fitting=fitting,
        )
        if wants and draw.random() < 0.2:
            gone = draw.choice(sorted(wants))
            plan.forget(gone)
            del wants[gone]
        if admit(plan, wanted):
            wants[key] = wanted
        else:
            next_s = plan.next_start_s(wanted, {}, 1e9)
            if len(fitting) >= wanted.slots:
                assert next_s is not None
                assert next_s > start_s
                assert plan.find(wanted.later(next_s - start_s), {})
            else:
                assert next_s is None
            found = plan.rearranged([*wants.values(), wanted], {})
            if found is not None:
                plan, wants[key] = found, wanted
        _check(plan, wants)
    assert len(wants) > 20


@pytest.mark.parametrize("seed", range(8))
def test_however_it_is_made_a_plan_has_the_same_promises(seed: int) -> None:
    """At once, one by one, and by changes; against a list that is sorted."""
    draw = random.Random(seed)
    promised: dict[str, tuple[tuple[spans.Span, ...], tuple[int, ...]]] = {}
    changed = plans.Plan()
    for _ in range(150):
        key = str(draw.randrange(40))
        # Of one number, so that no two promises of a slot overlap.
        first = spans.Span(100.0 * int(key), 100.0 * int(key) + 60.0)
        times = draw.choice((1, 1, 2, 30))
        its_slots = tuple(draw.sample(range(6), draw.randint(0, 6)))
        if draw.random() < 0.2:
            changed.forget(key)
            promised.pop(key, None)
        elif key in promised and draw.random() < 0.5:
            # It goes on to its next time.
            old_spans, old_slots = promised[key]
            promised[key] = old_spans[1:], old_slots
            changed.bind(key, *promised[key])
        else:
            repeat = "day" if times > 1 else "never"
            promised[key] = spans.occurrences(first, repeat, times), its_slots
            changed.bind(key, *promised[key])
        at_once = plans.Plan.of((key, *one) for key, one in promised.items())
        for plan in changed, at_once:
            for slot_id in range(6):
                assert list(_promises(plan, slot_id)) == sorted(
                    (span.start_s, span.end_s, key)
                    for key, (its_spans, its_slots) in promised.items()
                    if slot_id in its_slots
                    for span in its_spans
                )
            assert plan.bound == {
                key: its_slots for key, (_, its_slots) in promised.items()
            }


def _promises(
    plan: plans.Plan, slot_id: int
) -> Iterator[tuple[float, float, str]]:
    found = plan.next_of(slot_id, -1.0)
    while found is not None:
        yield found
        found = plan.next_of(slot_id, found[1])


def _check(plan: plans.Plan, wants: dict[str, plans.Wanted]) -> None:
    assert plan.bound.keys() == wants.keys()
    for key, wanted in wants.items():
        assert len(set(plan.bound[key])) == wanted.slots
        assert wanted.fitting.issuperset(plan.bound[key])
        for other, its in wants.items():
            if other != key and set(plan.bound[key]) & set(plan.bound[other]):
                assert not any(
                    one.overlaps(two)
                    for one in wanted.spans
                    for two in its.spans
                )
