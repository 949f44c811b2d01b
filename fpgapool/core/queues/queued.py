# SPDX-License-Identifier: Apache-2.0

"""Waiting jobs: groups that fit the same slots, and lanes of groups."""

import heapq
import operator
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core.queues import users as project_users

_NOTHING: frozenset[model.SlotId] = frozenset()
_RANK = operator.itemgetter(0)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class JobRecord:
    """A job that waits or has a slot.

    :ivar avoided: slots that it avoids, because it failed to start there or
        because its accelerator is out of use on that host.
    :ivar group: the group in which it waits; None: it has a slot.
    :ivar patience_s: the time at which its waiting lets it use other hosts;
        None: it already may, or no waiting lets it.
    :ivar urgent: whether it has waited for ``max_wait_s`` and goes first.
    :ivar paid_bytes: the paid but unused part of its claim; None: it has not
        been charged yet.
    :ivar done_bytes: the part of its claim that has been computed, as far as
        known.
    :ivar column: its place among its kind's jobs or in the columns, while it
        waits and the view keeps kinds; -1: it has never been there.
    """

    __slots__ = (
        "avoided",
        "column",
        "done_bytes",
        "group",
        "homed",
        "job",
        "key",
        "limit_s",
        "paid_bytes",
        "patience_s",
        "seen_s",
        "skips",
        "slot_id",
        "urgent",
        "urgent_s",
    )

    def __init__(self, job: model.Job, key: ordered.Key) -> None:
        self.job = job
        self.key = key
        self.skips = job.skips
        self.avoided = _NOTHING
        self.group: JobGroup | None = None
        self.homed = False
        self.patience_s: float | None = None
        self.limit_s: float | None = None
        self.urgent = False
        self.urgent_s: float | None = None
        self.slot_id: model.SlotId | None = None
        self.paid_bytes: float | None = None
        self.done_bytes = job.done_bytes
        self.seen_s = job.arrival_s
        self.column = -1


