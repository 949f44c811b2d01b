# SPDX-License-Identifier: Apache-2.0

"""Sessions that are opened and closed one after the other, and timed."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool import client
from tests.benchmarks import measure

UNIT = "ms"
SIZE_BYTES = 1000


def open_and_close(front_door: str) -> None:
    """Get a slot that is free, and give it back."""
    client.acc_close(
        client.acc_open("copy", SIZE_BYTES, front_door=front_door)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """How long each of some actions took, in ms, and all of them.

    :ivar cpu_s: processor time of this process in the meantime.
    """

    each: Sequence[float]
    wall_s: float
    cpu_s: float

    def median(self) -> measure.Sample:
        """Return the median of the single times."""
        return self._sample(statistics.median(self.each))

    def percentile_99(self) -> measure.Sample:
        """Return the time that one in a hundred exceeds."""
        ordered = sorted(self.each)
        return self._sample(ordered[len(ordered) * 99 // 100])

    def _sample(self, value: float) -> measure.Sample:
        return measure.Sample(value, self.wall_s, self.cpu_s)


def timed(action: Callable[[], object], count: int) -> Times:
    """Do something again and again."""
    each = []
    with measure.stopwatch() as watch:
        for _ in range(count):
            start_s = time.perf_counter()
            action()
            each.append(1e3 * (time.perf_counter() - start_s))
    return Times(each, watch.wall_s, watch.cpu_s)
