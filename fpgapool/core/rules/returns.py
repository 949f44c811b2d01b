# SPDX-License-Identifier: Apache-2.0

"""Sessions that have lost their slots, and are served before due sets.

Such a session may be one of several that need each other, such as the stages
of a chain: the others hold their slots, and wait for it. A due set may wait
for just these slots, and withholds the idle ones. So each pass with due sets
first serves the sessions that lost a slot to a fault, a drain, a reservation
or a challenger. They may have any idle slot that fits; the strategy says in
which order. Limits, turns, power and reservations hold for them, too: who
belongs to a project that is served last returns when all others have been
served, but a due set may still lack the slot that it takes.

Sets do not starve by this. While a set is due, slots that it could have go to
no new job. So those who return had slots before it was due, or took one
at the border of a quantum from somebody who had. Each has a slot for itself at
most, as if it had not lost its own, and computes what is left of its input.

No right to return have

* sessions that exceeded their claims: they leave for the others that wait;
* members of groups: their groups go on without them;
* jobs of sets that have not started: their sets are due again.

The leader of a set challenges nobody: who made room for it would return before
the set has its other slots.
"""

from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import slots

# Entries of jobs that wait no longer are removed from this number on.
_LEAST_KEPT = 64


class Returns:
    """The waiting jobs that have lost their slots."""

    def __init__(self, view: pool_view.PoolView) -> None:
        self._view = view
        # Some of them wait no longer.
        self._records: dict[model.JobId, queued.JobRecord] = {}
        self._most = _LEAST_KEPT

    def note(self, record: queued.JobRecord) -> None:
        """Note that the job of a session waits again."""
        self._records[record.job.id] = record
        if len(self._records) > self._most:
            self.waiting()
            self._most = max(2 * len(self._records), _LEAST_KEPT)

    def waiting(self) -> list[queued.JobRecord]:
        """Return those that still wait, in the strategy's order."""
        known = self._view.jobs.records
        self._records = {
            job_id: record
            for job_id, record in self._records.items()
            if record.group is not None and known.get(job_id) is record
        }
        return sorted(self._records.values(), key=_key)

    def serve(
        self, leaving: abc.Container[model.SlotId]
    ) -> abc.Iterator[preferences.Choice]:
        """Give them idle slots.

        :param leaving: the slots whose holders leave soon; none of these.
        """
        view = self._view
        if not (self._records and view.slots.idle_total):
            return
        # Jobs of one group fit the same slots.
        in_vain: set[queued.JobGroup] = set()
        for record in self.waiting():
            group = record.group
            if group is None or group in in_vain or self._is_full(record):
                continue
            found = [
                slot
                for slot in view.slots.idle_slots()
                if slot.id not in leaving
                and group.fits(slot.id, slot.shape)
                and view.power.allows(slot)
            ]
            if not found:
                in_vain.add(group)
                continue
            yield view.give(record, _best(record.job, found), in_turn=False)

    def _is_full(self, record: queued.JobRecord) -> bool:
        """Return whether its project or user may have no further slot.

        That a set of theirs needs room is no reason.
        """
        accounts, project = self._view.accounts, record.job.project
        return accounts is not None and (
            accounts.is_passed(project) or accounts.is_at_limit(record.job)
        )


def _key(record: queued.JobRecord) -> ordered.Key:
    return record.key


def _best(job: model.Job, found: list[slots.Slot]) -> slots.Slot:
    """Return a slot of the job's host, or one that needs no programming."""
    return min(
        found,
        key=lambda slot: (
            not job.is_local_to(slot.host.id),
            not slot.starts_at_once(job.accelerator),
            slot.position,
        ),
    )
