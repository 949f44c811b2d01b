# SPDX-License-Identifier: Apache-2.0

"""How far the simulator's completion times are from the real system's."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from fpgapool.sim.outcomes import metrics

#: The largest difference in each mode, for jobs from the size below on
#: (FPGAPooling, section 7.4).
GOAL = 0.08
GOAL_MIN_BYTES = 400e6
#: Bounds of the classes of sizes.
EDGES_BYTES = (0.0, 200e6, 400e6, 600e6, 800e6, math.inf)


@dataclasses.dataclass(frozen=True)
class Sample:
    """The jobs of one run in both systems.

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

    :ivar low_bytes: the smallest size of the class.
    :ivar high_bytes: the end of the class, which is not in it.
    :ivar jobs: number of jobs in all runs.
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
        """Return the relative difference; above 0: simulated jobs take longer.

        :param engine: of the simulator.
        """
        return self.simulated_s[engine] / self.real_s - 1.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One mode.

    :ivar mode: its name.
    :ivar classes: those with jobs, by ascending size.
    :ivar large: jobs of the sizes of the goal.
    :ivar total: all jobs.
    :ivar busy: mean share of this machine's processors in use.
    """

    mode: str
    classes: tuple[Difference, ...]
    large: Difference
    total: Difference
    busy: float

    @property
    def worst(self) -> float:
        """Return the largest absolute difference of large jobs."""
        return max(abs(self.large.of(each)) for each in self.large.simulated_s)

    @property
    def reaches_goal(self) -> bool:
        """Return whether the simulator is close enough with each engine."""
        return self.worst <= GOAL


def compare(mode: str, samples: Sequence[Sample], busy: float) -> Comparison:
    """Compare completion times.

    :param samples: of all runs.
    :param busy: mean share of this machine's processors in use.
    :raises ValueError: if no job has a size of the goal.
    """
    total = _between(samples, 0.0, math.inf)
    large = _between(samples, GOAL_MIN_BYTES, math.inf)
    if large is None or total is None:
        raise ValueError("there are no jobs of the sizes of the goal")
    classes = (
        _between(samples, low_bytes, high_bytes)
        for low_bytes, high_bytes in itertools.pairwise(EDGES_BYTES)
    )
    found = tuple(each for each in classes if each is not None)
    return Comparison(mode, found, large, total, busy)


def _between(
    samples: Sequence[Sample], low_bytes: float, high_bytes: float
) -> Difference | None:
    """Compare jobs of a class of sizes; None: there are none."""
    some = []
    for sample in samples:
        sizes_bytes = sample.sizes_bytes
        jobs = (low_bytes <= sizes_bytes) & (sizes_bytes < high_bytes)
        if jobs.any():
            simulated_s = {
                engine: times_s[jobs]
                for engine, times_s in sample.simulated_s.items()
            }
            some.append(
                Sample(sizes_bytes[jobs], sample.real_s[jobs], simulated_s)
            )
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
