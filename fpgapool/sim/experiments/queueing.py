# SPDX-License-Identifier: Apache-2.0

"""Completion times in priority queues by size, and the best thresholds.

The model is a non-preemptive priority M/G/1: jobs arrive as a Poisson process,
and one server of a given bandwidth serves them queue by queue.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing

import numpy as np
import numpy.typing as npt

from fpgapool.core.queues import thresholds as queue_thresholds
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios

Floats = npt.NDArray[np.float64]
Formula = typing.Literal["cobham", "paper"]
Structure = typing.Literal["hybrid", "geometric", "linear"]


class PriorityServer:
    """A server with a given load.

    The best thresholds depend only on the load and the sizes.

    :param load: arrivals × mean size / bandwidth: the fraction of its time
        that the server works.
    :raises ValueError: if the load is not above 0 and below 1: waiting times
        would grow without limit.
    """

    def __init__(
        self,
        sizes: distributions.SizeDistribution,
        load: float,
        bandwidth_bytes_per_s: float = 1e9,
    ) -> None:
        if not 0 < load < 1:
            raise ValueError(
                f"the load must be above 0 and below 1, not {load:g}"
            )
        self.sizes = sizes
        self.arrivals_per_s = load * bandwidth_bytes_per_s / sizes.mean_bytes
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self._second_moment_bytes2 = sizes.partial_moment(2, 0.0, math.inf)

    def completion_s(
        self, thresholds_bytes: npt.ArrayLike, formula: Formula = "cobham"
    ) -> Floats:
        """Mean time from a job's arrival to its end.

        :param thresholds_bytes: upper bounds of all queues except the last,
            along the last axis; none: first come, first served.
        :param formula: ``cobham`` is correct. ``paper`` is the formula in Fig.
            5 of the paper, in which a job waits only for the running job of
            its own queue. Its result is too low, and falls without limit as
            the number of queues grows.
        :returns: seconds, one number for each row of thresholds.
        """
        bounds = _with_ends(thresholds_bytes)
        shares = self._between(0, bounds)
        works = self._between(1, bounds)
        # The bandwidth left by the queues before each one; it has one entry
        # more than there are queues.
        left = self.bandwidth_bytes_per_s - self.arrivals_per_s * np.cumsum(
            np.concatenate((np.zeros_like(works[..., :1]), works), axis=-1),
            axis=-1,
        )
        if formula == "paper":
            squares = self._between(2, bounds)
            services = np.sum(works / left[..., :-1], axis=-1)
        else:
            squares = self._second_moment_bytes2
            services = np.asarray(
                self.sizes.mean_bytes / self.bandwidth_bytes_per_s
            )
        waits = (
            self.arrivals_per_s
            * squares
            / (2 * left[..., :-1] * left[..., 1:])
        )
        return np.asarray(services + np.sum(waits * shares, axis=-1))

    def _between(self, order: int, bounds: Floats) -> Floats:
        up_to = self.sizes.partial_moment(order, 0.0, bounds)
        return np.diff(up_to, axis=-1)


def _with_ends(thresholds_bytes: npt.ArrayLike) -> Floats:
    inner = np.asarray(thresholds_bytes, dtype=np.float64)
    ends = np.zeros((*inner.shape[:-1], 1))
    return np.concatenate((ends, inner, ends + np.inf), axis=-1)


# -- the best thresholds ---------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tuning(scenarios.Queues):
    completion_s: float = math.inf


#: The relative gain that justifies a structure other than geometric.
_WORTH = 1e-3
#: Approximate number of thresholds evaluated in the first round.
_BUDGET = 1_500_000
_MIN_RATIO = 1.001
_MAX_RATIO = 1000.0
#: Points on each of the two axes of a grid.
_MIN_POINTS = 8
_MAX_POINTS = 60
_CANDIDATES = 12
_ROUNDS = 14


def minimise(
    server: PriorityServer,
    queues: int,
    *,
    structure: Structure = "hybrid",
    formula: Formula = "cobham",
    E_bytes: float | None = None,
) -> Tuning:
    """Find the thresholds with the smallest mean completion time.

    The completion time has many local minima. The search starts with a coarse
    grid over all variables, with E and q on logarithmic axes. Then windows
    around the best choices of k1 and k2 shrink to their minima. The search is
    deterministic.

    :param structure: ``hybrid`` chooses k1 and k2 freely, ``geometric`` has k1
        = 1 and k2 = 2, and ``linear`` has k1 = 1 and k2 = queues − 1.
    :param E_bytes: the first threshold; None: the search chooses it.
    :returns: the best thresholds; those with k1 = 1 and k2 = 2 unless others
        are better by more than a thousandth.
    """
    search = _Search(server, queues, formula, E_bytes)
    geometric = (1, 2)
    if structure == "geometric" or queues <= 3:
        return search.best([geometric])
    if structure == "linear":
        return search.best([(1, queues - 1)])
    simplest = search.best([geometric])
    best = search.best(_pairs(queues))
    if best.completion_s < simplest.completion_s * (1 - _WORTH):
        return best
    return simplest


def _pairs(queues: int) -> list[tuple[int, int]]:
    """Return choices of k1 and k2, or a selection if there are too many.

    Adjacent values are left out: with them, growth is geometric.
    """
    most = max(_BUDGET // (_MIN_POINTS**2 * queues), 40)
    count = min(queues, math.isqrt(2 * most) + 3)
    while True:
        values = sorted(
            {round(value) for value in np.linspace(1, queues, count)}
        )
        pairs = [
            (k1, k2)
            for k1, k2 in itertools.combinations(values, 2)
            if k2 > k1 + 1
        ]
        if len(pairs) <= most:
            return pairs
        count -= 1


class _Search:
    """Searches E and q for given choices of k1 and k2.

    Instead of q, it searches the ratio of the last threshold to the first,
    which has the same scale for any number of queues.
    """

    def __init__(
        self,
        server: PriorityServer,
        queues: int,
        formula: Formula,
        E_bytes: float | None,
    ) -> None:
        self._server = server
        self._queues = queues
        self._formula = formula
        self._fixed_bytes = E_bytes
        self._steps = max(queues - 2, 1)
        low_bytes, high_bytes = _range_of(server.sizes)
        if E_bytes is None:
            self._log_E = (math.log(low_bytes), math.log(high_bytes))
        else:
            self._log_E = (math.log(E_bytes), math.log(E_bytes))
        if queues <= 2:
            # With a single threshold, the ratio does not matter.
            self._log_span = (math.log(2.0), math.log(2.0))
            return
        widest = max(high_bytes / min(low_bytes, E_bytes or low_bytes), 1.1)
        most = max(1.2 * math.log(widest), 0.02 * self._steps)
        if E_bytes is None:
            # The conductor's options allow no larger ratio. A fixed first
            # threshold that is far too low may need one.
            most = min(most, self._steps * math.log(_MAX_RATIO))
        self._log_span = (self._steps * math.log(_MIN_RATIO), most)

    def best(self, pairs: list[tuple[int, int]]) -> Tuning:
        """Return the best E and q for these choices of k1 and k2."""
        points = int(math.sqrt(_BUDGET / (len(pairs) * self._queues)))
        points = min(max(points, _MIN_POINTS), _MAX_POINTS)
        fixed = self._log_E[0] == self._log_E[1]
        log_E = np.linspace(*self._log_E, 1 if fixed else points)
        log_span = np.linspace(*self._log_span, points)
        found = [
            (*self._lowest(pair, log_E, log_span), pair) for pair in pairs
        ]
        found.sort()
        widths = (
            0.0 if fixed else float(log_E[1] - log_E[0]),
            float(log_span[1] - log_span[0]),
        )
        refined = [
            self._refine(at_E, at_span, widths, pair)
            for _, at_E, at_span, pair in found[:_CANDIDATES]
        ]
        return min(refined, key=lambda tuning: tuning.completion_s)

    def _lowest(
        self, pair: tuple[int, int], log_E: Floats, log_span: Floats
    ) -> tuple[float, float, float]:
        factors = queue_thresholds.hybrid_factors(
            np.exp(log_span / self._steps), *pair, self._queues
        )
        bounds = np.exp(log_E)[:, np.newaxis, np.newaxis] * factors
        heights = self._server.completion_s(bounds, self._formula)
        at = int(np.argmin(heights))
        row, column = divmod(at, log_span.size)
        return (
            float(heights[row, column]),
            float(log_E[row]),
            float(log_span[column]),
        )

    def _refine(
        self,
        at_E: float,
        at_span: float,
        widths: tuple[float, float],
        pair: tuple[int, int],
    ) -> Tuning:
        width_E, width_span = widths
        height = math.inf
        for _ in range(_ROUNDS):
            height, at_E, at_span = self._lowest(
                pair,
                _window(at_E, width_E, self._log_E),
                _window(at_span, width_span, self._log_span),
            )
            width_E, width_span = width_E / 2, width_span / 2
        return Tuning(
            E_bytes=self._fixed_bytes or math.exp(at_E),
            q=math.exp(at_span / self._steps),
            k1=pair[0],
            k2=pair[1],
            queues=self._queues,
            completion_s=height,
        )


def _window(
    centre: float, width: float, limits: tuple[float, float]
) -> Floats:
    # The points include the centre, so that the result never gets worse.
    points = centre + width * np.linspace(-1, 1, 7)
    return np.asarray(np.clip(points, *limits))


def _range_of(
    sizes: distributions.SizeDistribution,
) -> tuple[float, float]:
    low_bytes, high_bytes = sizes.quantile([1e-4, 1 - 1e-5]).tolist()
    low_bytes = max(low_bytes, sizes.mean_bytes * 1e-6, 1.0)
    return low_bytes, max(high_bytes, low_bytes * 1.1)
