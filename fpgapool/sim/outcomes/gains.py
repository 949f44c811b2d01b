# SPDX-License-Identifier: Apache-2.0

"""How much better one strategy is than another, over several seeds."""

from __future__ import annotations

import dataclasses
import math
import statistics
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim.outcomes import metrics

#: The metrics of :attr:`Gain.means`.
MEANS = ("act_s", "tct95_s", "sar", "dlr", "wait_p95_s")

# Two-sided 95 % quantiles of Student's t, by degrees of freedom; beyond the
# last, the quantile of the normal distribution is used.
_STUDENT = (
    *(12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL = 1.96


class Spread(typing.NamedTuple):
    """A value over several seeds: its mean, smallest and largest.

    :ivar interval_low: lower end of the mean's 95 % confidence interval; with
        a single seed, both ends are infinite.
    """

    mean: float
    low: float
    high: float
    interval_low: float
    interval_high: float


@dataclasses.dataclass(frozen=True)
class Gain:
    """How a strategy performed compared with another on the same jobs.

    The means of factors are geometric.

    :ivar act: how many times shorter the average completion time is.
    :ivar tct95: how many times shorter its 95th percentile is.
    :ivar sar: how many times larger the slot access ratio is.
    :ivar dlr: how many times larger the data locality ratio is.
    :ivar dlr_itself: the strategy's own data locality ratio.
    :ivar means: means of the strategy's own metrics; see :data:`MEANS`.
    """

    seeds: int
    act: Spread
    tct95: Spread
    sar: Spread
    dlr: Spread
    dlr_itself: Spread
    means: Mapping[str, float]


def compare(
    before: Sequence[metrics.Metrics], after: Sequence[metrics.Metrics]
) -> Gain:
    factors = [
        metrics.improvement(old, new)
        for old, new in zip(before, after, strict=True)
    ]
    return Gain(
        seeds=len(factors),
        act=_spread([each.act for each in factors]),
        tct95=_spread([each.tct95 for each in factors]),
        sar=_spread([each.sar for each in factors]),
        dlr=_spread([each.dlr for each in factors]),
        dlr_itself=_plain_spread([each.dlr for each in after]),
        means=means(after),
    )


def means(measured: Sequence[metrics.Metrics]) -> dict[str, float]:
    """Return the means of :data:`MEANS` over the seeds, by name."""
    return {
        name: statistics.fmean(getattr(each, name) for each in measured)
        for name in MEANS
    }


def _spread(factors: Sequence[float]) -> Spread:
    low, high = min(factors), max(factors)
    if low > 0 and high < math.inf:
        mean, half = confidence(list(map(math.log, factors)))
        return Spread(
            math.exp(mean),
            low,
            high,
            math.exp(mean - half),
            math.exp(mean + half),
        )
    mean = math.fsum(factors) / len(factors)
    return Spread(mean, low, high, -math.inf, math.inf)


def _plain_spread(values: Sequence[float]) -> Spread:
    mean, half = confidence(values)
    return Spread(mean, min(values), max(values), mean - half, mean + half)


def confidence(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and half of its 95 % confidence interval.

    The half is infinite if there is only one value.
    """
    mean, freedom = statistics.fmean(values), len(values) - 1
    if not freedom:
        return mean, math.inf
    error = statistics.stdev(values) / math.sqrt(len(values))
    return mean, student(freedom) * error


def student(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t."""
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
