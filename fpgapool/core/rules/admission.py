# SPDX-License-Identifier: Apache-2.0

"""Jobs enter the queue, move in it, and leave it without a slot."""

import dataclasses
import typing
from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import preferences
from fpgapool.core import view as pool_view
from fpgapool.core.calendar import promises
from fpgapool.core.queues import claims as recent_claims
from fpgapool.core.queues import queued
from fpgapool.core.rules import deadlines
from fpgapool.core.rules import returns
from fpgapool.vocabulary import codes


class _Gather(typing.Protocol):
    def __call__(self, record: queued.JobRecord, *, is_known: bool) -> None:
        """Queue a job with the others of its set."""


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Admission:
    """Queues each job in the group of jobs that fit the same slots.


    :ivar yielding: jobs that gave up their slots for others; they are queued
        again after the pass of this step.
    :ivar returns: the waiting jobs that have lost their slots.
    :ivar gather: takes in the jobs of sets.
    :ivar shunned: by accelerator, the slots that its jobs avoid. All of its
        jobs share one set, because the set is large in large pools.
    """

    def __init__(
        self,
        strategy: preferences.Preferences,
        view: pool_view.PoolView,
        outcome: instructions.Outcome,
    ) -> None:
        self._strategy = strategy
        self._view = view
        self._jobs = view.jobs
        self._outcome = outcome
        self.deadlines = deadlines.Deadlines(view)
        self.yielding: dict[model.JobId, events.JobSubmitted] = {}
        self.returns = returns.Returns(view)
        self.gather: _Gather | None = None
        self.shunned: dict[str, frozenset[model.SlotId]] = {}

    def on_submitted(self, event: events.JobSubmitted) -> None:
        if event.yields:
            self.yielding[event.job.id] = event
        else:
            self._submit(event)

    def move_job(
        self, job_id: model.JobId, host_id: model.HostId | None
    ) -> queued.JobRecord | None:
        """Count a job as from another host.

        :returns: the job, if it is in the queue or has a slot.
        """
        record = self._jobs.records.get(job_id)
        if record is None:
            waits = self.yielding.get(job_id)
            if waits is not None:
                job = dataclasses.replace(waits.job, host_id=host_id)
                self.yielding[job_id] = dataclasses.replace(waits, job=job)
            return None
        job = dataclasses.replace(record.job, host_id=host_id)
        if record.group is not None:
            self._jobs.remove(record)
            record.job = job
            self.enqueue(record)
        else:
            record.job = job
        return record

    def on_claims_restored(self, event: events.ClaimsRestored) -> None:
        """Learn from the claims that an earlier leader knew."""
        claims = self._strategy.claims
        if claims is not None:
            claims.restore(event.claims, event.last_id)
            self._learn(claims)

    def _learn(self, claims: recent_claims.RecentClaims) -> None:
        if self._strategy.reserve_gives_way:
            self._view.slots.share_out(claims.shares)

    def let_yielding_wait(self) -> None:
        """Queue the jobs that yielded their slots."""
        yielding, self.yielding = self.yielding, {}
        for event in yielding.values():
            self._submit(event)

    def _submit(self, event: events.JobSubmitted) -> None:
        job = event.job
        if job.id in self._jobs.records:
            return
        if not job.has_valid_size():
            self.reject(job.id, *_invalid_size(job))
            return
        claims = self._strategy.claims
        if (
            claims is not None
            and event.paid_bytes is None
            and claims.note(job)
        ):
            self._learn(claims)
        record = self.add_record(job)
        record.paid_bytes = event.paid_bytes
        if job.together is not None and self.gather is not None:
            self.gather(record, is_known=event.is_known)
        elif self.enqueue(record):
            self._jobs.note_arrival(record)
            if event.returns:
                self.returns.note(record)

    def refusal(self, job: model.Job) -> tuple[str, str] | None:
        """Return code and message if a job cannot be queued."""
        if not job.has_valid_size():
            return _invalid_size(job)
        if job.accelerator not in self._view.accelerators:
            return _unknown_accelerator(job)
        return None

    def add_record(self, job: model.Job) -> queued.JobRecord:
        record = queued.JobRecord(job, self._strategy.key(job))
        self._jobs.records[job.id] = record
        return record

    def enqueue(self, record: queued.JobRecord) -> bool:
        """Queue a job, or reject it if its accelerator is unknown."""
        job = record.job
        if job.accelerator in self.shunned:
            record.avoided = joined(
                record.avoided, self.shunned[job.accelerator]
            )
        if not self._view.enqueue(record):
            if job.group_id is not None and job.together is None:
                # Its group waits until the accelerator is known again.
                self.forget(job.id)
                return False
            self.reject(job.id, *_unknown_accelerator(job))
            return False
        if job.instance_id is not None:
            self._view.reservations.stirred.add(job.instance_id)
        if self._jobs.owners:
            self._view.reservations.stirred.add(
                promises.owner_of(job.project, job.accelerator)
            )
        if job.deadline_s is not None:
            self.deadlines.watch(record)
        self._outcome.pass_due = True
        return True

    def forget(self, job_id: model.JobId) -> None:
        record = self._jobs.records.pop(job_id, None)
        if record is not None and record.job.deadline_s is not None:
            self.deadlines.forget(job_id)

    def reject_lost(self, record: queued.JobRecord) -> None:
        """End a job without a slot because of its deadline."""
        self.reject(
            record.job.id,
            codes.DEADLINE_PASSED,
            f"the deadline cannot be met: {record.done_bytes:.0f} of"
            f" {record.job.own_claim_bytes:.0f} bytes are done",
        )

    def reject(self, job_id: model.JobId, code: str, message: str) -> None:
        """Report that a job leaves without a slot."""
        self.forget(job_id)
        self._outcome.output.append(instructions.Reject(job_id, code, message))

    def hurry(self, now: float) -> bool:
        """Move jobs that have waited for ``max_wait_s`` to the front.

        :returns: whether there were any.
        """
        urgent = self._jobs.take_urgent(now)
        for record in urgent:
            self._jobs.remove(record)
            self._view.enqueue(record)
        return bool(urgent)

    def reject_overdue(self, now: float) -> None:
        """Reject the jobs whose ``wait_timeout_s`` has expired."""
        for record in self._jobs.take_overdue(now):
            self.withdraw(record)
            self.reject(
                record.job.id,
                codes.WAIT_TIMEOUT,
                f"no slot became free within {record.job.wait_timeout_s} s",
            )

    def withdraw(self, record: queued.JobRecord) -> None:
        if record.group is not None:
            record.group.lane.arrived.pop(record.job.id, None)
        self._jobs.remove(record)

    def waiting(self) -> list[queued.JobRecord]:
        """Return the waiting jobs in the order of the queue."""
        return [self._jobs.records[job.id] for job in self._jobs]

    def move(self, is_moved: abc.Callable[[queued.JobRecord], bool]) -> None:
        """Requeue selected waiting jobs in the groups that now fit them."""
        for record in self.waiting():
            if is_moved(record):
                self._jobs.remove(record)
                self.enqueue(record)

    def see_shapes(self) -> None:
        """Regroup the waiting jobs after shapes or kept slots changed."""
        view = self._view
        if view.update_shapes():
            self.move(
                lambda record: (
                    record.group is not None
                    and record.group.shapes
                    != view.shapes_for(
                        view.accelerators[record.job.accelerator]
                    )
                )
            )

    def avoid(
        self, record: queued.JobRecord, avoided: frozenset[model.SlotId]
    ) -> None:
        """Set the slots that a job avoids, and regroup it if it waits."""
        waits = record.group is not None
        if waits:
            self._jobs.remove(record)
        record.avoided = avoided
        if waits:
            self.enqueue(record)


def _invalid_size(job: model.Job) -> tuple[str, str]:
    return (
        codes.INVALID_SIZE,
        f"claimed_bytes must be positive and finite, not {job.claimed_bytes}",
    )


def _unknown_accelerator(job: model.Job) -> tuple[str, str]:
    return (
        codes.UNKNOWN_ACCELERATOR,
        f"there is no accelerator {job.accelerator!r}",
    )


def joined(
    avoided: frozenset[model.SlotId], shunned: frozenset[model.SlotId]
) -> frozenset[model.SlotId]:
    """Return the union, or the shared set itself where possible."""
    return shunned if avoided <= shunned else avoided | shunned
