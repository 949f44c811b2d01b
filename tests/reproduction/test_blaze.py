# SPDX-License-Identifier: Apache-2.0

"""The mixes of the paper on Blaze, with all seeds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reproduction.figures import blaze11
from reproduction.models import containers
from tests.reproduction import laboratory


@pytest.fixture(scope="module")
def means() -> blaze11.Means:
    return blaze11.compare(laboratory.simulate)


@pytest.fixture(scope="module")
def by_misses() -> Mapping[int, blaze11.Mixed]:
    return blaze11.compare_misses(laboratory.simulate)


def test_reference_table(
    means: blaze11.Means, by_misses: Mapping[int, blaze11.Mixed]
) -> None:
    found = blaze11.deviations(means, by_misses)
    assert len(found) == 26
    assert {
        name: off
        for name, off in found.items()
        if abs(off) > blaze11.TOLERANCE
    } == {}


@pytest.mark.parametrize(
    ("policy", "least", "most"),
    [("static", 30, 34), ("naive", 18, 23), ("gam", 0, 9), ("lpt", 0, 4)],
)
def test_targets(
    policy: str, least: float, most: float, means: blaze11.Means
) -> None:
    assert least <= blaze11.distance_percent(means, policy) <= most


def test_static_wins_with_equal_parts_only(means: blaze11.Means) -> None:
    for share in blaze11.SHARES:
        distances = {
            policy: means[policy, share].distance
            for policy in containers.POLICIES
        }
        assert distances["lpt"] == min(distances.values())
        assert (distances["static"] < distances["gam"]) == (share == 0.5)


def test_affinity_saves_reprogramming(means: blaze11.Means) -> None:
    for share in blaze11.SHARES:
        naive, gam = (
            means[policy, share].reprogrammings for policy in ("naive", "gam")
        )
        # One kind of applications programs each board once.
        assert naive == gam == 4 if share in (0, 1) else gam < naive / 4
