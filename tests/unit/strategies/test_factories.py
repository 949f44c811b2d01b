# SPDX-License-Identifier: Apache-2.0

"""Strategies by name, their options and their defaults."""

import typing

import pytest

from fpgapool import strategies
from fpgapool.core import strategy
from fpgapool.core.queues import thresholds
from fpgapool.strategies import base
from fpgapool.strategies import orderings
from tests.unit.core import pools

NAMES = ("fifo", "sjf", "edf", "random", "wa", "ra", "wra")
EVERY_OPTION: dict[str, object] = {
    "thresholds_bytes": (1e6, 2e6),
    "remote_limit": 1,
    "skip_limit": None,
    "wait_s_per_byte": 1e-8,
    "fallback": None,
    "slot_choice": "index",
    "offer_order": "random",
}


@pytest.mark.parametrize("name", NAMES)
def test_one_set_of_options_serves_all(name: str) -> None:
    made = getattr(strategies, name)(EVERY_OPTION, 0)
    assert isinstance(made, strategy.Strategy)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_options_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown options treshold.*known"):
        getattr(strategies, name)({"treshold": 1}, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds_bytes": (2e6, 1e6)}, "increasing"),
        ({"thresholds_bytes": (1e6, 1e6)}, "increasing"),
        ({"thresholds_bytes": (0, 1e6)}, "positive"),
        ({"thresholds_bytes": (1e6, float("inf"))}, "finite"),
        ({"thresholds_bytes": "123"}, "must be a list"),
        ({"thresholds_bytes": ("1",)}, "must be a number"),
        ({"thresholds_bytes": (1.0,), "queues": 3}, "queues cannot be used"),
        ({"q": 1.0}, "q must be above 1"),
        ({"E_bytes": 0.0}, "E_bytes must be positive"),
        ({"k1": 3, "k2": 3}, "k1 < k2"),
        ({"queues": 0}, "queues must be at least 1"),
        ({"queues": 2.5}, "whole number"),
        ({"q": 1e300}, "not finite"),
        ({"remote_limit": -1}, "remote_limit must not be negative"),
        ({"remote_limit": True}, "whole number"),
        ({"skip_limit": -1}, "skip_limit must not be negative"),
        ({"wait_s_per_byte": -1.0}, "wait_s_per_byte"),
        ({"wait_s_per_byte": float("nan")}, "wait_s_per_byte"),
        ({"wait_s_per_byte": "1"}, "must be a number"),
        ({"fallback": "yes"}, "true or false"),
        ({"slot_choice": "first"}, "index, random, least_busy"),
        ({"offer_order": "first"}, "index, random, least_busy"),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        strategies.wra(options, 0)


def placement_options(name: str, **options: object) -> typing.Any:
    made = getattr(strategies, name)(options, 0)
    assert isinstance(made, base.ComposedStrategy)
    return typing.cast(typing.Any, made.placement).options


def test_defaults() -> None:
    assert placement_options("wra").fallback is True
    assert placement_options("wra", remote_limit=2).fallback is True
    assert placement_options("ra", remote_limit=2).fallback is False
    for name in ("ra", "wra"):
        options = placement_options(name)
        assert options.skip_limit is None
        assert options.wait_s_per_byte * 1e6 == pytest.approx(0.01)
        assert options.offer_order == "least_busy"
    for name in NAMES:
        assert placement_options(name).slot_choice == "least_busy"


@pytest.mark.parametrize(
    ("slot_count", "limit"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4)]
)
def test_half_the_slots_may_be_remote(slot_count: int, limit: int) -> None:
    assert strategies.wra({}, 0).remote_limit(slot_count) == limit


def test_hybrid_thresholds() -> None:
    found = thresholds.hybrid_thresholds(20e6, 1.41, 5, 16, 20)
    assert len(found) == 19
    assert found[0] == 20e6
    assert found[4] == pytest.approx(20e6 * 1.41**4)
    step = 20e6 * (1.41**15 - 1.41**5) / 11
    assert found[5] == pytest.approx(20e6 * 1.41**5 + step)
    assert found[15] == pytest.approx(20e6 * 1.41**15)
    assert found[18] == pytest.approx(20e6 * 1.41**18)
    made = typing.cast(base.ComposedStrategy, strategies.wa({"q": 1.41}, 0))
    assert isinstance(made.ordering, orderings.WaOrdering)
    assert made.ordering.thresholds_bytes == found


def test_geometric_thresholds_and_none() -> None:
    found = thresholds.hybrid_thresholds(1.0, 2.0, 1, 2, 6)
    assert found == pytest.approx((1.0, 2.0, 4.0, 8.0, 16.0))
    assert thresholds.hybrid_thresholds(1.0, 2.0, 1, 2, 1) == ()


def test_orderings() -> None:
    jobs = [
        pools.make_job(1, claimed_bytes=300.0, arrival_s=0.0),
        pools.make_job(2, claimed_bytes=200.0, arrival_s=1.0),
        pools.make_job(3, claimed_bytes=100.0, arrival_s=2.0),
        pools.make_job(4, claimed_bytes=100.0, arrival_s=2.0),
    ]

    def order(made: strategy.Strategy) -> list[int]:
        return [job.id for job in sorted(jobs, key=made.key)]

    assert order(strategies.fifo({}, 0)) == [1, 2, 3, 4]
    assert order(strategies.sjf({}, 0)) == [3, 4, 2, 1]
    # A size equal to a threshold belongs to the better queue.
    options = {"thresholds_bytes": (200.0,)}
    assert order(strategies.wa(options, 0)) == [2, 3, 4, 1]
    assert order(strategies.wa({"queues": 1}, 0)) == [1, 2, 3, 4]
