# SPDX-License-Identifier: Apache-2.0

"""Runs the groups of a scenario with the pool's own rules for their sizes.

Events at the same time are handled in this order: tasks end, programmed slots
join, batches arrive, and the policy resizes. A slot that changes groups is
programmed for the cluster's ``reconfiguration_s``. Slots that groups have at
the start are already programmed.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import typing
from collections.abc import Sequence

import msgspec

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as core_groups
from fpgapool.sim import errors
from fpgapool.sim.engines import base
from fpgapool.sim.engines import queues
from fpgapool.sim.engines import tasks
from fpgapool.sim.inputs import arrivals
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import group_results

# After this many periods without an event, a run is assumed never to end.
_MOST_CALM_PERIODS = 1000
# Task reports are treated as coming from one host.
_HOST: model.HostId = 0


def _policies() -> dict[str, importlib.metadata.EntryPoint]:
    group = importlib.metadata.entry_points(group="fpgapool.elasticity")
    return {entry.name: entry for entry in group}


def check(scenario: scenarios.Scenario, name: str, source: str) -> None:
    """Check that :func:`run` finds a policy for a strategy.

    :raises errors.InputError: if there is no such policy, or it rejects its
        period.
    """
    _make_core(scenario, name, source)


def run(
    scenario: scenarios.Scenario,
    name: str,
    *,
    seed: int = 0,
    source: str = "scenario",
    step_s: float | None = None,
    any_period: bool = False,
) -> tuple[group_results.GroupsResult, group_results.Course]:
    """Simulate the groups of a scenario under an elasticity policy.

    :param name: name of one of the scenario's strategies, whose ``elasticity``
        sizes the groups, or of an installed policy.
    :param step_s: how often the course is recorded; None: never.
    :param any_period: whether a period may be too short for the programming
        time; slots that have changed groups then need not stay, either.
    :raises errors.InputError: if there is no such policy, it rejects its
        period, or tasks would wait forever.
    """
    core = _make_core(scenario, name, source, any_period)
    simulation = _Simulation(scenario, core, seed, source, step_s)
    return simulation.run(), simulation.course


def _make_core(
    scenario: scenarios.Scenario,
    name: str,
    source: str,
    any_period: bool = False,
) -> core_groups.Groups:
    strategy = scenario.strategies.get(name)
    wanted = scenarios.Elasticity(name)
    if strategy is not None:
        wanted = strategy.elasticity or scenarios.Elasticity()
    place = f"strategies.{name}.elasticity"
    entry = _policies().get(wanted.name)
    if entry is None:
        raise errors.InputError(
            source,
            place,
            f"unknown elasticity policy {wanted.name!r}; known policies: "
            f"{', '.join(sorted(_policies()))}",
        )
    try:
        policy: elasticity.Policy = entry.load()(wanted.own)
        return core_groups.Groups(
            policy,
            core_groups.SizingOptions(
                period_s=wanted.period_s,
                estimate=wanted.estimate,
                programming_time_s=0.0
                if any_period
                else scenario.cluster.reconfiguration_s,
            ),
        )
    except ValueError as error:
        raise errors.InputError(source, place, str(error)) from error


@dataclasses.dataclass(slots=True)
class _Group:
    """One group of a run.

    :ivar clients: the numbers of its clients in the engine.
    :ivar is_there: whether it has begun and has not ended.
    :ivar admitted: whether the policy accepted its goal.
    :ivar moves: number of slots that it got from other groups.
    """

    number: int
    spec: scenarios.Group
    clients: range
    begin_s: float
    is_there: bool = False
    admitted: bool = True
    ended_s: float | None = None
    moves: int = 0


class _Simulation:
    def __init__(
        self,
        scenario: scenarios.Scenario,
        groups: core_groups.Groups,
        seed: int,
        source: str,
        step_s: float | None,
    ) -> None:
        self._core = groups
        self._source = source
        self._programming_s = scenario.cluster.reconfiguration_s
        slots = base.slots_of(scenario.cluster)[: scenario.group_slots]
        arrivals_s = arrivals.draw(scenario.groups, seed, source)
        self._engine = tasks.TaskEngine(
            slots,
            len(scenario.groups),
            _clients(scenario.groups, arrivals_s),
            scenario.cluster.tasks_per_s or math.inf,
        )
        self._groups = _make_groups(scenario.groups, arrivals_s)
        self._core.set_slots(
            frozenset(),
            len(slots)
            - sum(
                group.slots for group in scenario.groups if not group.elastic
            ),
        )
        self._to_begin = sorted(
            self._groups, key=lambda each: (each.begin_s, each.number)
        )
        self._horizon_s = arrivals.load_end_s(scenario.groups)
        # The group that each slot last served.
        self._served: list[int | None] = [None] * len(slots)
        clients = sum(len(group.clients) for group in self._groups)
        self._reported = [tasks.Counts(0, 0, 0, 0.0)] * clients
        self._reported_busy_s = [0.0] * len(self._groups)
        self._accounts: _Accounts | None = None
        self._step_s = step_s
        self.course = group_results.Course(
            [],
            [[] for _ in self._groups],
            [[] for _ in self._groups],
            [[] for _ in self._groups],
        )

    # -- time --------------------------------------------------------------

    def run(self) -> group_results.GroupsResult:
        """Run until all accepted tasks have ended.

        :raises errors.InputError: if tasks would wait forever.
        """
        now = 0.0
        self._change_groups(now)
        self._move(now, 0.0)
        calm_periods = 0
        while not self._engine.has_ended or now < (self._horizon_s or 0.0):
            limit_s = self._limit_s(now)
            if limit_s == math.inf and not self._engine.is_going_on:
                raise self._endless()
            self._engine.advance(limit_s)
            now = self._engine.now
            self._look(now)
            self._change_groups(now)
            calm_periods = self._resize(now, calm_periods)
            self._move(now, self._programming_s)
            self._record(now)
            if now == self._horizon_s:
                self._close_accounts(now)
        self._close_accounts(now)
        return self._result()

    def _limit_s(self, now: float) -> float:
        """Return when this object must act next, regardless of the engine."""
        limits = [
            group.spec.end_s
            for group in self._groups
            if group.is_there and group.spec.end_s is not None
        ]
        limits += [group.begin_s for group in self._to_begin[:1]]
        if self._accounts is None:
            limits += [
                each_s
                for each_s in (self._horizon_s, self._next_step_s())
                if each_s is not None
            ]
        # After the horizon, tasks finish without further resizing.
        if self._accounts is None or not self._engine.is_going_on:
            limits.append(self._core.wake_s())
        return max(now, min(limits, default=math.inf))

    def _resize(self, now: float, calm_periods: int) -> int:
        """Let the policy resize, if it is due.

        :param calm_periods: number of consecutive periods without activity
            before this one.
        :returns: the same number, including this one.
        """
        if self._core.wake_s() > now:
            return calm_periods
        for group in self._groups:
            self._report(group, now)
        self._core.resize(now)
        if self._engine.is_going_on or self._to_begin:
            return 0
        if calm_periods == _MOST_CALM_PERIODS:
            raise self._endless()
        return calm_periods + 1

    def _endless(self) -> errors.InputError:
        waits = [
            group.spec.name
            for group in self._groups
            if self._engine.waiting_s(group.number)
        ]
        return errors.InputError(
            self._source,
            "groups",
            f"the tasks of {', '.join(waits)} would wait forever: no slot "
            "ever joins the group",
        )

    # -- groups ------------------------------------------------------------

    def _change_groups(self, now: float) -> None:
        """Begin and end groups whose time has come."""
        for group in self._groups:
            end_s = group.spec.end_s
            if group.is_there and (
                self._engine.is_due(group.number)
                or (end_s is not None and end_s <= now)
            ):
                self._end(group, now)
        while self._to_begin and self._to_begin[0].begin_s <= now:
            self._begin(self._to_begin.pop(0), now)

    def _begin(self, group: _Group, now: float) -> None:
        spec, most = group.spec, len(self._served)
        goal = None
        if spec.goal is not None:
            goal = goals.Goal(**msgspec.structs.asdict(spec.goal))
        try:
            self._core.create(
                model.Group(
                    id=group.number,
                    accelerator="",
                    size=min(spec.slots, most),
                    min_size=spec.min_size,
                    max_size=min(spec.max_size or most, most),
                    elastic=spec.elastic,
                ),
                now,
                goal,
            )
        except goals.Infeasible:
            group.admitted = False
            self._engine.close(group.number)
            return
        group.is_there = True
        if goal is not None:
            self._core.start(group.number, now)
            if goal.actions is not None:
                self._engine.stop_after(group.number, goal.actions)

    def _end(self, group: _Group, now: float) -> None:
        self._report(group, now)
        group.is_there = False
        group.ended_s = now
        self._engine.close(group.number)
        self._core.delete(group.number, now)

    def _report(self, group: _Group, now: float) -> None:
        if not group.is_there:
            return
        stats = []
        for client in group.clients:
            before, counts = (
                self._reported[client],
                self._engine.counts(client),
            )
            self._reported[client] = counts
            stats.append(
                events.ClientStats(
                    client=str(client),
                    ended=counts.ended - before.ended,
                    arrived=counts.arrived - before.arrived,
                    waiting=counts.waiting,
                    busy_s=counts.taken_s - before.taken_s,
                )
            )
        busy_s = self._engine.busy_s(group.number)
        self._core.observe(
            events.TaskStats(
                group_id=group.number,
                host_id=_HOST,
                clients=tuple(stats),
                busy_s=busy_s - self._reported_busy_s[group.number],
                busy_members=self._engine.busy_members(group.number),
            ),
            now,
        )
        self._reported_busy_s[group.number] = busy_s

    # -- slots -------------------------------------------------------------

    def _look(self, now: float) -> None:
        """Record slots that have joined, and send on those that have left."""
        for slot, before in enumerate(self._served):
            serves = self._engine.serves(slot)
            self._served[slot] = serves
            if before is None and serves is not None:
                self._core.joined(serves, now)
            elif before is not None and serves is None:
                move = self._core.next_move(before)
                if move is not None:
                    self._send(slot, move, now, self._programming_s)
                else:
                    # The move for which it left has been cancelled.
                    self._engine.program(slot, before, now)
                    self._served[slot] = before

    def _move(self, now: float, programming_s: float) -> None:
        """Move free slots and idle members; others leave after their tasks."""
        while True:
            moves = self._core.moves()
            for move in moves:
                slot = self._slot_for(move)
                if slot is not None:
                    if move.donor is not None:
                        self._engine.free(slot)
                        self._served[slot] = None
                    self._send(slot, move, now, programming_s)
                    break
            else:
                break
        for group in self._groups:
            self._engine.let_leave(
                group.number, sum(move.donor == group.number for move in moves)
            )

    def _slot_for(self, move: core_groups.Move) -> int | None:
        if move.donor is None:
            return self._engine.free_slot()
        return self._engine.idle_member(move.donor)

    def _send(
        self,
        slot: int,
        move: core_groups.Move,
        now: float,
        programming_s: float,
    ) -> None:
        """Start the move of a slot that has left its group."""
        self._core.begin(move, now)
        if move.receiver is not None:
            self._engine.program(slot, move.receiver, now + programming_s)
            self._groups[move.receiver].moves += now > 0

    # -- results -----------------------------------------------------------

    def _next_step_s(self) -> float | None:
        if self._step_s is None:
            return None
        return len(self.course.times_s) * self._step_s

    def _record(self, now: float) -> None:
        next_s = self._next_step_s()
        if self._accounts is not None or next_s is None or now < next_s:
            return
        self.course.times_s.append(now)
        for group in self._groups:
            at = group.number
            self.course.members[at].append(self._engine.members(at))
            self.course.waiting_s[at].append(self._engine.waiting_s(at))
            self.course.ended[at].append(self._ended(group))

    def _close_accounts(self, now: float) -> None:
        if self._accounts is None:
            self._accounts = _Accounts(
                now,
                self._engine.spent(),
                [self._engine.busy_s(each.number) for each in self._groups],
                [
                    self._engine.programming_s(each.number)
                    for each in self._groups
                ],
            )

    def _result(self) -> group_results.GroupsResult:
        assert self._accounts is not None
        accounts, spent = self._accounts, self._accounts.spent
        slots = len(self._served)
        total_s = math.fsum(spent)
        return group_results.GroupsResult(
            horizon_s=accounts.now,
            slots=slots,
            busy=spent.busy_s / total_s,
            programming=spent.programming_s / total_s,
            idle=(spent.idle_s + spent.free_s) / total_s,
            latency=group_results.measure_latency(
                self._engine, range(len(self._reported))
            ),
            groups=[
                group_results.GroupResult(
                    name=group.spec.name,
                    latency=group_results.measure_latency(
                        self._engine, group.clients
                    ),
                    tasks=self._ended(group),
                    busy_s=accounts.busy_s[group.number],
                    programming_s=accounts.programming_s[group.number],
                    moves=group.moves,
                    clients={
                        client.name: group_results.measure_latency(
                            self._engine, range(number, number + 1)
                        )
                        for number, client in zip(
                            group.clients, group.spec.clients, strict=True
                        )
                    },
                    goal=self._goal_result(group),
                )
                for group in self._groups
            ],
        )

    def _ended(self, group: _Group) -> int:
        return sum(
            self._engine.counts(client).ended for client in group.clients
        )

    def _goal_result(self, group: _Group) -> group_results.GoalResult | None:
        goal = group.spec.goal
        if goal is None:
            return None
        ended_s = group.ended_s
        rate_per_s = None
        if ended_s is not None and ended_s > group.begin_s:
            rate_per_s = self._ended(group) / (ended_s - group.begin_s)
        met = False
        if goal.deadline_s is not None and ended_s is not None:
            met = (
                self._ended(group) >= (goal.actions or 0)
                and ended_s <= goal.deadline_s
            )
        elif goal.rate_per_s is not None and rate_per_s is not None:
            met = rate_per_s >= goal.rate_per_s
        return group_results.GoalResult(
            met=met,
            admitted=group.admitted,
            begun_s=group.begin_s,
            ended_s=ended_s,
            rate_per_s=rate_per_s,
        )


class _Accounts(typing.NamedTuple):
    """How the slots were used from the start to one moment."""

    now: float
    spent: tasks.Spent
    busy_s: list[float]
    programming_s: list[float]


def _clients(
    groups: Sequence[scenarios.Group],
    arrivals_s: Sequence[Sequence[Sequence[float]]],
) -> list[queues.Client]:
    return [
        queues.Client(
            at,
            client.task_s,
            client.batch_tasks,
            client.window_s or math.inf,
            own_s,
        )
        for at, group in enumerate(groups)
        for client, own_s in zip(group.clients, arrivals_s[at], strict=True)
    ]


def _make_groups(
    groups: Sequence[scenarios.Group],
    arrivals_s: Sequence[Sequence[Sequence[float]]],
) -> list[_Group]:
    """Make the groups; one with a goal begins with its first batch."""
    found = []
    first = 0
    for at, group in enumerate(groups):
        begin_s = 0.0
        if group.goal is not None:
            begin_s = min(
                (each_s for own_s in arrivals_s[at] for each_s in own_s),
                default=0.0,
            )
        clients = range(first, first + len(group.clients))
        found.append(_Group(at, group, clients, begin_s))
        first = clients.stop
    return found
