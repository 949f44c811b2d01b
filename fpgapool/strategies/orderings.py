# SPDX-License-Identifier: Apache-2.0

"""Orders of waiting jobs; ties go by arrival, then by id."""

import bisect
import hashlib
import math
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core.queues import claims
from fpgapool.core.queues import thresholds
from fpgapool.strategies import base


class FifoOrdering(base.Ordering):
    """First come, first served."""

    def key(self, job: model.Job) -> ordered.Key:
        return (job.arrival_s, job.id)


class SjfOrdering(base.Ordering):
    """Shortest job first, by claimed bytes."""

    def key(self, job: model.Job) -> ordered.Key:
        return (job.claimed_bytes, job.arrival_s, job.id)


class LptOrdering(base.Ordering):
    """Longest processing time first: the largest job first."""

    def key(self, job: model.Job) -> ordered.Key:
        return (-job.claimed_bytes, job.arrival_s, job.id)


class WaOrdering(base.Ordering):
    """Workload-aware: priority queues by size.

    A size equal to a threshold belongs to the queue of higher priority. A job
    keeps the queue of its arrival when learnt thresholds change.

    :param source: has the thresholds.
    """

    def __init__(self, source: thresholds.Fixed | claims.RecentClaims) -> None:
        self.source = source

    @property
    def learns(self) -> bool:
        """Whether the thresholds are learnt."""
        return isinstance(self.source, claims.RecentClaims)

    @property
    def thresholds_bytes(self) -> tuple[float, ...]:
        """The upper bounds of all queues except the last, at present."""
        return self.source.thresholds_bytes

    def queue_of(self, claimed_bytes: float) -> int:
        """Return the number of the queue for this size; 0 comes first."""
        return bisect.bisect_left(self.source.thresholds_bytes, claimed_bytes)

    def key(self, job: model.Job) -> ordered.Key:
        queue = bisect.bisect_left(
            self.source.thresholds_bytes, job.claimed_bytes
        )
        return (queue, job.arrival_s, job.id)


class EdfOrdering(base.Ordering):
    """Earliest deadline first; jobs without a deadline come last.

    A late job is most urgent only if all are late: no slot can save it.
    """

    deadlines_preempt = True

    def key(self, job: model.Job) -> ordered.Key:
        deadline_s = math.inf if job.deadline_s is None else job.deadline_s
        return (deadline_s, job.arrival_s, job.id)

    def most_urgent(
        self, contenders: abc.Sequence[preferences.Contender], now: float
    ) -> preferences.Contender:
        return min(
            contenders,
            key=lambda each: (now >= each.deadline_s, *self.key(each.job)),
        )


class RandomOrdering(base.Ordering):
    """A random order that depends only on the seed and the job ids.

    The most urgent job is drawn anew each time, with equal chances.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        # RandomState draws the same numbers in all versions of numpy. With
        # these seed words, they equal those of the standard library's
        # generator.
        self._generator = numpy.random.RandomState(
            [
                seed >> shift & 0xFFFFFFFF
                for shift in range(0, max(seed.bit_length(), 1), 32)
            ]
        )

    def key(self, job: model.Job) -> ordered.Key:
        text = f"{self.seed}:{job.id}".encode()
        drawn = hashlib.blake2b(text, digest_size=8).digest()
        # A number, because jobs that have waited too long get the key -inf.
        return (int.from_bytes(drawn, "big"), job.id)

    def most_urgent(
        self, contenders: abc.Sequence[preferences.Contender], now: float
    ) -> preferences.Contender:
        bits = len(contenders).bit_length()
        while True:
            word = int.from_bytes(self._generator.bytes(4), "little")
            number = word >> (32 - bits)
            if number < len(contenders):
                return contenders[number]
