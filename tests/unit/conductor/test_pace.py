# SPDX-License-Identifier: Apache-2.0

"""How long who waits will probably have to."""

import pytest

from fpgapool.conductor.decisions.requests import expected_waits


def paced(*given: tuple[float, float]) -> expected_waits.Pace:
    made = expected_waits.Pace()
    for waited_s, now in given:
        made.note(waited_s, now)
    return made


def test_as_many_as_lately_in_as_long() -> None:
    made = paced(*((1.0, float(now)) for now in range(10)))
    assert made.expected_wait_s(0, 10.0) == pytest.approx(1.0)
    assert made.expected_wait_s(19, 10.0) == pytest.approx(20.0)


def test_a_queue_that_stands_still_is_waited_for_longer() -> None:
    made = paced(*((1.0, float(now)) for now in range(10)))
    assert made.expected_wait_s(0, 100.0) == pytest.approx(10.0)


def test_too_little_is_known() -> None:
    assert expected_waits.Pace().expected_wait_s(0, 1.0) is None
    assert paced((1.0, 0.0)).expected_wait_s(0, 1.0) is None


def test_idle_slots_say_nothing_of_a_queue() -> None:
    made = paced(*((1.0, float(now)) for now in range(10)), (0.0, 11.0))
    assert made.expected_wait_s(0, 12.0) is None


def test_what_was_long_ago_is_forgotten() -> None:
    slow = [(1.0, 10.0 * now) for now in range(100)]
    fast = [(1.0, 1000.0 + 0.1 * now) for now in range(100)]
    made = paced(*slow, *fast)
    assert made.expected_wait_s(9, 1010.0) == pytest.approx(1.0)