@native.mypyc_attr(allow_interpreted_subclasses=True)
class JobGroup:
    """The waiting jobs of a lane that fit the same slots.

    :ivar roaming: the jobs that may go to any host: they have waited long
        enough for their own host, it has no usable slot that fits, or they
        come from outside the pool.
    :ivar roaming_of: the roaming jobs of each accelerator; empty unless the
        strategy wants accelerators.
    :ivar by_host: the jobs of each host. Like ``roaming`` and ``homed_count``,
        it is used only if the strategy wants hosts.
    :ivar homes: the hosts in ``by_host`` that have a usable slot that fits.
    :ivar accelerator: the accelerator of all jobs; empty: they may differ.
    :ivar avoiding: the slots that the jobs avoid; empty if no other usable
        slot fits.
    """

    __slots__ = (
        "accelerator",
        "avoided",
        "avoiding",
        "by_host",
        "count",
        "homed_count",
        "homes",
        "jobs",
        "lane",
        "roaming",
        "roaming_of",
        "shapes",
    )

    def __init__(
        self,
        lane: "Lane",
        shapes: model.Shapes,
        avoided: frozenset[model.SlotId],
        accelerator: str = "",
    ) -> None:
        self.lane = lane
        self.shapes = shapes
        self.accelerator = accelerator
        self.avoided = avoided
        self.avoiding = avoided
        self.count = 0
        self.jobs = ordered.KeyQueue()
        self.homed_count = 0
        self.roaming = ordered.KeyQueue()
        self.roaming_of: dict[str, ordered.KeyQueue] = {}
        self.by_host: dict[model.HostId, ordered.KeyQueue] = {}
        self.homes: set[model.HostId] = set()

    def fits_shape(self, shape: str) -> bool:
        """Return whether slots of this shape fit its jobs."""
        return not self.shapes or shape in self.shapes

    def fits(self, slot_id: model.SlotId, shape: str) -> bool:
        """Return whether its jobs may get this slot."""
        return self.fits_shape(shape) and slot_id not in self.avoiding

    def first(self) -> ordered.Key | None:
        return self.jobs.first()

    def first_for(
        self, host_id: model.HostId, is_open: bool
    ) -> ordered.Key | None:
        """Return the key of its first job that comes from this host.

        :param is_open: whether roaming jobs count, too.
        """
        jobs = self.by_host.get(host_id)
        first = None if jobs is None else jobs.front[0]
        if is_open:
            roaming = self.roaming.front
            if roaming and (first is None or roaming[0] < first):
                return roaming[0]
        return first


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Shown:
    """The waiting jobs that a strategy sees.

    :ivar arrived: the jobs among them that were submitted with this event, by
        id.
    """

    __slots__ = ("_by_shape", "arrived")

    def __init__(self) -> None:
        self._by_shape: dict[str, tuple[JobGroup, ...]] = {}
        self.arrived: dict[model.JobId, JobRecord] = {}

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups())

    def groups(self) -> abc.Collection[JobGroup]:
        """Return all groups; some may have no jobs."""
        raise NotImplementedError

    def groups_for(self, shape: str) -> tuple[JobGroup, ...]:
        groups = self._by_shape.get(shape)
        if groups is None:
            groups = self._by_shape[shape] = tuple(
                group for group in self.groups() if group.fits_shape(shape)
            )
        return groups

    def first_for(
        self,
        slot_id: model.SlotId,
        shape: str,
        host_id: model.HostId,
        is_open: bool,
    ) -> ordered.Key | None:
        """Return the key of the first job that a host's slot is offered to.

        :param is_open: whether the host accepts another remote job.
        """
        first: ordered.Key | None = None
        for group in self.groups_for(shape):
            if slot_id not in group.avoiding:
                key = group.first_for(host_id, is_open)
                if key is not None and (first is None or key < first):
                    first = key
        return first

    def own(
        self, slot_id: model.SlotId, shape: str, host_id: model.HostId
    ) -> list[ordered.KeyQueue]:
        """Return the queues of a host's own jobs that fit a slot."""
        return [
            jobs
            for group in self.groups_for(shape)
            if slot_id not in group.avoiding
            and (jobs := group.by_host.get(host_id)) is not None
        ]

    def first_roaming(
        self, slot_id: model.SlotId, shape: str, accelerator: str
    ) -> ordered.Key | None:
        """Return the key of an accelerator's first job for any host."""
        return first_key(
            *[
                jobs.front[0]
                for group in self.groups_for(shape)
                if slot_id not in group.avoiding
                and (jobs := group.roaming_of.get(accelerator)) is not None
            ]
        )

    def first_fitting(
        self, slot_id: model.SlotId, shape: str
    ) -> ordered.Key | None:
        """Return the key of the first job that fits a slot of any host."""
        return first_key(
            *[
                group.first()
                for group in self.groups_for(shape)
                if slot_id not in group.avoiding
            ]
        )

    def first_able(
        self,
        idle_shapes: abc.Iterable[str],
        has_idle: abc.Callable[[JobGroup], bool],
    ) -> ordered.Key | None:
        """Return the key of the first job that fits any idle slot.

        :param has_idle: whether an idle slot fits a group's jobs.
        """
        able = [each for each in self.groups() if each.count]
        return first_key(*[each.first() for each in able if has_idle(each)])

    def note_arrivals(self, lanes: abc.Iterable["Lane"]) -> None:
        """Update :attr:`arrived`."""
        raise NotImplementedError


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Lane(Shown):
    """Jobs that are always shown or hidden together.

    :ivar project: the project of the jobs; None: all projects without a lane
        of their own.
    :ivar urgent: whether its jobs have waited for ``max_wait_s`` and go first.
    :ivar by_needs: their groups, by shapes, avoided slots and accelerator.
    :ivar ranks: lanes of the project's jobs with priorities other than 0, by
        rank. Only the project's main lane has them. If the project tells its
        users apart, they have all of its jobs; the urgent ones have priority 0
        there.
    :ivar users: the users of the project, if it tells them apart.
    :ivar user: whose jobs these are, if it does.
    """

    __slots__ = (
        "by_needs",
        "project",
        "ranks",
        "size",
        "urgent",
        "user",
        "users",
    )

    def __init__(
        self,
        project: str | None,
        urgent: bool,
        users: project_users.Users | None = None,
        user: str = "",
    ) -> None:
        self.by_needs: dict[
            tuple[model.Shapes, frozenset[model.SlotId], str], JobGroup
        ] = {}
        super().__init__()
        self.project = project
        self.urgent = urgent
        self.size = 0
        self.ranks: dict[project_users.Rank, Lane] = {}
        self.users = users
        self.user = user

    @property
    def count(self) -> int:
        return self.size

    @property
    def is_full(self) -> bool:
        """Whether its user has reached its limit."""
        return self.users is not None and self.users.is_full(self.user)

    def ranked(self) -> list[tuple[int, "Lane"]]:
        """Return the lanes with their priorities, the highest first.

        Those of users at their limits are among them.
        """
        ranks = {(0, ""): self} if self.users is None else {}
        return [
            (priority, lane)
            for (priority, _), lane in sorted(
                {**ranks, **self.ranks}.items(), key=_RANK, reverse=True
            )
        ]

    def groups(self) -> abc.Collection[JobGroup]:
        return self.by_needs.values()

    def note_arrivals(self, lanes: abc.Iterable["Lane"]) -> None:
        """Do nothing: a lane records its arrivals itself."""

    def make_group(
        self,
        shapes: model.Shapes,
        avoided: frozenset[model.SlotId],
        accelerator: str = "",
    ) -> JobGroup:
        """Make the group of jobs with these needs."""
        group = JobGroup(self, shapes, avoided, accelerator)
        self.by_needs[shapes, avoided, accelerator] = group
        self._by_shape.clear()
        return group

    def drop(self, group: JobGroup) -> None:
        del self.by_needs[group.shapes, group.avoided, group.accelerator]
        self._by_shape.clear()


