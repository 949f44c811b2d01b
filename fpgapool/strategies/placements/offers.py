# SPDX-License-Identifier: Apache-2.0

"""Offers idle slots one by one to the waiting jobs."""

import heapq
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import applications
from fpgapool.core.queues import queued
from fpgapool.core.queues import times
from fpgapool.core.topology import slots

# No slot has this id, so no job avoids it.
_NO_SLOT = -1
# Up to this many hosts with idle slots, a loop is faster than the indexes.
_FEW = 4
# How many jobs for each slot count at most as delayed by programming.
_MOST_WAITING = 10.0
# A job gives way to others that need no programming for so many times the
# delay.
_PATIENCE = 20.0
# How many of the first jobs of a slot's own host are looked at for one that
# needs no programming.
_LOOK_AT = 4
# A job takes a slot that is kept for others after so many times its own time.
_KEPT_FOR = 10.0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Offers:
    """The offers of one pass.

    :param fallback: whether a slot that the rules give to no job goes to the
        first job that fits it.
    :param after_wait: whether this job must have waited before, see
        :meth:`_takes_kept`; with fair shares it has no effect.
    :param counts_skips: whether to count how often jobs are passed over.
    :param swaps: whether a job may get, instead of the offered slot, one that
        need not be programmed.
    :param queue_of: returns the priority queue for a size, and makes
        programming count, see :meth:`_gives_way`; None: programming does not
        count.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        *,
        fallback: bool,
        counts_skips: bool,
        swaps: bool,
        queue_of: abc.Callable[[float], int] | None = None,
        after_wait: bool = False,
    ) -> None:
        self._view = view
        # With fair shares, each project's first job would have to be asked.
        is_fair = view.accounts is not None and view.accounts.options.fair
        waits = after_wait and view.wakes and not is_fair
        self._shares = view.slots.shares if waits else None
        self._queue_of = queue_of
        self._fallback = fallback
        self._counts_skips = counts_skips
        self._swaps = swaps
        self._offered: set[model.SlotId] = set()
        # First jobs that have to wait for a slot, and its shape.
        self._refused: dict[ordered.Key, str] = {}
        # Ranks of hosts with an idle slot that fits a job waiting for this
        # host.
        self._local_ranks: list[ordered.Key] | None = None

    def make_one(self) -> abc.Sequence[strategy.Choice]:
        """Offer the only idle slot, the usual case in a full pool."""
        (host,) = self._view.slots.idle_hosts.values()
        choice = self._offer(host.idle[0])
        return () if choice is None else (choice,)

    def make(self) -> abc.Iterator[strategy.Choice]:
        """Offer slots in the order of their hosts' ranks, then numbers."""
        cursor: ordered.Key = ()
        table = self._view.slots
        while table.idle_hosts:
            rank = self._next_rank(cursor)
            if rank is None:
                break
            choice = self._offer_one_of(table.hosts[rank[-1]])
            if choice is None:
                # The host has nothing left to offer: continue just beyond it.
                cursor = (*rank, math.inf)
                continue
            # The same host may come again, at this rank or a later one.
            cursor = rank
            yield choice

    def make_in(
        self, order: abc.Iterable[slots.Slot]
    ) -> abc.Iterator[strategy.Choice]:
        """Offer slots in this order, as long as a job waits."""
        for slot in order:
            if not self._view.waiting_count:
                return
            self._offered.add(slot.id)
            while self._view.slots.is_idle(slot.id):
                choice = self._offer(slot)
                if choice is None:
                    break
                yield choice

    # -- which host is next ----------------------------------------------

    def _next_rank(self, cursor: ordered.Key) -> ordered.Key | None:
        """Return the rank of the next host with a slot worth offering."""
        table = self._view.slots
        if len(table.idle_hosts) <= _FEW:
            return self._next_of_few(cursor)
        firsts = [self._next_local_rank(cursor)]
        for shape, count in table.idle_by_shape.items():
            if not count:
                continue
            for bucket in self._useful_buckets(shape):
                queue = table.hosts_in(bucket)
                if queue is not None:
                    firsts.append(queue.at_or_after(cursor))
        return queued.first_key(*firsts)

    def _next_of_few(self, cursor: ordered.Key) -> ordered.Key | None:
        first: ordered.Key | None = None
        for host in self._view.slots.idle_hosts.values():
            rank = host.rank
            if rank >= cursor and (first is None or rank < first):
                first = rank
        return first

    def _next_local_rank(self, cursor: ordered.Key) -> ordered.Key | None:
        ranks = self._local_ranks
        if ranks is None:
            ranks = self._local_ranks = self._find_local_ranks()
        while ranks:
            host = self._view.slots.hosts[ranks[0][-1]]
            if not host.idle or host.rank < cursor:
                heapq.heappop(ranks)
            elif host.rank != ranks[0]:
                heapq.heapreplace(ranks, host.rank)
            else:
                return host.rank
        return None

    def _find_local_ranks(self) -> list[ordered.Key]:
        ranks = [
            host.rank
            for host in map(self._view.slots.hosts.get, self._view.touched)
            if host is not None and self._has_local_match(host)
        ]
        heapq.heapify(ranks)
        return ranks

    def _has_local_match(self, host: slots.Host) -> bool:
        return bool(host.idle) and any(
            host.id in group.by_host and self._view.fitting_idle(group, host)
            for group in self._view.jobs.groups()
        )

    def _useful_buckets(self, shape: str) -> abc.Iterator[slots.OpenBucket]:
        """Yield the buckets of hosts that may serve remote jobs in a shape."""
        groups = [
            group for group in self._view.jobs.groups_for(shape) if group.count
        ]
        if not groups:
            return
        falls_back = self._fallback and self._takes_kept(
            self._view.jobs.shown.first_fitting(_NO_SLOT, shape), shape
        )
        if falls_back:
            yield (shape, False)
        if falls_back or any(map(self._has_remote_job, groups)):
            yield (shape, True)

    def _has_remote_job(self, group: queued.JobGroup) -> bool:
        """Return whether a job may take another host's slot, or be skipped."""
        return bool(
            group.roaming or (self._counts_skips and group.homed_count)
        )

    # -- offers ----------------------------------------------------------

    def _offer_one_of(self, host: slots.Host) -> strategy.Choice | None:
        """Offer a host's idle slots until one is taken."""
        for slot in host.idle:
            if slot.id not in self._offered:
                choice = self._offer(slot)
                if choice is not None:
                    return choice
                self._offered.add(slot.id)
        return None

    def _offer(self, slot: slots.Slot) -> strategy.Choice | None:
        is_open, shown = slot.host.is_open, self._view.jobs.shown
        first = shown.first_for(slot.id, slot.shape, slot.host.id, is_open)
        if self._counts_skips and is_open:
            self._skip_before(first, slot)
        if first is None and self._fallback:
            fitting = shown.first_fitting(slot.id, slot.shape)
            if self._takes_kept(fitting, slot.shape):
                first = fitting
        if first is None:
            return None
        record = self._view.jobs.records[first[-1]]
        taken = self._swap(slot, record)
        if self._queue_of is not None and not taken.starts_at_once(
            record.job.accelerator
        ):
            key = self._first_at_once(shown, slot, is_open or self._fallback)
            if key is not None and self._gives_way(record, slot, key):
                record, taken = self._view.jobs.records[key[-1]], slot
        choice = self._view.give(record, taken)
        shape = self._refused.get(record.key)
        if shape is not None:
            # The next job may get the slot that this one was refused.
            key = shown.first_fitting(_NO_SLOT, shape)
            if self._takes_kept(key, shape):
                self._view.jobs.look_at(self._view.now)
        return choice

    def _takes_kept(self, key: ordered.Key | None, shape: str) -> bool:
        """Return whether the first job that fits a slot takes it by fallback.

        It waits for a multiple of the time that it needs the slot, or that a
        mean claim needs it if that is shorter. Then the pool looks again.

        :param key: of the job; None: there is none.
        """
        if key is None or self._shares is None:
            return key is not None
        view, record = self._view, self._view.jobs.records[key[-1]]
        job = record.job
        claimed_bytes = min(job.claimed_bytes, self._shares.mean_bytes)
        peak = view.accelerators[job.accelerator].peak_in(shape)
        wait_s = _KEPT_FOR * claimed_bytes / peak
        if record.urgent or times.has_waited(job.arrival_s, wait_s, view.now):
            return True
        self._refused[record.key] = shape
        view.jobs.look_at(times.first_due_s(job.arrival_s, wait_s))
        return False

    def _first_at_once(
        self, shown: queued.Shown, slot: slots.Slot, roams: bool
    ) -> ordered.Key | None:
        """Return the first job that a slot can serve without programming.

        :param roams: whether jobs that may go to any host count, too.
        """
        records, programmed = self._view.jobs.records, slot.programmed
        if programmed is None:
            return None
        first: ordered.Key | None = None
        if roams:
            first = shown.first_roaming(slot.id, slot.shape, programmed)
        for own in shown.own(slot.id, slot.shape, slot.host.id):
            for key in own.front[:_LOOK_AT]:
                if first is not None and key >= first:
                    break
                if records[key[-1]].job.accelerator == programmed:
                    first = key
                    break
        return first

    def _gives_way(
        self, record: queued.JobRecord, slot: slots.Slot, key: ordered.Key
    ) -> bool:
        """Return whether a job leaves a slot that must be programmed for it.

        The work that the slot would do in the meantime counts as a part of the
        job, several times if others wait for slots. If that puts the job
        behind the queue of one that the slot can serve at once, that one goes
        first. A job that has waited many times as long does not give way.

        :param key: of the job that the slot can serve at once.
        """
        view, job = self._view, record.job
        waiting = view.jobs.count / max(view.slots.up_total, 1)
        delay_s = slot.spec.programming_time_s * (
            1.0 + min(waiting, _MOST_WAITING)
        )
        if record.urgent or view.now - job.arrival_s >= _PATIENCE * delay_s:
            return False
        if key[0] <= record.key[0]:
            return True
        peak = view.accelerators[job.accelerator].peak_in(slot.shape)
        assert self._queue_of is not None
        last = self._queue_of(job.claimed_bytes + delay_s * peak)
        return bool(key[0] <= last)

    def _skip_before(self, key: ordered.Key | None, slot: slots.Slot) -> None:
        # No jobs of the slot's own host are among them: the first of those
        # would have taken the slot.
        for group in self._view.jobs.groups_for(slot.shape):
            if slot.id not in group.avoiding:
                for skipped in group.jobs.below(key):
                    self._view.skip(skipped[-1])

    def _swap(self, slot: slots.Slot, record: queued.JobRecord) -> slots.Slot:
        """Return the slot that the job gets if it accepts the offered one."""
        if not self._swaps or len(slot.host.idle) == 1:
            return slot
        accelerator, group = record.job.accelerator, record.group
        if slot.starts_at_once(accelerator) or group is None:
            return slot
        for other in slot.host.idle:
            if (
                other.shape == slot.shape
                and other.id not in self._offered
                and other.id not in group.avoiding
                and other.starts_at_once(accelerator)
            ):
                return other
        return slot


