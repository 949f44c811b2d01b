# SPDX-License-Identifier: Apache-2.0

"""Counters and histograms that need only the standard library.

The scheduling core can use them; :mod:`fpgapool.common.monitoring.metrics`
publishes them.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import threading
from collections.abc import Sequence

from fpgapool.vocabulary import codes

#: Histogram bounds in seconds, for durations of up to 10 seconds.
SHORT_S = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
#: Histogram bounds in seconds, for durations of up to a day.
LONG_S = (
    *(0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0),
    *(4 * 3600.0, 24 * 3600.0),
)
#: Histogram bounds for numbers of items.
COUNTS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)


def known(code: str) -> str:
    """Return a code, or ``other`` if it is unknown, to limit memory use."""
    return code if code in codes.ERRORS else "other"


class Histogram:
    """Counts values in buckets.

    Only one thread may observe, without a lock; any thread may read meanwhile.

    :param bounds: upper bounds of the buckets, inclusive and increasing.
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return the number of values up to each bound, and their sum."""
        names = [*map(repr, self._bounds), "+Inf"]
        sums = itertools.accumulate(list(self._counts))
        return [*zip(names, map(float, sums), strict=True)], self._sum


class Timings:
    """Durations and failures of operations of several kinds.

    Any thread may call :meth:`note`.
    """

    def __init__(self, bounds: Sequence[float] = SHORT_S) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._taken: dict[str, Histogram] = {}
        self._failures = collections.Counter[str]()

    def note(self, kind: str, taken_s: float, ok: bool) -> None:
        """Count an operation."""
        with self._lock:
            if kind not in self._taken:
                self._taken[kind] = Histogram(self._bounds)
            self._taken[kind].observe(taken_s)
            self._failures[kind] += not ok

    def durations(self) -> dict[str, Histogram]:
        with self._lock:
            return dict(self._taken)

    def failures(self) -> dict[str, int]:
        """Return the number of failures of each kind."""
        with self._lock:
            return dict(self._failures)
