# SPDX-License-Identifier: Apache-2.0

"""Distributions of job sizes and their partial moments.

All functions take numbers or arrays and return arrays. To draw a sample, pass
uniformly distributed numbers to ``quantile``.
"""

from __future__ import annotations

import abc
import math
import statistics
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class SizeDistribution(abc.ABC):
    """A distribution of job sizes.

    :param max_bytes: the maximum size; may be infinite.
    """

    def __init__(
        self, min_bytes: float, max_bytes: float, mean_bytes: float = math.nan
    ) -> None:
        self.min_bytes = float(min_bytes)
        self.max_bytes = float(max_bytes)
        self.mean_bytes = float(mean_bytes)

    def cdf(self, size_bytes: npt.ArrayLike) -> Floats:
        """Return the fraction of jobs of at most this size."""
        sizes = np.asarray(size_bytes, dtype=np.float64)
        return self._cdf(np.clip(sizes, self.min_bytes, self.max_bytes)) * (
            sizes >= self.min_bytes
        )

    def quantile(self, share: npt.ArrayLike) -> Floats:
        """Return the smallest size that bounds at least this fraction of jobs.

        :param share: from 0 to 1; 1 gives :attr:`max_bytes`.
        :raises ValueError: if it is not between 0 and 1.
        """
        shares = np.asarray(share, dtype=np.float64)
        if not np.all((shares >= 0) & (shares <= 1)):
            raise ValueError("a share must be from 0 to 1")
        return np.clip(self._quantile(shares), self.min_bytes, self.max_bytes)

    def partial_moment(
        self,
        order: int,
        low_bytes: npt.ArrayLike,
        high_bytes: npt.ArrayLike,
    ) -> Floats:
        """Return the integral of x^order f(x) over low < x ≤ high.

        Order 0 gives the fraction of jobs between the sizes, orders 1 and 2
        their contributions to the mean and to the second moment.

        :param low_bytes: exclusive; 0 includes all jobs.
        :raises ValueError: for any other order.
        """
        if order not in (0, 1, 2):
            raise ValueError(f"order must be 0, 1 or 2, not {order}")
        low = np.asarray(low_bytes, dtype=np.float64)
        high = np.asarray(high_bytes, dtype=np.float64)
        return self._partial_moment(order, low, np.maximum(low, high))

    @abc.abstractmethod
    def _cdf(self, sizes: Floats) -> Floats:
        """Return the fraction of jobs up to each size, within the bounds."""

    @abc.abstractmethod
    def _quantile(self, shares: Floats) -> Floats:
        """Return the quantile of each fraction from 0 to 1."""

    @abc.abstractmethod
    def _partial_moment(self, order: int, low: Floats, high: Floats) -> Floats:
        """Return the moment; low ≤ high, and both may be out of bounds."""


