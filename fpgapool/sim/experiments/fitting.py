# SPDX-License-Identifier: Apache-2.0

"""Fits a distribution to a sample of sizes.

Each family is fitted by maximum likelihood. A family is accepted if its
Kolmogorov-Smirnov distance from the sample is at most 1.63/√n. A sample of n
sizes from the distribution itself exceeds this once in a hundred times (less
often here, because the parameters are estimated from the same sample). Of the
accepted families, the one with the smallest Akaike information criterion is
chosen. If no family is accepted, the sample itself serves as the distribution.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from fpgapool.sim.inputs import distributions

Floats = npt.NDArray[np.float64]

_KS_FACTOR = 1.63


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A family, fitted to a sample by maximum likelihood.

    :ivar aic: Akaike's information criterion; smaller is better.
    :ivar ks_distance: largest difference between its cumulative distribution
        and the sample's.
    """

    family: str
    distribution: distributions.SizeDistribution
    aic: float
    ks_distance: float


@dataclasses.dataclass(frozen=True)
class Fit:
    """The distribution chosen for a sample.

    :ivar family: a candidate's family, or ``empirical``.
    :ivar candidates: all families that could be fitted, the best first.
    :ivar ks_limit: the largest distance at which a family is accepted.
    """

    family: str
    distribution: distributions.SizeDistribution
    candidates: tuple[Candidate, ...]
    sizes: int
    ks_limit: float
    reason: str


def fit(sizes_bytes: npt.ArrayLike) -> Fit:
    """Choose a distribution for a sample, as the module describes.

    :raises ValueError: if it is empty, or a size is not positive and finite.
    """
    sample = distributions.Empirical(sizes_bytes)
    sizes = sample.sizes_bytes
    limit = _KS_FACTOR / math.sqrt(sizes.size)
    family: str = "empirical"
    chosen: distributions.SizeDistribution = sample
    candidates: tuple[Candidate, ...] = ()
    if sizes[0] == sizes[-1]:
        reason = "all sizes of the sample are equal"
    else:
        reason = (
            "no family has a Kolmogorov-Smirnov distance of at most "
            f"{limit:.3g}, so the sample itself is used"
        )
        candidates = tuple(sorted(_candidates(sizes), key=lambda c: c.aic))
    for candidate in candidates:
        if candidate.ks_distance <= limit:
            family, chosen = candidate.family, candidate.distribution
            reason = (
                "smallest AIC of the families whose Kolmogorov-Smirnov "
                f"distance is at most {limit:.3g}"
            )
            break
    return Fit(family, chosen, candidates, sizes.size, limit, reason)


def fit_exponential(sizes_bytes: Floats) -> distributions.Exponential:
    """Return the shifted exponential distribution that fits best.

    :raises ValueError: if all sizes are equal.
    """
    return distributions.Exponential(
        float(np.min(sizes_bytes)), float(np.mean(sizes_bytes))
    )


def fit_bounded_power_law(
    sizes_bytes: Floats,
) -> distributions.BoundedPowerLaw:
    """Return the bounded power law that fits best.

    :raises ValueError: if no law with a positive α fits.
    """
    s0, smax = float(np.min(sizes_bytes)), float(np.max(sizes_bytes))
    width = math.log(smax / s0)
    mean_log = float(np.mean(np.log(sizes_bytes / s0)))
    # The likelihood is largest where the law's mean logarithm equals the
    # sample's. The law's mean logarithm falls from half the width, at α = 0,
    # to 0.
    if not 0 < mean_log < width / 2:
        raise ValueError("the sizes do not decrease like a power law")

    def excess(alpha: float) -> float:
        power = math.exp(-alpha * width)
        return 1 / alpha - width * power / -math.expm1(-alpha * width)

    low, high = 0.0, 1 / mean_log
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if excess(middle) > mean_log:
            low = middle
        else:
            high = middle
    return distributions.BoundedPowerLaw(s0, smax, high)


def fit_lognormal(sizes_bytes: Floats) -> distributions.Lognormal:
    """Return the untruncated lognormal distribution that fits best.

    :raises ValueError: if all sizes are equal.
    """
    logs = np.log(sizes_bytes)
    return distributions.Lognormal(
        math.exp(float(np.mean(logs))), float(np.std(logs))
    )


def _candidates(sizes: Floats) -> list[Candidate]:
    found = []
    for family, parameters, fitter in (
        ("exponential", 2, _likely_exponential),
        ("power-law", 3, _likely_power_law),
        ("lognormal", 2, _likely_lognormal),
    ):
        try:
            distribution, log_likelihood = fitter(sizes)
        except ValueError:
            # No parameters of this family fit the sample.
            continue
        found.append(
            Candidate(
                family,
                distribution,
                2 * parameters - 2 * log_likelihood,
                _ks_distance(distribution, sizes),
            )
        )
    return found


_Likely = tuple[distributions.SizeDistribution, float]


def _likely_exponential(sizes: Floats) -> _Likely:
    found = fit_exponential(sizes)
    scale = found.mean_bytes - found.min_bytes
    return found, -sizes.size * (math.log(scale) + 1)


def _likely_power_law(sizes: Floats) -> _Likely:
    found = fit_bounded_power_law(sizes)
    s0, alpha = found.min_bytes, found.alpha
    width = math.log(found.max_bytes / s0)
    at_s0 = math.log(alpha / s0) - math.log(-math.expm1(-alpha * width))
    falls = (alpha + 1) * float(np.sum(np.log(sizes / s0)))
    return found, sizes.size * at_s0 - falls


def _likely_lognormal(sizes: Floats) -> _Likely:
    found = fit_lognormal(sizes)
    height = math.log(found.sigma * math.sqrt(2 * math.pi)) + 0.5
    return found, -float(np.sum(np.log(sizes))) - sizes.size * height


def _ks_distance(
    distribution: distributions.SizeDistribution, sizes: Floats
) -> float:
    """Return the largest difference from a sorted sample's steps."""
    expected = distribution.cdf(sizes)
    count = sizes.size
    above = np.arange(1, count + 1) / count - expected
    below = expected - np.arange(count) / count
    return float(max(above.max(), below.max()))
