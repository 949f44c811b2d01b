# SPDX-License-Identifier: Apache-2.0

"""The waiting jobs as vectors, for strategies that compare job-slot pairs.

Jobs are in no particular order. Jobs that differ only in size and arrival are
of one kind.
"""

import bisect
import collections
import math
import typing
from collections import abc

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core.queues import kinds
from fpgapool.core.queues import queued
from fpgapool.core.topology import loads as pipe_loads

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]
_Flags: typing.TypeAlias = npt.NDArray[np.bool_]

_NO_HOST = -1
# Number of recent sizes to keep, and minimum number for a quantile.
_MOST_SIZES = 2000
_FEWEST_SIZES = 20


class Kind(typing.NamedTuple):
    """The key of a kind of jobs."""

    group: queued.JobGroup
    host_id: model.HostId | None
    accelerator: str


class RecentSizes:
    """The sizes of the latest jobs."""

    def __init__(self) -> None:
        self._by_time: collections.deque[float] = collections.deque()
        self._sorted: list[float] = []

    def add(self, size_bytes: float) -> None:
        if len(self._sorted) == _MOST_SIZES:
            oldest = self._by_time.popleft()
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]
        self._by_time.append(size_bytes)
        bisect.insort(self._sorted, size_bytes)

    def quantile(self, share: float) -> float:
        """Return the size in bytes that this fraction of jobs does not exceed.

        It is infinite if the fraction is 1 or more, or if too few sizes are
        known.
        """
        count = len(self._sorted)
        place = int(count * share)
        if count < _FEWEST_SIZES or place >= count:
            return math.inf
        return self._sorted[place]


class Jobs:
    """One entry per waiting job; only the first ``count`` are valid."""

    def __init__(self) -> None:
        self.count = 0
        self.records: list[queued.JobRecord] = []
        self.weights: _Floats = np.zeros(16)
        self.sizes: _Floats = np.zeros(16)
        self.arrivals_s: _Floats = np.zeros(16)
        self.kinds: _Numbers = np.zeros(16, dtype=np.int64)
        self.homed: _Flags = np.zeros(16, dtype=np.bool_)

    def add(self, record: queued.JobRecord, weight: float, kind: int) -> None:
        place = self.count
        if place == len(self.weights):
            self._grow()
        record.column = place
        self.records.append(record)
        self.weights[place] = weight
        self.sizes[place] = record.job.claimed_bytes
        self.arrivals_s[place] = record.job.arrival_s
        self.kinds[place] = kind
        self.homed[place] = record.homed
        self.count += 1

    def _grow(self) -> None:
        self.weights = np.append(self.weights, self.weights)
        self.sizes = np.append(self.sizes, self.sizes)
        self.arrivals_s = np.append(self.arrivals_s, self.arrivals_s)
        self.kinds = np.append(self.kinds, self.kinds)
        self.homed = np.append(self.homed, self.homed)

    def remove(self, place: int) -> int:
        """Remove a job; the last one moves to its place."""
        kind = int(self.kinds[place])
        self.count -= 1
        last = self.records.pop()
        if place < self.count:
            self.records[place] = last
            last.column = place
            for column in (self.weights, self.sizes, self.arrivals_s):
                column[place] = column[self.count]
            self.kinds[place] = self.kinds[self.count]
            self.homed[place] = self.homed[self.count]
        return kind


