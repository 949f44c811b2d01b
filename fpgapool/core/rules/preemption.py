# SPDX-License-Identifier: Apache-2.0

"""Slots that change hands at chunk borders."""

import math
from collections import abc

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import strategy as strategy_api
from fpgapool.core import view as pool_view
from fpgapool.core.rules import holders
from fpgapool.core.rules import turns
from fpgapool.vocabulary import codes

# A slot computes for at least this many times its programming time.
_LEAST_QUANTUM = 10


def quantum_bytes(
    least_bytes: int, peak_bytes_per_s: float, programming_time_s: float
) -> int:
    """Return how many bytes a slot processes between two borders."""
    worth_s = _LEAST_QUANTUM * programming_time_s
    return max(least_bytes, math.ceil(worth_s * peak_bytes_per_s))


class Preemption:
    """Preempts holders at chunk borders, as the strategy decides.

    A revoked slot is promised to one waiting job, which gets it on release.

    :ivar borders: slots whose holders reached a border in this step, with the
        generations of these holders.
    :ivar promised: the job to which each slot that is being revoked is
        promised, by slot.
    """

    def __init__(
        self,
        strategy: strategy_api.Strategy,
        view: pool_view.PoolView,
        slot_holders: holders.Holders,
        project_turns: turns.Turns,
        leading: abc.Mapping[model.JobId, object],
    ) -> None:
        self._strategy = strategy
        self._view = view
        self._holders = slot_holders
        self._turns = project_turns
        # Leaders of sets challenge nobody: see the module returns.
        self._leading = leading
        self.borders: dict[model.SlotId, int] = {}
        self.promised: dict[model.SlotId, model.JobId] = {}

    def on_quantum_done(self, event: events.QuantumDone) -> None:
        """Record that a holder reached a border."""
        hold = self._holders.current(event.slot_id, event.generation)
        if hold is None or hold.record is None or hold.group_id is not None:
            return
        if event.slot_id in self._holders.leaving:
            return
        hold.record.done_bytes = event.bytes
        hold.record.seen_s = self._view.now
        self.borders[event.slot_id] = event.generation

    def on_job_progress(self, event: events.JobProgress) -> None:
        """Record how much of a waiting job its client has computed.

        The amount never decreases.
        """
        record = self._view.jobs.records.get(event.job_id)
        if record is not None and record.group is not None:
            record.done_bytes = max(record.done_bytes, event.bytes)
            if self._view.kinds is not None:
                self._view.kinds.set_done(record)

    def decide(self) -> None:
        """Revoke slots at borders where the strategy names a challenger.

        A holder whose job cannot continue elsewhere keeps its slot.
        """
        view = self._view
        self._forget_void()
        borders, self.borders = self.borders, {}
        if not view.jobs.count:
            return
        at_border = [
            view.slots.slots[slot_id]
            for slot_id in borders
            if slot_id in view.slots.slots
        ]
        for slot in sorted(at_border, key=lambda each: each.position):
            # The holder may have left in the meantime, and another one may
            # have the slot.
            hold = self._holders.current(slot.id, borders[slot.id])
            if hold is None or hold.record is None or hold.revoked:
                continue
            if slot.id in self._holders.leaving or not slot.up:
                continue
            if not view.is_stateless(hold.accelerator):
                continue
            job_id = self._strategy.challenger(
                view, hold, self._spoken_for(), view.now
            )
            if job_id is None:
                job_id = self._turns.challenger(hold, self._spoken_for())
            if job_id is not None:
                self.promised[slot.id] = job_id
                self._holders.make_yield(hold, hold.record, codes.PREEMPTED)

    def _forget_void(self) -> None:
        """Forget promises of slots that have gone to another holder."""
        assignments = self._view.slots.assignments
        for slot_id in list(self.promised):
            hold = assignments.get(slot_id)
            if hold is not None and hold.revoked != codes.PREEMPTED:
                del self.promised[slot_id]

    def _spoken_for(self) -> abc.Set[model.JobId]:
        """Return the jobs that challenge nobody: leaders of sets, and those
        promised a slot whose host is not silent.
        """
        known = self._view.slots.slots
        return {
            job_id
            for slot_id, job_id in self.promised.items()
            if slot_id in known and known[slot_id].host.up
        }.union(self._leading)

    def serve(self) -> abc.Iterator[strategy_api.Choice]:
        """Give released slots to the jobs they are promised to.

        If the job is gone or has another slot, the strategy chooses.
        """
        self._forget_void()
        view = self._view
        for slot_id in list(self.promised):
            if slot_id in view.slots.assignments:
                continue
            record = view.jobs.records.get(self.promised.pop(slot_id))
            slot = view.slots.slots.get(slot_id)
            if (
                record is not None
                and record.group is not None
                and slot is not None
                and view.slots.is_idle(slot_id)
                and view.power.allows(slot)
                and record.group.fits(slot_id, slot.shape)
                and not view.is_job_held(record.job)
            ):
                yield view.give(record, slot, in_turn=False)
