# SPDX-License-Identifier: Apache-2.0

"""Shows another strategy the jobs of projects whose turn it is."""

import bisect
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import limits
from fpgapool.core.queues import queued
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing
from fpgapool.core.queues import users as project_users

# There are few sets of shapes that are idle at once, and most are of one
# shape.
_MAX_FIRST = 8
# Number of users of a project that compete at once if they take no turns. Each
# has a lane, which each change of the project puts in its place again.
_USERS = 16


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
            if _is_changed(view, view.record(choice.job_id).job):
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
    return [lane for first in allowed for lane in _highest(view, first, done)]


def _highest(
    view: pool_view.PoolView,
    first: queued.Lane,
    done: abc.Set[queued.Lane],
) -> list[queued.Lane]:
    """Return a project's lanes of the highest priority that may get a slot.

    If the project tells its users apart, each has a lane; if they take turns,
    only the one whose turn it is.
    """
    if not first.ranks:
        return [first] if _may_gain(view, first, done) else []
    if first.users is not None:
        return _of_users(view, first, first.users, done)
    for _, lane in first.ranked():
        if _may_gain(view, lane, done):
            return [lane]
    return []


def _of_users(
    view: pool_view.PoolView,
    first: queued.Lane,
    users: project_users.Users,
    done: abc.Set[queued.Lane],
) -> list[queued.Lane]:
    """Return the lanes of the users of a project that may get a slot.

    Urgent jobs do not wait for their users' turns.
    """
    if first.urgent:
        return [
            lane
            for lane in first.ranks.values()
            if not lane.is_full and _may_gain(view, lane, done)
        ]
    found: list[queued.Lane] = []
    highest = 0
    for rank in users.in_turn():
        priority = rank[0]
        if found and priority < highest:
            break
        lane = first.ranks[rank]
        if _may_gain(view, lane, done):
            found.append(lane)
            highest = priority
            if users.rule.in_turns or len(found) == _USERS:
                break
    return found


def _may_gain(
    view: pool_view.PoolView, lane: queued.Lane, done: abc.Set[queued.Lane]
) -> bool:
    return lane not in done and any(
        group.count and view.has_idle(group) for group in lane.groups()
    )


