# SPDX-License-Identifier: Apache-2.0

"""Slot-seconds per task."""

from __future__ import annotations

import pytest

from fpgapool.core.sizing import runtimes

# Tasks of two clients in three periods, 1 ms and 4 ms, on two busy slots.
COUNTS = [(8000, 3000), (4000, 4000), (12000, 2000)]


def make_periods(
    counts: list[tuple[int, int]], busy_s: list[float], length_s: float = 10.0
) -> list[runtimes.Period]:
    return [
        runtimes.Period(
            length_s=length_s,
            busy_s=busy,
            running=2,
            ended={name: n for name, n in zip("ab", row, strict=True) if n},
            client_busy_s={"a": row[0] * 1e-3, "b": row[1] * 4e-3},
        )
        for row, busy in zip(counts, busy_s, strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "a_s", "b_s"),
    [
        ("measured", 1e-3, 4e-3),
        ("nnls", 1e-3, 4e-3),
        # The whole period is half of two slots' busy time.
        ("saturated", 1e-3, 4e-3),
        # Divided by two instead of multiplied: four times too small.
        ("as_printed", 0.25e-3, 1e-3),
    ],
)
def test_estimates_of_a_saturated_group(
    kind: str, a_s: float, b_s: float
) -> None:
    found = runtimes.estimate(kind, make_periods(COUNTS, [20.0] * 3), 2)
    assert found.of("a") == pytest.approx(a_s)
    assert found.of("b") == pytest.approx(b_s)


def test_only_busy_time_tells_of_a_group_that_was_idle() -> None:
    periods = make_periods([(400, 100), (100, 400)], [0.8, 1.7])
    found = runtimes.estimate("nnls", periods, 2)
    assert found.of("a") == pytest.approx(1e-3)
    assert found.of("b") == pytest.approx(4e-3)
    wrong_s = runtimes.estimate("saturated", periods, 2).of("a")
    assert wrong_s is not None
    assert wrong_s > 10e-3


def test_constant_mix_leaves_the_sum_right_only() -> None:
    periods = make_periods([(100, 100), (200, 200)], [0.5, 1.0])
    found = runtimes.estimate("nnls", periods, 2)
    work_s = found.work({"a": 10, "b": 10})
    assert work_s == pytest.approx(0.05)
    measured = runtimes.estimate("measured", periods, 2)
    assert measured.of("a") == pytest.approx(1e-3)


@pytest.mark.parametrize("kind", ["measured", "nnls"])
def test_client_without_completions_counts_as_the_average(kind: str) -> None:
    found = runtimes.estimate(kind, make_periods(COUNTS, [20.0] * 3), 2)
    assert found.of("new") == pytest.approx(60 / 33000)


@pytest.mark.parametrize("kind", runtimes.ESTIMATES)
def test_nothing_has_ended(kind: str) -> None:
    found = runtimes.estimate(kind, make_periods([(0, 0)], [20.0]), 2)
    # Two tasks have run for 10 s each.
    assert found.of("a") == 10
    assert found.work({"a": 3}) == 30


@pytest.mark.parametrize("kind", runtimes.ESTIMATES)
def test_nothing_has_happened(kind: str) -> None:
    found = runtimes.estimate(kind, make_periods([(0, 0)], [0.0]), 0)
    assert found.of("a") is None
    assert found.work({"a": 3}) is None
    assert found.work({"a": 0}) == 0
    assert found.work({}) == 0


def test_group_without_members_does_not_divide_by_zero() -> None:
    periods = make_periods(COUNTS, [20.0] * 3)
    assert runtimes.estimate("as_printed", periods, 0).of("a") is not None


def test_unknown_estimate_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"'guess'; known estimates: measured, nnls"
    ):
        runtimes.estimate("guess", [], 1)
