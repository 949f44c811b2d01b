# SPDX-License-Identifier: Apache-2.0

"""The tables of groups and goals, at their full size: takes minutes."""

from __future__ import annotations

import pytest

from reproduction.figures import groups7
from reproduction.figures import mixes
from tests.reproduction import laboratory

_LIMIT_S = 1800


@pytest.fixture(scope="module")
def variants() -> dict[tuple[str, str], groups7.Values]:
    found = groups7.compare(laboratory.simulate)
    return {(each.load, each.name): found[each] for each in found}


@pytest.fixture(scope="module")
def scores() -> dict[mixes.Cell, mixes.Score]:
    return mixes.compare(laboratory.simulate)


@pytest.mark.timeout(_LIMIT_S)
@pytest.mark.parametrize(
    "variant",
    groups7.VARIANTS,
    ids=lambda variant: f"{variant.load}, {variant.name}",
)
def test_variant(
    variant: groups7.Variant,
    variants: dict[tuple[str, str], groups7.Values],
) -> None:
    """The reference has three seeds of its own."""
    ours, other = variants[variant.load, variant.name], variant.reference
    assert ours.useful == pytest.approx(other.useful, abs=1.0)
    assert ours.programming == pytest.approx(other.programming, abs=2.0)
    expected = pytest.approx(other.latency_s, rel=0.15, abs=0.15)
    # The reference has an older rule of 'ahead', which looked back less.
    assert ours.latency_s == expected or (
        variant.run.policy == "ahead" and ours.latency_s < other.latency_s
    )
    assert ours.refused == pytest.approx(other.refused, rel=0.2, abs=40)


@pytest.mark.timeout(_LIMIT_S)
def test_targets_of_groups(
    variants: dict[tuple[str, str], groups7.Values],
) -> None:
    def change(load: str, name: str) -> float:
        after, before = (
            variants[load, one].latency_s for one in (name, "static")
        )
        return after / before - 1

    assert abs(variants["Q", "static"].useful - 52) <= 1.5
    assert variants["Q", "nnls"].useful >= 61
    assert -0.65 <= change("Q", "nnls") <= -0.55
    assert change("Q", "ahead") <= -0.8
    assert change("P", "ahead") <= -0.4
    assert change("Q low", "ahead") < 0
    for load in ("P", "Q"):
        assert variants[load, "ahead"].programming <= 3


@pytest.mark.timeout(_LIMIT_S)
def test_targets_of_goals(scores: dict[mixes.Cell, mixes.Score]) -> None:
    met = {
        (cell.load_name, cell.policy): score.met_percent
        for cell, score in scores.items()
        if not cell.run.programming_s
    }
    for cell, score in scores.items():
        if cell.run.admission:
            assert score.accepted_percent >= 99
            assert not cell.with_rates or score.rates >= 99
            paper = met[cell.load_name, "throughput"]
            # At load 0.7 one of 480 is rejected, and 4.2 would be all.
            least = mixes.GAINS[cell.load_name] - 0.1
            assert score.met_percent >= paper + least
