# SPDX-License-Identifier: Apache-2.0

"""Fair shares, limits and urgency on top of any other strategy.

The other strategy sees only the jobs that may get the next slot, and makes one
choice at a time.
"""

from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import kinds
from fpgapool.core.queues import sharing
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slots
from fpgapool.strategies import preemption
from fpgapool.strategies import rounds


class SharedStrategy(strategy.Strategy):
    """Shares slots between projects, on top of another strategy.

    The other strategy first sees the jobs of all projects that have waited for
    ``max_wait_s``. Next it sees the jobs of the projects in the first round,
    until a project has used up its bytes for the round or the strategy finds
    no more slots. It never sees jobs of a project at its limit. Of each
    project, it sees only the jobs with the highest priority that could get a
    slot.

    :cvar breadth: see :data:`fpgapool.core.queues.sharing.BREADTH`.
    :param max_wait_s: jobs that have waited this long go first; None: none do.
    :param preempt_gain: see :class:`.preemption.BorderChoice`; None: no job
        takes a slot from another.
    """

    breadth = sharing.BREADTH

    def __init__(
        self,
        inner: strategy.Strategy,
        options: sharing.ShareOptions,
        max_wait_s: float | None = None,
        preempt_gain: float | None = None,
    ) -> None:
        if max_wait_s is not None and not max_wait_s > 0:
            raise ValueError(f"max_wait_s must be positive, not {max_wait_s}")
        self.inner = inner
        self.shares = options
        self._fair = options.fair
        self.max_wait_s = max_wait_s
        self.idle_indexes = inner.idle_indexes
        self.wants_hosts = inner.wants_hosts
        self.wants_accelerators = inner.wants_accelerators
        self.wants_affinity = inner.wants_affinity
        self.wants_rates = inner.wants_rates
        self.claims = inner.claims
        self.reserve_gives_way = inner.reserve_gives_way
        self.skip_limit = inner.skip_limit
        self.wants_kinds = inner.wants_kinds
        self.preempt_gain = preempt_gain
        self._rounds: rounds.Rounds | None = None

    def key(self, job: model.Job) -> ordered.Key:
        return self.inner.key(job)

    def most_urgent(
        self, contenders: abc.Sequence[strategy.Contender], now: float
    ) -> strategy.Contender:
        return self.inner.most_urgent(contenders, now)

    def challenger(
        self,
        view: pool_view.PoolView,
        hold: slots.Hold,
        spoken_for: abc.Set[model.JobId],
        now: float,
    ) -> model.JobId | None:
        if self.preempt_gain is None:
            return None
        return preemption.BorderChoice(
            self.inner,
            self.preempt_gain,
            view,
            hold,
            spoken_for,
            self.breadth,
        ).challenger()

    def patience_s(self, job: model.Job) -> float | None:
        return self.inner.patience_s(job)

    def make_kinds(self, loads: pipe_loads.Loads) -> kinds.Kinds:
        return self.inner.make_kinds(loads)

    def look_again_s(self, view: pool_view.PoolView) -> float | None:
        return self.inner.look_again_s(view)

    def remote_limit(self, slot_count: int) -> int | None:
        return self.inner.remote_limit(slot_count)

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return self.inner.reasons(view, job_id)

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterable[strategy.Choice]:
        if view.jobs.is_plain:
            return self.inner.assign(view, now)
        return self._assign_apart(view, now)

    def _assign_apart(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        try:
            if view.jobs.urgent:
                yield from rounds.serve_together(
                    self.inner, view, now, view.jobs.urgent
                )
            if self._fair:
                yield from self._rounds_of(view).serve_all(now)
            else:
                if view.accounts is not None and view.accounts.users:
                    view.accounts.charge_waiting()
                yield from rounds.serve_together(
                    self.inner, view, now, view.jobs.lanes
                )
        finally:
            view.jobs.show_common()

    def _rounds_of(self, view: pool_view.PoolView) -> rounds.Rounds:
        if self._rounds is None or self._rounds.view is not view:
            self._rounds = rounds.Rounds(self.inner, view, self.breadth)
        return self._rounds
