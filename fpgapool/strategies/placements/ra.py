#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Resource-aware: a job's own host first, others with restraint."""

import dataclasses
import heapq
import math
from collections import abc

import numpy

from fpgapool.core import codes
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import slots
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core import waiting
from fpgapool.strategies import base
from fpgapool.strategies.placements import any as any_placement


@dataclasses.dataclass(frozen=True, slots=True)
class RaOptions:
    """Options of :class:`RaPlacement`.

    :param remote_limit: how many jobs of elsewhere may hold slots of a
        host; None: half of its slots, at least one.
    :param skip_limit: a job that was passed over so often by slots of
        other hosts may leave its host; None: not for that, and it is not
        counted.
    :param wait_s_per_byte: a job that has waited so long for each claimed
        byte may leave its host.
    :param fallback: whether a slot that nobody may have goes to the first
        job that it fits all the same.
    :param slot_choice: ``index``: a job that arrives gets the lowest idle
        slot of its host; else one that need not be programmed is preferred.
    :param offer_order: in which order idle slots are offered.
    :raises ValueError: if one of them is out of its range.
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
        # Infinity is a value of use: no job leaves its host for waiting.
        if math.isnan(self.wait_s_per_byte) or self.wait_s_per_byte < 0:
            raise ValueError(
                "wait_s_per_byte must not be negative, "
                f"not {self.wait_s_per_byte}"
            )
        any_placement.check_order("slot_choice", self.slot_choice)
        any_placement.check_order("offer_order", self.offer_order)


class RaPlacement(base.Placement):
    """Offers each idle slot once, to jobs of its own host above all.

    Only slots are visited to which an offer can make a difference: such a
    slot takes a job, or passes over a job that counts it. During a pass
    slots only lose interest, never gain it.

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

    def assign(self, view: pool_view.PoolView) -> list[strategy.Choice]:
        choices = self._serve_arrivals(view)
        offers = _Offers(view, self.options)
        if self.options.offer_order == "random":
            choices.extend(offers.make_in(self._draw_order(view)))
        else:
            choices.extend(offers.make())
        return choices

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        record = view.record(job_id)
        group = record.group
        if group is None:
            return ()
        if record.queue is group.homed:
            return (codes.WAITING_FOR_LOCAL,)
        return (codes.REMOTE_LIMIT,)

    def _serve_arrivals(
        self, view: pool_view.PoolView
    ) -> list[strategy.Choice]:
        """Give jobs that arrived just now an idle slot of their own host."""
        arrived = [view.record(job_id).job for job_id in view.arrived]
        arrived.sort(key=lambda job: (job.arrival_s, job.id))
        choices = []
        for job in arrived:
            group = view.record(job.id).group
            if group is None or job.host_id not in group.homes:
                continue
            host = view.slots.hosts[job.host_id]
            if not host.idle:
                continue
            fitting = view.fitting_idle(group, host)
            if self.options.slot_choice != "index":
                fitting.sort(
                    key=lambda slot: not slot.starts_at_once(job.accelerator)
                )
            if fitting:
                choices.append(view.take(job.id, fitting[0].id))
        return choices

    def _draw_order(self, view: pool_view.PoolView) -> list[slots.Slot]:
        if not view.waiting_count:
            return []
        idle = list(view.slots.idle_slots())
        if not idle:
            return []
        return [idle[n] for n in self._generator.permutation(len(idle))]


