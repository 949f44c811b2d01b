# SPDX-License-Identifier: Apache-2.0

"""What a pool has seen so far, for estimates of waits.

Work is in seconds at an accelerator's peak rate. Nothing here knows a
strategy's rule or an absolute scale of sizes or times.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import math
import operator
from collections.abc import Iterable
from collections.abc import Iterator

from fpgapool.core import ordered

# Arrivals to remember; the older half is thinned when there are more.
_MOST_ARRIVALS = 512
# Precedence distinguishes ratios of work from 2^-4 to 2^4.
_STEPS = 4
# Weight of the assumption that keys decide, and what remains of older
# observations after each new one.
_ASSUMED = 2.0
_KEPT = 0.999
# Multiples of it modulo 1 are spread evenly.
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclasses.dataclass(slots=True)
class Job:
    """A session's work, and its places in the queue.

    :ivar late_key: the key that it would have if it had only just arrived.
    :ivar size: binary logarithm of its work in seconds, as a whole number.
    """

    id: int
    key: ordered.Key
    late_key: ordered.Key
    work_s: float
    arrived_s: float
    size: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.size = round(math.log2(max(self.work_s, 1e-9)))


class Spread:
    """Numbers that fill an interval evenly, the same each time."""

    def __init__(self) -> None:
        self._value = 0.0

    def below(self, count: int) -> int:
        """Return the next number from 0 to ``count - 1``."""
        self._value = (self._value + _GOLDEN) % 1.0
        return min(int(self._value * count), count - 1)


class Queue:
    """The waiting jobs, by size."""

    def __init__(self) -> None:
        self._spread = Spread()
        self._jobs: dict[int, Job] = {}
        self._keys = ordered.SortedKeys()
        #: Keys and work in seconds of the jobs of each size.
        self._sizes: dict[int, tuple[ordered.SortedKeys, list[float]]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, job_id: int) -> Job | None:
        """Return a waiting job."""
        return self._jobs.get(job_id)

    def add(self, job: Job) -> None:
        """Add a job."""
        self._jobs[job.id] = job
        self._keys.add(job.key)
        if job.size not in self._sizes:
            self._sizes[job.size] = ordered.SortedKeys(), [0.0]
        keys, work_s = self._sizes[job.size]
        keys.add(job.key)
        work_s[0] += job.work_s

    def pop(self, job_id: int) -> Job | None:
        """Remove a job, if it waits."""
        job = self._jobs.pop(job_id, None)
        if job is not None:
            self._keys.remove(job.key)
            keys, work_s = self._sizes[job.size]
            keys.remove(job.key)
            work_s[0] -= job.work_s
            if not keys:
                del self._sizes[job.size]
        return job

    def some(self, count: int) -> Iterator[Job]:
        """Yield some jobs from all over the queue."""
        for _ in range(min(count, len(self))):
            rank = self._spread.below(len(self))
            yield self._jobs[self._keys[rank][-1]]

    def around(self, job: Job) -> Iterator[tuple[bool, int, float]]:
        """Yield the work of the other jobs in seconds, as far as their keys
        are smaller or not, by size.
        """
        for size, (keys, work_s) in self._sizes.items():
            each_s = work_s[0] / len(keys)
            rank = keys.rank(job.key)
            yield True, size, rank * each_s
            yield False, size, (len(keys) - rank) * each_s


class Arrivals:
    """Recent arrivals; the older, the fewer of them, with more weight."""

    def __init__(self) -> None:
        self._spread = Spread()
        self._all: list[tuple[Job, float]] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, job: Job) -> None:
        """Remember an arrival; one that is out of order is left out."""
        if self._all and job.arrived_s < self._all[-1][0].arrived_s:
            return
        self._all.append((job, 1.0))
        if len(self._all) > _MOST_ARRIVALS:
            half = _MOST_ARRIVALS // 2
            pairs = zip(self._all[:half:2], self._all[1:half:2], strict=True)
            self._all[:half] = [
                (pair[self._spread.below(2)][0], pair[0][1] + pair[1][1])
                for pair in pairs
            ]

    def backwards(self) -> Iterator[tuple[Job, float]]:
        """Yield arrivals and their weights, latest first."""
        return reversed(self._all)


class Precedence:
    """How often one of two waiting jobs gets its slot first.

    It is learnt from pairs, by which of the two has the smaller key and by
    the ratio of their work. So it also holds for strategies that choose pairs
    of jobs and slots, and for jobs that decline slots.
    """

    def __init__(self) -> None:
        bins = 2 * _STEPS + 1
        #: Weights of observations, by [key is smaller][ratio of work].
        self._first = [[0.0] * bins, [_ASSUMED] * bins]
        self._seen = [[_ASSUMED] * bins for _ in range(2)]

    def learn(self, started: Job, waiting: Iterable[Job]) -> None:
        """Observe that a job got a slot before others that still wait."""
        for other in waiting:
            is_smaller = started.key < other.key
            self._note(is_smaller, _step(started.size, other), 1.0)
            self._note(not is_smaller, _step(other.size, started), 0.0)

    def _note(self, is_smaller: bool, kind: int, first: float) -> None:
        rows = self._first[is_smaller], self._seen[is_smaller]
        for row, value in zip(rows, (first, 1.0), strict=True):
            row[kind] = row[kind] * _KEPT + value

    def shares(self, job: Job) -> _Shares:
        """Return how likely a job gets a slot before this one, by its size
        and by whether its key is smaller.
        """
        return _Shares(
            job,
            [
                tuple(map(operator.truediv, *rows))
                for rows in zip(self._first, self._seen, strict=True)
            ],
        )


class _Shares(dict[int, tuple[float, float]]):
    def __init__(self, job: Job, rows: list[tuple[float, ...]]) -> None:
        self._job = job
        self._rows = rows

    def __missing__(self, size: int) -> tuple[float, float]:
        larger, smaller = self._rows
        kind = _step(size, self._job)
        self[size] = larger[kind], smaller[kind]
        return self[size]


def _step(size: int, job: Job) -> int:
    return min(max(size - job.size, -_STEPS), _STEPS) + _STEPS


# Kinds of estimates: by how many mean intervals between two slots, in powers
# of two.
_KINDS = 10
# Observations of a kind, and what remains of a weight after each newer one.
_OBSERVED = 100
_FADING = 0.98
# Weight of the observations of the next shorter and longer kind.
_NEIGHBOURS = 0.2
# Ratios of the actual wait to the estimate that are assumed at first.
_GUESSES = (0.3, 0.5, 1.0, 1.0, 1.5, 2.5)
_GUESS_WEIGHT = 0.3
# A session that still waits will have waited this many times as long, and its
# weight.
_LONGER = 1.3
_LONGER_WEIGHT = 0.5
# Factors are made anew when this many more waits have ended.
_RENEWED_AFTER = 5
# Nine of ten ratios lie between these quantiles of earlier ones; they are a
# little wider than 5 % and 95 %, because the future is not the past.
_LOW, _HIGH = 0.04, 0.96


@dataclasses.dataclass(slots=True)
class Estimate:
    """A first estimate, which its session's wait will test.

    :ivar kind: see :data:`_KINDS`.
    :ivar expected_s: how long the session was told that it would wait.
    """

    made_s: float
    raw_s: float
    kind: int
    expected_s: float
    is_open: bool = True


class Calibration:
    """Ratios of actual waits to their estimates, by kind of estimate."""

    def __init__(self) -> None:
        self._closed = 0
        #: The factors of each kind, and how many waits had ended then.
        self._known: dict[int, tuple[int, tuple[float, float, float]]] = {}
        self._ratios = [
            collections.deque[float](maxlen=_OBSERVED) for _ in range(_KINDS)
        ]
        self._open = [
            collections.deque[Estimate](maxlen=_OBSERVED // 2)
            for _ in range(_KINDS)
        ]

    @staticmethod
    def kind(raw_s: float, interval_s: float) -> int:
        """Return the kind of an estimate.

        :param interval_s: mean time between two slots.
        """
        if raw_s <= interval_s:
            return 0
        return min(int(math.log2(raw_s / interval_s)), _KINDS - 1)

    def watch(self, estimate: Estimate) -> None:
        """Follow a session that has been told an estimate."""
        self._open[estimate.kind].append(estimate)

    def close(self, estimate: Estimate, now: float, *, served: bool) -> None:
        """Learn from the end of a wait.

        :param served: whether the session got a slot.
        """
        estimate.is_open = False
        if served:
            waited_s = now - estimate.made_s
            self._closed += 1
            self._ratios[estimate.kind].append(waited_s / estimate.raw_s)

    def factors(self, kind: int, now: float) -> tuple[float, float, float]:
        """Return what to multiply an estimate with: for the lower end of the
        range, for the expected wait, and for the upper end.

        The expected wait is cautious: few sessions wait twice as long. Short
        waits depend on chance more than long ones do, and are estimated with
        more caution.
        """
        ended, known = self._known.get(kind, (0, None))
        if known is None or self._closed - ended >= _RENEWED_AFTER:
            known = self._factors(kind, now)
            self._known[kind] = self._closed, known
        return known

    def _factors(self, kind: int, now: float) -> tuple[float, float, float]:
        points = sorted(self._points(kind, now))
        ends = list(itertools.accumulate(weight for _, weight in points))

        def quantile(share: float) -> float:
            place = bisect.bisect_left(ends, share * ends[-1])
            return points[min(place, len(points) - 1)][0]

        middle = quantile(0.5)
        mean = sum(ratio * weight for ratio, weight in points) / ends[-1]
        cautious = quantile(0.98 - 0.02 * kind) / 2
        return (
            quantile(_LOW),
            max(middle, min(mean, 2 * middle), cautious),
            quantile(_HIGH),
        )

    def _points(self, kind: int, now: float) -> Iterator[tuple[float, float]]:
        for ratio in _GUESSES:
            yield ratio, _GUESS_WEIGHT
        for near in range(max(kind - 1, 0), min(kind + 2, _KINDS)):
            weight = 1.0 if near == kind else _NEIGHBOURS
            for ratio in reversed(self._ratios[near]):
                yield ratio, weight
                weight *= _FADING
        for one in self._open[kind]:
            waited_s = now - one.made_s
            if one.is_open and waited_s > one.expected_s:
                yield _LONGER * waited_s / one.raw_s, _LONGER_WEIGHT
