# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions, which get their slots all at once.

The jobs of a set are submitted one by one. When all are known, the set waits
with one of them in the queue, its *leader*, like any session: the
strategy, shares, limits and priorities decide when it is its turn. When the
strategy gives the leader a slot, the set takes its turn instead and becomes
*due*. In each pass, before the strategy, the due sets come in the order of
their turns: a set that finds slots for all its jobs gets them. Slots are
withheld from everybody else for the first set that does not find enough of
them, and for others only if their accelerators fit no slot that it could have.
While a set would exceed its project's limit, the project's other jobs wait.
Nothing is withheld for a set that needs slots which groups keep. A set takes
no slot before it has all of them, so no two sets wait for each other. The
first one is complete as soon as the holders of the slots that it needs have
left.

Before due sets come sessions that have lost their slots, see
:mod:`.returns`: others may wait for them.

A set that has all its slots is *starting* until all of them are ready; only
then are they granted. If one is lost before, the set gives all of them back
and is due again, before the others. Afterwards each session is on its own.

This module takes sets in and lets them go; :mod:`.due_sets` has those whose
turn has come, and :mod:`.set_places` finds their slots.
"""

import collections
import dataclasses
import math
import typing
from collections import abc

from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.rules import due_sets
from fpgapool.core.rules import set_places
from fpgapool.core.topology import slots
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: Time within which all jobs of a set must be submitted.
GATHER_S = 30.0


class _RefuseGroup(typing.Protocol):
    def __call__(
        self, group_id: model.GroupId, code: str, message: str
    ) -> None:
        """End a group whose first slots were a set that is rejected."""


class SessionSets:
    """All sets that have not started.

    :ivar of_job: the set of each job.
    :ivar refuse_group: rejects the group of a set.
    :ivar leading: the sets whose leaders are in the queue, by leader.
    :ivar places: finds their slots.
    :ivar turns: the sets whose turn has come.
    :ivar next_s: when the first set is rejected; infinite if none is.
    :ivar to_come: by project, how many jobs of its sets have not been
        submitted.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._queue = queue
        self._outcome = outcome
        self.places = set_places.Places(view, queue)
        self.turns = due_sets.DueSets(view, self.places, outcome)
        queue.gather = self.gather
        self.refuse_group: _RefuseGroup | None = None
        self.of_job: dict[model.JobId, set_places.SessionSet] = {}
        self.leading: dict[model.JobId, set_places.SessionSet] = {}
        self.next_s = math.inf
        self.to_come = collections.Counter[str]()
        self._limits = ordered.Timers()
        self._of_key: dict[tuple[str, str], set_places.SessionSet] = {}
        self._of_number: dict[model.JobId, set_places.SessionSet] = {}
        self._gathering: dict[tuple[str, str], set_places.SessionSet] = {}

    # -- coming and going --------------------------------------------------

    def find(self, project: str, set_id: str) -> set_places.SessionSet | None:
        """Return a set that has not started."""
        return self._of_key.get((project, set_id))

    def clash(self, project: str, together: model.Together) -> str | None:
        """Return why a set can have no further job; None: it can."""
        one = self.find(project, together.set_id)
        if one is None:
            return None
        if one.together != together:
            return (
                f"the other sessions of set {together.set_id} say that it has"
                f" {_described(one.together)}, not {_described(together)}"
            )
        if not one.lacking:
            return (
                f"set {together.set_id} has all its {together.size} sessions"
                " already"
            )
        return None

    def gather(self, record: queued.JobRecord, *, is_known: bool) -> None:
        """Add a new job to its set; queue the set's leader with the last one.

        :param is_known: see :class:`fpgapool.core.events.JobSubmitted`.
        """
        job, together = record.job, record.job.together
        assert together is not None
        refused = self._queue.refusal(job)
        clash = self.clash(job.project, together)
        if refused is None and clash is not None:
            refused = codes.INVALID_SET, clash
        if refused is not None:
            self._queue.reject(job.id, *refused)
            return
        one = self._join(record, together)
        # The set has its own timer. It gets no reserved slots, and its
        # sessions have no deadlines before they start.
        record.job = dataclasses.replace(
            job, instance_id=None, wait_timeout_s=None, deadline_s=None
        )
        if not one.lacking:
            self._complete(one, is_known=is_known)

    def restore(
        self, record: queued.JobRecord, together: model.Together
    ) -> None:
        """Add a job with a slot to its set, which an earlier leader started.

        The others follow in the same step.
        """
        one = self._join(record, together)
        if not one.lacking:
            del self._gathering[one.key]
            self._limit_to(one, math.inf)

    def _join(
        self, record: queued.JobRecord, together: model.Together
    ) -> set_places.SessionSet:
        """Add a job to its set, which may be new."""
        job = record.job
        one = self.find(job.project, together.set_id)
        if one is None:
            one = set_places.SessionSet(job, together)
            self._of_key[one.key] = self._gathering[one.key] = one
            self._of_number[one.number] = one
            self._limit_to(one, self._view.now + GATHER_S)
            self.to_come[job.project] += together.size
        one.records.append(record)
        one.jobs[job.id] = job
        if job.wait_timeout_s is not None:
            limit_s = job.arrival_s + job.wait_timeout_s
            one.waits_until_s = min(one.waits_until_s, limit_s)
        self.of_job[job.id] = one
        one.lacking -= 1
        self._expect(one, -1)
        return one

    def _expect(self, one: set_places.SessionSet, change: int) -> None:
        """Count more jobs of a set as to come, or fewer."""
        project, _ = one.key
        self.to_come[project] += change
        if not self.to_come[project]:
            del self.to_come[project]

    def _complete(self, one: set_places.SessionSet, *, is_known: bool) -> None:
        """Queue the leader of a set whose jobs are all known."""
        del self._gathering[one.key]
        self._limit_to(one, one.waits_until_s)
        reason = None if is_known else self._impossible(one)
        if reason is not None:
            self._reject(one, codes.SET_IMPOSSIBLE, reason)
            return
        self.leading[one.leader.job.id] = one
        if self._queue.enqueue(one.leader):
            self._view.jobs.note_arrival(one.leader)

    def _impossible(self, one: set_places.SessionSet) -> str | None:
        """Return why a set can never have all its slots."""
        reason = due_sets.above_limit(self._view, one)
        if reason is not None or self.places.areas(one, is_up=False):
            return reason
        where = {
            states.SAME_BOARD: "no board",
            states.SAME_HOST: "no host",
            states.SPREAD: "no choice of boards, one for each session,",
        }.get(one.together.placement or "", "the pool never")
        count = len(one.records)
        if one.group_id is not None:
            return f"{where} has slots that fit the group's first {count}"
        return f"{where} has slots that fit all {count} sessions of the set"

    def _limit_to(self, one: set_places.SessionSet, limit_s: float) -> None:
        """Set when a set is rejected; infinite: never."""
        if one.limit_s < math.inf:
            self._limits.remove(one.limit_s, one.number)
        one.limit_s = limit_s
        if limit_s < math.inf:
            self._limits.add(limit_s, one.number)
        self.next_s = self._limits.first_s()

    def withdraw(self, one: set_places.SessionSet) -> None:
        """Take a set that waits out of the queue."""
        for record in one.records:
            if record.group is not None:
                self._queue.withdraw(record)
            self._queue.forget(record.job.id)
        self.let_go(one)

    def started(self, one: set_places.SessionSet) -> None:
        """Forget a set whose slots are all ready: its jobs are single ones."""
        for record in one.records:
            record.job = dataclasses.replace(
                one.jobs[record.job.id],
                host_id=record.job.host_id,
                together=None,
            )
        self.let_go(one)

    def let_go(self, one: set_places.SessionSet) -> None:
        """Forget a set, whose sessions have started or are no longer."""
        for record in one.records:
            self.of_job.pop(record.job.id, None)
        self.leading.pop(one.number, None)
        self._of_number.pop(one.number, None)
        self._limit_to(one, math.inf)
        if self._of_key.get(one.key) is one:
            del self._of_key[one.key]
        if self._gathering.get(one.key) is one:
            del self._gathering[one.key]
            self._expect(one, -one.lacking)
        self.turns.drop(one)

    def reject_overdue(self, now: float) -> None:
        """Reject the sets whose ``wait_timeout_s`` has expired."""
        overdue = self._limits.take_due(now)
        self.next_s = self._limits.first_s()
        for number in overdue:
            one = self._of_number[number]
            one.limit_s = math.inf
            if one.waits_until_s <= now:
                self._reject(
                    one,
                    codes.WAIT_TIMEOUT,
                    "not enough slots became free in time",
                )
            else:
                self._reject(
                    one,
                    codes.SET_INCOMPLETE,
                    f"only {len(one.records)} of its {one.together.size}"
                    f" sessions were opened within {GATHER_S:g} s",
                )

    def cancel(self, one: set_places.SessionSet, job_id: model.JobId) -> None:
        """Reject the other jobs of a set that waits, after one has left."""
        others = [r.job.id for r in one.records if r.job.id != job_id]
        self.withdraw(one)
        for other in others:
            self.reject_other(other)

    def reject_other(self, job_id: model.JobId) -> None:
        """Reject a job because another one of its set has left."""
        self._queue.reject(
            job_id,
            codes.SET_INCOMPLETE,
            "another session of its set ended before all had started",
        )

    def _reject(
        self, one: set_places.SessionSet, code: str, message: str
    ) -> None:
        jobs = [record.job for record in one.records]
        self.withdraw(one)
        if one.group_id is not None and self.refuse_group is not None:
            self.refuse_group(one.group_id, code, message)
            return
        for job in jobs:
            self._queue.reject(job.id, code, message)

    def reject_orphans(self) -> None:
        """Reject the sets of which a job has been rejected in this step."""
        known = self._view.jobs.records
        for order in list(self._outcome.output):
            if isinstance(order, instructions.Reject):
                one = self.of_job.pop(order.job_id, None)
                if one is not None:
                    one.records = [
                        record
                        for record in one.records
                        if record.job.id in known
                    ]
                    self._reject(one, order.code, order.message)

    # -- turns -------------------------------------------------------------

    def take_turn(self, record: queued.JobRecord) -> None:
        """Make a set due, whose leader has given its slot back."""
        record.slot_id = None
        self.turns.waiting[self.leading.pop(record.job.id)] = None

    def wait_again(self, one: set_places.SessionSet) -> None:
        """Make a set due that has given its slots back before it started."""
        for record in one.records:
            record.slot_id = None
        one.ready.clear()
        self.turns.put_first(one)
        if one.waits_until_s < math.inf:
            self._limit_to(one, max(one.waits_until_s, self._view.now))
        self._outcome.pass_due = True

    def start_due(
        self, leaving: abc.Container[model.SlotId]
    ) -> abc.Iterator[preferences.Choice]:
        """Give slots to the due sets that find enough; withhold others.

        :param leaving: the slots whose holders leave soon.
        """
        due = self.turns
        for one in due.begin():
            if not self._is_void(one):
                found = due.collect(one, leaving)
                if found:
                    yield from self._start(one, found)
        due.end()

    def _start(
        self, one: set_places.SessionSet, found: list[slots.Slot]
    ) -> abc.Iterator[preferences.Choice]:
        del self.turns.waiting[one]
        self._limit_to(one, math.inf)
        for record, slot in zip(one.records, found, strict=True):
            yield self._view.give(record, slot, in_turn=False)

    def _is_void(self, one: set_places.SessionSet) -> bool:
        """Reject a set that its project's limit, or the library, excludes."""
        reason = due_sets.above_limit(self._view, one)
        if reason is not None:
            self._reject(one, codes.SET_IMPOSSIBLE, reason)
            return True
        for record in one.records:
            refused = self._queue.refusal(record.job)
            if refused is not None:
                self._reject(one, *refused)
                return True
        return False

    # -- slots -------------------------------------------------------------


def _described(together: model.Together) -> str:
    where = together.placement
    return f"{together.size} sessions" + (f", {where}" if where else "")
