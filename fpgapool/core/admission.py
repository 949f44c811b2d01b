# SPDX-License-Identifier: Apache-2.0

"""How jobs come into the queue, move in it, and leave it without a slot."""

from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import queued
from fpgapool.core import strategy as strategy_api
from fpgapool.core import view as pool_view
from fpgapool.vocabulary import codes


class Admission:
    """Lets jobs wait with those that may have the same slots.

    :param strategy: says in which order jobs wait.
    :param outcome: of the step that is under way.

    :ivar yielding: jobs that wait again only when the others have been
        looked at.
    :ivar shunned: the slots that the jobs of an accelerator avoid, by its
        name. All of its jobs share one set: in large pools it is large.
    """

    def __init__(
        self,
        strategy: strategy_api.Strategy,
        view: pool_view.PoolView,
        outcome: instructions.Outcome,
    ) -> None:
        self._strategy = strategy
        self._view = view
        self._jobs = view.jobs
        self._outcome = outcome
        self.yielding: dict[model.JobId, events.JobSubmitted] = {}
        self.shunned: dict[str, frozenset[model.SlotId]] = {}

    def on_submitted(self, event: events.JobSubmitted) -> None:
        """Let a new job wait."""
        if event.yields:
            self.yielding[event.job.id] = event
        else:
            self._submit(event)

    def let_yielding_wait(self) -> None:
        """Let jobs wait again that have made room for others."""
        yielding, self.yielding = self.yielding, {}
        for event in yielding.values():
            self._submit(event)

    def _submit(self, event: events.JobSubmitted) -> None:
        job = event.job
        if job.id in self._jobs.records:
            return
        if not job.has_valid_size():
            self._reject(
                job.id,
                codes.INVALID_SIZE,
                f"claimed_bytes must be positive, not {job.claimed_bytes}",
            )
            return
        record = self.add_record(job)
        record.paid_bytes = event.paid_bytes
        if self.enqueue(record):
            self._jobs.greet(record)

    def add_record(self, job: model.Job) -> queued.JobRecord:
        """Return the record of a job that was not known."""
        record = queued.JobRecord(job, self._strategy.key(job))
        self._jobs.records[job.id] = record
        return record

    def enqueue(self, record: queued.JobRecord) -> bool:
        """Let a job wait, or reject it if it never could be served."""
        job = record.job
        if job.accelerator in self.shunned:
            record.avoided = joined(
                record.avoided, self.shunned[job.accelerator]
            )
        if not self._view.enqueue(record):
            self._reject(
                job.id,
                codes.UNKNOWN_ACCELERATOR,
                f"there is no accelerator {job.accelerator!r}",
            )
            return False
        if job.instance_id is not None:
            self._view.reservations.stirred.add(job.instance_id)
        self._outcome.pass_due = True
        return True

    def _reject(self, job_id: model.JobId, code: str, message: str) -> None:
        self._jobs.records.pop(job_id, None)
        self._outcome.output.append(instructions.Reject(job_id, code, message))

    def hurry(self, now: float) -> bool:
        """Let jobs that have waited for very long go first.

        :returns: whether there are any that did not before.
        """
        urgent = self._jobs.take_urgent(now)
        for record in urgent:
            self._jobs.remove(record)
            self._view.enqueue(record)
        return bool(urgent)

    def reject_overdue(self, now: float) -> None:
        """Reject jobs that have waited for longer than they want to."""
        for record in self._jobs.take_overdue(now):
            self.withdraw(record)
            self._reject(
                record.job.id,
                codes.WAIT_TIMEOUT,
                f"no slot within {record.job.wait_timeout_s} s",
            )

    def withdraw(self, record: queued.JobRecord) -> None:
        """Take a waiting job out of the queue."""
        if record.group is not None:
            record.group.lane.arrived.pop(record.job.id, None)
        self._jobs.remove(record)

    def waiting(self) -> list[queued.JobRecord]:
        """The waiting jobs, first in the queue first."""
        return [self._jobs.records[job.id] for job in self._jobs]

    def move(self, is_moved: abc.Callable[[queued.JobRecord], bool]) -> None:
        """Have some of the waiting jobs wait where they belong now."""
        for record in self.waiting():
            if is_moved(record):
                self._jobs.remove(record)
                self.enqueue(record)

    def see_shapes(self) -> None:
        """Have jobs wait with those that may have the same slots now."""
        view = self._view
        if view.note_shapes():
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
        """Change what a job avoids, and with whom it waits if it does."""
        waits = record.group is not None
        if waits:
            self._jobs.remove(record)
        record.avoided = avoided
        if waits:
            self.enqueue(record)


def joined(
    avoided: frozenset[model.SlotId], shunned: frozenset[model.SlotId]
) -> frozenset[model.SlotId]:
    """Return both sets as one, which is that of all others if it can be."""
    return shunned if avoided <= shunned else avoided | shunned
