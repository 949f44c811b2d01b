# SPDX-License-Identifier: Apache-2.0

"""Resource-aware: a job's own host first, other hosts within limits."""

import dataclasses
import heapq
import math
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import queued
from fpgapool.core import slots
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.strategies import base
from fpgapool.strategies.placements import any as any_placement
from fpgapool.vocabulary import codes

# Up to this many hosts with idle slots, a loop over them is faster.
_FEW = 4


@dataclasses.dataclass(frozen=True, slots=True)
class RaOptions:
    """Options of :class:`RaPlacement`.

    :param remote_limit: how many slots of a host jobs of other hosts may
        hold; None: half of its slots, at least one.
    :param skip_limit: a job may leave its host after slots of other hosts
        have passed it over this often; None: passes are not counted.
    :param wait_s_per_byte: a job may leave its host after it has waited this
        long for each claimed byte.
    :param fallback: whether a slot that no job may have goes to the first
        job that it fits nevertheless.
    :param slot_choice: ``index``: an arriving job gets the lowest idle slot
        of its host; any other value: it prefers a slot that need not be
        programmed.
    :param offer_order: order in which idle slots are offered.
    :raises ValueError: if an option is out of its range.
    """

    remote_limit: int | None = None
    skip_limit: int | None = None
    wait_s_per_byte: float = 1e-8
    fallback: bool = False
    slot_choice: str = "least_busy"
    offer_order: str = "least_busy"

    def __post_init__(self) -> None:
        for name in ("remote_limit", "skip_limit"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must not be negative, not {limit}")
        # Infinity is allowed: jobs do not leave their hosts for waiting.
        if math.isnan(self.wait_s_per_byte) or self.wait_s_per_byte < 0:
            raise ValueError(
                "wait_s_per_byte must not be negative, "
                f"not {self.wait_s_per_byte}"
            )
        any_placement.check_order("slot_choice", self.slot_choice)
        any_placement.check_order("offer_order", self.offer_order)


class RaPlacement(base.Placement):
    """Offers each idle slot once, to jobs of its own host first.

    The placement visits only slots whose offer can change something: a job
    takes the slot, or counts that the slot passed it over. During a pass, the
    set of these slots only shrinks.

    Under ``offer_order`` ``least_busy`` and ``random``, a job that takes the
    slot that it is offered gets another one of the same shape and host in
    its stead, if that one was not offered yet and need not be programmed
    while the offered one must be; the offered one is offered again.

    ``random`` draws once for each pass in which a job waits and a slot is
    idle after the arrivals were served: ``generator.permutation(n)`` of the
    n idle slots in index order is the order of the offers.
    """

    def __init__(
        self, options: RaOptions, generator: numpy.random.Generator
    ) -> None:
        self.options = options
        self._generator = generator
        self.skip_limit = options.skip_limit
        self.idle_indexes = strategy.IdleIndexes(
            by_busy=options.offer_order == "least_busy"
        )

    def patience_s(self, job: model.Job) -> float | None:
        return self.options.wait_s_per_byte * job.claimed_bytes

    def remote_limit(self, slot_count: int) -> int | None:
        if self.options.remote_limit is not None:
            return self.options.remote_limit
        return max(1, slot_count // 2)

    def assign(
        self, view: pool_view.PoolView
    ) -> abc.Iterable[strategy.Choice]:
        if not view.slots.idle_total:
            return ()
        idle_hosts = view.slots.idle_hosts
        arrived = [
            record
            for record in view.arrived.values()
            if record.job.host_id in idle_hosts
        ]
        if arrived:
            return self._serve_all(view, arrived)
        return self._offer(view)

    def _serve_all(
        self,
        view: pool_view.PoolView,
        arrived: list[queued.JobRecord],
    ) -> abc.Iterator[strategy.Choice]:
        yield from self._serve_arrivals(view, arrived)
        if view.slots.idle_total:
            yield from self._offer(view)

    def _offer(
        self, view: pool_view.PoolView
    ) -> abc.Iterable[strategy.Choice]:
        offers = _Offers(view, self.options)
        if self.options.offer_order == "random":
            return offers.make_in(self._draw_order(view))
        return offers.make()

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        record = view.record(job_id)
        group = record.group
        if group is None:
            return ()
        if record.homed:
            return (codes.WAITING_FOR_LOCAL,)
        return (codes.REMOTE_LIMIT,)

    def _serve_arrivals(
        self,
        view: pool_view.PoolView,
        arrived: list[queued.JobRecord],
    ) -> abc.Iterator[strategy.Choice]:
        """Give jobs that have just arrived an idle slot of their own host."""
        arrived.sort(key=lambda record: (record.job.arrival_s, record.job.id))
        for record in arrived:
            job, group = record.job, record.group
            if group is None or job.host_id not in view.slots.idle_hosts:
                continue
            host = view.slots.idle_hosts[job.host_id]
            fitting = view.fitting_idle(group, host)
            if self.options.slot_choice != "index":
                fitting.sort(
                    key=lambda slot: not slot.starts_at_once(job.accelerator)
                )
            if fitting:
                yield view.give(record, fitting[0])

    def _draw_order(self, view: pool_view.PoolView) -> list[slots.Slot]:
        if not view.waiting_count:
            return []
        idle = list(view.slots.idle_slots())
        return [idle[n] for n in self._generator.permutation(len(idle))]


class _Offers:
    """The offers of one pass."""

    def __init__(self, view: pool_view.PoolView, options: RaOptions) -> None:
        self._view = view
        self._fallback = options.fallback
        self._counts_skips = options.skip_limit is not None
        self._swaps = options.offer_order != "index"
        self._offered: set[model.SlotId] = set()
        # Ranks of hosts with an idle slot that fits a waiting job of the host.
        self._local_ranks: list[ordered.Key] | None = None

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
                # Go just beyond this rank: the host has nothing left to offer.
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
        """Return the next host with an idle slot that may be of use."""
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
        """Yield the hosts whose slots of a shape may serve any host's jobs."""
        groups = [
            group for group in self._view.jobs.groups_for(shape) if group.count
        ]
        if not groups:
            return
        if self._fallback:
            yield (shape, False)
        if self._fallback or any(map(self._has_remote_job, groups)):
            yield (shape, True)

    def _has_remote_job(self, group: queued.JobGroup) -> bool:
        """Return whether a job would take or count a slot of another host."""
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
        host, is_open = slot.host, slot.host.is_open
        groups = self._view.jobs.groups_for(slot.shape)
        first: ordered.Key | None = None
        for group in groups:
            if slot.id not in group.avoiding:
                key = group.first_for(host.id, is_open)
                if key is not None and (first is None or key < first):
                    first = key
        if self._counts_skips and is_open:
            self._skip_before(first, slot)
        if first is None and self._fallback:
            first = queued.first_key(
                *[g.first() for g in groups if slot.id not in g.avoiding]
            )
        if first is None:
            return None
        record = self._view.jobs.records[first[-1]]
        return self._view.give(record, self._swap(slot, record))

    def _skip_before(self, key: ordered.Key | None, slot: slots.Slot) -> None:
        # Jobs from the slot's own host are not among them: the first of these
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
