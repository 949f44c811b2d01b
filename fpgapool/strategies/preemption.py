# SPDX-License-Identifier: Apache-2.0

"""Chooses the waiting job that takes a held slot at a chunk border.

A job takes a slot from a holder of lower priority. At the same priority, it
does so only to meet its deadline, and only if the strategy orders by
deadlines. Within a project, all priorities count. Jobs of another project can
take the slot only if the holder's project has used up its share and theirs has
not. Their priorities count only up to their project's limit.
"""

import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.topology import slots
from fpgapool.strategies.joint import hjf


class _Rival(typing.NamedTuple):
    """A waiting job that fits the slot.

    :param priority: the priority that counts against the holder.
    """

    priority: int
    record: queued.JobRecord


class BorderChoice:
    """The choice at one chunk border.

    :param gain: a challenger with a deadline needs at least 1 + gain times the
        holder's stress, so that slots do not move back and forth.
    """

    def __init__(
        self,
        inner: strategy.Strategy,
        gain: float,
        view: pool_view.PoolView,
        hold: slots.Hold,
        spoken_for: abc.Set[model.JobId],
        breadth: int,
    ) -> None:
        assert hold.record is not None
        assert hold.slot is not None
        self._inner = inner
        self._gain = gain
        self._view = view
        self._hold = hold
        self._holder = hold.record
        self._slot = hold.slot
        self._spoken_for = spoken_for
        self._breadth = breadth

    def challenger(self) -> model.JobId | None:
        """Return the job that takes the slot; None: the holder keeps it."""
        job, accounts = self._holder.job, self._view.accounts
        if accounts is None:
            return None
        if accounts.lane_of(job.project) is not None:
            found = self._best(self._own(), job.priority)
            if found is not None:
                return found
        if accounts.is_above_share(job.project):
            return self._best(
                self._of_others(accounts), accounts.priority_of(job)
            )
        return None

    def _own(self) -> abc.Iterator[_Rival]:
        """Yield the jobs of the holder's own project."""
        for record in self._waiting(self._holder.job.project):
            yield _Rival(record.job.priority, record)

    def _of_others(self, accounts: sharing.Accounts) -> abc.Iterator[_Rival]:
        """Yield the jobs of projects that have not used up their shares."""
        view, looked = self._view, 0
        account = accounts.first_from(())
        while account is not None and looked < self._breadth:
            key, project = account.key, account.project
            if accounts.has_to_wait(project):
                return
            looked += 1
            if (
                project != self._holder.job.project
                and not view.is_held(project)
                # It may have used up its share since it was last charged.
                and not accounts.is_above_share(project)
            ):
                for record in self._waiting(project):
                    yield _Rival(accounts.priority_of(record.job), record)
            account = accounts.first_from((*key, 0))

    def _waiting(self, project: str) -> abc.Iterator[queued.JobRecord]:
        """Yield the jobs of a project for which no slot is idle."""
        jobs = self._view.jobs
        if project in jobs.lanes:
            for _, lane in jobs.lanes[project].ranked():
                yield from self._fitting(lane)
        if project in jobs.urgent:
            for _, lane in jobs.urgent[project].ranked():
                yield from self._fitting(lane)

    def _fitting(self, lane: queued.Lane) -> abc.Iterator[queued.JobRecord]:
        """Yield the jobs of a lane for which no slot is idle.

        Without deadlines, only the first job of each group can be chosen.
        """
        view, slot = self._view, self._slot
        first_will_do = not (self._inner.deadlines_preempt or lane.urgent)
        if not view.may_follow(lane, self._holder.job):
            return
        for group in lane.groups():
            if (
                not group.count
                or not group.fits(slot.id, slot.shape)
                or view.has_idle(group)
            ):
                continue
            for key in group.jobs:
                record = view.record(key[-1])
                if self._may_come(record.job):
                    yield record
                    if first_will_do:
                        break

    def _may_come(self, job: model.Job) -> bool:
        """Return whether a job needs a slot and this host accepts it."""
        host = self._slot.host
        return job.id not in self._spoken_for and (
            job.is_local_to(host.id) or not self._hold.local or host.is_open
        )

    def _best(
        self, rivals: abc.Iterable[_Rival], priority: int
    ) -> model.JobId | None:
        """Return the best rival, if it should take the slot."""
        able = [each for each in rivals if each.priority >= priority]
        highest = max((each.priority for each in able), default=priority)
        contenders = [
            self._contender(each.record)
            for each in able
            if each.priority == highest
        ]
        now, holder = self._view.now, self._view.contender(self._holder)
        if highest == priority:
            contenders = [
                each
                for each in contenders
                if self._inner.deadlines_preempt
                and hjf.stress(each, now) > 0
                and not hjf.is_lost(each, now)
                and hjf.may_displace(each, holder, now, self._gain)
            ]
            if contenders:
                contenders.append(holder)
        if not contenders:
            return None
        contenders.sort(key=lambda each: each.job.id)
        chosen = self._inner.most_urgent(contenders, now).job.id
        return None if chosen == self._holder.job.id else chosen

    def _contender(self, record: queued.JobRecord) -> strategy.Contender:
        """Describe a job, including the time to program the slot for it."""
        at_once = self._slot.starts_at_once(record.job.accelerator)
        return self._view.contender(
            record, 0.0 if at_once else self._slot.spec.programming_time_s
        )
