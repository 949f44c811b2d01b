# SPDX-License-Identifier: Apache-2.0

"""Shows another strategy the jobs of projects whose turn it is."""

import typing
from collections import abc

from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing


def serve_together(
    inner: strategy.Strategy,
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
        for choice in inner.assign(view, now):
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
    """Return the lanes of projects below their limits."""
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
    """Return a project's lane of the highest priority that may get a slot."""
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
    """Return whether a project's next slot may go to another priority."""
    if not view.jobs.ranked:
        return False
    first = view.jobs.lanes.get(project)
    return first is not None and bool(first.ranks)


class _Rivals(typing.NamedTuple):
    """Projects of one round that compete for slots.

    :ivar lanes: each project's lane of the highest priority.
    :ivar end: a key just after the place of the last project.
    """

    lanes: tuple[queued.Lane, ...]
    shown: queued.Shown
    end: ordered.Key


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Rounds:
    """The rounds of all passes over one pool.

    If the other strategy finds no slot for a lane, the lane is done for the
    pass, because slots do not become idle during a pass.
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
        # Cached, because the first rivals seldom change between passes.
        self._first: _Rivals | None = None
        self._first_for: tuple[object, ...] | None = None

    def serve_all(self, now: float) -> abc.Iterator[strategy.Choice]:
        """Give slots to the projects, one round after another."""
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
        """Let rivals compete until one must wait, or all are done."""
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
        """Find the next projects that may get a slot, starting at a place.

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
            # Continue just beyond its place.
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
