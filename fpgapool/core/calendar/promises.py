# SPDX-License-Identifier: Apache-2.0

"""What reservations by calendar mean for slots now."""

import math
import typing
from collections import abc

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.queues import queued
from fpgapool.core.topology import slots

#: A job that cannot move gets a slot that is reserved later only if it would
#: be done by then at half the slot's rate.
SLACK = 2.0


def owner_of(project: str, accelerator: str) -> str:
    """Return the owner of slots that a project has for an accelerator."""
    return f"{project}\0{accelerator}"


class Pool(typing.Protocol):
    """The members of the pool's view that promises use."""

    accelerators: dict[str, model.Accelerator]
    now: float


class Promises:
    """The slots that are reserved by calendar.

    :ivar owners: the owner of each slot that is reserved now.
    :ivar until_s: the next start of a reservation, by slot.
    """

    def __init__(self, view: Pool) -> None:
        self._view = view
        self.owners: dict[model.SlotId, str] = {}
        self.until_s: dict[model.SlotId, float] = {}

    def __bool__(self) -> bool:
        """Whether a slot is promised to anybody."""
        return bool(self.owners or self.until_s)

    def has(self, slot_id: model.SlotId) -> bool:
        """Return whether a slot is reserved now or soon."""
        return slot_id in self.owners or slot_id in self.until_s

    def set(self, event: events.CalendarChanged) -> set[model.SlotId]:
        """Set all promises; return the slots that are to be marked anew."""
        owners, until_s = dict(event.owners), dict(event.until_s)
        changed = {
            slot_id
            for slot_id in self.owners.keys() | owners.keys()
            if self.owners.get(slot_id) != owners.get(slot_id)
        }
        changed |= self.until_s.keys() ^ until_s.keys()
        self.owners, self.until_s = owners, until_s
        return changed

    def allows(self, job: model.Job, slot: slots.Slot) -> bool:
        """Return whether a job may have a slot until its next reservation.

        It may if it can move to another slot, or if it ends before, according
        to its claim.
        """
        until_s = self.until_s.get(slot.id, math.inf)
        if until_s == math.inf or job.group_id is not None:
            return True
        accelerator = self._view.accelerators[job.accelerator]
        if accelerator.stateless:
            return True
        return self._view.now + needed_s(job, accelerator, slot) <= until_s

    def closes(self, job: model.Job, slot: slots.Slot) -> bool:
        """Return whether a job can have a slot only after a reservation."""
        owner = self.owners.get(slot.id)
        if owner is not None:
            return owner != owner_of(job.project, job.accelerator)
        return not self.allows(job, slot)

    def closes_all(
        self, job: model.Job, known: abc.Iterable[slots.Slot]
    ) -> bool:
        """Return whether a job can have none of the slots that fit it."""
        accelerator = self._view.accelerators[job.accelerator]
        fitting = [
            slot
            for slot in known
            if slot.is_usable and accelerator.fits(slot.spec.shape)
        ]
        return bool(fitting) and all(self.closes(job, one) for one in fitting)

    def closes_at_s(
        self, job: model.Job, idle: abc.Iterable[slots.Slot]
    ) -> float | None:
        """Return until when a job would have to end to get an idle slot.

        :returns: None if no slot that fits it is reserved later.
        """
        accelerator = self._view.accelerators[job.accelerator]
        starts_s = [
            self.until_s[slot.id]
            for slot in idle
            if slot.id in self.until_s
            and slot.id not in self.owners
            and slot.is_usable
            and accelerator.fits(slot.spec.shape)
            and not self.allows(job, slot)
        ]
        return max(starts_s, default=None)

    def first_short(
        self, jobs: abc.Iterable[queued.JobRecord], slot: slots.Slot
    ) -> queued.JobRecord | None:
        """Return the first of these jobs that may have a kept slot."""
        for record in jobs:
            group = record.group
            if (
                group is not None
                and slot.id not in group.avoiding
                and self._view.accelerators[record.job.accelerator].fits(
                    slot.spec.shape
                )
                and self.allows(record.job, slot)
            ):
                return record
        return None


def needed_s(
    job: model.Job, accelerator: model.Accelerator, slot: slots.Slot
) -> float:
    """Return how long a job will have a slot at most, by its claim."""
    spec = slot.spec
    rate = min(accelerator.peak_in(spec.shape), slot.bytes_per_s)
    prepare_s = 0.0
    if not slot.starts_at_once(job.accelerator):
        prepare_s = spec.programming_time_s
    return prepare_s + SLACK * job.claimed_bytes / rate
