# SPDX-License-Identifier: Apache-2.0

"""Energy is shared out by the time for which slots are held."""

import pytest

from fpgapool.agent.host import energy

KEYS = [("b0", 0), ("b0", 1), ("b1", 0)]
FIRST, SECOND, OTHER = KEYS


@pytest.fixture
def meter() -> energy.Meter:
    return energy.Meter(KEYS)


def test_who_has_a_board_alone_has_all_of_its_power(meter):
    meter.set_power("b0", 20.0, 0.0)
    meter.set_holders({FIRST: 1}, 1.0)
    assert meter.energy_j(FIRST, 3.0) == pytest.approx(40.0)
    # While nobody has it, it is nobody's.
    meter.set_holders({}, 3.0)
    assert meter.energy_j(FIRST, 5.0) == pytest.approx(40.0)
    assert meter.energy_j(SECOND, 5.0) is None


def test_holders_share_a_board_but_not_another(meter):
    meter.set_power("b0", 20.0, 0.0)
    meter.set_power("b1", 5.0, 0.0)
    meter.set_holders({FIRST: 1, OTHER: 2}, 0.0)
    meter.set_holders({FIRST: 1, SECOND: 3, OTHER: 2}, 1.0)
    meter.set_power("b0", 30.0, 3.0)
    found = [meter.energy_j(key, 4.0) for key in KEYS]
    # Between the readings of 20 and 30 W, their mean.
    assert found == pytest.approx([25 + 25 + 15, 25 + 15, 20])


def test_a_new_holder_begins_at_nothing(meter):
    meter.set_power("b0", 20.0, 0.0)
    meter.set_holders({FIRST: 1}, 0.0)
    meter.set_holders({FIRST: 4}, 1.0)
    assert meter.energy_j(FIRST, 1.5) == pytest.approx(10.0)


def test_what_is_not_measured_is_not_0(meter):
    meter.set_holders({FIRST: 1}, 0.0)
    assert meter.energy_j(FIRST, 1.0) is None
    meter.set_power("b0", None, 1.0)
    assert meter.energy_j(FIRST, 2.0) is None
    # From the first reading on.
    meter.set_power("b0", 10.0, 2.0)
    assert meter.energy_j(FIRST, 3.0) == pytest.approx(10.0)


def test_a_reading_does_not_count_for_ever(meter):
    meter.set_power("b0", 10.0, 0.0)
    meter.set_holders({FIRST: 1}, 0.0)
    assert meter.energy_j(FIRST, 1000.0) == pytest.approx(100.0)
    assert meter.energy_j(FIRST, 2000.0) == pytest.approx(100.0)


def test_a_former_holder_does_not_change_with_later_readings(meter):
    meter.set_power("b0", 20.0, 0.0)
    meter.set_holders({FIRST: 1, SECOND: 2}, 0.0)
    meter.set_holders({SECOND: 2}, 1.0)
    meter.set_power("b0", 40.0, 2.0)
    assert meter.energy_j(FIRST, 3.0) == pytest.approx(10)
    assert meter.energy_j(SECOND, 3.0) == pytest.approx(15 + 30 + 40)


def test_the_power_counts_until_a_reading_fails(meter):
    meter.set_power("b0", 20.0, 0.0)
    meter.set_holders({FIRST: 1}, 0.0)
    meter.set_power("b0", None, 1.0)
    assert meter.energy_j(FIRST, 3.0) == pytest.approx(20)


def test_a_clock_that_stands_still_adds_nothing(meter):
    meter.set_power("b0", 10.0, 5.0)
    meter.set_holders({FIRST: 1}, 5.0)
    meter.set_power("b0", 10.0, 4.0)
    assert meter.energy_j(FIRST, 5.0) is None
