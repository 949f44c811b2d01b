# SPDX-License-Identifier: Apache-2.0

"""Where a project and a waiting job stand in the order of the next pass.

It is read only when somebody asks: nothing here changes the view, and a pass
uses none of it. What is said of other projects are numbers.
"""

import dataclasses
import enum
import heapq
import itertools
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.queues import applications
from fpgapool.core.queues import queued
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing

#: Maximum number of jobs that are counted because of the strategy's order.
MAX_COUNTED = 1000

#: Slots of any shape.
_ANY_SHAPE: model.Shapes = frozenset()


class ChosenBy(enum.Enum):
    """What decides between the jobs that a strategy sees at once."""

    #: The first in the strategy's order gets the slot.
    ORDER = "order"
    #: The order, and where the slot is: a job may leave it to a later one.
    ORDER_AND_PLACE = "order_and_place"
    #: The strategy compares pairs of jobs and slots; there is no order.
    JOINT = "joint"

    @classmethod
    def of(cls, view: pool_view.PoolView) -> "ChosenBy":
        """Return what decides in this pool."""
        if view.kinds is not None:
            return cls.JOINT
        if view.jobs.by_host or isinstance(view.jobs, applications.AffineJobs):
            return cls.ORDER_AND_PLACE
        return cls.ORDER


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a project stands.

    :ivar weight: its weight.
    :ivar weights: the sum of the weights of the projects that wait or have
        slots, and of its own.
    :ivar round_bytes: the bytes that it gets in each round.
    :ivar score: the part of these bytes that it has left, less 1 for each
        round until its turn. Above 0, it is its turn. Above 1, it would be its
        turn before that of all who wait.
    :ivar projects: the number of waiting projects.
    :ivar before: the number of those that get slots first.
    :ivar beside: the number of those among which the strategy chooses, besides
        itself.
    :ivar turn_bytes: the most that those before it can use until its turn.
    :ivar turn_s: the time in which all slots that it does not have cost so
        much; infinite if there are none.
    :ivar path: its place in the tree, beginning with the project; None: there
        is no tree.
    """

    weight: float
    weights: float
    round_bytes: float
    score: float
    projects: int
    before: int
    beside: int
    turn_bytes: float
    turn_s: float
    path: list[share_tree.Part] | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """How many jobs get slots before a waiting job, each counted once.

    :ivar urgent: those of other projects that have waited for ``max_wait_s``.
    :ivar higher_priority: those of its project with a higher priority.
    :ivar better_share: those of projects whose turn is earlier.
    :ivar own: others of its project; None: the strategy has no order.
    :ivar others: those of projects whose turn it is, too; None: the strategy
        has no order.
    :ivar competing: the number of jobs among which the strategy chooses once
        those of the first three kinds have their slots, with itself.
    :ivar complete: whether all were counted; if not, there are more of ``own``
        or ``others``.
    :ivar users_before: the number of other users of its project whose turn is
        earlier; None: they take no turns.
    :ivar user_slots: the slots that its user has; None: the project does not
        tell its users apart.
    :ivar user_limit: the slots that its user may have; None: no limit.
    """

    urgent: int = 0
    higher_priority: int = 0
    better_share: int = 0
    own: int | None = None
    others: int | None = None
    competing: int
    complete: bool = True
    users_before: int | None = None
    user_slots: int | None = None
    user_limit: int | None = None


class _Place(typing.NamedTuple):
    """A project's place in the next pass; smaller ones come first.

    :ivar round: the round in which it gets slots.
    :ivar own_round: its own, which may be over.
    :ivar group: 0: it keeps its place in the round, 1: its slots move it to
        the end of another, 2: it would come to the end now.
    """

    round: int
    own_round: int
    group: int
    key: tuple[typing.Any, ...]
    left_bytes: float
    project: str


def of_project(
    view: pool_view.PoolView, project: str, breadth: int = sharing.BREADTH
) -> Standing | None:
    """Return where a project stands; None: there are no fair shares.

    :param breadth: the number of projects that compete at once.
    """
    accounts = _fair(view)
    if accounts is None:
        return None
    mine = _place(accounts, project)
    others = _others(view, accounts, project, _ANY_SHAPE)
    before, beside = _apart(mine, others, breadth)
    first_round = min([mine.round, *(each.round for each in others)])
    share_bytes = accounts.share_bytes(project)
    quantum_bytes = accounts.options.quantum_bytes
    # In whole rounds: what others have left tells how large their jobs are.
    turn_bytes = sum(
        max(mine.round - each.round, 1) * accounts.share_bytes(each.project)
        for each in before
    )
    return Standing(
        weight=share_bytes / quantum_bytes,
        weights=accounts.weights(project),
        round_bytes=share_bytes,
        score=mine.left_bytes / share_bytes - (mine.round - first_round),
        projects=sum(account.waits for account in accounts.all()),
        before=len(before),
        beside=len(beside),
        turn_bytes=turn_bytes,
        turn_s=_time_s(view, project, turn_bytes),
        path=accounts.path(project),
    )


def of_job(
    view: pool_view.PoolView,
    job_id: model.JobId,
    *,
    shapes: model.Shapes | None = None,
    breadth: int = sharing.BREADTH,
) -> Before | None:
    """Return what is before a waiting job; None: it does not wait.

    :param shapes: count what waits for slots of these shapes; None: of any
        that fits the job.
    :param breadth: the number of projects that compete at once.
    """
    record = view.jobs.records.get(job_id)
    if record is None or record.group is None:
        return None
    if shapes is None:
        shapes = record.group.shapes
    lane = record.group.lane
    urgent = [
        each
        for main in view.jobs.urgent.values()
        for each in (main, *main.ranks.values())
        if each is lane or not view.is_lane_held(each)
    ]
    if record.urgent:
        own, others, competing, complete = _earlier(
            view, record, urgent, shapes
        )
        found = Before(
            urgent=others or 0,
            own=own,
            others=None if others is None else 0,
            competing=competing,
            complete=complete,
        )
        return _with_user(found, record, lane)
    first = view.jobs.lanes[lane.project]
    higher, equal = _own(first, lane, record.job.priority)
    before, beside = _rivals(view, lane.project, shapes, breadth)
    seen = [each for one in beside for each in _highest(one, shapes)]
    own, others, competing, complete = _earlier(
        view, record, [*equal, *seen], shapes
    )
    found = Before(
        urgent=sum(_count(each, shapes) for each in urgent),
        higher_priority=sum(_count(each, shapes) for each in higher),
        better_share=sum(
            _count(each, shapes)
            for one in before
            for each in (one, *one.ranks.values())
        ),
        own=own,
        others=others,
        competing=competing,
        complete=complete,
    )
    return _with_user(found, record, lane)


class _Earlier(typing.NamedTuple):
    """The last members of :class:`Before`."""

    own: int | None
    others: int | None
    competing: int
    complete: bool


def _earlier(
    view: pool_view.PoolView,
    record: queued.JobRecord,
    lanes: abc.Iterable[queued.Lane],
    shapes: model.Shapes,
) -> _Earlier:
    """Count the jobs that the strategy's order puts before one.

    :param lanes: what the strategy sees at once, with the job.
    """
    groups = [
        group
        for lane in lanes
        for group in lane.groups()
        if group.count and _overlap(group.shapes, shapes)
    ]
    competing = sum(group.count for group in groups)
    if ChosenBy.of(view) is ChosenBy.JOINT:
        return _Earlier(None, None, competing, True)
    keys = heapq.merge(*(group.jobs for group in groups))
    earlier = list(
        itertools.islice(
            itertools.takewhile(record.key.__gt__, keys), MAX_COUNTED + 1
        )
    )
    complete = len(earlier) <= MAX_COUNTED
    del earlier[MAX_COUNTED:]
    project = record.job.project
    own = sum(view.record(key[-1]).job.project == project for key in earlier)
    return _Earlier(own, len(earlier) - own, competing, complete)


# -- projects ---------------------------------------------------------------


def _fair(view: pool_view.PoolView) -> sharing.Accounts | None:
    accounts = view.accounts
    return accounts if accounts and accounts.options.fair else None


def _place(accounts: sharing.Accounts, project: str) -> _Place:
    round_, left_bytes = accounts.in_next_pass(project)
    account = accounts.waiting(project)
    group, key = 2, ()
    if account is not None:
        key = account.key
        group = int(round_ > account.round)
    return _Place(
        max(round_, accounts.round), round_, group, key, left_bytes, project
    )


def _others(
    view: pool_view.PoolView,
    accounts: sharing.Accounts,
    project: str | None,
    shapes: model.Shapes,
) -> list[_Place]:
    """Return the places of the other projects that may get slots."""
    return [
        _place(accounts, account.project)
        if account.holds
        # What it has left does not count: nothing is due.
        else _Place(
            max(account.round, accounts.round),
            account.round,
            0,
            account.key,
            0.0,
            account.project,
        )
        for account in accounts.all()
        if account.waits
        and account.project != project
        and not accounts.is_full(account.project)
        and (not shapes or _fits(view.jobs.lanes[account.project], shapes))
    ]


def _apart(
    mine: _Place, others: abc.Iterable[_Place], breadth: int
) -> tuple[list[_Place], list[_Place]]:
    """Return those that get slots first, and those that compete."""
    earlier, ahead, behind = list[_Place](), list[_Place](), list[_Place]()
    for each in others:
        if each.round < mine.round:
            earlier.append(each)
        elif each.round == mine.round:
            (ahead if each < mine else behind).append(each)
    if len(ahead) < breadth:
        return earlier, heapq.nsmallest(breadth - 1, ahead + behind)
    return earlier + ahead, heapq.nsmallest(breadth - 1, behind)


def _time_s(
    view: pool_view.PoolView, project: str, cost_bytes: float
) -> float:
    """Return when the slots of others, if all are held, have cost so much."""
    if not cost_bytes:
        return 0.0
    bytes_per_s = sum(
        slot.bytes_per_s
        for slot in view.slots.slots.values()
        if slot.up
        and not (
            (hold := view.slots.assignments.get(slot.id)) is not None
            and hold.record is not None
            and hold.record.job.project == project
        )
    )
    return cost_bytes / bytes_per_s if bytes_per_s else math.inf


def _rivals(
    view: pool_view.PoolView,
    project: str | None,
    shapes: model.Shapes,
    breadth: int,
) -> tuple[list[queued.Lane], list[queued.Lane]]:
    """Return the main lanes of those that get slots first, and compete."""
    lanes, accounts = view.jobs.lanes, _fair(view)
    if accounts is None or project is None:
        return [], [
            lane
            for lane in lanes.values()
            if lane.project != project and not view.is_held(lane.project)
        ]
    before, beside = _apart(
        _place(accounts, project),
        _others(view, accounts, project, shapes),
        breadth,
    )
    return (
        [lanes[each.project] for each in before],
        [lanes[each.project] for each in beside],
    )


# -- jobs -------------------------------------------------------------------


def _overlap(one: model.Shapes, other: model.Shapes) -> bool:
    """Whether a slot may have a shape of both; none stands for all."""
    return not one or not other or not one.isdisjoint(other)


def _count(lane: queued.Lane, shapes: model.Shapes) -> int:
    return sum(
        group.count
        for group in lane.groups()
        if _overlap(group.shapes, shapes)
    )


def _fits(first: queued.Lane, shapes: model.Shapes) -> bool:
    """Return whether a project has a job for these slots."""
    return any(
        group.count and _overlap(group.shapes, shapes)
        for lane in (first, *first.ranks.values())
        for group in lane.groups()
    )


def _with_user(
    found: Before, record: queued.JobRecord, lane: queued.Lane
) -> Before:
    """Add where the user of a job stands, if its project tells users apart."""
    users, job = lane.users, record.job
    if users is None:
        return found
    takes_turns = users.rule.in_turns and not lane.urgent
    return dataclasses.replace(
        found,
        users_before=users.count_before(job.rank) if takes_turns else None,
        user_slots=users.slots_of(job.user),
        user_limit=users.rule.slots if job.user else None,
    )


def _own(
    first: queued.Lane, lane: queued.Lane, priority: int
) -> tuple[list[queued.Lane], list[queued.Lane]]:
    """Return the lanes of a project before one of its lanes, and beside it.

    :param priority: that of the lane's jobs.
    """
    if first.users is None:
        higher = itertools.takewhile(
            lambda each: each[1] is not lane, first.ranked()
        )
        return [each for _, each in higher], [lane]
    able = [each for each in first.ranked() if not each[1].is_full]
    beside = [lane]
    if not first.users.rule.in_turns:
        beside += [
            each for own, each in able if own == priority and each is not lane
        ]
    return [each for own, each in able if own > priority], beside


def _highest(first: queued.Lane, shapes: model.Shapes) -> list[queued.Lane]:
    """Return a project's lanes of the highest priority for these slots."""
    users = first.users
    if users is None:
        for _, lane in first.ranked():
            if _count(lane, shapes):
                return [lane]
        return []
    able = [
        (rank[0], first.ranks[rank])
        for rank in users.in_turn()
        if _count(first.ranks[rank], shapes)
    ]
    if users.rule.in_turns:
        del able[1:]
    return [lane for own, lane in able if own == able[0][0]]
