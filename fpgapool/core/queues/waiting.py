# SPDX-License-Identifier: Apache-2.0

"""The waiting jobs, in the orders that passes need."""

import math
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core.calendar import promises
from fpgapool.core.queues import kinds as job_kinds
from fpgapool.core.queues import lanes
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.queues import times


@native.mypyc_attr(allow_interpreted_subclasses=True)
class WaitingJobs(lanes.Lanes):
    """All waiting jobs.

    :param strategy: orders the jobs, and limits how long a job waits for its
        own host.
    :param is_home: whether a host has a usable slot for a group's jobs.
    :ivar records: the jobs that are waiting or have a slot.
    :ivar avoiding: the groups that avoid slots; a dict as an ordered set, like
        those of ``of_hosts``.
    :ivar of_hosts: the groups with jobs of a host, by host; empty unless the
        strategy wants hosts.
    :ivar of_instances: the keys of waiting jobs, by instance and accelerator,
        and those of the owners of slots that are reserved by calendar.
    :ivar owners: these owners.
    :ivar patience: when jobs stop waiting for their own host.
    :ivar quiet_until_s: a time before which no timer is due.
    :ivar look_s: when the first job that declined a slot in this pass, or was
        refused it, would get it.
    :ivar skipped: jobs that were passed over; None: they are not recorded.
    """

    def __init__(
        self,
        strategy: preferences.Preferences,
        is_home: abc.Callable[[queued.JobGroup, model.HostId], bool],
        kinds: job_kinds.Kinds | None = None,
        accounts: sharing.Accounts | None = None,
    ) -> None:
        super().__init__(strategy.max_wait_s, accounts)
        self._strategy = strategy
        self._kinds = kinds
        self._skip_limit = strategy.skip_limit
        self._by_accelerator = strategy.wants_accelerators
        self.skipped: set[model.JobId] | None = None
        self.by_host = strategy.wants_hosts
        self._is_home = is_home
        self._ranks = ordered.Ranks(self._keys)
        self.count = 0
        self.records: dict[model.JobId, queued.JobRecord] = {}
        self.avoiding: dict[queued.JobGroup, None] = {}
        self.of_hosts: dict[model.HostId, dict[queued.JobGroup, None]] = {}
        self.of_instances: dict[str, dict[str, ordered.KeyQueue]] = {}
        self.owners: set[str] = set()
        self.patience = ordered.Timers()
        self.limits = ordered.Timers()
        self.ageing = ordered.Timers()
        self.quiet_until_s = math.inf
        self.look_s = math.inf

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> abc.Iterator[model.Job]:
        for key in sorted(self._keys()):
            yield self.records[key[-1]].job

    def _keys(self) -> list[ordered.Key]:
        return [
            record.key
            for record in self.records.values()
            if record.group is not None
        ]

    def position(self, record: queued.JobRecord) -> int:
        """Return the number of jobs before this one."""
        return self._ranks.rank(record.key)

    # -- coming and going ------------------------------------------------

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        """Put a job in its place in the queue."""
        job, key = record.job, record.key
        record.group = group
        group.count += 1
        group.lane.size += 1
        self.count += 1
        if self._ranks.followed:
            self._ranks.note(key)
        group.jobs.add(key)
        if group.jobs.front[0] == key:
            self._note_change(group.lane)
        if job.instance_id is not None:
            self._add_of_instance(job, job.instance_id, key)
        if self.owners:
            owner = promises.owner_of(job.project, job.accelerator)
            if owner in self.owners:
                self._add_of_instance(job, owner, key)
        if self.by_host:
            if job.host_id is not None:
                self._add_of_host(group, job.host_id, key)
            self._place(record, group, now)
        if self._kinds is not None:
            self._kinds.add(record, group, now)
        if job.wait_timeout_s is not None:
            limit_s = job.arrival_s + job.wait_timeout_s
            if limit_s < math.inf:
                record.limit_s = limit_s
                self._expect(self.limits, limit_s, job.id)
        if self._max_wait_s is not None and not record.urgent:
            due_s = times.first_due_s(job.arrival_s, self._max_wait_s)
            if due_s < math.inf:
                record.urgent_s = due_s
                self._expect(self.ageing, due_s, job.id)

    def _add_of_host(
        self, group: queued.JobGroup, host_id: model.HostId, key: ordered.Key
    ) -> None:
        jobs = group.by_host.get(host_id)
        if jobs is None:
            jobs = group.by_host[host_id] = ordered.KeyQueue()
            self.of_hosts.setdefault(host_id, {})[group] = None
            self._update_home(group, host_id)
        jobs.add(key)

    def _add_of_instance(
        self, job: model.Job, instance_id: str, key: ordered.Key
    ) -> None:
        queues = self.of_instances.setdefault(instance_id, {})
        if job.accelerator not in queues:
            queues[job.accelerator] = ordered.KeyQueue()
        queues[job.accelerator].add(key)

    def _remove_of_instance(
        self, job: model.Job, instance_id: str, key: ordered.Key
    ) -> None:
        queues = self.of_instances[instance_id]
        queues[job.accelerator].remove(key)
        if not queues[job.accelerator].front:
            del queues[job.accelerator]
        if not queues:
            del self.of_instances[instance_id]

    def set_owners(self, owners: set[str]) -> None:
        """Set the owners of slots that are reserved by calendar."""
        if owners == self.owners:
            return
        for owner in self.owners - owners:
            self.of_instances.pop(owner, None)
        new = owners - self.owners
        self.owners = owners
        for record in self.records.values() if new else ():
            if record.group is not None:
                job = record.job
                owner = promises.owner_of(job.project, job.accelerator)
                if owner in new:
                    self._add_of_instance(job, owner, record.key)

    def _expect(
        self, timers: ordered.Timers, time_s: float, job_id: model.JobId
    ) -> None:
        timers.add(time_s, job_id)
        if time_s < self.quiet_until_s:
            self.quiet_until_s = time_s

    def remove(self, record: queued.JobRecord) -> None:
        group, key = record.group, record.key
        if group is None:
            raise KeyError(record.job.id)
        lane = group.lane
        group.jobs.remove(key)
        group.count -= 1
        lane.size -= 1
        self.count -= 1
        if self._ranks.followed:
            self._ranks.note(key)
        if record.job.instance_id is not None:
            self._remove_of_instance(record.job, record.job.instance_id, key)
        if self.owners:
            job = record.job
            owner = promises.owner_of(job.project, job.accelerator)
            if owner in self.owners:
                self._remove_of_instance(job, owner, key)
        if self.by_host:
            self._displace(record, group)
            host_id = record.job.host_id
            if host_id is not None:
                jobs = group.by_host[host_id]
                jobs.remove(key)
                if not jobs.front:
                    self._forget_host(group, host_id)
        if not group.count:
            self._note_change(lane)
        if self._kinds is not None:
            self._kinds.remove(record)
        record.group = None
        if record.limit_s is not None:
            self.limits.remove(record.limit_s, record.job.id)
            record.limit_s = None
        if record.urgent_s is not None:
            self.ageing.remove(record.urgent_s, record.job.id)
            record.urgent_s = None
        # Groups that avoid slots would accumulate. Other groups are few, and
        # soon used again.
        if group.avoided and not group.count:
            del self.avoiding[group]
            lane.drop(group)
        if lane is not self._common and not lane.size:
            self._drop_lane(lane, record.job)

    def _forget_host(
        self, group: queued.JobGroup, host_id: model.HostId
    ) -> None:
        """Record that a host has no more jobs in a group."""
        del group.by_host[host_id]
        group.homes.discard(host_id)
        groups = self.of_hosts[host_id]
        del groups[group]
        if not groups:
            del self.of_hosts[host_id]

    def grant(self, record: queued.JobRecord, now: float) -> None:
        """Remove a job that gets a slot from the queue."""
        self.remove(record)

    def rehome(
        self, group: queued.JobGroup, host_id: model.HostId, now: float
    ) -> None:
        """Update whether a host has a usable slot for its own jobs."""
        jobs = group.by_host[host_id]
        was_home = host_id in group.homes
        self._update_home(group, host_id)
        if (host_id in group.homes) == was_home:
            return
        if self._kinds is not None:
            self._kinds.rehome(group, host_id)
        for key in jobs:
            record = self.records[key[-1]]
            self._displace(record, group)
            self._place(record, group, now)
            if self._kinds is not None:
                self._kinds.set_homed(record)

    def _update_home(
        self, group: queued.JobGroup, host_id: model.HostId
    ) -> None:
        if self._is_home(group, host_id):
            group.homes.add(host_id)
        else:
            group.homes.discard(host_id)

    def skip(self, record: queued.JobRecord) -> None:
        """Record that a slot of another host passed over a homed job."""
        record.skips += 1
        if self.skipped is not None:
            self.skipped.add(record.job.id)
        if self._has_skips_enough(record):
            self._release(record)

    def hosts(self) -> set[model.HostId]:
        """Return the hosts with waiting jobs of their own.

        It is empty unless the strategy wants hosts.
        """
        return set(self.of_hosts)

    # -- times -----------------------------------------------------------

    def look_at(self, time_s: float) -> None:
        """Request another pass at this time, or earlier if one is due."""
        self.look_s = min(self.look_s, time_s)

    def release_due(self, now: float) -> bool:
        """Let jobs that have waited long enough use other hosts.

        :returns: whether there were any.
        """
        due = self.patience.take_due(now)
        for job_id in due:
            record = self.records[job_id]
            record.patience_s = None
            if record.homed:
                self._release(record)
        return bool(due)

    def take_urgent(self, now: float) -> list[queued.JobRecord]:
        """Return the jobs that became urgent, and end their timers."""
        if self.ageing.first_s() > now:
            return []
        urgent = [self.records[i] for i in self.ageing.take_due(now)]
        for record in urgent:
            record.urgent_s = None
        return urgent

    def take_overdue(self, now: float) -> list[queued.JobRecord]:
        """Return the overdue jobs, and end their timers."""
        if self.limits.first_s() > now:
            return []
        overdue = [self.records[i] for i in self.limits.take_due(now)]
        for record in overdue:
            record.limit_s = None
        return overdue

    def update_quiet(self) -> None:
        """Compute :attr:`quiet_until_s` anew, after timers have ended."""
        self.quiet_until_s = min(
            self.limits.first_s(),
            self.patience.first_s(),
            self.ageing.first_s(),
        )

    def next_due_s(self, *, with_patience: bool) -> float:
        """Return the next due time; infinite if there is none.

        :param with_patience: whether all timers count; otherwise, only
            ``limits`` does.
        """
        self.update_quiet()
        return self.quiet_until_s if with_patience else self.limits.first_s()

    def _release(self, record: queued.JobRecord) -> None:
        # A job released because of skips keeps its patience timer. When that
        # is due, the job is offered the idle slots.
        group = record.group
        if group is None:
            raise KeyError(record.job.id)
        record.homed = False
        group.homed_count -= 1
        self._let_roam(record, group)
        if self._kinds is not None:
            self._kinds.set_homed(record)

    def _has_skips_enough(self, record: queued.JobRecord) -> bool:
        limit = self._skip_limit
        return limit is not None and record.skips >= limit

    def _place(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        """Queue a job for its own host or for any host."""
        job = record.job
        if job.host_id not in group.homes:
            self._let_roam(record, group)
            return
        patience_s = self._strategy.patience_s(job)
        due_s = math.inf
        if patience_s is not None:
            due_s = times.first_due_s(job.arrival_s, patience_s)
        if now < due_s < math.inf:
            record.patience_s = due_s
            self._expect(self.patience, due_s, job.id)
        if due_s <= now or self._has_skips_enough(record):
            self._let_roam(record, group)
            return
        record.homed = True
        group.homed_count += 1

    def _let_roam(
        self, record: queued.JobRecord, group: queued.JobGroup
    ) -> None:
        group.roaming.add(record.key)
        if self._by_accelerator:
            accelerator = record.job.accelerator
            jobs = group.roaming_of.get(accelerator)
            if jobs is None:
                jobs = group.roaming_of[accelerator] = ordered.KeyQueue()
            jobs.add(record.key)

    def _displace(
        self, record: queued.JobRecord, group: queued.JobGroup
    ) -> None:
        """Undo what :meth:`_place` did."""
        if record.patience_s is not None:
            self.patience.remove(record.patience_s, record.job.id)
            record.patience_s = None
        if record.homed:
            record.homed = False
            group.homed_count -= 1
        else:
            group.roaming.remove(record.key)
            if self._by_accelerator:
                accelerator = record.job.accelerator
                jobs = group.roaming_of[accelerator]
                jobs.remove(record.key)
                if not jobs.front:
                    del group.roaming_of[accelerator]
