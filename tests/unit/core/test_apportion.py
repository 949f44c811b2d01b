# SPDX-License-Identifier: Apache-2.0

"""Slots divided between groups."""

from __future__ import annotations

import math

import pytest

from fpgapool.core.sizing import apportion

ONE = (1, 1, 1)
ALL = (8, 8, 8)


@pytest.mark.parametrize(
    ("work", "sizes"),
    [
        ((14.85, 3, 0.6), [6, 1, 1]),
        ((30, 30, 0), [4, 3, 1]),
        ((1, 1, 1), [3, 3, 2]),
        ((0, 0, 5), [1, 1, 6]),
    ],
)
def test_in_proportion_to_work(
    work: tuple[float, ...], sizes: list[int]
) -> None:
    assert apportion.proportional(work, 8, ONE, ALL) == sizes


def test_nobody_gets_more_than_its_most() -> None:
    work = (14.85, 3, 0.6)
    assert apportion.proportional(work, 8, ONE, (3, 8, 8)) == [3, 3, 2]
    assert apportion.levelled(work, 8, ONE, (3, 8, 8)) == [3, 4, 1]


@pytest.mark.parametrize(
    "divide", [apportion.proportional, apportion.levelled]
)
def test_minima_stay_if_the_slots_do_not_suffice(divide) -> None:  # type: ignore[no-untyped-def]
    assert divide((5, 1, 1), 4, (2, 2, 2), ALL) == [2, 2, 2]


@pytest.mark.parametrize(
    "divide", [apportion.proportional, apportion.levelled]
)
def test_slots_are_left_if_all_have_their_most(divide) -> None:  # type: ignore[no-untyped-def]
    assert divide((5, 1, 1), 8, ONE, (2, 2, 2)) == [2, 2, 2]


def test_levelled() -> None:
    sizes = apportion.levelled((14.85, 3, 0.6), 8, ONE, ALL)
    assert sizes == [5, 2, 1]
    loads = map(apportion.load, (14.85, 3, 0.6), sizes)
    assert max(loads) == pytest.approx(2.97)


def test_first_of_equals() -> None:
    assert apportion.levelled((1, 1, 1), 4, ONE, ALL) == [2, 1, 1]


def test_load_without_slots() -> None:
    assert apportion.load(3, 0) == math.inf
    assert apportion.load(0, 0) == 0