def _is_changed(view: pool_view.PoolView, job: model.Job) -> bool:
    """Return whether other jobs of a job's project may get the next slot.

    They may if it has reached a limit, or its next slot may go to another
    priority or user.
    """
    if view.is_job_held(job):
        return True
    if not view.jobs.ranked:
        return False
    first = view.jobs.lanes.get(job.project)
    return first is not None and bool(first.ranks)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Rivals:
    """The first projects that may get a slot; all are of one round.

    :ivar keys: their places, in order.
    :ivar shown: each project's lanes of the highest priority, in this order.
    :ivar end: no other project before this place may get a slot.
    :ivar changed: the projects to be considered again.
    :ivar round: the pool's round in which they were found.
    :ivar depends_on_slots: whether other projects may get a slot if other
        slots of the same shapes are idle.
    """

    __slots__ = (
        "_counts",
        "_key_of",
        "changed",
        "depends_on_slots",
        "end",
        "keys",
        "round",
        "shown",
    )

    def __init__(self, end: ordered.Key) -> None:
        self.keys: list[ordered.Key] = []
        self._key_of: dict[str, ordered.Key] = {}
        # How many lanes the projects have that do not have one.
        self._counts: dict[str, int] = {}
        self.shown = queued.Together()
        self.end = end
        self.round = -1
        self.changed: set[str] = set()
        self.depends_on_slots = False

    def add(self, key: ordered.Key, lanes: list[queued.Lane]) -> None:
        place = bisect.bisect_left(self.keys, key)
        start = self._start(place) if self._counts else place
        self.keys.insert(place, key)
        self._key_of[key[-1]] = key
        if len(lanes) > 1:
            self._counts[key[-1]] = len(lanes)
        for lane in lanes:
            self.shown.insert(start, lane)
            start += 1

    def drop(self, project: str) -> None:
        """Remove a project if it is among them."""
        key = self._key_of.pop(project, None)
        if key is not None:
            place = bisect.bisect_left(self.keys, key)
            if not self._counts:
                del self.keys[place]
                self.shown.remove(place)
                return
            start = self._start(place)
            del self.keys[place]
            for _ in range(self._counts.pop(project, 1)):
                self.shown.remove(start)

    def _start(self, place: int) -> int:
        """Return where the lanes of the project at a place begin."""
        return sum(self._counts.get(key[-1], 1) for key in self.keys[:place])

    def drop_last(self) -> None:
        self.end = self.keys[-1]
        self.drop(self.end[-1])


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
        # By the shapes of idle slots. Only what has changed is searched again.
        self._first: dict[tuple[str, ...], Rivals] = {}
        self._all_changed = -1

    def serve_all(self, now: float) -> abc.Iterator[strategy.Choice]:
        """Give slots to the projects, one round after another."""
        self._done.clear()
        self._accounts.charge_waiting()
        view = self.view
        cursor: ordered.Key = ()
        while view.slots.idle_total:
            rivals = self._find(cursor)
            if not rivals.keys:
                return
            # Rivals compete until one must wait, or all are done.
            view.jobs.show(rivals.shown)
            for choice in self._inner.assign(view, now):
                yield choice
                if not view.slots.idle_total or self._is_over(choice):
                    break
            else:
                self._done.update(rivals.shown.lanes)
            if rivals.shown.lanes[0] in self._done and not view.jobs.ranked:
                cursor = rivals.end

    def _is_over(self, choice: strategy.Choice) -> bool:
        """Return whether the project that got a slot may get no other yet."""
        view = self.view
        job = view.record(choice.job_id).job
        return self._accounts.has_to_wait(job.project) or _is_changed(
            view, job
        )

    def _find(self, cursor: ordered.Key) -> Rivals:
        """Find the next projects that may get a slot, starting at a place."""
        if not cursor and not self._done:
            return self._find_first()
        rivals = Rivals(cursor)
        self._extend(rivals)
        return rivals

    def _find_first(self) -> Rivals:
        """Find the first projects, with what earlier passes found."""
        accounts = self._accounts
        if self._all_changed != accounts.all_changed:
            self._all_changed = accounts.all_changed
            self._first.clear()
        if accounts.changed:
            for shapes, rivals in list(self._first.items()):
                rivals.changed |= accounts.changed
                if len(rivals.changed) > limits.MAX_CHANGED:
                    del self._first[shapes]
            accounts.changed.clear()
        shapes = tuple(self.view.slots.idle_shapes())
        found = self._first.get(shapes)
        if found is None:
            if len(self._first) == _MAX_FIRST:
                self._first.clear()
            found = self._first[shapes] = Rivals(())
        if found.changed or found.round != accounts.round:
            self._repair(found)
        if found.depends_on_slots:
            del self._first[shapes]
        return found

    def _repair(self, rivals: Rivals) -> None:
        """Make earlier rivals those that a new search would find."""
        accounts, keys = self._accounts, rivals.keys
        for project in rivals.changed:
            rivals.drop(project)
            account = accounts.waiting(project)
            if account is not None and account.key < rivals.end:
                self._consider(rivals, account)
        rivals.changed.clear()
        rivals.round = accounts.round
        while keys and (
            len(keys) > self._breadth
            or accounts.round_at(keys[-1]) != accounts.round_at(keys[0])
        ):
            rivals.drop_last()
        self._extend(rivals)

    def _extend(self, rivals: Rivals) -> None:
        """Add the projects at and after the end, up to the breadth."""
        accounts, keys = self._accounts, rivals.keys
        while len(keys) < self._breadth:
            account = accounts.first_from(rivals.end)
            if account is None or (
                keys
                and accounts.round_at(account.key)
                != accounts.round_at(keys[0])
            ):
                return
            # Continue just beyond its place.
            rivals.end = (*account.key, 0)
            self._consider(rivals, account)

    def _consider(self, rivals: Rivals, account: share_tree.Account) -> None:
        """Add a project if it may get a slot."""
        first = self.view.jobs.lanes[account.project]
        for lane in (first, *first.ranks.values()):
            for group in lane.groups():
                if group.avoided:
                    rivals.depends_on_slots = True
        if self.view.is_held(account.project):
            return
        highest = _highest(self.view, first, self._done)
        if highest:
            rivals.add(account.key, highest)