class Exponential(SizeDistribution):
    """f(x) = exp(−(x − s0)/a)/a on x ≥ s0, where a is the mean minus s0.

    :raises ValueError: unless 0 ≤ s0 < mean < infinity.
    """

    def __init__(self, s0_bytes: float, mean_bytes: float) -> None:
        if not 0 <= s0_bytes < mean_bytes < math.inf:
            raise ValueError(
                "s0_bytes and mean_bytes must satisfy 0 <= s0_bytes < "
                f"mean_bytes; got s0_bytes={s0_bytes}, mean_bytes={mean_bytes}"
            )
        super().__init__(s0_bytes, math.inf, mean_bytes)
        self._scale = float(mean_bytes) - float(s0_bytes)

    def _cdf(self, sizes: Floats) -> Floats:
        return -np.expm1(-(sizes - self.min_bytes) / self._scale)

    def _quantile(self, shares: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return self.min_bytes - self._scale * np.log1p(-shares)

    def _partial_moment(self, order: int, low: Floats, high: Floats) -> Floats:
        return self._above(order, low) - self._above(order, high)

    def _above(self, order: int, sizes: Floats) -> Floats:
        """Return the integral of x^order f(x) from these sizes on."""
        # Beyond 700 scales, the remaining probability underflows.
        x = np.clip(
            sizes, self.min_bytes, self.min_bytes + 700.0 * self._scale
        )
        left = np.exp(-(x - self.min_bytes) / self._scale)
        a = self._scale
        if order == 0:
            return left
        if order == 1:
            return left * (x + a)
        return left * ((x + a) ** 2 + a**2)


class BoundedPowerLaw(SizeDistribution):
    """f(x) = α s0^α x^(−α−1) / (1 − (s0/smax)^α) on s0 ≤ x ≤ smax.

    :param alpha: the larger it is, the fewer large jobs there are.
    :raises ValueError: unless 0 < s0 < smax < infinity and α is positive and
        finite.
    """

    def __init__(
        self, s0_bytes: float, smax_bytes: float, alpha: float
    ) -> None:
        if not 0 < s0_bytes < smax_bytes < math.inf:
            raise ValueError(
                "s0_bytes and smax_bytes must satisfy 0 < s0_bytes < "
                f"smax_bytes; got s0_bytes={s0_bytes}, smax_bytes={smax_bytes}"
            )
        if not 0 < alpha < math.inf:
            raise ValueError(f"alpha must be positive and finite, not {alpha}")
        self.alpha = float(alpha)
        # Minus the fraction of the unbounded power law that is below smax.
        self._cut = math.expm1(-alpha * math.log(smax_bytes / s0_bytes))
        super().__init__(s0_bytes, smax_bytes)
        self.mean_bytes = float(self.partial_moment(1, 0.0, math.inf))

    def _cdf(self, sizes: Floats) -> Floats:
        logs = np.log(sizes / self.min_bytes)
        return np.expm1(-self.alpha * logs) / self._cut

    def _quantile(self, shares: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            # If the cut rounds to −1, share 1 gives infinity; it is clipped.
            logs = -np.log1p(shares * self._cut) / self.alpha
        with np.errstate(over="ignore"):
            return self.min_bytes * np.exp(logs)

    def _partial_moment(self, order: int, low: Floats, high: Floats) -> Floats:
        # In units of s0: the integral of u^(exponent − 1).
        exponent = order - self.alpha
        from_u = np.clip(low, self.min_bytes, self.max_bytes) / self.min_bytes
        to_u = np.clip(high, self.min_bytes, self.max_bytes) / self.min_bytes
        logs = np.log(to_u / from_u)
        if abs(exponent) < 1e-12:
            integral = logs
        else:
            integral = from_u**exponent * np.expm1(exponent * logs) / exponent
        scale = self.min_bytes**order * self.alpha / -self._cut
        return np.asarray(scale * integral)


class Lognormal(SizeDistribution):
    """Sizes whose logarithm is normally distributed.

    :param sigma: standard deviation of the natural logarithm.
    :param min_bytes: sizes below this, or above ``max_bytes``, are cut off.
    :raises ValueError: unless the median and sigma are positive and finite,
        and the limits leave part of the distribution.
    """

    def __init__(
        self,
        median_bytes: float,
        sigma: float,
        min_bytes: float = 0.0,
        max_bytes: float = math.inf,
    ) -> None:
        if not 0 < median_bytes < math.inf:
            raise ValueError(
                f"median_bytes must be positive and finite, not {median_bytes}"
            )
        # Above 15, the second moment overflows, however the sizes are
        # truncated.
        if not 0 < sigma <= 15:
            raise ValueError(f"sigma must be above 0 and ≤ 15, not {sigma}")
        if not 0 <= min_bytes < max_bytes:
            raise ValueError(
                "min_bytes and max_bytes must satisfy 0 <= min_bytes < "
                f"max_bytes; got min_bytes={min_bytes}, max_bytes={max_bytes}"
            )
        super().__init__(min_bytes, max_bytes)
        self.median_bytes = float(median_bytes)
        self.sigma = float(sigma)
        self._share = 1.0
        self._share = float(self.partial_moment(0, 0.0, math.inf))
        if not self._share > 0:
            raise ValueError(
                f"no sizes lie between {min_bytes} and {max_bytes}"
            )
        self.mean_bytes = float(self.partial_moment(1, 0.0, math.inf))

    def _cdf(self, sizes: Floats) -> Floats:
        return self._partial_moment(0, np.zeros_like(sizes), sizes)

    def _quantile(self, shares: Floats) -> Floats:
        from_z = float(self._z(np.asarray(self.min_bytes)))
        # Measured from the nearer end, as in _partial_moment.
        if from_z <= 0:
            below = _below(from_z) + shares * self._share
            z = _inverse_below(below)
        else:
            z = -_inverse_below(_below(-from_z) - shares * self._share)
        return self.median_bytes * np.exp(self.sigma * z)

    def _partial_moment(self, order: int, low: Floats, high: Floats) -> Floats:
        limits = (self.min_bytes, self.max_bytes)
        from_z = self._z(np.clip(low, *limits)) - order * self.sigma
        to_z = self._z(np.clip(high, *limits)) - order * self.sigma
        # Measured from the nearer end, so that small probabilities keep their
        # digits.
        side = np.where(from_z > 0, -1.0, 1.0)
        share = side * (_below(side * to_z) - _below(side * from_z))
        whole = self.median_bytes**order * math.exp(
            (order * self.sigma) ** 2 / 2
        )
        return np.asarray(share * whole / self._share)

    def _z(self, sizes: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(sizes / self.median_bytes) / self.sigma


class Empirical(SizeDistribution):
    """The sizes of a sample, each as likely as it is frequent.

    :raises ValueError: if it is empty, or a size is not positive and finite.
    """

    def __init__(self, sizes_bytes: npt.ArrayLike) -> None:
        sizes = np.sort(np.asarray(sizes_bytes, dtype=np.float64), axis=None)
        if not sizes.size:
            raise ValueError("there are no sizes")
        if not np.all((sizes > 0) & np.isfinite(sizes)):
            raise ValueError("sizes must be positive and finite")
        super().__init__(sizes[0], sizes[-1], sizes.mean())
        self._sizes = sizes
        self._shares = np.arange(1, sizes.size + 1) / sizes.size
        # Partial moments by order, then by how many of the smallest sizes they
        # include.
        self._sums = [
            np.concatenate(([0.0], np.cumsum(sizes**order))) / sizes.size
            for order in range(3)
        ]

    @property
    def sizes_bytes(self) -> Floats:
        """The sample in ascending order."""
        return self._sizes.copy()

    def _cdf(self, sizes: Floats) -> Floats:
        counts = np.searchsorted(self._sizes, sizes, side="right")
        return np.asarray(counts / self._sizes.size)

    def _quantile(self, shares: Floats) -> Floats:
        return self._sizes[np.searchsorted(self._shares, shares)]

    def _partial_moment(self, order: int, low: Floats, high: Floats) -> Floats:
        sums = self._sums[order]
        upto = np.searchsorted(self._sizes, high, side="right")
        fro = np.searchsorted(self._sizes, low, side="right")
        return np.asarray(sums[upto] - sums[fro])


# -- the normal distribution -----------------------------------------------

_SQRT_HALF = math.sqrt(0.5)
#: Wichura's algorithm AS 241, accurate to the last digits of a float.
_inverse = statistics.NormalDist().inv_cdf


def _each(function: Callable[[float], float], values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    results = np.fromiter(
        map(function, array.ravel().tolist()), np.float64, array.size
    )
    return results.reshape(array.shape)


def _below(z: npt.ArrayLike) -> Floats:
    """Return the standard normal distribution function at z."""
    return 0.5 * _each(math.erfc, np.asarray(z) * -_SQRT_HALF)


def _inverse_below(probability: npt.ArrayLike) -> Floats:
    return _each(_inverse_or_end, probability)


def _inverse_or_end(probability: float) -> float:
    if probability <= 0:
        return -math.inf
    if probability >= 1:
        return math.inf
    return _inverse(probability)
