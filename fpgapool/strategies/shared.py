# SPDX-License-Identifier: Apache-2.0

"""Fair shares, limits and urgency, over any other strategy.

The other strategy does not know of them. It sees only the jobs that may have
the next slot, and makes one choice after the other.
"""

import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import queued
from fpgapool.core import sharing
from fpgapool.core import slots
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.strategies import preemption


@native.mypyc_attr(allow_interpreted_subclasses=True)
class SharedStrategy(strategy.Strategy):
    """Shares slots between projects, over another strategy.

    The other strategy first sees the jobs of all projects that have waited for
    ``max_wait_s``. Then it sees the jobs of the projects of the first round,
    until a project has used up its bytes for the round or the strategy finds
    no more slots. It never sees jobs of a project at its limit, and of each
    project only the jobs with the highest priority that could get a slot.

    :cvar breadth: number of projects of a round that compete at a time. With
        this many, most slots find a job of their own host, and the search
        stays short.

    :param inner: the other strategy.
    :param options: weights, quantum and limits.
    :param max_wait_s: None: no job goes first because it has waited.
    :param preempt_gain: see :class:`.preemption.Preemption`; None: no job
        takes a slot from another.
    :raises ValueError: if ``max_wait_s`` is not positive.
    """

    breadth = 64

    def __init__(
        self,
        inner: strategy.Strategy,
        options: sharing.Options,
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
        self.wants_affinity = inner.wants_affinity
        self.wants_rates = inner.wants_rates
        self.look_again_s = inner.look_again_s
        self.skip_limit = inner.skip_limit
        self.preempt_gain = preempt_gain
        self._rounds: _Rounds | None = None

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
        return preemption.Preemption(
            self.inner,
            self.preempt_gain,
            view,
            hold,
            spoken_for,
            self.breadth,
        ).challenger()

    def patience_s(self, job: model.Job) -> float | None:
        return self.inner.patience_s(job)

    def weight(self, job: model.Job) -> float:
        return self.inner.weight(job)

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
            yield from self._serve_together(view, now, view.jobs.urgent)
            if self._fair:
                yield from self._rounds_of(view).serve_all(now)
            else:
                yield from self._serve_together(view, now, view.jobs.lanes)
        finally:
            view.jobs.show_common()

    def _rounds_of(self, view: pool_view.PoolView) -> "_Rounds":
        if self._rounds is None or self._rounds.view is not view:
            self._rounds = _Rounds(self.inner, view, self.breadth)
        return self._rounds

    def _serve_together(
        self,
        view: pool_view.PoolView,
        now: float,
        lanes: abc.Mapping[str | None, queued.Lane],
    ) -> abc.Iterator[strategy.Choice]:
        """Let jobs of all projects below their limits compete."""
        done: set[queued.Lane] = set()
        while view.slots.idle_total:
            allowed = _allowed(view, lanes, done)
            if not allowed:
                return
            view.jobs.show(queued.together(allowed))
            for choice in self.inner.assign(view, now):
                yield choice
                project = view.record(choice.job_id).job.project
                if view.is_held(project) or _has_ranks(view, project):
                    break
            else:
                if not view.jobs.ranked:
                    return
                done.update(allowed)


def _allowed(
    view: pool_view.PoolView,
    lanes: abc.Mapping[str | None, queued.Lane],
    done: abc.Set[queued.Lane],
) -> list[queued.Lane]:
    """Return the jobs of projects below their limits.

    :param done: the lanes for which there are no more slots.
    """
    allowed = [
        lane for lane in lanes.values() if not view.is_held(lane.project)
    ]
    if not view.jobs.ranked:
        return [lane for lane in allowed if lane.size]
    return [
        lane
        for first in allowed
        if (lane := _highest(view, first, done)) is not None
    ]


def _highest(
    view: pool_view.PoolView,
    first: queued.Lane,
    done: abc.Set[queued.Lane],
) -> queued.Lane | None:
    """Return a project's jobs with the highest priority that may gain.

    :param first: the project's own lane.
    """
    if not first.ranks:
        return first if _may_gain(view, first, done) else None
    for _, lane in first.ranked():
        if _may_gain(view, lane, done):
            return lane
    return None


def _may_gain(
    view: pool_view.PoolView, lane: queued.Lane, done: abc.Set[queued.Lane]
) -> bool:
    return lane not in done and any(
        group.count and view.has_idle(group) for group in lane.groups()
    )


def _has_ranks(view: pool_view.PoolView, project: str) -> bool:
    """Whether the next slot of a project may be for another priority."""
    if not view.jobs.ranked:
        return False
    first = view.jobs.lanes.get(project)
    return first is not None and bool(first.ranks)


class _Rivals(typing.NamedTuple):
    """Projects of one round that compete for slots.

    :ivar lanes: those of their jobs that come first.
    :ivar shown: these jobs.
    :ivar end: just beyond the place of the last project.
    """

    lanes: tuple[queued.Lane, ...]
    shown: queued.Shown
    end: ordered.Key


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Rounds:
    """The rounds of all passes over one pool.

    A lane for which the other strategy finds no slot is done for the pass,
    because slots do not become idle during a pass.
    """

    def __init__(
        self,
        inner: strategy.Strategy,
        view: pool_view.PoolView,
        breadth: int,
    ) -> None:
        self.view = view
        self._inner = inner
        self._breadth = breadth
        self._accounts = typing.cast(sharing.Accounts, view.accounts)
        self._done: set[queued.Lane] = set()
        # The first rivals seldom change between two passes.
        self._first: _Rivals | None = None
        self._first_for: tuple[object, ...] | None = None

    def serve_all(self, now: float) -> abc.Iterator[strategy.Choice]:
        """Give slots to the projects of one round after the other."""
        self._done.clear()
        self._accounts.charge_waiting()
        cursor: ordered.Key = ()
        rivals = self._find_first()
        while rivals is not None:
            yield from self._serve(rivals, now)
            if not self.view.slots.idle_total:
                return
            if rivals.lanes[0] in self._done and not self.view.jobs.ranked:
                cursor = rivals.end
            rivals, _ = self._find(cursor)

    def _serve(
        self, rivals: _Rivals, now: float
    ) -> abc.Iterator[strategy.Choice]:
        """Let rivals compete until one has to wait, or all are done."""
        view, accounts = self.view, self._accounts
        view.jobs.show(rivals.shown)
        for choice in self._inner.assign(view, now):
            yield choice
            project = view.record(choice.job_id).job.project
            if (
                accounts.has_to_wait(project)
                or view.is_held(project)
                or _has_ranks(view, project)
            ):
                return
        self._done.update(rivals.lanes)

    def _find_first(self) -> _Rivals | None:
        """Return the first rivals of a pass."""
        view = self.view
        if not view.slots.idle_total:
            return None
        idle_shapes = [s for s, n in view.slots.idle_by_shape.items() if n]
        state = (self._accounts.changes, view.jobs.changes, idle_shapes)
        if state != self._first_for:
            self._first, depends_on_slots = self._find(())
            self._first_for = None if depends_on_slots else state
        return self._first

    def _find(self, cursor: ordered.Key) -> tuple[_Rivals | None, bool]:
        """Find the first projects, from a place on, that may get a slot.

        :returns: the projects, and whether the result depends on which slots
            of a shape are idle.
        """
        accounts, lanes = self._accounts, self.view.jobs.lanes
        found: list[queued.Lane] = []
        round_ = 0
        depends_on_slots = False
        while len(found) < self._breadth:
            account = accounts.first_from(cursor)
            if account is None or (
                found and accounts.round_of(account) != round_
            ):
                break
            # Go on just beyond its place.
            cursor = (*account.key, 0)
            first = lanes[account.project]
            depends_on_slots |= bool(first.ranks) or any(
                group.avoided for group in first.groups()
            )
            if self.view.is_held(account.project):
                continue
            lane = _highest(self.view, first, self._done)
            if lane is not None:
                found.append(lane)
                round_ = accounts.round_of(account)
        if not found:
            return None, depends_on_slots
        shown = queued.together(found)
        return _Rivals(tuple(found), shown, cursor), depends_on_slots
