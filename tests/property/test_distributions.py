# SPDX-License-Identifier: Apache-2.0

"""Distributions of sizes with any parameters."""

from __future__ import annotations

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from fpgapool.sim.inputs import distributions

_sizes = st.floats(1e3, 1e12)


def _power_law(
    s0: float, factor: float, alpha: float
) -> distributions.SizeDistribution:
    return distributions.BoundedPowerLaw(s0, s0 * factor, alpha)


_any_continuous = st.one_of(
    st.builds(
        lambda mean, part: distributions.Exponential(mean * part, mean),
        _sizes,
        # Nearer to 1, floats do not tell the sizes apart.
        st.floats(0, 0.999),
    ),
    st.builds(_power_law, _sizes, st.floats(1.1, 1e4), st.floats(0.05, 5)),
    st.builds(distributions.Lognormal, _sizes, st.floats(0.05, 3)),
    st.builds(
        lambda median, sigma, low, high: distributions.Lognormal(
            median,
            sigma,
            median * math.exp(low * sigma),
            median * math.exp((low + high) * sigma),
        ),
        _sizes,
        st.floats(0.05, 3),
        st.floats(-3, 3),
        st.floats(0.1, 3),
    ),
)
_any_sample = st.builds(
    distributions.Empirical,
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
)


@hypothesis.given(_any_continuous, st.floats(0.001, 0.999))
def test_quantile_inverts_cdf(
    made: distributions.SizeDistribution, share: float
) -> None:
    size = float(made.quantile(share))
    assert made.cdf(size) == pytest.approx(share, abs=1e-9)
    assert made.quantile(made.cdf(size)) == pytest.approx(size, rel=1e-6)


@hypothesis.given(_any_sample)
def test_quantile_inverts_cdf_of_a_sample(
    made: distributions.Empirical,
) -> None:
    sizes = made.sizes_bytes
    assert np.array_equal(made.quantile(made.cdf(sizes)), sizes)


@hypothesis.given(
    st.one_of(_any_continuous, _any_sample),
    st.lists(st.floats(0, 1), max_size=8),
    st.integers(0, 2),
)
def test_moments_add_up(
    made: distributions.SizeDistribution, shares: list[float], order: int
) -> None:
    inner = sorted(made.quantile(share) for share in shares)
    edges = np.array([0.0, *inner, math.inf])
    parts = made.partial_moment(order, edges[:-1], edges[1:])
    whole = float(made.partial_moment(order, 0.0, math.inf))
    assert np.all(parts >= -1e-12 * whole)
    assert parts.sum() == pytest.approx(whole)


@hypothesis.given(
    st.one_of(_any_continuous, _any_sample), st.lists(st.floats(0, 1e13))
)
def test_cdf_is_the_moment_of_order_zero(
    made: distributions.SizeDistribution, sizes: list[float]
) -> None:
    ordered = np.sort(np.array(sizes))
    cdf = made.cdf(ordered)
    assert np.all(np.diff(cdf) >= -1e-12)
    assert np.all((cdf >= 0) & (cdf <= 1 + 1e-12))
    assert cdf == pytest.approx(made.partial_moment(0, 0.0, ordered), abs=1e-9)