# A job without others before it declines for so many programming times.
_DECLINING = 20.0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class AffineOffers(Offers):
    """Offers that jobs decline if the slot's device runs other accelerators.

    In strategies that consider hosts, jobs of the slot's own host always take
    it. Others take it if their fitness for its device is at least their
    threshold; see :func:`fitness` and :func:`threshold_by_misses`.

    If neither a time nor misses are given, a job's patience grows with the
    queue that it found: see :meth:`_has_patience`. Of each accelerator, only
    the first job is asked, and a slot that all decline goes to the first one
    in the queue, so that no slot stays idle for nothing.

    When a job has taken a slot, idle slots of the same device that were
    declined are offered again at the end, because jobs may fit better now.

    :param wait_s: time in which thresholds fall to 0; None: each job's
        patience.
    :param misses: if given, thresholds fall to 0 with this many misses
        instead.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        *,
        fallback: bool,
        counts_skips: bool,
        swaps: bool,
        wait_s: float | None,
        misses: int | None = None,
    ) -> None:
        super().__init__(
            view, fallback=fallback, counts_skips=counts_skips, swaps=swaps
        )
        self._jobs = typing.cast(applications.AffineJobs, view.jobs)
        self._wait_s = wait_s
        self._misses = misses
        # The time at which the first job that declined the slot would take it.
        self._due_s = math.inf
        self._again: set[model.SlotId] = set()
        # Whether jobs may still decline.
        self._is_last = False
        self._programming_s = 0.0

    def make_one(self) -> abc.Sequence[strategy.Choice]:
        choices = super().make_one()
        if not choices and self._ends_declining():
            choices = super().make_one()
        return choices

    def make(self) -> abc.Iterator[strategy.Choice]:
        yield from super().make()
        while self._again or self._ends_declining():
            self._reopen()
            yield from super().make()

    def make_in(
        self, order: abc.Iterable[slots.Slot]
    ) -> abc.Iterator[strategy.Choice]:
        idle = list(order)
        yield from super().make_in(idle)
        while self._again or self._ends_declining():
            again = self._reopen()
            yield from super().make_in(
                slot for slot in idle if slot.id in again
            )

    def _ends_declining(self) -> bool:
        """Offer all slots that were declined once more, to jobs that must not.

        :returns: whether there are such slots and jobs.
        """
        view = self._view
        if (
            self._is_last
            or self._wait_s is not None
            or self._misses is not None
            or not (view.slots.idle_total and view.waiting_count)
        ):
            return False
        self._is_last = True
        self._again = set(self._offered)
        return True

    def _reopen(self) -> set[model.SlotId]:
        """Reopen declined slots for offers; return their ids."""
        again, self._again = self._again, set()
        self._offered -= again
        self._local_ranks = None
        return again

    def _offer(self, slot: slots.Slot) -> strategy.Choice | None:
        host, is_open = slot.host, slot.host.is_open
        held = self._held_beside(slot)
        self._programming_s = slot.spec.programming_time_s
        groups = [
            (group, _fitness(slot, group.accelerator, held))
            for group in self._jobs.groups_for(slot.shape)
            if group.count and slot.id not in group.avoiding
        ]
        self._due_s = math.inf
        keys = [group.first_for(host.id, False) for group, _ in groups]
        if is_open:
            keys += [
                self._first_willing(group, group.roaming, fitness)
                for group, fitness in groups
            ]
        first = queued.first_key(*keys)
        if self._counts_skips and is_open and not self._is_last:
            self._skip_before(first, slot)
        if first is None and self._fallback:
            first = queued.first_key(
                *[
                    self._first_willing(group, group.jobs, fitness)
                    for group, fitness in groups
                ]
            )
        if self._misses is not None:
            self._jobs.miss(
                key[-1]
                for group, _ in groups
                for key in group.jobs.below(first)
            )
        if first is None:
            self._jobs.look_at(self._due_s)
            return None
        record = self._jobs.records[first[-1]]
        taken = self._swap(slot, record)
        choice = self._view.give(record, taken)
        self._again.update(
            other.id
            for other in host.idle
            if other.id in self._offered
            and other is not slot
            and other.spec.device_id == taken.spec.device_id
        )
        return choice

    def _skip_before(self, key: ordered.Key | None, slot: slots.Slot) -> None:
        # Jobs that may leave their hosts have declined the slot, so it did not
        # pass them over.
        records = self._jobs.records
        for group in self._jobs.groups_for(slot.shape):
            if slot.id not in group.avoiding:
                for skipped in group.jobs.below(key):
                    if records[skipped[-1]].homed:
                        self._view.skip(skipped[-1])

    def _held_beside(self, slot: slots.Slot) -> list[str]:
        """Return the accelerators of the jobs on the slot's device."""
        assignments = self._view.slots.assignments
        return [
            hold.accelerator
            for other in slot.host.slots
            if other.spec.device_id == slot.spec.device_id
            and (hold := assignments.get(other.id)) is not None
            and hold.record is not None
        ]

    def _first_willing(
        self, group: queued.JobGroup, queue: ordered.KeyQueue, fitness: float
    ) -> ordered.Key | None:
        """Return the first job of a queue that takes the slot."""
        if fitness >= 1.0 or not queue or self._is_last:
            return queue.first()
        jobs, records = self._jobs, self._jobs.records
        if self._misses is not None:
            for key in queue:
                misses = jobs.misses(records[key[-1]])
                if fitness >= threshold_by_misses(misses, self._misses):
                    return key
            return None
        if self._wait_s is None:
            first = queue.front[0]
            declines = self._has_patience(records[first[-1]], fitness)
            return None if declines else first
        needed_s = (1.0 - fitness) * self._wait_s
        # Usually all jobs decline: if the one that has waited longest
        # declines, so do the others.
        oldest_s = jobs.oldest_s(group)
        if not times.has_waited(oldest_s, needed_s, self._view.now):
            self._expect(oldest_s, needed_s)
            return None
        oldest_s = math.inf
        for key in queue:
            since_s = jobs.since_s(records[key[-1]])
            if times.has_waited(since_s, needed_s, self._view.now):
                return key
            oldest_s = min(oldest_s, since_s)
        self._expect(oldest_s, needed_s)
        return None

    def _has_patience(self, record: queued.JobRecord, fitness: float) -> bool:
        """Return whether a job still declines the slot.

        Its patience is a multiple of the time to program the slot, for itself
        and for the jobs before it that each slot has to serve first. However
        often its application is served, it declines for twice that at most.
        """
        found = self._jobs.found(record) / sum(
            self._view.slots.up_by_shape.values()
        )
        patience_s = _DECLINING * self._programming_s * (1.0 + found)
        since_s = min(
            self._jobs.since_s(record), record.job.arrival_s + patience_s
        )
        return not times.has_waited(
            since_s, (1.0 - fitness) * patience_s, self._view.now
        )

    def _expect(self, since_s: float, needed_s: float) -> None:
        self._due_s = min(self._due_s, times.first_due_s(since_s, needed_s))


def _fitness(slot: slots.Slot, accelerator: str, held: list[str]) -> float:
    """Return how well an accelerator fits a slot."""
    if slot.starts_at_once(accelerator):
        return math.inf
    return fitness(held.count(accelerator), len(held))


def fitness(n_acc: int, n: int) -> float:
    """Return an accelerator's share of a device's jobs; inf if none."""
    return n_acc / n if n else math.inf


def threshold_by_misses(misses: int, allowed: int) -> float:
    """Return the minimum fitness that a job with this many misses accepts.

    :param misses: how often the job was passed over since the last grant.
    :param allowed: number of misses after which it takes any slot; 0: it
        always does.
    """
    return max(0.0, 1.0 - misses / allowed) if allowed else 0.0
