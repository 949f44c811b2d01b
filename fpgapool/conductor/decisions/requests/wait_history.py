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
import statistics
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NamedTuple

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
    :ivar is_local: whether the host of its data has slots for it.
    :ivar size: binary logarithm of its work in seconds, as a whole number.
    """

    id: int
    key: ordered.Key
    late_key: ordered.Key
    work_s: float
    arrived_s: float
    accelerator: str = ""
    is_local: bool = False
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
# of two, and by two facts about the session.
_STEPS_OF_KINDS = 16
_KINDS = 4 * _STEPS_OF_KINDS
# Latest estimates of a kind, and what remains of a weight after each newer
# one.
_OBSERVED = 100
_FADING = 0.96
# Weights of the estimates of the next shorter and longer kind, and of sessions
# with other facts.
_NEIGHBOURS = 0.2
_OTHERS = 0.05
# Ratios of the actual wait to the estimate that are assumed at first.
_GUESSES = (0.3, 0.5, 1.0, 1.0, 1.5, 2.5)
_GUESS_WEIGHT = 0.3
# If no wait is known to have ended later than the longest one has lasted, it
# will last this many times as long.
_LONGER = 1.3
# Factors are made anew when this many more waits have ended.
_RENEWED_AFTER = 5
# Nine of ten ratios lie between these quantiles of earlier ones; they are
# wider than 5 % and 95 %, because the future is not the past.
_LOW, _HIGH = 0.03, 0.97
# The share of sessions that may wait more than twice as long as expected.
_TOO_SHORT = 0.08
# The price of expecting one more mean wait, as a chance to wait more than
# twice as long as expected: at first, the least, the highest, and by what part
# one session that waits so long raises caution.
_PRICE = 0.12
_LEAST_PRICE, _MOST_PRICE = 0.03, 1.0
_PRICE_STEP = 0.02
# The mean wait is that of so many estimates.
_MEANS = 400


@dataclasses.dataclass(slots=True)
class Estimate:
    """A first estimate, which its session's wait will test.

    :ivar kind: see :meth:`Calibration.kind`.
    :ivar expected_s: how long the session was told that it would wait.
    :ivar mean_s: how long sessions with such an estimate wait on average.
    :ivar left_s: when its wait ended; None: it still waits.
    :ivar is_served: whether it ended with a slot.
    :ivar is_judged: whether caution has taken it into account.
    """

    made_s: float
    raw_s: float
    kind: int
    expected_s: float
    mean_s: float
    left_s: float | None = None
    is_served: bool = False
    is_judged: bool = False


class Factors(NamedTuple):
    """What to multiply an estimate with: for the lower end of the range, for
    the expected wait, for the upper end, and for the mean wait.
    """

    low: float
    expected: float
    high: float
    mean: float


class Calibration:
    """Ratios of actual waits to their estimates, by kind of estimate."""

    def __init__(self) -> None:
        self._closed = 0
        #: The factors of each kind, and how many waits had ended then.
        self._known: dict[int, tuple[int, Factors]] = {}
        self._seen = [
            collections.deque[Estimate](maxlen=_OBSERVED)
            for _ in range(_KINDS)
        ]
        self._price = _PRICE
        self._means_s = collections.deque[float](maxlen=_MEANS)

    @staticmethod
    def kind(
        raw_s: float, interval_s: float, *, is_local: bool, is_ready: bool
    ) -> int:
        """Return the kind of an estimate.

        :param interval_s: mean time between two slots.
        :param is_local: whether the host of the session's data has slots.
        :param is_ready: whether a slot has its accelerator.
        """
        step = int(math.log2(max(raw_s / interval_s, 1.0)))
        facts = is_local + 2 * is_ready
        return min(step, _STEPS_OF_KINDS - 1) + _STEPS_OF_KINDS * facts

    def watch(self, estimate: Estimate) -> None:
        """Follow a session that has been told an estimate."""
        self._seen[estimate.kind].append(estimate)
        self._means_s.append(estimate.mean_s)

    def close(self, estimate: Estimate, now: float, *, served: bool) -> None:
        """Learn from the end of a wait.

        :param served: whether the session got a slot.
        """
        estimate.left_s = now
        estimate.is_served = served
        self._closed += 1
        if not estimate.is_judged:
            self._judge(estimate, is_short=_is_short(estimate, now))

    def _judge(self, estimate: Estimate, *, is_short: bool) -> None:
        estimate.is_judged = True
        self._price = min(
            max(
                self._price * math.exp(_PRICE_STEP * (_TOO_SHORT - is_short)),
                _LEAST_PRICE,
            ),
            _MOST_PRICE,
        )

    def factors(self, kind: int, raw_s: float, now: float) -> Factors:
        """Return what to multiply an estimate with.

        The expected wait is cautious: to expect more has a price, by which few
        sessions wait twice as long. So short waits, which cost little, are
        estimated with more caution.
        """
        ended, known = self._known.get(kind, (0, None))
        if known is None or self._closed - ended >= _RENEWED_AFTER:
            # Caution need not wait for the end of a wait that is too long.
            for one in self._seen[kind]:
                if not one.is_judged and _is_short(one, now):
                    self._judge(one, is_short=True)
            known = self._factors(kind, raw_s, now)
            self._known[kind] = self._closed, known
        return known

    def _factors(self, kind: int, raw_s: float, now: float) -> Factors:
        chances = _chances(self._points(kind, now))
        ratios = [ratio for ratio, _ in chances]
        ends = list(itertools.accumulate(chance for _, chance in chances))
        mean = sum(ratio * chance for ratio, chance in chances)
        usual_s = statistics.fmean(self._means_s or [raw_s * mean])
        price = self._price * raw_s / usual_s

        def quantile(share: float) -> float:
            return ratios[min(bisect.bisect_left(ends, share), len(ends) - 1)]

        # Half of each ratio, as just not more than twice as long is fine.
        _, cautious = min(
            (1.0 - end + price * ratio / 2, ratio / 2)
            for ratio, end in zip(ratios, ends, strict=True)
        )
        expected = max(cautious, quantile(0.5))
        return Factors(quantile(_LOW), expected, quantile(_HIGH), mean)

    def _points(
        self, kind: int, now: float
    ) -> Iterator[tuple[float, float, bool]]:
        """Yield ratios, their weights, and whether they are final."""
        for ratio in _GUESSES:
            yield ratio, _GUESS_WEIGHT, True
        for near, seen in enumerate(self._seen):
            weight = _likeness(kind, near)
            for one in reversed(seen) if weight else ():
                until_s = now if one.left_s is None else one.left_s
                yield (until_s - one.made_s) / one.raw_s, weight, one.is_served
                weight *= _FADING


def _is_short(estimate: Estimate, now: float) -> bool:
    return now - estimate.made_s > 2 * estimate.expected_s


def _likeness(kind: int, other: int) -> float:
    facts, step = divmod(kind, _STEPS_OF_KINDS)
    other_facts, other_step = divmod(other, _STEPS_OF_KINDS)
    likeness = 1.0 if facts == other_facts else _OTHERS
    return likeness * (1.0, _NEIGHBOURS, 0.0)[min(abs(step - other_step), 2)]


def _chances(
    points: Iterable[tuple[float, float, bool]],
) -> list[tuple[float, float]]:
    """Return final ratios, smallest first, and how likely they are.

    A ratio that is not final will be one of the larger ones (estimator of
    Kaplan and Meier). Without it, only short waits would count in a rush:
    those of its sessions that have ended.
    """
    in_order = sorted(points)
    weight_left = sum(weight for _, weight, _ in in_order)
    chance_left = 1.0
    chances = []
    for ratio, weight, is_final in in_order:
        if is_final:
            chance = chance_left * min(weight / weight_left, 1.0)
            chances.append((ratio, chance))
            chance_left -= chance
        weight_left -= weight
    chances.append((_LONGER * in_order[-1][0], chance_left))
    return chances
