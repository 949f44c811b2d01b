# SPDX-License-Identifier: Apache-2.0

"""What ended and what still waits teach how wrong estimates are."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from fpgapool.conductor.decisions.requests import wait_history

_POINTS = st.lists(
    st.tuples(
        st.floats(0.0, 1e3),
        st.floats(1e-3, 1.0),
        st.booleans(),
    ),
    min_size=1,
    max_size=50,
)


def watched(
    calibration: wait_history.Calibration, expected_s: float = 100.0
) -> wait_history.Estimate:
    """Follow a new session that was told an estimate at time 0."""
    estimate = wait_history.Estimate(0.0, 100.0, 3, expected_s, 100.0)
    calibration.watch(estimate)
    return estimate


def calibrated(
    *waits_s: float, waiting: int = 0, cancelled: int = 0
) -> wait_history.Calibration:
    """Return what has seen these waits, others that still wait, and others
    that were cancelled after 1 s.
    """
    calibration = wait_history.Calibration()
    for wait_s in waits_s:
        calibration.close(watched(calibration), wait_s, served=True)
    for _ in range(waiting):
        watched(calibration)
    for _ in range(cancelled):
        calibration.close(watched(calibration), 1.0, served=False)
    return calibration


@hypothesis.given(_POINTS)
def test_chances_are_those_of_all_waits(points) -> None:
    chances = wait_history._chances(points)
    ratios = [ratio for ratio, _ in chances]
    assert ratios == sorted(ratios)
    assert sum(chance for _, chance in chances) == pytest.approx(1.0)
    assert min(chance for _, chance in chances) >= -1e-9


def test_final_waits_count_by_their_weights() -> None:
    points = [(2.0, 3.0, True), (1.0, 1.0, True)]
    chances = wait_history._chances(points)
    assert chances[:2] == [(1.0, 0.25), (2.0, 0.75)]


def test_a_wait_that_lasts_is_one_of_the_longer_ones() -> None:
    points = [(float(n), 1.0, n != 2) for n in (1, 2, 3, 4)]
    chances = dict(wait_history._chances(points))
    assert chances[1.0] == pytest.approx(0.25)
    assert chances[3.0] == chances[4.0] == pytest.approx(0.375)


def test_sessions_that_wait_for_long_make_estimates_longer() -> None:
    # In a rush, only the sessions with short waits have ended.
    ended = calibrated(*[10.0] * 40).factors(3, 100.0, 300.0)
    rush = calibrated(*[10.0] * 40, waiting=40).factors(3, 100.0, 300.0)
    assert ended.expected < 1.5 < rush.expected
    assert ended.high < 3.0 <= rush.high


def test_cancelled_sessions_do_not_make_estimates_shorter() -> None:
    honest = calibrated(*[100.0] * 40).factors(3, 100.0, 300.0)
    left = calibrated(*[100.0] * 40, cancelled=40).factors(3, 100.0, 300.0)
    assert left.expected >= honest.expected


def test_most_sessions_wait_no_longer_than_twice_the_expected_wait() -> None:
    waits_s = [float(n) for n in range(1, 101)]
    factors = calibrated(*waits_s[::-1]).factors(3, 100.0, 300.0)
    assert 0.4 <= factors.expected <= 0.7
    assert factors.low < factors.expected < factors.high


def test_waits_that_are_short_for_the_pool_are_expected_with_caution() -> None:
    waits_s = [float(n % 100 + 1) for n in range(0, 7000, 71)]
    factors = []
    for usual_s in (10.0, 100.0, 1000.0):
        calibration = calibrated(*waits_s)
        for _ in range(100):
            calibration.watch(wait_history.Estimate(0.0, 1.0, 9, 1.0, usual_s))
        factors.append(calibration.factors(3, 100.0, 300.0).expected)
    assert factors == sorted(factors)
    assert factors[0] < factors[-1]


def test_waits_that_were_too_short_make_the_next_ones_longer() -> None:
    factors = []
    for expected_s in (1.0, 1000.0):
        calibration = wait_history.Calibration()
        for n in range(0, 7100, 71):
            estimate = watched(calibration, expected_s)
            calibration.close(estimate, n % 100 + 1.0, served=True)
        factors.append(calibration.factors(3, 100.0, 300.0).expected)
    assert factors[0] > 1.2 * factors[1]


def test_caution_does_not_wait_for_the_end_of_a_wait_that_is_too_long() -> (
    None
):
    calibration = calibrated(waiting=40)
    before = calibration._price
    calibration.factors(3, 100.0, 199.0)
    assert calibration._price == before
    calibration = calibrated(waiting=40)
    calibration.factors(3, 100.0, 201.0)
    after = calibration._price
    assert after < before
    for one in calibration._seen[3]:
        calibration.close(one, 300.0, served=True)
    assert calibration._price == after


@hypothesis.given(
    st.floats(1e-3, 1e9), st.floats(1e-3, 1e3), st.booleans(), st.booleans()
)
def test_kinds_are_of_like_estimates_and_like_sessions(
    raw_s, interval_s, is_local, is_ready
) -> None:
    def kind(factor: float = 1.0, *, other: bool = False) -> int:
        return wait_history.Calibration.kind(
            raw_s * factor,
            interval_s * 475.0,
            is_local=is_local != other,
            is_ready=is_ready,
        )

    likeness = wait_history._likeness
    assert likeness(kind(475.0), kind(475.0)) == 1.0
    assert likeness(kind(475.0), kind(475.0, other=True)) < 0.1
    assert 0 <= kind() < wait_history._KINDS
    assert likeness(kind(), kind(2.0)) >= likeness(kind(), kind(4.0))


def test_sessions_with_other_facts_teach_little() -> None:
    def factors(kind: int) -> wait_history.Factors:
        return calibrated(*[10.0] * 40).factors(kind, 100.0, 300.0)

    apart = wait_history._STEPS_OF_KINDS
    assert 3 * factors(3).expected < factors(3 + apart).expected
