# SPDX-License-Identifier: Apache-2.0

"""What is taken out of use for its failures, and how it comes back."""

import itertools
from collections.abc import Callable

import pytest

from fpgapool.core import health
from fpgapool.vocabulary import codes

REASON = codes.PROGRAM_FAILED
PLACE = health.Place(host_id=1, device_id=2, slot_id=3, accelerator="aes")
ACCELERATOR, SLOT, DEVICE = PLACE.units()
OPTIONS = health.HealthOptions(first_s=10.0, max_s=35.0)


def place(slot_id: int = 3, accelerator: str = "aes") -> health.Place:
    return health.Place(1, 2, slot_id, accelerator)


def taken(found: list[health.Instruction]) -> list[health.Unit]:
    return [one.fault.unit for one in found if type(one) is health.TakeOut]


def due(
    one: health.Health, now: float, can_test: Callable[[health.Unit], bool]
) -> list[health.Instruction]:
    return list(one.due(now, can_test))


def always(unit: health.Unit) -> bool:
    return True


def test_what_is_taken_out_grows() -> None:
    one = health.Health(OPTIONS)
    found = [taken(one.failed(PLACE, REASON, 0.0)) for _ in range(7)]
    assert found == [[], [ACCELERATOR], [SLOT], [], [], [DEVICE], []]
    assert [fault.failures for fault in one.faults.values()] == [2, 3, 6]


def test_a_slot_fails_with_any_accelerator_and_a_device_in_any_slot() -> None:
    one = health.Health(OPTIONS)
    found = [
        taken(one.failed(place(slot_id, name), REASON, 0.0))
        for slot_id in (3, 4)
        for name in ("aes", "fft", "sha")
    ]
    other = health.Unit(health.Level.SLOT, 4)
    assert found == [[], [], [SLOT], [], [], [other, DEVICE]]


def test_an_accelerator_that_fails_everywhere_takes_nothing_along() -> None:
    one = health.Health(OPTIONS)
    found = [
        taken(one.failed(place(number % 2), REASON, 0.0))
        for number in range(9)
    ]
    # Before it was out, the slots were suspected as well.
    assert list(itertools.chain(*found)) == [ACCELERATOR]
    # Of another one that fails they are.
    other = place(0, "fft").units()[0]
    found = [taken(one.failed(place(0, "fft"), REASON, 0.0)) for _ in range(2)]
    assert found == [[health.Unit(health.Level.SLOT, 0)], [other]]


def test_an_accelerator_that_fails_on_all_hosts_takes_nothing_along() -> None:
    one = health.Health(OPTIONS)
    found = [
        taken(
            one.failed(health.Place(n % 2, n % 2, n % 2, "aes"), REASON, 0.0)
        )
        for n in range(12)
    ]
    assert list(itertools.chain(*found)) == [
        health.Unit(health.Level.ACCELERATOR, host_id, "aes")
        for host_id in range(2)
    ]


def test_what_is_spared_is_not_counted() -> None:
    one = health.Health(OPTIONS)
    one.failed(PLACE, REASON, 0.0, spares_device=True)
    assert (one.failures(SLOT), one.failures(DEVICE)) == (1, 0)


def test_success_ends_all_rows() -> None:
    one = health.Health(OPTIONS)
    for _ in range(4):
        assert not one.failed(PLACE, REASON, 0.0)
        one.succeeded(PLACE)
    assert one.failures(SLOT) == one.failures(DEVICE) == 0


def test_another_accelerators_success_leaves_this_ones_count() -> None:
    one = health.Health(OPTIONS)
    one.failed(PLACE, REASON, 0.0)
    one.succeeded(place(accelerator="fft"))
    assert taken(one.failed(PLACE, REASON, 0.0)) == [ACCELERATOR]
    assert one.failures(SLOT) == 1


def test_tests_that_fail_come_ever_later() -> None:
    one = health.Health(OPTIONS)
    one.take_out(SLOT, REASON, 0.0)
    now, waits = 0.0, []
    for _ in range(4):
        due_at = one.faults[SLOT].next_test_at
        assert due_at is not None
        assert not due(one, due_at - 0.1, always)
        assert due(one, due_at, always) == [health.TestUnit(one.faults[SLOT])]
        assert one.faults[SLOT].is_tested
        assert not due(one, due_at, always)
        assert one.tested(PLACE, SLOT, "wrong result", due_at) == []
        waits.append(due_at - now)
        now = due_at
    assert waits == [10.0, 20.0, 35.0, 35.0]
    fault = one.faults[SLOT]
    assert (fault.tests, fault.last_test, fault.last_test_at) == (
        4,
        "wrong result",
        now,
    )


def test_a_test_that_is_passed_brings_back() -> None:
    one = health.Health(OPTIONS)
    for _ in range(3):
        one.failed(PLACE, REASON, 0.0)
    due(one, 10.0, lambda unit: unit == SLOT)
    assert one.tested(PLACE, SLOT, "", 11.0) == [health.BringBack(SLOT)]
    assert list(one.faults) == [ACCELERATOR]
    assert one.failures(SLOT) == 0


def test_who_fails_again_goes_on_where_he_was() -> None:
    one = health.Health(OPTIONS)
    one.take_out(SLOT, REASON, 0.0)
    due(one, 10.0, always)
    one.tested(PLACE, SLOT, "", 10.0)
    one.take_out(SLOT, REASON, 10.0)
    assert one.faults[SLOT].next_test_at == 30.0
    due(one, 30.0, always)
    one.tested(PLACE, SLOT, "", 30.0)
    # Until some work is done.
    one.succeeded(PLACE)
    one.take_out(SLOT, REASON, 30.0)
    assert one.faults[SLOT].next_test_at == 40.0


