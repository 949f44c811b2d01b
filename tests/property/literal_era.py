# SPDX-License-Identifier: Apache-2.0

"""The rule of era, written down word for word.

Plain loops over all pairs of jobs and slots; only the loads of pipes are
taken from the pool, where the invariants check them.
"""

import math
import typing

from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.queues import columns
from fpgapool.core.queues import queued
from fpgapool.core.topology import slots
from fpgapool.strategies.joint import era


class Pass:
    """One pass over a pool that stays as it is.

    :ivar choices: (job id, slot id) as they were made.
    """

    def __init__(
        self, options: era.EraOptions, view: pool_view.PoolView, now: float
    ) -> None:
        self.options = options
        assert isinstance(view.kinds, columns.Columns)
        self.long_bytes = view.kinds.recent_sizes.quantile(options.long_from)
        self.read(view, now)

    def read(self, view: pool_view.PoolView, now: float) -> None:
        """Read the pool, which may change afterwards."""
        self.view = view
        self.now = now
        assert view.loads is not None
        self.pipes = view.loads
        self.load = dict(enumerate(view.loads.loads.tolist()))
        self.count = dict(enumerate(view.loads.counts.tolist()))
        self.capacity = dict(enumerate(view.loads.capacities.tolist()))
        self.jobs = [
            record
            for record in view.jobs.records.values()
            if record.slot_id is None
        ]
        self.all_up = [s for s in view.slots.slots.values() if s.up]
        self.idle = [s for s in self.all_up if view.slots.is_idle(s.id)]
        self.choices: list[tuple[int, int]] = []

    def run(self) -> None:
        while True:
            pairs = [
                (*self.rank(record, slot), record, slot)
                for slot in self.idle
                for record in self.jobs
                if self.fits(record, slot) and self.is_allowed(record, slot)
            ]
            if not pairs:
                return
            *_, record, slot = min(pairs, key=lambda pair: pair[:-2])
            self.take(record, slot)

    # -- the rule --------------------------------------------------------

    def rank(
        self, record: queued.JobRecord, slot: slots.Slot
    ) -> tuple[typing.Any, ...]:
        options = self.options
        busy = self.count[self.pipes.dma(slot.spec.device_id)]
        device = next(
            d for d in slot.host.spec.devices if d.id == slot.spec.device_id
        )
        score = self.work(record) / self.gain(record, slot)
        if self.has_home(record) and not self.is_local(record, slot):
            score *= (
                options.leave_penalty_idle
                if self.is_idle()
                else options.leave_penalty
            )
        score *= 1.0 + options.spread * busy / len(device.slots)
        return (
            score,
            record.job.arrival_s,
            record.job.id,
            busy,
            not slot.starts_at_once(record.job.accelerator),
            slot.position,
        )

    def is_allowed(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        options = self.options
        if self.is_local(record, slot):
            return True
        if not self.may_leave(record):
            return False
        rate, peak = self.rate(record, slot), self.peak(record, slot)
        if self.has_home(record):
            share = options.leave_min_share
        elif self.is_idle():
            share = options.min_share_idle
        else:
            share = options.min_share
        first = self.first_of_kind(record)
        if options.patience > 0:
            waited = self.wait_s(first) / first.job.claimed_bytes
            share = share / (1.0 + options.patience * waited * peak)
        if rate >= share * peak:
            return True
        if self.has_home(record):
            return False
        return all(
            self.free(pipe) >= options.min_free
            for pipe, _ in self.uses(record, slot)
        )

    def may_leave(self, record: queued.JobRecord) -> bool:
        return (
            not self.has_home(record)
            or self.is_idle()
            or not self.wait_s(record)
            < self.options.leave_s_per_byte * record.job.claimed_bytes - 1e-12
        )

    def first_of_kind(self, record: queued.JobRecord) -> queued.JobRecord:
        return min(
            (
                other
                for other in self.jobs
                if other.group is record.group
                and other.job.host_id == record.job.host_id
                and other.job.accelerator == record.job.accelerator
                and self.may_leave(other)
            ),
            key=lambda other: (
                self.work(other),
                other.job.arrival_s,
                other.job.id,
            ),
        )

    def work(self, record: queued.JobRecord) -> float:
        job, options = record.job, self.options
        factor = 1.0
        if job.claimed_bytes > self.long_bytes:
            factor = options.long_factor
        return (
            job.claimed_bytes**options.size_power
            * factor
            / (1.0 + options.aging_per_s * self.wait_s(record))
        )

    def wait_s(self, record: queued.JobRecord) -> float:
        return max(self.now - record.job.arrival_s, 0.0)

    def gain(self, record: queued.JobRecord, slot: slots.Slot) -> float:
        rate = self.rate(record, slot)
        lost = 0.0
        for pipe, cost in self.in_order(record, slot):
            lost += max(rate * cost - self.left(pipe), 0.0)
        return max(rate - self.options.loss_weight * lost, 0.02 * rate)

    def rate(self, record: queued.JobRecord, slot: slots.Slot) -> float:
        return min(
            self.accelerator(record).peak_bytes_per_s,
            *(
                self.share(pipe) / cost
                for pipe, cost in self.uses(record, slot)
            ),
        )

    def peak(self, record: queued.JobRecord, slot: slots.Slot) -> float:
        return min(
            self.accelerator(record).peak_bytes_per_s,
            self.share(self.pipes.dma(slot.spec.device_id)),
        )

    # -- pipes -----------------------------------------------------------

    def uses(
        self, record: queued.JobRecord, slot: slots.Slot
    ) -> list[tuple[int, float]]:
        pipes, job, here = self.pipes, record.job, slot.host.id
        ratio = self.accelerator(record).return_ratio
        found = [(pipes.dma(slot.spec.device_id), 1.0)]
        if job.host_id == here:
            return found
        if job.host_id is not None:
            found.append((pipes.egress(job.host_id), 1.0))
        found.append((pipes.ingress(here), 1.0))
        if ratio > 0:
            found.append((pipes.egress(here), ratio))
            if job.host_id is not None:
                found.append((pipes.ingress(job.host_id), ratio))
        return found

    in_order = uses

    def left(self, pipe: int) -> float:
        return max(self.capacity[pipe] - self.load[pipe], 0.0)

    def share(self, pipe: int) -> float:
        equal = self.capacity[pipe] / (self.count[pipe] + 1.0)
        return max(equal, self.left(pipe))

    def free(self, pipe: int) -> float:
        if math.isinf(self.capacity[pipe]):
            return 1.0
        return self.left(pipe) / self.capacity[pipe]

    # -- jobs and slots --------------------------------------------------

    def accelerator(self, record: queued.JobRecord) -> model.Accelerator:
        return self.view.accelerators[record.job.accelerator]

    def is_idle(self) -> bool:
        busy = len(self.all_up) - len(self.idle)
        return 1.0 - busy / len(self.all_up) >= self.options.idle_share

    def is_local(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        return record.job.host_id == slot.host.id

    def can_hold(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        return self.accelerator(record).fits(slot.shape)

    def fits(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        """A job avoids a slot that failed it while there is another."""
        if not self.can_hold(record, slot):
            return False
        return slot.id not in record.avoided or not any(
            self.can_hold(record, other) and other.id not in record.avoided
            for other in self.all_up
        )

    def has_home(self, record: queued.JobRecord) -> bool:
        return any(
            slot.host.id == record.job.host_id and self.fits(record, slot)
            for slot in self.all_up
        )

    def take(self, record: queued.JobRecord, slot: slots.Slot) -> None:
        rate = self.rate(record, slot)
        for pipe, cost in self.uses(record, slot):
            self.load[pipe] += cost * rate
            self.count[pipe] += 1
        self.jobs.remove(record)
        self.idle.remove(slot)
        self.choices.append((record.job.id, slot.id))
