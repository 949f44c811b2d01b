# SPDX-License-Identifier: Apache-2.0

"""Waiting jobs, with the applications that they belong to.

Strategies that want affinity see a group of jobs for each accelerator. For
each job, they see for how long, or how often, its application was not served.
"""

import heapq
import math
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import preferences
from fpgapool.core.queues import kinds as job_kinds
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.queues import waiting

# Number of entries per job above which stale ones are removed.
_MAX_STALE = 2
_MIN_SWEPT = 64


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Application:
    """The waiting jobs of a project with the same ``affinity_key``.

    A job without one is an application of its own.
    """

    __slots__ = ("count", "granted_s", "misses")

    def __init__(self) -> None:
        self.granted_s = -math.inf
        self.misses = 0
        self.count = 0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class AffineJobs(waiting.WaitingJobs):
    """All waiting jobs; each group has one accelerator."""

    def __init__(
        self,
        strategy: preferences.Preferences,
        is_home: abc.Callable[[queued.JobGroup, model.HostId], bool],
        kinds: job_kinds.Kinds | None = None,
        accounts: sharing.Accounts | None = None,
    ) -> None:
        super().__init__(strategy, is_home, kinds, accounts)
        self._named: dict[tuple[str, str], _Application] = {}
        self._of: dict[model.JobId, _Application] = {}
        self._found: dict[model.JobId, int] = {}
        # By group: a heap of (since_s, job id). Entries of removed jobs are
        # deleted lazily, and times may be too early.
        self._ages: dict[queued.JobGroup, list[tuple[float, model.JobId]]] = {}

    def group_for(
        self, record: queued.JobRecord, shapes: model.Shapes, now: float
    ) -> tuple[queued.JobGroup, bool]:
        lane = self._lane(record, now)
        accelerator = record.job.accelerator
        group = lane.by_needs.get((shapes, record.avoided, accelerator))
        if group is not None:
            return group, False
        return lane.make_group(shapes, record.avoided, accelerator), True

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        application = self._application(record.job)
        application.count += 1
        self._of[record.job.id] = application
        self._found[record.job.id] = self.count
        super().add(record, group, now)
        ages = self._ages.setdefault(group, [])
        heapq.heappush(ages, (self.since_s(record), record.job.id))
        if len(ages) > _MAX_STALE * group.count + _MIN_SWEPT:
            self._sweep(group, ages)

    def _application(self, job: model.Job) -> _Application:
        if job.affinity_key is None:
            return _Application()
        return self._named.setdefault(
            (job.project, job.affinity_key), _Application()
        )

    def _sweep(
        self, group: queued.JobGroup, ages: list[tuple[float, model.JobId]]
    ) -> None:
        ages[:] = [
            (self.since_s(self.records[key[-1]]), key[-1])
            for key in group.jobs
        ]
        heapq.heapify(ages)

    def remove(self, record: queued.JobRecord) -> None:
        group, job = record.group, record.job
        super().remove(record)
        del self._found[job.id]
        application = self._of.pop(job.id)
        application.count -= 1
        if job.affinity_key is not None and not application.count:
            del self._named[job.project, job.affinity_key]
        if group is not None and not group.count:
            del self._ages[group]
            if not group.avoided:
                # Libraries are large: empty groups would accumulate.
                group.lane.drop(group)

    def grant(self, record: queued.JobRecord, now: float) -> None:
        application = self._of[record.job.id]
        application.granted_s = now
        application.misses = 0
        self.remove(record)

    # -- for placements --------------------------------------------------

    def since_s(self, record: queued.JobRecord) -> float:
        """Return the time since which a waiting job counts as not served.

        It is the last grant of its application, or its arrival if that is
        later.
        """
        return max(record.job.arrival_s, self._of[record.job.id].granted_s)

    def found(self, record: queued.JobRecord) -> int:
        """Return how many jobs waited when a waiting job joined them."""
        return self._found[record.job.id]

    def oldest_s(self, group: queued.JobGroup) -> float:
        """Return a group's earliest :meth:`since_s`; infinite without jobs."""
        ages = self._ages.get(group)
        while ages:
            since_s, job_id = ages[0]
            record = self.records.get(job_id)
            if record is None or record.group is not group:
                heapq.heappop(ages)
                continue
            now_s = self.since_s(record)
            if now_s <= since_s:
                return since_s
            heapq.heapreplace(ages, (now_s, job_id))
        return math.inf

    def misses(self, record: queued.JobRecord) -> int:
        """Return how often a job's application was passed over."""
        return self._of[record.job.id].misses

    def miss(self, job_ids: abc.Iterable[model.JobId]) -> None:
        """Record that a slot passed over these jobs' applications."""
        missed = {id(one): one for one in map(self._of.__getitem__, job_ids)}
        for application in missed.values():
            application.misses += 1