class Columns(kinds.Kinds):
    """The waiting jobs and their kinds.

    A kind has a number while it has jobs. The vectors have spare entries,
    whose count is 0.

    :ivar kinds: by number; None: the number is unused.
    :ivar groups: the numbers of the groups that have jobs.
    :ivar host_ids: the hosts that the jobs come from; -1: outside the pool.
    :ivar has_home: whether that host has a usable slot for these jobs.
    :ivar has_platforms: whether some accelerator's rate depends on the slot's
        shape.
    """

    def __init__(
        self,
        loads: pipe_loads.Loads,
        weight: abc.Callable[[model.Job], float],
    ) -> None:
        self._loads = loads
        self._weight = weight
        self._library: abc.Mapping[str, model.Accelerator] = {}
        self._numbers: dict[Kind, int] = {}
        self._unused: list[int] = []
        self.jobs = Jobs()
        self.recent_sizes = RecentSizes()
        self.kinds: list[Kind | None] = []
        self.counts: _Numbers = np.zeros(0, dtype=np.int64)
        self.group_numbers: _Numbers = np.zeros(0, dtype=np.int64)
        self.groups: dict[queued.JobGroup, int] = {}
        self._next_group = 0
        self.host_ids: _Numbers = np.zeros(0, dtype=np.int64)
        self.has_home: _Flags = np.zeros(0, dtype=np.bool_)
        self.peaks: _Floats = np.zeros(0)
        self.has_platforms = False
        self.return_ratios: _Floats = np.zeros(0)
        self.egress: _Numbers = np.zeros(0, dtype=np.int64)
        self.ingress: _Numbers = np.zeros(0, dtype=np.int64)

    def set_library(
        self, library: abc.Mapping[str, model.Accelerator]
    ) -> None:
        self._library = library
        self.has_platforms = any(
            accelerator.peaks_bytes_per_s for accelerator in library.values()
        )
        for kind, number in self._numbers.items():
            self._describe(number, kind)

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        job = record.job
        number = self._number(Kind(group, job.host_id, job.accelerator))
        self.counts[number] += 1
        self.jobs.add(record, self._weight(job), number)
        self.recent_sizes.add(job.claimed_bytes)

    def remove(self, record: queued.JobRecord) -> None:
        number = self.jobs.remove(record.column)
        self.counts[number] -= 1
        if not self.counts[number]:
            kind = self.kinds[number]
            if kind is not None:
                del self._numbers[kind]
                if not kind.group.count:
                    del self.groups[kind.group]
            self.kinds[number] = None
            self._unused.append(number)

    def rehome(self, group: queued.JobGroup, host_id: model.HostId) -> None:
        for kind, number in self._numbers.items():
            if kind.group is group and kind.host_id == host_id:
                self.has_home[number] = host_id in group.homes

    def set_homed(self, record: queued.JobRecord) -> None:
        self.jobs.homed[record.column] = record.homed

    def _number(self, kind: Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            if not self._unused:
                self._grow()
            number = self._numbers[kind] = self._unused.pop()
            self.kinds[number] = kind
            if kind.group not in self.groups:
                self.groups[kind.group] = self._next_group
                self._next_group += 1
            self.group_numbers[number] = self.groups[kind.group]
            self._describe(number, kind)
        return number

    def _grow(self) -> None:
        old, more = len(self.kinds), max(16, len(self.kinds))
        numbers = np.zeros(more, dtype=np.int64)
        self.kinds += [None] * more
        self.counts = np.append(self.counts, numbers)
        self.group_numbers = np.append(self.group_numbers, numbers)
        self.host_ids = np.append(self.host_ids, numbers)
        self.has_home = np.append(self.has_home, numbers > 0)
        self.peaks = np.append(self.peaks, np.zeros(more))
        self.return_ratios = np.append(self.return_ratios, np.zeros(more))
        self.egress = np.append(self.egress, numbers)
        self.ingress = np.append(self.ingress, numbers)
        self._unused.extend(range(old + more - 1, old - 1, -1))

    def _describe(self, number: int, kind: Kind) -> None:
        host_id, loads = kind.host_id, self._loads
        accelerator = self._library.get(kind.accelerator)
        if accelerator is not None:
            self.peaks[number] = accelerator.peak_bytes_per_s
            self.return_ratios[number] = accelerator.return_ratio
        if host_id is None:
            self.host_ids[number] = _NO_HOST
            self.has_home[number] = False
            self.egress[number] = pipe_loads.NOWHERE
            self.ingress[number] = pipe_loads.NOWHERE
            return
        self.host_ids[number] = host_id
        self.has_home[number] = host_id in kind.group.homes
        self.egress[number] = loads.egress(host_id)
        self.ingress[number] = loads.ingress(host_id)
