# SPDX-License-Identifier: Apache-2.0

"""Keeps jobs off devices that run other accelerators, for a limited time."""

import dataclasses
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.strategies.placements import ra
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import scheduling
from fpgapool.vocabulary import shapes

_MISSES = shapes.nullable(shapes.integer(0))


@dataclasses.dataclass(frozen=True, slots=True)
class AffinityOptions:
    """Options that only the strategy ``affinity`` has.

    :param affinity_misses: jobs take any slot after this many slots have
        passed over their application, instead of after a time. This is for
        simulations: in a pool, misses come in bursts.
    """

    largest_first: bool = False
    affinity_misses: int | None = None

    def __post_init__(self) -> None:
        _MISSES(self.affinity_misses, "affinity_misses")


class AffinityPlacement(ra.RaPlacement):
    """Offers each idle slot to the waiting jobs in key order.

    A job takes a slot if its fitness for the slot's device is at least its
    threshold; see :class:`.offers.AffineOffers`. The hosts of jobs do not
    matter.

    :param options: those about a job's own host and leaving it have no effect.
    :param misses: see :class:`AffinityOptions`.
    """

    wants_hosts = False

    def __init__(
        self,
        options: scheduling.SharedOptions,
        misses: int | None,
        generator: numpy.random.Generator,
    ) -> None:
        super().__init__(
            dataclasses.replace(
                options, affinity=True, fallback=True, skip_limit=None
            ),
            generator,
            misses,
        )
        self.reserve_gives_way = False

    def patience_s(self, job: model.Job) -> float | None:
        return None

    def remote_limit(self, slot_count: int) -> int | None:
        return None

    def assign(
        self, view: pool_view.PoolView
    ) -> abc.Iterable[strategy.Choice]:
        if not view.slots.idle_total:
            return ()
        return self._offer(view)

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return (codes.WAITING_FOR_AFFINITY,)
