# SPDX-License-Identifier: Apache-2.0

"""Distributions of sizes against numerical integration and samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate
from scipy import stats

from fpgapool.sim.inputs import distributions

Density = Callable[[float], float]


def exponential_density(size: float) -> float:
    return math.exp(-(size - 20.0) / 380.0) / 380.0 if size >= 20 else 0.0


def power_law_density(size: float, alpha: float) -> float:
    scale = alpha * 20.0**alpha / (1 - (20.0 / 10000.0) ** alpha)
    return scale * size ** (-alpha - 1) if 20 <= size <= 10000 else 0.0


def lognormal_density(size: float, low: float, high: float) -> float:
    whole = stats.lognorm(1.5, scale=100.0)
    part = whole.cdf(high) - whole.cdf(low)
    return float(whole.pdf(size) / part) if low <= size <= high else 0.0


#: In MB, because the integrator is at home there.
CONTINUOUS: dict[str, tuple[distributions.SizeDistribution, Density]] = {
    "exponential": (
        distributions.Exponential(20.0, 400.0),
        exponential_density,
    ),
    "power law": (
        distributions.BoundedPowerLaw(20.0, 10000.0, 1.1),
        lambda size: power_law_density(size, 1.1),
    ),
    "power law, logarithmic mean": (
        distributions.BoundedPowerLaw(20.0, 10000.0, 1.0),
        lambda size: power_law_density(size, 1.0),
    ),
    "power law, logarithmic square": (
        distributions.BoundedPowerLaw(20.0, 10000.0, 2.0),
        lambda size: power_law_density(size, 2.0),
    ),
    "lognormal": (
        distributions.Lognormal(100.0, 1.5),
        lambda size: lognormal_density(size, 0.0, math.inf),
    ),
    "lognormal, cut off": (
        distributions.Lognormal(100.0, 1.5, 50.0, 3000.0),
        lambda size: lognormal_density(size, 50.0, 3000.0),
    ),
    "lognormal, a far tail": (
        distributions.Lognormal(100.0, 1.5, 9000.0, 20000.0),
        lambda size: lognormal_density(size, 9000.0, 20000.0),
    ),
}
SAMPLE = distributions.Empirical([3.0, 1.0, 2.0, 2.0])


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("limits", [(0.0, 60.0), (60.0, 900.0), (1e4, 2e4)])
def test_partial_moments(
    name: str, order: int, limits: tuple[float, float]
) -> None:
    made, density = CONTINUOUS[name]
    edges = sorted(
        {*limits, *np.clip([20.0, 50.0, 3000.0, 9000.0, 10000.0], *limits)}
    )
    expected = sum(
        integrate.quad(lambda size: size**order * density(size), *part)[0]
        for part in itertools.pairwise(edges)
    )
    found = made.partial_moment(order, *limits)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_whole(name: str) -> None:
    made, _ = CONTINUOUS[name]
    assert made.partial_moment(0, 0, math.inf) == pytest.approx(1)
    assert made.partial_moment(1, 0, math.inf) == pytest.approx(
        made.mean_bytes
    )
    ends = made.cdf([made.min_bytes * 0.999 - 1, made.max_bytes])
    assert ends == pytest.approx([0, 1])
    assert made.quantile([0, 1]) == pytest.approx(
        [made.min_bytes, made.max_bytes]
    )


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantile_of_uniform_numbers_is_a_sample(name: str) -> None:
    made, _ = CONTINUOUS[name]
    shares = np.random.default_rng(1).random(2000)
    sizes = made.quantile(shares)
    assert made.cdf(sizes) == pytest.approx(shares)
    # 0.1 % of right distributions are beyond it; the seed is a fixed one.
    assert stats.kstest(sizes, made.cdf).pvalue > 0.001


def test_known_moments() -> None:
    exponential = distributions.Exponential(0.0, 5.0)
    assert exponential.partial_moment(2, 0, math.inf) == pytest.approx(50)
    lognormal = distributions.Lognormal(100.0, 1.5)
    assert lognormal.mean_bytes == pytest.approx(100 * math.exp(1.125))
    assert lognormal.partial_moment(2, 0, math.inf) == pytest.approx(
        1e4 * math.exp(4.5)
    )
    # The paper's formula of the mean.
    s0, smax, alpha = 20.0, 10000.0, 1.1
    assert distributions.BoundedPowerLaw(
        s0, smax, alpha
    ).mean_bytes == pytest.approx(
        alpha
        * (s0**alpha * smax ** (1 - alpha) - s0)
        / ((1 - alpha) * (1 - (s0 / smax) ** alpha))
    )


def test_sample() -> None:
    assert SAMPLE.mean_bytes == 2
    assert SAMPLE.cdf([0.5, 1, 1.5, 2, 3, 9]).tolist() == [
        0,
        0.25,
        0.25,
        0.75,
        1,
        1,
    ]
    assert SAMPLE.quantile([0, 0.25, 0.26, 0.75, 0.76, 1]).tolist() == [
        1,
        1,
        2,
        2,
        3,
        3,
    ]
    # The lower limit does not count, the upper one does.
    assert SAMPLE.partial_moment(0, 1, 2) == 0.5
    assert SAMPLE.partial_moment(1, 1, 2) == 1
    assert SAMPLE.partial_moment(2, 0, [1, 3]).tolist() == [0.25, 4.5]
    assert SAMPLE.sizes_bytes.tolist() == [1, 2, 2, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda: distributions.Exponential(5, 5),
        lambda: distributions.Exponential(-1, 5),
        lambda: distributions.Exponential(0, math.inf),
        lambda: distributions.Exponential(0, math.nan),
        lambda: distributions.BoundedPowerLaw(0, 5, 1),
        lambda: distributions.BoundedPowerLaw(5, 5, 1),
        lambda: distributions.BoundedPowerLaw(1, math.inf, 1),
        lambda: distributions.BoundedPowerLaw(1, 5, 0),
        lambda: distributions.BoundedPowerLaw(1, 5, math.nan),
        lambda: distributions.Lognormal(0, 1),
        lambda: distributions.Lognormal(1, 0),
        lambda: distributions.Lognormal(1, math.nan),
        lambda: distributions.Lognormal(1, 1, 5, 5),
        lambda: distributions.Lognormal(1, 1, -1),
        lambda: distributions.Lognormal(1, 0.01, 1e9, 1e10),
        lambda: distributions.Empirical([]),
        lambda: distributions.Empirical([1, 0]),
        lambda: distributions.Empirical([1, math.nan]),
        lambda: distributions.Empirical([1, math.inf]),
        lambda: SAMPLE.quantile([0.5, 1.1]),
        lambda: SAMPLE.quantile(math.nan),
        lambda: SAMPLE.partial_moment(3, 0, 1),
    ],
)
def test_what_makes_no_sense(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        make()
