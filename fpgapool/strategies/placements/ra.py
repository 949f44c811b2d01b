# SPDX-License-Identifier: Apache-2.0

"""Resource-aware: a job's own host first, other hosts within limits."""

import dataclasses
import functools
import math
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import slots
from fpgapool.strategies import base
from fpgapool.strategies.placements import any as any_placement
from fpgapool.strategies.placements import offers
from fpgapool.vocabulary import codes


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
    :param affinity: whether jobs of other hosts decline slots of devices that
        run other accelerators, see :mod:`fpgapool.strategies.placements.offers`.
    :param affinity_wait_s: the time after which they take any.
    :raises ValueError: if an option is out of its range.
    """

    remote_limit: int | None = None
    skip_limit: int | None = None
    wait_s_per_byte: float = 1e-8
    fallback: bool = False
    slot_choice: str = "least_busy"
    offer_order: str = "least_busy"
    affinity: bool = False
    affinity_wait_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("remote_limit", "skip_limit"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must not be negative, not {limit}")
        # Infinity is allowed: jobs do not leave their hosts for waiting, or
        # take no slot of another accelerator's device.
        for name in ("wait_s_per_byte", "affinity_wait_s"):
            value = getattr(self, name)
            if math.isnan(value) or value < 0:
                raise ValueError(f"{name} must not be negative, not {value}")
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

    :param misses: with affinity: see :class:`.offers.AffineOffers`.

    ``random`` draws once for each pass in which a job waits and a slot is
    idle after the arrivals were served: ``generator.permutation(n)`` of the
    n idle slots in index order is the order of the offers.
    """

    def __init__(
        self,
        options: RaOptions,
        generator: numpy.random.Generator,
        misses: int | None = None,
    ) -> None:
        self.options = options
        self._generator = generator
        self._offers = _offers_of(options, misses)
        self.wants_affinity = options.affinity
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
        made = self._offers(view)
        if view.slots.idle_total == 1:
            # Whatever the order. A draw for one slot changes nothing.
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
        order = self._generator.permutation(len(idle))
        return [idle[n] for n in order.tolist()]


def _offers_of(
    options: RaOptions, misses: int | None
) -> abc.Callable[[pool_view.PoolView], offers.Offers]:
    """Return how to begin the offers of a pass."""
    fallback = options.fallback
    counts_skips = options.skip_limit is not None
    swaps = options.offer_order != "index"
    if not options.affinity:
        return functools.partial(
            offers.Offers,
            fallback=fallback,
            counts_skips=counts_skips,
            swaps=swaps,
        )
    return functools.partial(
        offers.AffineOffers,
        fallback=fallback,
        counts_skips=counts_skips,
        swaps=swaps,
        wait_s=options.affinity_wait_s,
        misses=misses,
    )


def _has_open_slot(view: pool_view.PoolView, group: queued.JobGroup) -> bool:
    """Whether an idle slot that fits is on a host that takes remote jobs."""
    return any(
        slot.host.is_open and group.fits(slot.id, slot.shape)
        for slot in view.slots.idle_slots()
    )