class _Offers:
    """The offers of one pass."""

    def __init__(self, view: pool_view.PoolView, options: RaOptions) -> None:
        self._view = view
        self._fallback = options.fallback
        self._counts_skips = options.skip_limit is not None
        self._swaps = options.offer_order != "index"
        self._offered: set[model.SlotId] = set()
        # Ranks of the hosts with an idle slot for a waiting job of theirs.
        self._local_ranks = [
            host.rank
            for host in map(view.slots.hosts.get, view.touched)
            if host is not None and self._has_local_match(host)
        ]
        heapq.heapify(self._local_ranks)

    def _has_local_match(self, host: slots.Host) -> bool:
        return bool(host.idle) and any(
            host.id in group.by_host and self._view.fitting_idle(group, host)
            for group in self._view.jobs.groups()
        )

    def make(self) -> abc.Iterator[strategy.Choice]:
        """Offer slots in the order of their hosts' ranks, then numbers."""
        cursor: ordered.Key = ()
        while (rank := self._next_rank(cursor)) is not None:
            slot = self._next_slot(self._view.slots.hosts[rank[-1]])
            if slot is None:
                # Just beyond this rank: there is nothing left to offer.
                cursor = (*rank, math.inf)
                continue
            # The same host may come again, at this rank or a later one.
            cursor = rank
            choice = self._offer(slot)
            if choice is None:
                self._offered.add(slot.id)
            else:
                yield choice

    def make_in(
        self, order: abc.Iterable[slots.Slot]
    ) -> abc.Iterator[strategy.Choice]:
        """Offer slots in this order."""
        for slot in order:
            self._offered.add(slot.id)
            while self._view.slots.is_idle(slot.id) and self._is_useful(slot):
                choice = self._offer(slot)
                if choice is None:
                    break
                yield choice

    def _next_rank(self, cursor: ordered.Key) -> ordered.Key | None:
        table = self._view.slots
        ranks = [self._next_local_rank(cursor)]
        for shape, count in table.idle_by_shape.items():
            if not count:
                continue
            for bucket in self._useful_buckets(shape):
                queue = table.hosts_in(bucket)
                if queue is not None:
                    ranks.append(queue.at_or_after(cursor))
        return waiting.first_key(*ranks)

    def _next_local_rank(self, cursor: ordered.Key) -> ordered.Key | None:
        ranks = self._local_ranks
        while ranks:
            host = self._view.slots.hosts[ranks[0][-1]]
            if not host.idle or host.rank < cursor:
                heapq.heappop(ranks)
            elif host.rank != ranks[0]:
                heapq.heapreplace(ranks, host.rank)
            else:
                return host.rank
        return None

    def _useful_buckets(self, shape: str) -> abc.Iterator[slots.OpenBucket]:
        """Which hosts' slots of a shape are of use wherever jobs are from."""
        groups = [
            group for group in self._view.jobs.groups_for(shape) if group.count
        ]
        if not groups:
            return
        if self._fallback:
            yield (shape, False)
        if self._fallback or any(map(self._has_remote_job, groups)):
            yield (shape, True)

    def _has_remote_job(self, group: waiting.JobGroup) -> bool:
        """Whether a job would take, or count, a slot of another host."""
        return bool(
            group.rootless
            or group.released
            or (self._counts_skips and group.homed)
        )

    def _next_slot(self, host: slots.Host) -> slots.Slot | None:
        """The host's first slot that is of use and was not offered yet."""
        numbers = sorted(
            number_and_id
            for idle in host.idle.values()
            for number_and_id in idle
            if number_and_id[1] not in self._offered
        )
        for _, slot_id in numbers:
            slot = self._view.slots.slots[slot_id]
            if self._is_useful(slot):
                return slot
        return None

    def _groups(self, slot: slots.Slot) -> list[waiting.JobGroup]:
        return [
            group
            for group in self._view.jobs.groups_for(slot.shape)
            if group.count and slot.id not in group.avoiding
        ]

    def _is_useful(self, slot: slots.Slot) -> bool:
        host = slot.host
        return any(
            self._fallback
            or host.id in group.by_host
            or (host.is_open and self._has_remote_job(group))
            for group in self._groups(slot)
        )

    def _offer(self, slot: slots.Slot) -> strategy.Choice | None:
        host = slot.host
        groups = self._groups(slot)
        keys = [group.first_of(host.id) for group in groups]
        if host.is_open:
            for group in groups:
                keys.append(group.rootless.first())
                keys.append(group.released.first())
        key = waiting.first_key(*keys)
        if self._counts_skips and host.is_open:
            self._skip_before(key, groups)
        if key is None and self._fallback:
            key = waiting.first_key(*(group.first() for group in groups))
        if key is None:
            return None
        record = self._view.record(key[-1])
        return self._view.take(record.job.id, self._swap(slot, record).id)

    def _skip_before(
        self, key: ordered.Key | None, groups: list[waiting.JobGroup]
    ) -> None:
        # Those from the slot's own host are not among them: the first of
        # these would have been taken.
        for group in groups:
            for skipped in group.homed.below(key):
                self._view.skip(skipped[-1])

    def _swap(self, slot: slots.Slot, record: waiting.JobRecord) -> slots.Slot:
        """The slot that the job gets when it takes the offered one."""
        accelerator, group = record.job.accelerator, record.group
        if (
            not self._swaps
            or slot.starts_at_once(accelerator)
            or group is None
        ):
            return slot
        for other in self._view.fitting_idle(group, slot.host):
            if (
                other.shape == slot.shape
                and other.id not in self._offered
                and other.starts_at_once(accelerator)
            ):
                return other
        return slot
