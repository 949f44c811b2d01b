# SPDX-License-Identifier: Apache-2.0

"""Max-min fair rates: worked examples."""

import math

import pytest

from fpgapool.drivers.emulator import fairness


def one_link(capacity: float, caps: list[float]) -> list[float]:
    return fairness.max_min_rates(caps, [[(0, 1.0)]] * len(caps), [capacity])


def test_a_small_flow_leaves_its_share_to_the_others() -> None:
    rates = one_link(10.0, [1.0, 20.0, 20.0])
    assert rates == pytest.approx([1.0, 4.5, 4.5])


def test_an_unlimited_link_gives_everybody_the_cap() -> None:
    assert one_link(math.inf, [1.0, 2.0]) == [1.0, 2.0]


def test_rates_are_joint_over_all_resources() -> None:
    # The first flow is held by the second link; the first link gives what
    # it leaves to the others.
    rates = fairness.max_min_rates(
        [math.inf] * 4,
        [[(0, 1.0), (1, 1.0)], [(0, 1.0)], [(1, 1.0)], [(1, 1.0)]],
        [9.0, 6.0],
    )
    assert rates == pytest.approx([2.0, 7.0, 2.0, 2.0])


def test_what_travels_back_costs_its_share() -> None:
    rates = fairness.max_min_rates(
        [10.0, 10.0], [[(0, 1.0)], [(0, 0.5)]], [6.0]
    )
    assert rates == pytest.approx([4.0, 4.0])


def test_no_flows() -> None:
    assert fairness.max_min_rates([], [], [1.0]) == []
    assert one_link(1.0, []) == []