def test_what_cannot_be_tested_now_stays_due() -> None:
    one = health.Health(OPTIONS)
    one.take_out(SLOT, REASON, 0.0)
    assert not due(one, 50.0, lambda unit: False)
    assert due(one, 50.0, always)


def test_what_is_crowded_out_comes_back_untested() -> None:
    one = health.Health(OPTIONS)
    for _ in range(2):
        one.failed(PLACE, REASON, 0.0)

    def never(unit: health.Unit) -> bool:
        return False

    assert not list(one.due(20.0, never, always))
    assert not list(one.due(99.0, never, never))
    found = list(one.due(20.1, never, always))
    assert found == [health.BringBack(ACCELERATOR)]
    assert not one.faults
    # If that was wrong it is out for longer.
    for _ in range(2):
        one.failed(PLACE, REASON, 30.0)
    assert one.faults[ACCELERATOR].next_test_at == 50.0


def test_a_test_begins_before_the_next_one_is_asked_for() -> None:
    one = health.Health(OPTIONS)
    one.take_out(SLOT, REASON, 0.0)
    one.take_out(DEVICE, REASON, 0.0)
    begun: list[health.Unit] = []
    # There is room for one.
    for test in one.due(10.0, lambda unit: not begun):
        assert type(test) is health.TestUnit
        begun.append(test.fault.unit)
    assert begun == [SLOT]
    assert not one.faults[DEVICE].is_tested


def test_a_test_that_did_not_take_place_comes_again() -> None:
    one = health.Health(OPTIONS)
    one.take_out(SLOT, REASON, 0.0)
    due(one, 10.0, always)
    one.postpone(SLOT, 10.0)
    assert one.faults[SLOT].next_test_at == 20.0
    assert one.faults[SLOT].tests == 0


def test_results_of_no_test_change_nothing() -> None:
    one = health.Health(OPTIONS)
    assert one.tested(PLACE, SLOT, "", 0.0) == []
    one.take_out(SLOT, REASON, 0.0)
    assert one.tested(PLACE, SLOT, "", 1.0) == []
    assert list(one.faults) == [SLOT]


def test_an_operator_forgives() -> None:
    one = health.Health(OPTIONS)
    for _ in range(6):
        one.failed(PLACE, REASON, 0.0)
    for unit in PLACE.units():
        assert one.forgive(unit) == [health.BringBack(unit)]
        assert one.forgive(unit) == []
    assert not one.failed(PLACE, REASON, 0.0)


def test_a_successor_tests_what_was_being_tested() -> None:
    one = health.Health(OPTIONS)
    one.take_out(SLOT, REASON, 0.0)
    due(one, 10.0, always)
    next_one = health.Health(OPTIONS, one.faults.values(), 12.0)
    assert due(next_one, 12.0, always) == [health.TestUnit(one.faults[SLOT])]


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot_limit": 0},
        {"device_limit": 0},
        {"accelerator_limit": 0},
        {"first_s": 0.0},
        {"first_s": 2.0, "max_s": 1.0},
        {"factor": 0.5},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        health.HealthOptions(**wrong)


def failed(one: health.Health, slot_id: int, **more: bool) -> list[str]:
    found = one.failed(
        place(slot_id), REASON, 0.0, **{"is_preparation": True} | more
    )
    return [unit.level.value for unit in taken(found)]


def test_slots_that_all_fail_an_accelerator_put_only_it_out() -> None:
    one = health.Health(OPTIONS)
    assert [failed(one, slot_id) for slot_id in range(12)] == [
        [],
        [],
        ["accelerator"],
        *[[]] * 9,
    ]
    one.forgive(ACCELERATOR)
    assert [failed(one, slot_id) for slot_id in range(3)][-1]


def test_success_in_any_slot_shows_that_the_accelerator_works() -> None:
    one = health.Health(OPTIONS)
    failed(one, 3)
    failed(one, 4)
    one.succeeded(place(5))
    assert not failed(one, 6)


def test_only_slots_that_were_never_ready_count_for_each_other() -> None:
    one = health.Health(OPTIONS)
    for slot_id in range(5):
        assert not failed(one, slot_id, is_preparation=False)
    one = health.Health(OPTIONS)
    for slot_id in range(9):
        # Their workers died at once.
        assert not failed(one, slot_id, spares_device=True)


def test_a_slot_that_an_operator_has_mended_does_not_count() -> None:
    one = health.Health(OPTIONS)
    failed(one, 3)
    failed(one, 4)
    one.forgive(health.Unit(health.Level.SLOT, 4))
    assert not failed(one, 5)
    assert failed(one, 6)


def test_an_accelerator_fails_by_shape() -> None:
    """A host's slots of another shape have another implementation."""
    one = health.Health(health.HealthOptions())
    small = health.Place(1, 2, 3, "aes", "small")
    large = health.Place(1, 4, 5, "aes", "large")
    one.failed(small, REASON, 0.0)
    one.failed(large, REASON, 0.0)
    found = one.failed(small, REASON, 0.0)
    assert taken(found) == [
        health.Unit(health.Level.ACCELERATOR, 1, "aes", "small")
    ]
    assert taken(one.failed(large, REASON, 0.0)) == [
        health.Unit(health.Level.ACCELERATOR, 1, "aes", "large")
    ]
