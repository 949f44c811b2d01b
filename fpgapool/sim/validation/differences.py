# SPDX-License-Identifier: Apache-2.0

"""How far the simulator's completion times are from the real system's."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpgapool.sim import metrics

#: In each mode, of all jobs from this size on (FPGAPooling, section 7.4).
GOAL = 0.08
GOAL_MIN_BYTES = 400e6
#: Where one class of sizes ends and the next one begins.
EDGES_BYTES = (0.0, 200e6, 400e6, 600e6, 800e6, math.inf)


@dataclasses.dataclass(frozen=True)
class Sample:
    """The jobs of one run, done by both.

    :ivar sizes_bytes: of the jobs.
    :ivar real_s: their completion times in the real system.
    :ivar simulated_s: the same by engine of the simulator.
    """

    sizes_bytes: metrics.Floats
    real_s: metrics.Floats
    simulated_s: Mapping[str, metrics.Floats]


@dataclasses.dataclass(frozen=True)
class Difference:
    """Jobs of certain sizes.

    :ivar low_bytes: the smallest size that belongs to them.
    :ivar high_bytes: the smallest one that does not any more.
    :ivar jobs: how many there are, in all runs.
    :ivar real_s: mean completion time in the real system.
    :ivar simulated_s: mean completion time by engine.
    :ivar runs: by engine, the difference in each run that has such jobs.
    """

    low_bytes: float
    high_bytes: float
    jobs: int
    real_s: float
    simulated_s: Mapping[str, float]
    runs: Mapping[str, Sequence[float]]

    def of(self, engine: str) -> float:
        """Relative to the real system; above 0: simulated jobs take longer.

        :param engine: of the simulator.
        """
        return self.simulated_s[engine] / self.real_s - 1.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One mode.

    :ivar mode: its name.
    :ivar classes: by size, ascending; those that have jobs.
    :ivar large: what the goal is about.
    :ivar total: all jobs.
    :ivar busy: mean share of this machine's processors that was used.
    """

    mode: str
    classes: tuple[Difference, ...]
    large: Difference
    total: Difference
    busy: float

    @property
    def worst(self) -> float:
        """The largest difference of large jobs, whatever its direction."""
        return max(abs(self.large.of(each)) for each in self.large.simulated_s)

    @property
    def reaches_goal(self) -> bool:
        """Whether the simulator is close enough, with each engine."""
        return self.worst <= GOAL


def compare(mode: str, samples: Sequence[Sample], busy: float) -> Comparison:
    """Compare completion times.

    :param samples: of all runs.
    :param busy: mean share of this machine's processors that was used.
    :raises ValueError: if there are no jobs that the goal is about.
    """
    total = _between(samples, 0.0, math.inf)
    large = _between(samples, GOAL_MIN_BYTES, math.inf)
    if large is None or total is None:
        raise ValueError("there are no jobs that the goal is about")
    classes = (
        _between(samples, low_bytes, high_bytes)
        for low_bytes, high_bytes in itertools.pairwise(EDGES_BYTES)
    )
    found = tuple(each for each in classes if each is not None)
    return Comparison(mode, found, large, total, busy)


def _between(
    samples: Sequence[Sample], low_bytes: float, high_bytes: float
) -> Difference | None:
    """Jobs from one size on, below another; None if there are none."""
    some = [
        _jobs_of(
            sample,
            (low_bytes <= sample.sizes_bytes)
            & (sample.sizes_bytes < high_bytes),
        )
        for sample in samples
    ]
    some = [sample for sample in some if sample.sizes_bytes.size]
    if not some:
        return None
    real_s = np.concatenate([sample.real_s for sample in some])
    engines = list(some[0].simulated_s)
    return Difference(
        low_bytes,
        high_bytes,
        real_s.size,
        float(real_s.mean()),
        {
            engine: float(
                np.concatenate(
                    [sample.simulated_s[engine] for sample in some]
                ).mean()
            )
            for engine in engines
        },
        {
            engine: tuple(
                float(sample.simulated_s[engine].mean())
                / float(sample.real_s.mean())
                - 1.0
                for sample in some
            )
            for engine in engines
        },
    )


def _jobs_of(sample: Sample, some: npt.NDArray[np.bool_]) -> Sample:
    return Sample(
        sample.sizes_bytes[some],
        sample.real_s[some],
        {
            engine: times_s[some]
            for engine, times_s in sample.simulated_s.items()
        },
    )
