# SPDX-License-Identifier: Apache-2.0

"""Which distribution a sample is taken for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize
from scipy import stats

from fpgapool.sim.experiments import fitting
from fpgapool.sim.inputs import distributions

TRUE: dict[str, distributions.SizeDistribution] = {
    "exponential": distributions.Exponential(20e6, 400e6),
    "power-law": distributions.BoundedPowerLaw(20e6, 10e9, 1.1),
    "lognormal": distributions.Lognormal(100e6, 1.5),
}


def draw(made: distributions.SizeDistribution, count: int) -> fitting.Floats:
    return made.quantile(np.random.default_rng(7).random(count))


@pytest.mark.parametrize("family", TRUE)
def test_family_is_found_again(family: str) -> None:
    found = fitting.fit(draw(TRUE[family], 3000))
    assert found.family == family
    assert found.family == found.candidates[0].family
    assert found.distribution is found.candidates[0].distribution
    assert found.distribution.quantile([0.1, 0.5, 0.9]) == pytest.approx(
        TRUE[family].quantile([0.1, 0.5, 0.9]), rel=0.1
    )
    assert "AIC" in found.reason


def test_order_does_not_matter() -> None:
    sizes = draw(TRUE["lognormal"], 500)
    one, other = fitting.fit(sizes), fitting.fit(sizes[::-1])
    assert (one.family, one.reason) == (other.family, other.reason)
    assert vars(one.distribution) == vars(other.distribution)


def test_likelihoods_are_those_of_scipy() -> None:
    sizes = draw(TRUE["lognormal"], 400)
    found = {each.family: each for each in fitting.fit(sizes).candidates}
    lognormal = fitting.fit_lognormal(sizes)
    exponential = fitting.fit_exponential(sizes)
    power_law = fitting.fit_bounded_power_law(sizes)
    s0, width = power_law.min_bytes, power_law.max_bytes / power_law.min_bytes
    # scipy's loguniform has the shape of α = 0; the rest is x^−α.
    alpha = power_law.alpha
    scale = alpha / s0 / (1 - width**-alpha)
    for family, parameters, logs in (
        (
            "lognormal",
            2,
            stats.lognorm(
                lognormal.sigma, scale=lognormal.median_bytes
            ).logpdf(sizes),
        ),
        (
            "exponential",
            2,
            stats.expon(
                exponential.min_bytes,
                exponential.mean_bytes - exponential.min_bytes,
            ).logpdf(sizes),
        ),
        (
            "power-law",
            3,
            np.log(scale * (sizes / s0) ** (-alpha - 1)),
        ),
    ):
        assert found[family].aic == pytest.approx(
            2 * parameters - 2 * logs.sum()
        )
        assert found[family].ks_distance == pytest.approx(
            stats.kstest(sizes, found[family].distribution.cdf).statistic
        )


def test_power_law_has_the_largest_likelihood() -> None:
    sizes = draw(TRUE["power-law"], 300)
    found = fitting.fit_bounded_power_law(sizes)
    width = math.log(sizes.max() / sizes.min())
    mean_log = np.log(sizes / sizes.min()).mean()

    def loss(alpha: float) -> float:
        return float(
            alpha * mean_log
            - math.log(alpha)
            + math.log1p(-math.exp(-alpha * width))
        )

    best = optimize.minimize_scalar(loss, bounds=(0.01, 10), method="bounded")
    assert found.alpha == pytest.approx(best.x, rel=1e-4)


def test_sample_that_is_nothing_of_this_stands_for_itself() -> None:
    sizes = np.repeat([1e6, 1e9], 100)
    found = fitting.fit(sizes)
    assert found.family == "empirical"
    assert found.distribution.mean_bytes == pytest.approx(500.5e6)
    assert all(each.ks_distance > found.ks_limit for each in found.candidates)
    assert "no family" in found.reason


@pytest.mark.parametrize("sizes", [[5.0], [5.0, 5.0, 5.0]])
def test_equal_sizes_stand_for_themselves(sizes: list[float]) -> None:
    found = fitting.fit(sizes)
    assert (found.family, found.candidates) == ("empirical", ())
    assert found.distribution.mean_bytes == 5


def test_two_sizes_are_enough() -> None:
    assert fitting.fit([1e6, 2e6]).candidates


def test_rising_density_is_no_power_law() -> None:
    with pytest.raises(ValueError):
        fitting.fit_bounded_power_law(np.array([1.0, 9.0, 10.0]))


@pytest.mark.parametrize("sizes", [[], [1.0, -1.0], [math.nan], [math.inf]])
def test_sizes_that_cannot_be(sizes: list[float]) -> None:
    with pytest.raises(ValueError):
        fitting.fit(sizes)
