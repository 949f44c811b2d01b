# SPDX-License-Identifier: Apache-2.0

"""Strategies made of an ordering and a placement.

The ordering chooses the next job, the placement its slot. A strategy that
considers pairs of jobs and slots implements
:class:`~fpgapool.core.strategy.Strategy` directly.
"""

import abc
import collections.abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import claims as recent_claims

Strategy = strategy.Strategy
Choice = strategy.Choice


class Ordering(abc.ABC):
    """The order in which jobs wait."""

    #: See :class:`fpgapool.core.strategy.Strategy`.
    deadlines_preempt: bool = False

    @abc.abstractmethod
    def key(self, job: model.Job) -> ordered.Key:
        """See :meth:`fpgapool.core.strategy.Strategy.key`."""

    def most_urgent(
        self,
        contenders: collections.abc.Sequence[strategy.Contender],
        now: float,
    ) -> strategy.Contender:
        """See :meth:`fpgapool.core.strategy.Strategy.most_urgent`."""
        return min(contenders, key=lambda each: self.key(each.job))


class Placement(abc.ABC):
    """Chooses slots; see :class:`fpgapool.core.strategy.Strategy` for its
    members.
    """

    idle_indexes: strategy.IdleIndexes = strategy.IdleIndexes()
    wants_hosts: bool = True
    wants_accelerators: bool = False
    wants_affinity: bool = False
    skip_limit: int | None = None
    reserve_gives_way: bool = False

    def patience_s(self, job: model.Job) -> float | None:
        """Return how long a job waits for its own host; None: forever."""
        return None

    def remote_limit(self, slot_count: int) -> int | None:
        """Return how many remote jobs a host may have; None: any number."""
        return None

    @abc.abstractmethod
    def assign(
        self, view: pool_view.PoolView
    ) -> collections.abc.Iterable[strategy.Choice]:
        """Assign idle slots in one pass."""

    @abc.abstractmethod
    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        """Return why a job still waits although an idle slot fits it."""


class ComposedStrategy(strategy.Strategy):
    """An ordering and a placement."""

    def __init__(
        self,
        ordering: Ordering,
        placement: Placement,
        claims: recent_claims.RecentClaims | None = None,
    ) -> None:
        self.claims = claims
        self.reserve_gives_way = placement.reserve_gives_way
        self.ordering = ordering
        self.placement = placement
        self.idle_indexes = placement.idle_indexes
        self.wants_hosts = placement.wants_hosts
        self.wants_accelerators = placement.wants_accelerators
        self.wants_affinity = placement.wants_affinity
        self.skip_limit = placement.skip_limit
        self.deadlines_preempt = ordering.deadlines_preempt

    def key(self, job: model.Job) -> ordered.Key:
        return self.ordering.key(job)

    def most_urgent(
        self,
        contenders: collections.abc.Sequence[strategy.Contender],
        now: float,
    ) -> strategy.Contender:
        return self.ordering.most_urgent(contenders, now)

    def patience_s(self, job: model.Job) -> float | None:
        return self.placement.patience_s(job)

    def remote_limit(self, slot_count: int) -> int | None:
        return self.placement.remote_limit(slot_count)

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> collections.abc.Iterable[strategy.Choice]:
        return self.placement.assign(view)

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return self.placement.reasons(view, job_id)
