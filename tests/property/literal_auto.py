# SPDX-License-Identifier: Apache-2.0

"""The rule of auto, written down word for word; loops over all pairs."""

import typing

from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import slots
from fpgapool.strategies.joint import auto
from tests.property import literal_era


class Pass(literal_era.Pass):
    """One pass over a pool that stays as it is."""

    options: auto.AutoOptions  # type: ignore[assignment]

    def __init__(
        self, options: auto.AutoOptions, view: pool_view.PoolView, now: float
    ) -> None:
        self.read(view, now)
        self.options = options

    def rank(
        self, record: queued.JobRecord, slot: slots.Slot
    ) -> tuple[typing.Any, ...]:
        options, job = self.options, record.job
        busy = self.count[self.pipes.dma(slot.spec.device_id)]
        device = next(
            d for d in slot.host.spec.devices if d.id == slot.spec.device_id
        )
        must_program = not slot.starts_at_once(job.accelerator)
        weight = 1.0 + min(
            len(self.jobs) / len(self.all_up), options.programming_weight_max
        )
        program_s = slot.spec.programming_time_s if must_program else 0.0
        rate = self.rate(record, slot)
        score = self.work(record) / self.gain(record, slot)
        score *= 1.0 + weight * program_s * rate / job.claimed_bytes
        if self.leaves(record, slot):
            score *= (
                options.leave_penalty_idle
                if self.is_light(record, slot)
                else options.leave_penalty
            )
        score *= 1.0 + options.spread * busy / len(device.slots)
        return (
            score,
            job.arrival_s,
            job.id,
            busy,
            must_program,
            slot.position,
        )

    def is_allowed(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        options = self.options
        if self.first_of_kind(record) is not record or self.is_behind(
            record, slot
        ):
            return False
        if self.is_local(record, slot):
            return True
        rate, peak = self.rate(record, slot), self.peak(record, slot)
        if self.has_home(record):
            return rate >= options.leave_min_share * peak and (
                not self.wait_s(record)
                < options.leave_s_per_byte * record.job.claimed_bytes - 1e-12
                or self.is_light(record, slot)
            )
        share = options.min_share_idle if self.is_idle() else options.min_share
        share /= 1.0 + options.patience * self.waited(record)
        return rate >= share * peak or all(
            self.spare(pipe, options.min_free) >= 0
            for pipe, _ in self.uses(record, slot)
        )

    def is_behind(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        """Whether the board has a better slot for the job."""
        return any(
            other.spec.device_id == slot.spec.device_id
            and other.shape == slot.shape
            and self.fits(record, other)
            and (
                not other.starts_at_once(record.job.accelerator),
                other.number,
            )
            < (not slot.starts_at_once(record.job.accelerator), slot.number)
            for other in self.idle
        )

    def leaves(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        return self.has_home(record) and not self.is_local(record, slot)

    def is_light(self, record: queued.JobRecord, slot: slots.Slot) -> bool:
        rate = self.rate(record, slot)
        return self.is_idle() or all(
            self.spare(pipe, self.options.leave_min_free) >= rate * cost
            for pipe, cost in self.uses(record, slot)[1:]
        )

    def spare(self, pipe: int, part: float) -> float:
        if self.capacity[pipe] == float("inf"):
            return float("inf")
        return self.left(pipe) - part * self.capacity[pipe]

    def may_leave(self, record: queued.JobRecord) -> bool:
        return True

    def waited(self, record: queued.JobRecord) -> float:
        """How many service times it has waited."""
        peak = self.accelerator(record).peak_bytes_per_s
        return self.wait_s(record) * peak / record.job.claimed_bytes

    def work(self, record: queued.JobRecord) -> float:
        work = record.job.claimed_bytes**self.options.size_power
        return float(work / (1.0 + self.options.ageing * self.waited(record)))
