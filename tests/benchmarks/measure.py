# SPDX-License-Identifier: Apache-2.0

"""What is measured: samples, and rows made of them."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Iterator
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How to measure.

    :ivar tiny: only so much that one sees that it works.
    :ivar large: also sizes that take many minutes.
    """

    repetitions: int = 5
    tiny: bool = False
    large: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One repetition.

    :ivar value: in the unit of its row.
    :ivar cpu_s: how much processor time that was.
    """

    value: float
    wall_s: float
    cpu_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """Where a row stands in a curve.

    :ivar curve: the name of the curve.
    """

    curve: str
    axis: str
    x: float


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    :ivar name: what was measured, and at which size.
    :ivar floor: the plain program that did the same in the same run, in
        turns with it; None: the values stand for themselves.
    :ivar floor_samples: one for each repetition, too.
    :ivar point: its place, if it is a point of a curve.
    :raises ValueError: if there is not a floor for each sample.
    """

    name: str
    unit: str
    samples: Sequence[Sample]
    floor: str | None = None
    floor_samples: Sequence[Sample] = ()
    point: Point | None = None

    def __post_init__(self) -> None:
        expected = len(self.samples) if self.floor else 0
        if not self.samples or len(self.floor_samples) != expected:
            raise ValueError(f"{self.name}: samples are missing")

    @property
    def values(self) -> list[float]:
        """The values of its samples."""
        return [sample.value for sample in self.samples]

    @property
    def median(self) -> float:
        """The median of its values."""
        return statistics.median(self.values)

    @property
    def ratios(self) -> list[float]:
        """Each value divided by the floor's of the same repetition."""
        return [
            sample.value / floor.value
            for sample, floor in zip(
                self.samples, self.floor_samples, strict=bool(self.floor)
            )
        ]

    @property
    def cpu_share(self) -> float:
        """The processor time in the time that it took.

        Well below 1 for one thread that only computes: others were at work.
        """
        wall_s = sum(sample.wall_s for sample in self.samples)
        return sum(sample.cpu_s for sample in self.samples) / wall_s


class Stopwatch:
    """Measures the time that a block of code takes.

    :ivar cpu_s: how much processor time of this process that was.
    """

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    def rate(self, count: int) -> Sample:
        """So many things were done, in things per second of a processor."""
        return Sample(count / self.cpu_s, self.wall_s, self.cpu_s)

    def cost_us(self, count: int) -> Sample:
        """So many things were done, in microseconds of a processor each."""
        return Sample(1e6 * self.cpu_s / count, self.wall_s, self.cpu_s)


@contextlib.contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure a block of code."""
    watch = Stopwatch()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    yield watch
    watch.cpu_s = time.process_time() - cpu_s
    watch.wall_s = time.perf_counter() - wall_s