#: What a group's first jobs are read from: its ``by_host``, the front of
#: ``roaming``, and its ``roaming_of``.
_Queues: typing.TypeAlias = tuple[
    dict[model.HostId, ordered.KeyQueue],
    list[ordered.Key],
    dict[str, ordered.KeyQueue],
]


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Firsts:
    """The first jobs of groups, in a heap.

    When jobs leave, the heap follows as late as possible. A group whose first
    job has changed because one came has to be added again.
    """

    __slots__ = ("_added", "_heap", "_keys")

    def __init__(self) -> None:
        #: (key, number, group). Some are no longer true: ``_keys`` has another
        #: key. The numbers differ, as groups have no order.
        self._heap: list[tuple[ordered.Key, int, JobGroup]] = []
        self._added = 0
        self._keys: dict[JobGroup, ordered.Key] = {}

    def add(self, group: JobGroup) -> None:
        key = self._keys[group] = group.jobs.front[0]
        self._added += 1
        heapq.heappush(self._heap, (key, self._added, group))
        if len(self._heap) > 2 * len(self._keys) + 64:
            self._heap = [
                (each, number, one)
                for number, (one, each) in enumerate(self._keys.items())
            ]
            heapq.heapify(self._heap)

    def drop(self, group: JobGroup) -> None:
        self._keys.pop(group, None)

    def first(self) -> ordered.Key | None:
        heap = self._heap
        while heap:
            key, number, group = heap[0]
            if self._keys.get(group) != key:
                heapq.heappop(heap)
                continue
            front = group.jobs.front
            if not front:
                self.drop(group)
            elif front[0] == key:
                return key
            else:
                self._keys[group] = front[0]
                heapq.heapreplace(heap, (front[0], number, group))
        return None


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Together(Shown):
    """The jobs of several lanes.

    A lane has to be removed and inserted again when its groups have changed,
    or a job has become the first of one.
    """

    __slots__ = ("_avoids", "_firsts", "_groups", "_queues", "lanes")

    def __init__(self, lanes: abc.Iterable[Lane] = ()) -> None:
        super().__init__()
        self.lanes: list[Lane] = []
        self._groups: dict[Lane, list[JobGroup]] = {}
        self._avoids = False
        # By shape, of the groups that have jobs: many groups are searched for
        # each slot.
        self._queues: dict[str, dict[JobGroup, _Queues]] = {}
        self._firsts: dict[str, _Firsts] = {}
        for lane in lanes:
            self.insert(len(self.lanes), lane)

    def insert(self, place: int, lane: Lane) -> None:
        """Add a lane, before the one at this place."""
        self.lanes.insert(place, lane)
        self._by_shape.clear()
        groups = self._groups[lane] = list(lane.groups())
        for group in groups:
            self._avoids = self._avoids or bool(group.avoided)
        for shape, queues in self._queues.items():
            _add_queues(queues, groups, shape)
        for shape, firsts in self._firsts.items():
            _add_firsts(firsts, groups, shape)

    def remove(self, place: int) -> None:
        """Remove the lane at a place."""
        self._by_shape.clear()
        groups = self._groups.pop(self.lanes.pop(place))
        for group in groups:
            for queues in self._queues.values():
                queues.pop(group, None)
            for firsts in self._firsts.values():
                firsts.drop(group)

    def groups(self) -> abc.Collection[JobGroup]:
        return [group for lane in self.lanes for group in self._groups[lane]]

    def first_for(
        self,
        slot_id: model.SlotId,
        shape: str,
        host_id: model.HostId,
        is_open: bool,
    ) -> ordered.Key | None:
        if self._avoids:
            return super().first_for(slot_id, shape, host_id, is_open)
        queues = self._queues_for(shape).values()
        firsts = [
            jobs.front[0]
            for by_host, _, _ in queues
            if (jobs := by_host.get(host_id)) is not None
        ]
        if is_open:
            firsts += [roaming[0] for _, roaming, _ in queues if roaming]
        return min(firsts, default=None)

    def own(
        self, slot_id: model.SlotId, shape: str, host_id: model.HostId
    ) -> list[ordered.KeyQueue]:
        if self._avoids:
            return super().own(slot_id, shape, host_id)
        return [
            jobs
            for by_host, _, _ in self._queues_for(shape).values()
            if (jobs := by_host.get(host_id)) is not None
        ]

    def first_roaming(
        self, slot_id: model.SlotId, shape: str, accelerator: str
    ) -> ordered.Key | None:
        if self._avoids:
            return super().first_roaming(slot_id, shape, accelerator)
        firsts = [
            jobs.front[0]
            for _, _, roaming_of in self._queues_for(shape).values()
            if (jobs := roaming_of.get(accelerator)) is not None
        ]
        return min(firsts, default=None)

    def first_fitting(
        self, slot_id: model.SlotId, shape: str
    ) -> ordered.Key | None:
        if self._avoids:
            return super().first_fitting(slot_id, shape)
        firsts = self._firsts.get(shape)
        if firsts is None:
            firsts = self._firsts[shape] = _Firsts()
            for groups in self._groups.values():
                _add_firsts(firsts, groups, shape)
        return firsts.first()

    def first_able(
        self,
        idle_shapes: abc.Iterable[str],
        has_idle: abc.Callable[[JobGroup], bool],
    ) -> ordered.Key | None:
        if self._avoids:
            return super().first_able(idle_shapes, has_idle)
        return first_key(
            *[self.first_fitting(-1, shape) for shape in idle_shapes]
        )

    def _queues_for(self, shape: str) -> dict[JobGroup, _Queues]:
        queues = self._queues.get(shape)
        if queues is None:
            queues = self._queues[shape] = {}
            for groups in self._groups.values():
                _add_queues(queues, groups, shape)
        return queues

    def note_arrivals(self, lanes: abc.Iterable[Lane]) -> None:
        self.arrived = {
            job_id: record
            for lane in lanes
            if lane in self._groups
            for job_id, record in lane.arrived.items()
        }


def _add_queues(
    queues: dict[JobGroup, _Queues], groups: list[JobGroup], shape: str
) -> None:
    for group in groups:
        if group.count and group.fits_shape(shape):
            roaming = group.roaming.front
            queues[group] = (group.by_host, roaming, group.roaming_of)


def _add_firsts(firsts: _Firsts, groups: list[JobGroup], shape: str) -> None:
    for group in groups:
        if group.count and group.fits_shape(shape):
            firsts.add(group)


def together(lanes: abc.Sequence[Lane]) -> Shown:
    """Return the jobs of one or more lanes."""
    return lanes[0] if len(lanes) == 1 else Together(lanes)


def first_key(*keys: ordered.Key | None) -> ordered.Key | None:
    """Return the smallest key; None if all are None."""
    first: ordered.Key | None = None
    for key in keys:
        if key is not None and (first is None or key < first):
            first = key
    return first
