# SPDX-License-Identifier: Apache-2.0

"""Lanes of waiting jobs: which of them a strategy sees."""

import math
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.queues import times
from fpgapool.core.queues import users as project_users


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Lanes:
    """The lanes of all projects.

    :param max_wait_s: jobs become urgent after this time; None: never.
    :ivar shown: the jobs that the strategy sees: all of them, or those that
        may get the next slot.
    :ivar lanes: lanes by project; the lane of None always exists.
    :ivar urgent: the lanes of jobs that go first, by project.
    :ivar ranked: number of lanes besides the main ones of their projects: for
        jobs with priorities other than 0, and of users.
    """

    def __init__(
        self, max_wait_s: float | None, accounts: sharing.Accounts | None
    ) -> None:
        self._accounts = accounts
        self._max_wait_s = max_wait_s
        self._has_one_lane = accounts is None and max_wait_s is None
        self._common = queued.Lane(None, False)
        self.lanes: dict[str | None, queued.Lane] = {None: self._common}
        self.urgent: dict[str | None, queued.Lane] = {}
        self.ranked = 0
        self.shown: queued.Shown = self._common
        # The lanes with jobs that arrived with this event.
        self._with_arrivals: list[queued.Lane] = []

    @property
    def is_plain(self) -> bool:
        """Whether all jobs are in the common lane, so that all are shown."""
        return len(self.lanes) == 1 and not self.urgent

    def show(self, shown: queued.Shown) -> None:
        """Show the strategy only these jobs."""
        shown.note_arrivals(self._with_arrivals)
        self.shown = shown

    def show_common(self) -> None:
        """Show the strategy the jobs of the common lane."""
        self.shown = self._common

    def groups(self) -> abc.Collection[queued.JobGroup]:
        """Return the groups that are shown; some may have no jobs."""
        return self.shown.groups()

    def groups_for(self, shape: str) -> tuple[queued.JobGroup, ...]:
        """Return the shown groups whose jobs fit slots of this shape."""
        return self.shown.groups_for(shape)

    def all_lanes(self) -> abc.Iterator[queued.Lane]:
        for lane in self.lanes.values():
            yield lane
            yield from lane.ranks.values()
        for lane in self.urgent.values():
            yield lane
            yield from lane.ranks.values()

    def all_groups(self) -> abc.Iterator[queued.JobGroup]:
        for lane in self.all_lanes():
            yield from lane.groups()

    def group_for(
        self, record: queued.JobRecord, shapes: model.Shapes, now: float
    ) -> tuple[queued.JobGroup, bool]:
        """Return the group for a job, and whether it is new."""
        lane = self._common if self._has_one_lane else self._lane(record, now)
        group = lane.by_needs.get((shapes, record.avoided, ""))
        if group is not None:
            return group, False
        return lane.make_group(shapes, record.avoided), True

    def _lane(self, record: queued.JobRecord, now: float) -> queued.Lane:
        if self._max_wait_s is not None and not record.urgent:
            self._see_urgency(record, now)
        project: str | None = None
        if self._accounts is not None:
            project = self._accounts.lane_of(record.job.project)
        lanes = self.urgent if record.urgent else self.lanes
        lane = lanes.get(project)
        if lane is None:
            lane = lanes[project] = queued.Lane(
                project, record.urgent, self._users_of(project)
            )
            if self._accounts and project is not None and not record.urgent:
                self._accounts.join(project)
        if lane.users is not None:
            return self._users_lane(lane, record)
        priority = record.job.priority
        if priority and project is not None and not record.urgent:
            rank = (priority, "")
            if rank not in lane.ranks:
                lane.ranks[rank] = queued.Lane(project, False)
                self.ranked += 1
            return lane.ranks[rank]
        return lane

    def _users_of(self, project: str | None) -> project_users.Users | None:
        if self._accounts is None or project is None:
            return None
        return self._accounts.users_of(project)

    def _users_lane(
        self, main: queued.Lane, record: queued.JobRecord
    ) -> queued.Lane:
        """Return the lane of a job of a project that tells users apart."""
        priority, user = record.job.rank
        rank = (0 if record.urgent else priority, user)
        lane = main.ranks.get(rank)
        if lane is None:
            lane = main.ranks[rank] = queued.Lane(
                main.project, main.urgent, main.users, user
            )
            self.ranked += 1
            if main.users is not None:
                main.users.lanes += 1
                if not main.urgent:
                    main.users.join(rank)
        return lane

    def _see_urgency(self, record: queued.JobRecord, now: float) -> None:
        due_s = times.first_due_s(
            record.job.arrival_s, self._max_wait_s or 0.0
        )
        if due_s <= now:
            record.urgent = True
            # Urgent jobs precede all others, whatever the strategy's key.
            record.key = (-math.inf, record.job.arrival_s, record.job.id)

    def _drop_lane(self, lane: queued.Lane, job: model.Job) -> None:
        """Remove an empty lane, and its project if none of its jobs wait."""
        project = lane.project
        lanes = self.urgent if lane.urgent else self.lanes
        first = lanes[project]
        if lane is not first:
            rank = (0 if lane.urgent else job.priority, lane.user)
            del first.ranks[rank]
            self.ranked -= 1
            if lane.users is not None:
                self._leave_users(lane, lane.users, rank)
        if first.size or first.ranks:
            return
        del lanes[project]
        if self._accounts and project is not None and not lane.urgent:
            self._accounts.leave(project)

    def _leave_users(
        self,
        lane: queued.Lane,
        users: project_users.Users,
        rank: project_users.Rank,
    ) -> None:
        """Note that none of a user's jobs wait in a lane any more."""
        users.lanes -= 1
        if not lane.urgent:
            users.leave(rank)
        if self._accounts is not None and lane.project is not None:
            self._accounts.forget_users(lane.project)

    def _note_change(self, lane: queued.Lane) -> None:
        """Note that a group got another first job, or lost its last one."""
        if self._accounts is not None and lane.project is not None:
            self._accounts.note_change(lane.project)

    def note_arrival(self, record: queued.JobRecord) -> None:
        """Note that a job has arrived with this event."""
        group = record.group
        if group is not None:
            lane = group.lane
            if not lane.arrived:
                self._with_arrivals.append(lane)
            lane.arrived[record.job.id] = record

    def forget_arrivals(self) -> None:
        for lane in self._with_arrivals:
            lane.arrived.clear()
        self._with_arrivals.clear()
