# SPDX-License-Identifier: Apache-2.0

"""The course of a run, added up in time bins.

An observer stores nothing per event: a run of any length yields the same few
hundred numbers.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from fpgapool.sim.engines import base
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics

_BINS = 400
_BUSY, _LOCAL, _REMOTE = range(3)


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """Means over time bins of equal length.

    :ivar local_bytes_per_s: input rate of jobs on their own host.
    :ivar remote_bytes_per_s: input rate of the other jobs.
    """

    bin_s: float
    busy_slots: metrics.Floats
    local_bytes_per_s: metrics.Floats
    remote_bytes_per_s: metrics.Floats


class Observer:
    """Watches a run; see :data:`fpgapool.sim.simulation.Watcher`.

    :param rates_hold: whether rates are constant from one call to the next, as
        with the fluid engine; if not, each job counts with its mean rate.
    :param bins: maximum number of bins; must be even.
    """

    def __init__(
        self,
        scenario: scenarios.Scenario,
        *,
        rates_hold: bool = True,
        bins: int = _BINS,
    ) -> None:
        slots = base.slots_of(scenario.cluster)
        self._hosts = [slot.host for slot in slots]
        self._rates_hold = rates_hold
        self._jobs: list[scenarios.JobSpec | None] = [None] * len(slots)
        self._since_s = [0.0] * len(slots)
        self._rates = np.zeros(len(slots))
        self._carried = np.zeros(len(slots))
        self._is_local = np.zeros(len(slots), dtype=np.bool_)
        self._busy = 0
        self._now_s = 0.0
        self._bin_s = (
            max(job.arrival_s for job in scenario.jobs) / bins or 1e-6
        )
        self._sums = np.zeros((3, bins))

    def __call__(
        self,
        now: float,
        jobs: list[scenarios.JobSpec | None],
        rates: list[float],
    ) -> None:
        """Add the time since the last call."""
        passed_s = now - self._now_s
        if passed_s > 0:
            self._carried += self._rates * passed_s
            local = float(self._rates[self._is_local].sum())
            remote = float(self._rates.sum()) - local
            self._add(self._now_s, now, (self._busy, local, remote))
        self._now_s = now
        for slot, job in enumerate(jobs):
            if job is not self._jobs[slot]:
                self._replace(slot, job, now)
        if self._rates_hold:
            self._rates = np.array(rates, dtype=np.float64)

    def _replace(
        self, slot: int, job: scenarios.JobSpec | None, now: float
    ) -> None:
        before = self._jobs[slot]
        if before is not None:
            self._busy -= 1
            # If rates are not constant, this is the whole input.
            missed = before.size_bytes - float(self._carried[slot])
            took_s = now - self._since_s[slot]
            if not self._rates_hold and took_s > 0 and missed:
                row = _LOCAL if self._is_local[slot] else _REMOTE
                values = [0.0, 0.0, 0.0]
                values[row] = missed / took_s
                self._add(self._since_s[slot], now, tuple(values))
        self._jobs[slot] = job
        self._since_s[slot] = now
        self._carried[slot] = 0.0
        self._is_local[slot] = job is not None and (
            job.host == self._hosts[slot]
        )
        self._busy += job is not None

    def _add(
        self, from_s: float, to_s: float, values: tuple[float, ...]
    ) -> None:
        bins = self._sums.shape[1]
        while to_s > self._bin_s * bins:
            # Merge pairs of bins, and append new ones.
            merged = self._sums[:, 0::2] + self._sums[:, 1::2]
            self._sums = np.hstack((merged, np.zeros_like(merged)))
            self._bin_s *= 2
        first = int(from_s / self._bin_s)
        last = min(int(to_s / self._bin_s), bins - 1)
        if first >= last:
            weights = np.array([to_s - from_s])
        else:
            weights = np.full(last - first + 1, self._bin_s)
            weights[0] = (first + 1) * self._bin_s - from_s
            weights[-1] = to_s - last * self._bin_s
        self._sums[:, first : first + len(weights)] += np.outer(
            values, weights
        )

    def course(self) -> Course:
        """Return the course up to the end of the last job."""
        used = max(1, int(np.ceil(self._now_s / self._bin_s)))
        lengths_s = np.full(used, self._bin_s)
        if self._now_s > 0:
            lengths_s[-1] = self._now_s - (used - 1) * self._bin_s
        means = self._sums[:, :used] / lengths_s
        return Course(self._bin_s, means[_BUSY], means[_LOCAL], means[_REMOTE])
