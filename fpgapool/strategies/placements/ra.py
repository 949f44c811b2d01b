# SPDX-License-Identifier: Apache-2.0

"""Resource-aware: a job's own host first, other hosts within limits."""

import functools
import typing
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import slots
from fpgapool.strategies import base
from fpgapool.strategies.placements import offers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import scheduling


class RaPlacement(base.Placement):
    """Offers each idle slot once, to jobs of its own host first.

    The placement visits only slots whose offer has an effect: a job takes the
    slot, or the slot counts as having passed over a job. During a pass, the
    set of these slots only shrinks.

    Under ``offer_order`` ``least_busy`` and ``random``, a job may get another
    slot of the same shape and host instead. That slot has not been offered yet
    and, unlike the offered one, need not be programmed. The offered slot is
    then offered again.

    :param misses: with affinity: see :class:`.offers.AffineOffers`.
    :param queue_of: see :class:`.offers.Offers`.
    :param after_wait: see :class:`.offers.Offers`; with affinity it has no
        effect.

    ``random`` draws once for each pass in which a job waits and a slot is
    still idle after the arrivals were served: ``generator.permutation(n)`` of
    the n idle slots in index order gives the order of the offers.
    """

    def __init__(
        self,
        options: scheduling.SharedOptions,
        generator: numpy.random.Generator,
        misses: int | None = None,
        queue_of: abc.Callable[[float], int] | None = None,
        *,
        after_wait: bool = False,
    ) -> None:
        self.options = options
        self._generator = generator
        made: dict[str, typing.Any] = {
            "fallback": bool(options.fallback),
            "counts_skips": options.skip_limit is not None,
            "swaps": options.offer_order != "index",
        }
        self._offers: abc.Callable[..., offers.Offers]
        self._offers = functools.partial(
            offers.Offers, **made, queue_of=queue_of, after_wait=after_wait
        )
        if options.affinity:
            self._offers = functools.partial(
                offers.AffineOffers,
                **made,
                wait_s=options.affinity_wait_s,
                misses=misses,
            )
        self.wants_accelerators = queue_of is not None
        self.wants_affinity = options.affinity
        self.skip_limit = options.skip_limit
        self.reserve_gives_way = options.remote_limit is None
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
        made = self._offers(view)
        if view.slots.idle_total == 1:
            # One slot needs no order, and drawing one would not change the
            # generator.
            return made.make_one()
        if self.options.offer_order == "random":
            return made.make_in(self._draw_order(view))
        return made.make()

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        record = view.record(job_id)
        group = record.group
        if group is None:
            return ()
        if record.homed:
            return (codes.WAITING_FOR_LOCAL,)
        if self.options.affinity and (
            self.options.fallback or _has_open_slot(view, group)
        ):
            return (codes.WAITING_FOR_AFFINITY,)
        return (codes.REMOTE_LIMIT,)

    def _serve_arrivals(
        self,
        view: pool_view.PoolView,
        arrived: list[queued.JobRecord],
    ) -> abc.Iterator[strategy.Choice]:
        """Give newly arrived jobs an idle slot of their own host."""
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

    def _draw_order(
        self, view: pool_view.PoolView
    ) -> abc.Iterable[slots.Slot]:
        if not view.waiting_count:
            return ()
        idle = list(view.slots.idle_slots())
        order = self._generator.permutation(len(idle))
        # Usually, the first slots are taken.
        return map(idle.__getitem__, order.tolist())


def _has_open_slot(view: pool_view.PoolView, group: queued.JobGroup) -> bool:
    """Return whether a host open to remote jobs has a fitting idle slot."""
    return any(
        slot.host.is_open and group.fits(slot.id, slot.shape)
        for slot in view.slots.idle_slots()
    )
