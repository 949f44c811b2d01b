# SPDX-License-Identifier: Apache-2.0

"""Ends jobs with their deadlines, whether they wait or have a slot."""

import math

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.vocabulary import states

#: A job that ends at most this long after its deadline counts as in time.
TOLERANCE_S = 1e-6


class Deadlines:
    """Finds jobs that must end because of their deadlines.

    :ivar next_s: when to check next; infinite if no job ends with its
        deadline.
    """

    def __init__(self, view: pool_view.PoolView) -> None:
        self._view = view
        self._timers = ordered.Timers()
        self._due_s: dict[model.JobId, float] = {}
        self.next_s = math.inf

    def watch(self, record: queued.JobRecord) -> None:
        """Watch a job that is new, has lost its slot or has progressed."""
        job = record.job
        if job.deadline_s is None or job.deadline_action == states.CONTINUE:
            return
        self.forget(job.id)
        due_s = self._due_s[job.id] = self._last_chance_s(record)
        self._timers.add(due_s, job.id)
        self.next_s = self._timers.first_s()

    def forget(self, job_id: model.JobId) -> None:
        if job_id in self._due_s:
            self._timers.remove(self._due_s.pop(job_id), job_id)
            self.next_s = self._timers.first_s()

    def take_lost(self, now: float) -> list[queued.JobRecord]:
        """Return the jobs that must end now, the earliest first."""
        lost = []
        for job_id in self._timers.take_due(now):
            del self._due_s[job_id]
            record = self._view.jobs.records[job_id]
            # It may have received a slot in the meantime.
            if self._last_chance_s(record) > now:
                self.watch(record)
            else:
                lost.append(record)
        self.next_s = self._timers.first_s()
        return lost

    def _last_chance_s(self, record: queued.JobRecord) -> float:
        """Return when the job must be given up, as far as is known now."""
        job, view = record.job, self._view
        if job.deadline_s is None:
            return math.inf
        accelerator = view.accelerators.get(job.accelerator)
        if job.deadline_action != states.EARLY or accelerator is None:
            return job.deadline_s
        left_bytes = max(job.own_claim_bytes - record.done_bytes, 0.0)
        if record.slot_id is None:
            peak_bytes_per_s = view.best_peak_bytes_per_s(accelerator)
            needed_s = left_bytes / peak_bytes_per_s
            needed_s += view.least_programming_s(accelerator)
            return job.deadline_s + TOLERANCE_S - needed_s
        hold = view.slots.assignments[record.slot_id]
        if hold.slot is None:
            return job.deadline_s
        # Assume that it has run at full speed since its last report.
        begins_s = max(record.seen_s, hold.started_s)
        if (
            hold.phase is model.Phase.PREPARING
            and not hold.slot.starts_at_once(hold.accelerator)
        ):
            begins_s += hold.slot.spec.programming_time_s
        peak_bytes_per_s = accelerator.peak_in(hold.slot.shape)
        earliest_end_s = begins_s + left_bytes / peak_bytes_per_s
        if earliest_end_s > job.deadline_s + TOLERANCE_S:
            return view.now
        return job.deadline_s
