# SPDX-License-Identifier: Apache-2.0

"""Any compatible idle slot, on any host."""

import itertools
import typing
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import slot_table
from fpgapool.core.topology import slots
from fpgapool.strategies import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import scheduling

# Up to this many idle slots, a loop over them is faster than the indexes.
_FEW = 8


class AnyPlacement(base.Placement):
    """Serves jobs in key order; a job that fits no idle slot is passed over.

    Among slots of equal rank, the placement prefers one that need not be
    programmed for the job, except under ``index``.

    ``random`` draws once for each decision, even if only one slot is left:
    ``generator.integers(n)`` picks one of n candidates. These are the idle
    slots that fit and can start at once, in the order (shape, those that never
    take time to program first, host id, slot number). If there are none, they
    are all idle slots that fit, in the order (shape, host id, slot number).
    """

    wants_hosts = False

    def __init__(
        self,
        options: scheduling.SharedOptions,
        generator: numpy.random.Generator,
    ) -> None:
        self.options = options
        self._generator = generator
        order = options.slot_choice
        self.idle_indexes = strategy.IdleIndexes(
            by_busy=order == "least_busy",
            by_programmed=order != "index",
            by_slot=order == "random",
        )

    def assign(
        self, view: pool_view.PoolView
    ) -> abc.Iterator[strategy.Choice]:
        if not view.slots.idle_total:
            return
        groups = [group for group in view.jobs.groups() if group.count]
        while groups := [group for group in groups if view.has_idle(group)]:
            key = queued.first_key(*[group.first() for group in groups])
            if key is None:
                break
            record = view.record(key[-1])
            slot_id = self.choose(view, record)
            yield view.give(record, view.slots.slots[slot_id])

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return (codes.WAITING_FOR_PASS,)

    def choose(
        self, view: pool_view.PoolView, record: queued.JobRecord
    ) -> model.SlotId:
        """Choose a slot for a job that fits at least one idle slot."""
        group = typing.cast(queued.JobGroup, record.group)
        accelerator = record.job.accelerator
        if group.avoiding or view.slots.idle_total <= _FEW:
            return self._choose_among_all(view, group, accelerator)
        if self.options.slot_choice == "random":
            return self._draw(view, group, accelerator)
        return self._choose_first(view, group, accelerator)

    def _choose_first(
        self,
        view: pool_view.PoolView,
        group: queued.JobGroup,
        accelerator: str,
    ) -> model.SlotId:
        table = view.slots
        shapes = _idle_shapes(view, group)
        rank = _first_rank(table, itertools.product(shapes, (False, True)))
        at_once = False
        if self.options.slot_choice == "least_busy":
            ready_rank = _first_rank(
                table, itertools.product(shapes, (slots.INSTANT, accelerator))
            )
            # Ranks begin with the number of busy slots.
            at_once = ready_rank[:1] == rank[:1]
            rank = ready_rank if at_once else rank
        return next(
            slot.id
            for slot in view.fitting_idle(group, table.hosts[rank[-1]])
            if not at_once or slot.starts_at_once(accelerator)
        )

    def _draw(
        self,
        view: pool_view.PoolView,
        group: queued.JobGroup,
        accelerator: str,
    ) -> model.SlotId:
        shapes = _idle_shapes(view, group)
        queues = _slot_queues(
            view.slots, itertools.product(shapes, (slots.INSTANT, accelerator))
        ) or _slot_queues(view.slots, shapes)
        number = int(self._generator.integers(sum(map(len, queues))))
        for queue in queues:
            if number < len(queue):
                break
            number -= len(queue)
        slot_id: model.SlotId = queue[number][-1]
        return slot_id

    def _choose_among_all(
        self,
        view: pool_view.PoolView,
        group: queued.JobGroup,
        accelerator: str,
    ) -> model.SlotId:
        """Choose without the indexes.

        The indexes include slots where the job failed, and for a few slots
        they are not needed.
        """
        hosts = view.slots.idle_hosts
        fitting = [
            slot
            for host_id in sorted(hosts)
            for slot in view.fitting_idle(group, hosts[host_id])
        ]
        order = self.options.slot_choice
        if order == "index" or (order != "random" and len(fitting) == 1):
            return fitting[0].id
        if order == "least_busy":
            return min(
                fitting,
                key=lambda slot: (
                    slot.host.busy_count,
                    not slot.starts_at_once(accelerator),
                ),
            ).id
        ready = [s for s in fitting if s.starts_at_once(accelerator)]
        candidates = sorted(
            ready or fitting,
            key=lambda slot: (
                slot.shape,
                bool(ready) and slot.program_tag() != slots.INSTANT,
                slot.position,
            ),
        )
        return candidates[int(self._generator.integers(len(candidates)))].id


def _idle_shapes(
    view: pool_view.PoolView, group: queued.JobGroup
) -> list[str]:
    return sorted(
        shape
        for shape, count in view.slots.idle_by_shape.items()
        if count and group.fits_shape(shape)
    )


def _first_rank(
    table: slot_table.SlotTable,
    buckets: abc.Iterable[slots.OpenBucket | slots.ProgrammedBucket],
) -> ordered.Key:
    """Return the first rank in any of the buckets; empty if all are empty."""
    queues = map(table.hosts_in, buckets)
    firsts = (queue.first() for queue in queues if queue is not None)
    return queued.first_key(*firsts) or ()


def _slot_queues(
    table: slot_table.SlotTable,
    buckets: abc.Iterable[str | slots.ProgrammedBucket],
) -> list[ordered.SortedKeys]:
    queues = map(table.slots_in, buckets)
    return [queue for queue in queues if queue]
