# SPDX-License-Identifier: Apache-2.0

"""Owners of groups, and the programs that use these."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import random
import traceback
import typing
from collections.abc import Callable

from fpgapool import client
from fpgapool.client.doors import apirequests
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import poolapi
from fpgapool.vocabulary import codes
from tests.chaos import clients
from tests.chaos import jobs
from tests.world import api
from tests.world import driver
from tests.world import faults
from tests.world import first_slots
from tests.world import group_invariants
from tests.world import group_plans
from tests.world import kernel as kernels
from tests.world import part
from tests.world import pool as pools
from tests.world import schedule as schedules

if typing.TYPE_CHECKING:
    from tests.world import run

#: Of an owner: only administrators share groups.
_ROLES = "admin,member,reader"
#: How long an owner awaits an answer.
_ASK_S = 10.0
_PAUSE_S = 0.5
#: The version of the API that knows groups created all or none.
_FIRST_SLOTS_SINCE = (1, 3)
#: The pool, or the way to it, is away: asking again helps.
_AWAY = {
    codes.CONDUCTOR_UNAVAILABLE,
    codes.DATABASE_UNAVAILABLE,
    codes.DATABASE_ERROR,
    codes.NOT_LEADER,
    codes.RATE_LIMITED,
    codes.QUEUE_FULL,
    codes.FRONT_DOOR_UNAVAILABLE,
    codes.TIMEOUT,
}
#: What an owner may be refused.
_REFUSALS = {
    codes.QUOTA_EXCEEDED,
    codes.BUDGET_EXHAUSTED,
    codes.ACCELERATOR_OUT_OF_USE,
    codes.NO_HOST_UP,
    codes.NO_COMPATIBLE_SLOT,
    codes.GROUP_NOT_FOUND,
    codes.GROUP_CLIENT_NOT_FOUND,
    codes.GROUP_NOT_ELASTIC,
    codes.GOAL_INFEASIBLE,
    codes.GROUP_WAITS,
    codes.SET_IMPOSSIBLE,
    # All its tasks have ended.
    codes.INVALID_GOAL,
}
#: How tasks of a lock may end.
_OF_LOCKS = {codes.LOCK_LOST, codes.LOCK_LIMIT}
#: How all tasks of a client may end that was revoked. A desk that is new does
#: not know who was.
_OF_REVOKED = {codes.ACCESS_REVOKED, codes.UNAUTHORIZED}
#: How long a client may be without any connection.
_GRACE_S = typing.cast(float, pools.OPTIONS["conductor"]["resume_grace_s"])
#: How long after a fault it may hear where its group is now.
_NEWS_S = 2.0
#: What whoever comes to a group that is gone hears.
_OF_DELETED = {
    codes.GROUP_NOT_FOUND,
    codes.GROUP_CLIENT_NOT_FOUND,
    codes.TIMEOUT,
    *_OF_REVOKED,
}


class Owner:
    """Makes a group, changes it, and deletes it in the end.

    :param changes: to it, in their order.
    :ivar group_id: its id; empty as long as there is no answer.
    :ivar is_refused: there will be no group.
    :ivar is_deleted: it is about to be, or has been deleted.
    :ivar revoked: the clients that are about to be, or were revoked.
    :ivar guests: how many use it, or will.
    """

    def __init__(
        self,
        pool: pools.Pool,
        planned: group_plans.Group,
        changes: typing.Sequence[group_plans.Change],
    ) -> None:
        self._pool = pool
        self._planned = planned
        self._changes = changes
        self.group_id = ""
        self.is_refused = False
        self.is_deleted = False
        self.revoked: set[str] = set()
        self.guests = 0
        self.is_over = False

    @property
    def ends_early(self) -> bool:
        """Whether the group is deleted while it is used."""
        return self._planned.lasts_s is not None

    def run(self) -> None:
        kernel, planned = self._pool.kernel, self._planned
        kernel.sleep(planned.begins_s)
        self._requests = apirequests.Requests(
            api.Adapter(
                self._pool, schedules.PROJECTS[planned.project], _ROLES
            ),
            client.CancelToken(),
        )
        if planned.all_or_none:
            self._requests.use_version(_FIRST_SLOTS_SINCE)
        self._create()
        if not self.is_refused:
            until_s = kernel.now_s + (planned.lasts_s or 0.0)
            self._change()
            while (
                kernel.now_s < until_s
                if planned.lasts_s is not None
                else self.guests
            ):
                kernel.sleep(_PAUSE_S)
            self.is_deleted = True
            self._insist("DELETE", f"/groups/{self.group_id}")
        self._requests.close()
        self.is_over = True

    def _create(self) -> None:
        planned = self._planned
        wanted = {
            name: value
            for name, value in dataclasses.asdict(planned).items()
            if name not in ("project", "begins_s", "lasts_s")
            and value not in (None, False)
        }
        while True:
            # There may be one, though there was no answer.
            found = self._insist("GET", f"/groups?name={planned.name}")
            project = schedules.PROJECTS[planned.project]
            for group in found["groups"] if found else ():
                if group["project_id"] == project:
                    self.group_id = group["id"]
                    return
            try:
                made = self._ask("POST", "/groups", group=wanted)
            except client.FpgapoolError as error:
                if error.code in _AWAY:
                    self._pool.kernel.sleep(_PAUSE_S)
                    continue
                self._refused("POST", error)
                self.is_refused = True
                return
            self.group_id = made["group"]["id"]
            return

    def _change(self) -> None:
        kernel, path = self._pool.kernel, f"/groups/{self.group_id}"
        ends_s = kernel.now_s + (self._planned.lasts_s or 1e9)
        for change in self._changes:
            if kernel.now_s + change.after_s > ends_s:
                return
            kernel.sleep(change.after_s)
            match change.kind:
                case "resize":
                    self._insist("PATCH", path, group=self._sizes(change))
                case "goal":
                    self._insist(
                        "PUT", f"{path}/goal", goal=self._goal(change)
                    )
                case "no-goal":
                    self._insist("DELETE", f"{path}/goal")
                case "revoke":
                    self._revoke(f"{path}/clients", change)

    def _sizes(self, change: group_plans.Change) -> dict[str, int]:
        size, extent = change.size, change.extent
        if not self._planned.elastic:
            return {"size": size, "min_size": size, "max_size": size}
        return {
            "size": size,
            "min_size": max(
                int(extent * (size + 1)), min(self._planned.min_size, 1)
            ),
            "max_size": size + int(extent * 3),
        }

    def _goal(self, change: group_plans.Change) -> dict[str, object]:
        extent = change.extent
        if extent < 0.5:
            ends_s = kernels.BEGINS_AT + self._pool.kernel.now_s
            due = datetime.datetime.fromtimestamp(
                ends_s + 10.0 + 60.0 * extent, datetime.UTC
            )
            return {
                "deadline_at": due.isoformat(),
                "actions": 5 + int(100 * extent),
            }
        return {"rate_per_s": 20.0 * extent}

    def _revoke(self, path: str, change: group_plans.Change) -> None:
        found = self._insist("GET", path)
        attached = [one["id"] for one in found["clients"]] if found else []
        if attached:
            chosen = attached[int(change.extent * len(attached))]
            self.revoked.add(chosen)
            self._insist("DELETE", f"{path}/{chosen}")

    def _ask(self, method: str, path: str, **body: object) -> typing.Any:
        deadline_s = 1000.0 + self._pool.kernel.now_s + _ASK_S
        try:
            return self._requests.ask(method, path, deadline_s, **body)
        except doors.ConnectionLost as error:
            raise client.FrontDoorUnavailable(str(error)) from error

    def _insist(self, method: str, path: str, **body: object) -> typing.Any:
        """Ask until there is an answer.

        :returns: None if it was a refusal.
        """
        while True:
            try:
                return self._ask(method, path, **body)
            except client.FpgapoolError as error:
                if error.code not in _AWAY:
                    self._refused(method, error)
                    return None
            self._pool.kernel.sleep(_PAUSE_S)

    def _refused(self, method: str, error: client.FpgapoolError) -> None:
        if error.code not in _REFUSALS:
            self._pool.kernel.fail(
                f"{method} of {self._planned.name}: {error.code}:"
                f" {error.message}"
            )


@dataclasses.dataclass
class Outcome:
    """What became of a guest.

    :ivar tasks: how many it has sent.
    :ivar results: how many of these have a result.
    """

    conduct: str
    client_id: str = ""
    tasks: int = 0
    results: int = 0
    codes: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )


class Guest:
    """A program that uses a group.

    :param trouble_s: how long the pool is in trouble at most.
    """

    def __init__(
        self,
        pool: pools.Pool,
        planned: group_plans.Guest,
        owner: Owner,
        accelerator: str,
        number: int,
        trouble_s: float,
    ) -> None:
        self._pool = pool
        self._planned = planned
        self._owner = owner
        self._job = jobs.Job(accelerator, {}, "", 0, 0, 0, 0.0, 0.0)
        self._number = number
        # A client that cannot be told for so long where the group is now ends
        # like one whose program is gone.
        self._may_be_lost = trouble_s + _NEWS_S >= _GRACE_S
        self._rng = random.Random(planned.data_seed)
        self.outcome = Outcome(planned.conduct)

    def run(self) -> None:
        try:
            self._pool.kernel.sleep(self._planned.begins_s)
            group = self._open()
            if group is not None:
                self._use(group)
        except Exception:
            self._fail(f"raised\n{traceback.format_exc()}")
        outcome = self.outcome
        ended = outcome.results + outcome.codes.total()
        if ended != outcome.tasks:
            self._fail("tasks without an end")

    def _fail(self, what: str) -> None:
        self._pool.kernel.fail(f"guest {self._number}, {self.outcome}: {what}")

    def _open(self) -> client.Group | None:
        """Become a client of the group, as soon as there is one."""
        owner, kernel = self._owner, self._pool.kernel
        adapter = api.Adapter(
            self._pool, schedules.PROJECTS[self._planned.project]
        )
        while True:
            while not owner.group_id and not owner.is_refused:
                kernel.sleep(_PAUSE_S)
            if owner.is_refused or owner.is_deleted:
                return None
            try:
                return client.group_open(
                    owner.group_id,
                    window_tasks=self._planned.window_tasks,
                    timeout_s=clients.PATIENCE_S,
                    front_door=poolapi.PoolApi(adapter),
                )
            except client.FpgapoolError as error:
                if owner.is_deleted and error.code in _OF_DELETED:
                    return None
                if error.code in _AWAY - {codes.TIMEOUT}:
                    kernel.sleep(_PAUSE_S)
                elif not self._is_fate(error.code):
                    self._fail(f"cannot attach: {error.code} {error.message}")
                    return None
                else:
                    return None

    def _is_fate(self, code: str) -> bool:
        """Whether a client may hear a code, as it or its group is gone."""
        return (
            code in _OF_DELETED
            if self._owner.is_deleted
            # The owner may revoke a client that is about to come.
            else (
                (bool(self._owner.revoked) or self._may_be_lost)
                and code in {*_OF_REVOKED, codes.GROUP_CLIENT_NOT_FOUND}
            )
        )

    def _use(self, group: client.Group) -> None:
        self.outcome.client_id = group.client_id
        conducts: dict[str, Callable[[client.Group, int], None]] = {
            "batches": self._do_batch,
            "all": self._do_batch,
            "leave": self._do_batch,
            "one": self._do_one,
            "lock": self._do_lock,
        }
        planned = self._planned
        do = conducts[planned.conduct]
        is_one = planned.conduct in ("all", "leave")
        left = planned.tasks
        try:
            while left > 0:
                count = left if is_one else min(planned.batch, left)
                left -= count
                do(group, count)
                self._pool.kernel.sleep(
                    self._rng.expovariate(1 / (planned.pause_s + 0.01))
                )
        except client.FpgapoolError as error:
            if not self._is_fate(error.code):
                self._fail(f"cannot go on: {error.code} {error.message}")
        finally:
            group.close(timeout_s=clients.PATIENCE_S)

    def _input(self, group: client.Group) -> bytes:
        """Return an input that no other task has."""
        outcome = self.outcome
        outcome.tasks += 1
        tag = b"%6d%10d" % (self._number, outcome.tasks)
        # Only what a core keeps can pass between clients of one project.
        keeps = not driver.PROFILES[self._job.accelerator].stateless
        project = schedules.PROJECTS[self._planned.project]
        driver.SENT[tag] = (
            group.group_id,
            group.client_id if keeps else project,
        )
        least = group_plans.LEAST_TASK_BYTES - len(tag)
        size = self._rng.randint(least, self._planned.most_bytes - len(tag))
        return tag + self._rng.randbytes(size)

    def _do_batch(self, group: client.Group, count: int) -> None:
        sent = []
        for _ in range(count):
            data = self._input(group)
            try:
                sent.append((data, group.submit(data)))
            except client.FpgapoolError as error:
                self._ended(data, error)
                break
        if self._planned.conduct == "leave":
            self._pool.kernel.sleep(self._planned.pause_s)
            group.close(timeout_s=0.0)
        for data, future in sent:
            try:
                self._ended(data, future.result(clients.PATIENCE_S))
            except client.FpgapoolError as error:
                self._ended(data, error)

    def _do_one(self, group: client.Group, count: int) -> None:
        for _ in range(count):
            data = self._input(group)
            try:
                self._ended(
                    data, group.run(data, timeout_s=clients.PATIENCE_S)
                )
            except client.FpgapoolError as error:
                self._ended(data, error)

    def _do_lock(self, group: client.Group, count: int) -> None:
        try:
            with group.lock(timeout_s=clients.PATIENCE_S):
                self._do_one(group, count)
                if self._rng.random() < 0.1:
                    # For longer than a lock may be idle.
                    self._pool.kernel.sleep(self._rng.uniform(0.0, 10.0))
        except client.TaskFailed as error:
            if error.code not in _OF_LOCKS:
                raise
            self._pool.kernel.sleep(_PAUSE_S)

    def _ended(self, data: bytes, end: bytes | client.FpgapoolError) -> None:
        """Note the end of a task."""
        if isinstance(end, client.FpgapoolError):
            self.outcome.codes[end.code] += 1
            if not self._may_end_so(end.code):
                self._fail(f"a task ends with {end.code}: {end.message}")
            return
        self.outcome.results += 1
        if bytes(end) != self._job.expected(data):
            self._fail("a wrong result")

    def _may_end_so(self, code: str) -> bool:
        conduct = self._planned.conduct
        return (
            self._is_fate(code)
            # It may be the task that kills members: three have died with it.
            or code == codes.WORKER_DIED
            or (conduct == "lock" and code in _OF_LOCKS)
            or (conduct == "leave" and code == codes.SESSION_CLOSED)
        )


class Groups(part.Part):
    """There are groups: their owners, and programs that use them."""

    NAME = "groups"
    HELP = "which schedules have groups"
    # Messages are signed in every second world.
    SEEDS = (4, (2, 3))
    PLANS = {
        "groups": group_plans.Group,
        "changes": group_plans.Change,
        "guests": group_plans.Guest,
    }
    FAULTS = faults.GROUP_FAULTS

    @classmethod
    def draw(cls, schedule: schedules.Schedule) -> schedules.Schedule:
        return group_plans.draw(schedule, list(cls.FAULTS))

    def __init__(self, world: run.World) -> None:
        self._world = world
        self._guests: list[Guest] = []
        group_invariants.Watcher(
            world.kernel, world.pool, world.watcher
        ).install()
        first_slots.Watcher(world.watcher).install()

    def begin(self) -> None:
        world = self._world
        owners: dict[str, tuple[Owner, group_plans.Group]] = {}
        for planned in world.schedule.of("groups"):
            changes = [
                one
                for one in world.schedule.of("changes")
                if one.group == planned.name
            ]
            owner = Owner(world.pool, planned, changes)
            owners[planned.name] = owner, planned
            process = world.pool.system.start(f"owner of {planned.name}")
            world.play(process, owner.run)
        for number, coming in enumerate(world.schedule.of("guests")):
            if coming.group in owners:
                self._begin_guest(number, coming, *owners[coming.group])

    def _begin_guest(
        self,
        number: int,
        coming: group_plans.Guest,
        owner: Owner,
        planned: group_plans.Group,
    ) -> None:
        pool = self._world.pool
        agent = pool.agents[coming.host]
        process = pool.system.start(f"guest {number}", agent.host)
        pool.guests.append(process)
        project = schedules.PROJECTS[coming.project]
        pool.doors[process] = agent.front_door(project)
        owner.guests += 1

        def ended() -> None:
            owner.guests -= 1

        guest = Guest(
            pool,
            coming,
            owner,
            planned.accelerator,
            number,
            self._world.schedule.longest_trouble_s,
        )
        self._guests.append(guest)
        self._world.play(process, guest.run)
        process.at_exit.append(ended)

    def waiting(self) -> list[str]:
        names = [one.name for one in self._world.pool.guests if one.alive]
        return [*names, *(str(guest.outcome) for guest in self._guests)]

    def facts(self) -> dict[str, object]:
        ends = collections.Counter[str]()
        for guest in self._guests:
            ends.update(guest.outcome.codes)
        return {
            "tasks": sum(guest.outcome.results for guest in self._guests),
            "task_ends": dict(ends),
        }
