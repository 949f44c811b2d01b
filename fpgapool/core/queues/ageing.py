# SPDX-License-Identifier: Apache-2.0

"""Waiting jobs whose order changes with time."""

import math

from fpgapool.core import native
from fpgapool.core.queues import queued


@native.mypyc_attr(allow_interpreted_subclasses=True)
class AgeingQueue:
    """Jobs whose urgency grows linearly with time, each at its own rate.

    The most urgent job comes first; of equal ones, the one with the smaller
    key.

    It is a kinetic tournament: a binary tree of matches in which each node
    also knows until when the results below it hold. So adding, removing and
    finding a job take logarithmic time, however many jobs wait. See Basch,
    Guibas and Hershberger, Data structures for mobile data, 1999.

    :ivar until_s: the first job stays the first until this time, unless jobs
        are added or removed.
    """

    __slots__ = (
        "_capacity",
        "_free",
        "_slopes",
        "_starts",
        "_time_s",
        "_until_s",
        "_winners",
        "records",
    )

    def __init__(self) -> None:
        self._capacity = 0
        self._time_s = -math.inf
        self.records: list[queued.JobRecord | None] = []
        self._starts: list[float] = []
        self._slopes: list[float] = []
        self._free: list[int] = []
        # Of each node, beginning with the root at 1; the children of n are 2 n
        # and 2 n + 1. The last half are the leaves.
        self._winners: list[int] = [-1, -1]
        self._until_s: list[float] = [math.inf, math.inf]

    @property
    def until_s(self) -> float:
        return self._until_s[1]

    @property
    def leader(self) -> int:
        """The place of the first job when a result last changed; -1: none."""
        return self._winners[1]

    def add(
        self,
        record: queued.JobRecord,
        start: float,
        slope: float,
        time_s: float,
    ) -> None:
        """Add a job whose urgency is ``start + slope * time_s``."""
        self._time_s = max(self._time_s, time_s)
        if not self._free:
            self._grow()
        place = self._free.pop()
        record.column = place
        self.records[place] = record
        self._starts[place] = start
        self._slopes[place] = slope
        self._replay(place, place)

    def remove(self, record: queued.JobRecord) -> None:
        place = record.column
        self.records[place] = None
        self._free.append(place)
        self._replay(place, -1)

    def first(self, time_s: float) -> int:
        """Update :attr:`leader` to this time, and return it."""
        self._time_s = max(self._time_s, time_s)
        if self._until_s[1] <= self._time_s:
            self._advance(1)
        return self._winners[1]

    def line(self, place: int) -> tuple[float, float]:
        """Return the start and the slope of a job's urgency."""
        return self._starts[place], self._slopes[place]

    def jobs(self) -> list[queued.JobRecord]:
        return [record for record in self.records if record is not None]

    def _grow(self) -> None:
        old = self._capacity
        more = max(old, 1)
        self._capacity = capacity = old + more
        self.records += [None] * more
        self._starts += [0.0] * more
        self._slopes += [0.0] * more
        self._free.extend(range(capacity - 1, old - 1, -1))
        leaves = [
            -1 if record is None else place
            for place, record in enumerate(self.records)
        ]
        self._winners = [-1] * capacity + leaves
        self._until_s = [math.inf] * (2 * capacity)
        for node in range(capacity - 1, 0, -1):
            self._play(node)

    def _replay(self, place: int, winner: int) -> None:
        """Set who is at a leaf, and play the matches above it."""
        node = self._capacity + place
        self._winners[node] = winner
        node //= 2
        while node:
            self._play(node)
            node //= 2

    def _advance(self, node: int) -> None:
        """Play the matches whose results no longer hold."""
        if node >= self._capacity:
            return
        for child in (2 * node, 2 * node + 1):
            if self._until_s[child] <= self._time_s:
                self._advance(child)
        self._play(node)

    def _play(self, node: int) -> None:
        left, right = self._winners[2 * node], self._winners[2 * node + 1]
        until_s = min(self._until_s[2 * node], self._until_s[2 * node + 1])
        winner = left
        if left < 0:
            winner = right
        elif right >= 0:
            loser = right
            if self._precedes(right, left):
                winner, loser = right, left
            gained = self._slopes[loser] - self._slopes[winner]
            if gained > 0:
                overtakes_s = (
                    self._starts[winner] - self._starts[loser]
                ) / gained
                if overtakes_s <= self._time_s:
                    # It is only behind by its key or by rounding.
                    overtakes_s = math.nextafter(self._time_s, math.inf)
                until_s = min(until_s, overtakes_s)
        self._winners[node] = winner
        self._until_s[node] = until_s

    def _precedes(self, one: int, other: int) -> bool:
        urgency = self._starts[one] + self._slopes[one] * self._time_s
        of_other = self._starts[other] + self._slopes[other] * self._time_s
        if urgency != of_other:
            return urgency > of_other
        record, rival = self.records[one], self.records[other]
        if record is None or rival is None:
            return rival is None
        return record.key < rival.key
