# SPDX-License-Identifier: Apache-2.0

"""Runs jobs on hosts with cores: each needs a core and may get a slot besides.

A job keeps its core to its end, computes on it, and faster while it has a slot
of the same host, too. Its progress is steady: a job whose slot changes hands
goes on with exactly the work that is left. Links are no bottleneck.

At one instant jobs end, then arrive, then are killed. Then the cluster chooses
hosts, and each host gives cores, then slots in the order of their numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Iterable

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy as strategy_api
from fpgapool.core.rules import deadlines
from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.engines import instants
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from fpgapool.strategies.joint import hjf

# Less work than this, in chunks, is a rounding error.
_NOTHING = 1e-9


def check_strategy(
    scenario: scenarios.Scenario, name: str, seed: int, source: str
) -> None:
    """Check that a strategy is there, and accepts its options.

    :raises errors.InputError: if not.
    """
    _strategy_of(scenario, name, seed, source)


def _strategy_of(
    scenario: scenarios.Scenario, name: str, seed: int, source: str
) -> strategy_api.Strategy:
    return simulation.make_strategy(scenario.strategies, name, seed, source)


def run_strategy(
    scenario: scenarios.Scenario,
    name: str,
    seed: int,
    source: str,
    on_end: Callable[[], None] | None,
) -> list[schedules.JobOutcome]:
    """Simulate a strategy of the scenario, or an installed one.

    :raises errors.InputError: see :func:`check_strategy`.
    """
    strategy = _strategy_of(scenario, name, seed, source)
    options = scenario.strategies.get(name, scenarios.StrategyOptions())
    return run(scenario, strategy, options, on_end)


def run(
    scenario: scenarios.Scenario,
    strategy: strategy_api.Strategy,
    options: scenarios.StrategyOptions,
    on_end: Callable[[], None] | None = None,
) -> list[schedules.JobOutcome]:
    """Simulate a strategy, which chooses who gets cores and slots."""
    done = _Simulation(scenario, strategy, options, on_end)
    done.run()
    return [done.outcomes[job.id] for job in scenario.jobs]


def check(scenario: scenarios.Scenario, source: str) -> None:
    """Check that a scenario has all that cores need, and nothing else.

    :raises errors.InputError: if not.
    """
    cluster, power = scenario.cluster, scenario.cluster.power
    refused: list[tuple[str, object]] = [
        ("cluster.reconfiguration_s", cluster.reconfiguration_s),
        ("cluster.power.cap_w", power and power.cap_w is not None),
        ("cluster.power.host_cap_w", power and power.host_cap_w is not None),
        ("groups", scenario.groups),
        ("max_priorities", scenario.max_priorities),
        ("budgets", scenario.budgets),
    ]
    refused += [
        (
            f"strategies.{name}.preempt_quantum_bytes",
            options.preempt_quantum_bytes,
        )
        for name, options in scenario.strategies.items()
    ]
    refused += [
        (f"jobs[{at}].{member}", getattr(job, member))
        for at, job in enumerate(scenario.jobs)
        for member in ("priority", "claimed_bytes")
    ]
    for place, is_given in refused:
        if is_given:
            raise errors.InputError(
                source,
                place,
                _INSTEAD.get(
                    place.rpartition(".")[2], "cannot be combined with cores"
                ),
            )
    for name, profile in cluster.accelerators.items():
        for member, given in (
            ("cpu_bytes_per_s", profile.core_bytes_per_s),
            ("quantum_bytes", profile.quantum_bytes),
        ):
            if given is None:
                raise errors.InputError(
                    source,
                    f"cluster.accelerators.{name}.{member}",
                    "is missing; hosts with cores need it",
                )


_INSTEAD = {
    "groups": "hosts with cores have jobs only",
    "reconfiguration_s": "with cores, only attach_s counts",
    "preempt_quantum_bytes": "with cores, the accelerators' quantum_bytes "
    "count",
}


@dataclasses.dataclass(slots=True, eq=False)
class _Job:
    """A job that has arrived and not ended.

    :ivar slot_chunk_s: time that a slot of its host takes for a chunk; without
        such a slot, that of the cluster's fastest.
    :ivar cpu_chunk_s: the same for a core.
    :ivar host: None: the cluster has to choose one.
    :ivar start_s: when it got its core; None: it has none.
    :ivar slot: number of its slot on the host.
    :ivar slot_since_s: when it got this slot.
    :ivar last_slot: the slot that it had last.
    :ivar preemptions: how often it had to leave its slot to another job.
    :ivar chunks: its work that was left at ``since_s``.
    :ivar since_s: from then on it makes progress.
    :ivar chunk_s: time for a chunk where it is; infinite: it waits.
    :ivar border_s: when another job may get its slot.
    :ivar lost_s: when it is killed, as things are.
    :ivar due_s: the time of its timer; infinite: it has none.
    """

    spec: scenarios.JobSpec
    job: model.Job
    slot_chunk_s: float
    cpu_chunk_s: float
    chunks: float
    host: _Host | None = None
    start_s: float | None = None
    slot: int | None = None
    slot_since_s: float = 0.0
    slot_s: float = 0.0
    last_slot: int | None = None
    preemptions: int = 0
    since_s: float = 0.0
    chunk_s: float = math.inf
    border_s: float = math.inf
    lost_s: float = math.inf
    due_s: float = math.inf

    @property
    def deadline_s(self) -> float:
        """Return its deadline; infinite if it has none."""
        deadline_s = self.job.deadline_s
        return math.inf if deadline_s is None else deadline_s

    @property
    def end_s(self) -> float:
        """Return when it ends, as things are."""
        return self.since_s + self.chunks * self.chunk_s

    def left(self, now: float) -> float:
        """Return the chunks that are left."""
        passed_s = max(now - self.since_s, 0.0)
        return max(self.chunks - passed_s / self.chunk_s, 0.0)

    def go_on(self, now: float, chunk_s: float, delay_s: float = 0.0) -> None:
        """Change how fast it is, after a delay."""
        self.chunks = self.left(now)
        self.since_s = now + delay_s
        self.chunk_s = chunk_s
        self.border_s = math.inf

    def contender(
        self, now: float, attach_s: float = 0.0
    ) -> strategy_api.Contender:
        """Describe it to a strategy.

        :param attach_s: time to attach the slot that is given.
        """
        left = self.left(now)
        return strategy_api.Contender(
            self.job,
            left,
            left * self.slot_chunk_s,
            left * self.cpu_chunk_s,
            attach_s,
        )


@dataclasses.dataclass(slots=True, eq=False)
class _Host:
    """A host.

    :ivar holders: of its slots, by number.
    :ivar waiting: jobs that have no core.
    """

    number: int
    cores: int
    holders: list[_Job | None]
    waiting: list[_Job] = dataclasses.field(default_factory=list)
    running: list[_Job] = dataclasses.field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """Return whether a core is left for another job."""
        return self.cores > len(self.waiting)

    def stress_per_slot(self, now: float) -> float:
        """Return the stress of its jobs; late ones want no slot."""
        total = sum(
            max(hjf.stress(job.contender(now), now), 0.0)
            for job in (*self.waiting, *self.running)
        )
        return total / len(self.holders)


class _Simulation:
    """One run."""

    def __init__(
        self,
        scenario: scenarios.Scenario,
        strategy: strategy_api.Strategy,
        options: scenarios.StrategyOptions,
        on_end: Callable[[], None] | None,
    ) -> None:
        self._on_end = on_end
        self.outcomes: dict[int, schedules.JobOutcome] = {}
        self._cluster = cluster = scenario.cluster
        self._quanta_bytes = {
            name: profile.quantum_bytes or 0.0
            for name, profile in cluster.accelerators.items()
        }
        self._strategy = strategy
        self._attach_s = cluster.attach_s
        self._changes_hands = options.preempt == "fine"
        self._gain = options.preempt_gain
        self._action = options.deadline_action or "kill"
        cores = cluster.cores_per_host
        assert cores is not None
        with_slots = frozenset(cluster.fpga_hosts)
        self._hosts = [
            _Host(
                number,
                cores,
                [None] * cluster.slot_count(number)
                if number in with_slots
                else [],
            )
            for number in range(cluster.hosts)
        ]
        # Latest first: the next job is at the end.
        self._to_come = sorted(
            scenario.jobs,
            key=lambda job: (job.arrival_s, job.id),
            reverse=True,
        )
        self._jobs: dict[int, _Job] = {}
        # Those for which the cluster has not found a host.
        self._unplaced: list[_Job] = []
        self._timers = ordered.Timers()
        # What the current instant has changed.
        self._touched: set[int] = set()
        self._changed: dict[int, _Job] = {}

    def run(self) -> None:
        """Run to the end of the last job."""
        while True:
            first_s = self._timers.first_s()
            if self._to_come:
                first_s = min(first_s, self._to_come[-1].arrival_s)
            if first_s == math.inf:
                return
            self._step(first_s)

    def _step(self, first_s: float) -> None:
        """Do everything of an instant, at the latest of its times."""
        now, last_s = first_s, first_s + instants.tolerance_s(first_s)
        for job_id in self._timers.take_due(last_s):
            job = self._changed[job_id] = self._jobs[job_id]
            now = max(now, job.due_s)
            job.due_s = math.inf
        arriving = []
        while self._to_come and self._to_come[-1].arrival_s <= last_s:
            arriving.append(self._to_come.pop())
            now = max(now, arriving[-1].arrival_s)
        for job in self._in_order(self._changed.values()):
            if job.end_s <= now:
                state = schedules.state_at_end(now, job.job.deadline_s)
                self._end(job, now, state)
            elif job.border_s <= now and job.host is not None:
                self._touched.add(job.host.number)
        for spec in arriving:
            self._arrive(spec, now)
        for job in self._in_order(self._changed.values()):
            if job.lost_s <= now:
                self._end(job, now, "killed")
        if self._unplaced:
            self._choose_hosts(now)
        for number in sorted(self._touched):
            self._give_cores(self._hosts[number], now)
            self._give_slots(self._hosts[number], now)
        self._touched.clear()
        for job in self._changed.values():
            self._set_timer(job, now)
        self._changed.clear()

    # -- jobs --------------------------------------------------------------

    @staticmethod
    def _in_order(jobs: Iterable[_Job]) -> list[_Job]:
        return sorted(jobs, key=lambda each: each.spec.id)

    def _arrive(self, spec: scenarios.JobSpec, now: float) -> None:
        profile = self._cluster.accelerators[spec.accelerator]
        quantum_bytes = self._quanta_bytes[spec.accelerator]
        host = None if spec.host is None else self._hosts[spec.host]
        job = _Job(
            spec,
            model.Job(
                id=spec.id,
                host_id=spec.host,
                accelerator=spec.accelerator,
                claimed_bytes=spec.size_bytes,
                arrival_s=spec.arrival_s,
                project=spec.tenant,
                deadline_s=spec.deadline_at_s,
            ),
            self._slot_chunk_s(spec, host),
            quantum_bytes / (profile.core_bytes_per_s or 0.0),
            spec.size_bytes / quantum_bytes,
        )
        self._jobs[spec.id] = self._changed[spec.id] = job
        if host is None:
            self._unplaced.append(job)
        else:
            self._go_to(host, job)
        job.lost_s = self._lost_s(job, now)

    def _go_to(self, host: _Host, job: _Job) -> None:
        job.host = host
        host.waiting.append(job)
        self._touched.add(host.number)

    def _end(self, job: _Job, now: float, state: schedules.State) -> None:
        host, spec = job.host, job.spec
        left = job.left(now) if state == "killed" else 0.0
        if job.slot is not None:
            self._detach(job, now)
        if host is None:
            self._unplaced.remove(job)
        elif job.start_s is None:
            host.waiting.remove(job)
        else:
            host.running.remove(job)
            host.cores += 1
            self._touched.add(host.number)
        had_slot = host is not None and job.last_slot is not None
        self.outcomes[spec.id] = schedules.JobOutcome(
            id=spec.id,
            start_s=now if job.start_s is None else job.start_s,
            finish_s=now,
            host=host.number if host is not None and had_slot else None,
            slot=job.last_slot,
            local=host is not None and host.number == spec.host,
            state=state,
            core=schedules.OnCore(
                host=None
                if host is None or job.start_s is None
                else host.number,
                slot_s=job.slot_s,
                done_bytes=spec.size_bytes
                - left * self._quanta_bytes[spec.accelerator],
            ),
            preemptions=job.preemptions,
        )
        if self._on_end is not None:
            self._on_end()
        self._cancel_timer(job)
        del self._jobs[spec.id], self._changed[spec.id]

    def _lost_s(self, job: _Job, now: float) -> float:
        """Return when a job is killed, unless something changes before."""
        deadline_s = job.deadline_s
        limit_s = deadline_s + deadlines.TOLERANCE_S
        if self._action == "continue" or job.end_s <= limit_s:
            return math.inf
        if self._action == "kill":
            return deadline_s
        if job.slot is not None:
            # Its slot is too slow already.
            return now
        left = job.left(now)
        if job.host is not None and not job.host.holders:
            needed_s, chunk_s = left * job.cpu_chunk_s, job.cpu_chunk_s
        else:
            needed_s = left * job.slot_chunk_s + self._attach_s
            chunk_s = job.slot_chunk_s
        # While it computes on its core, it needs less and less.
        lost_per_s = 1 - chunk_s / job.chunk_s
        if lost_per_s <= 0:
            return deadline_s if now + needed_s <= limit_s else now
        spare_s = max(limit_s - now - needed_s, 0.0)
        return min(now + spare_s / lost_per_s, deadline_s)

    def _set_timer(self, job: _Job, now: float) -> None:
        self._cancel_timer(job)
        job.lost_s = self._lost_s(job, now)
        job.due_s = max(min(job.end_s, job.border_s, job.lost_s), now)
        if job.due_s < math.inf:
            self._timers.add(job.due_s, job.spec.id)

    def _cancel_timer(self, job: _Job) -> None:
        if job.due_s < math.inf:
            self._timers.remove(job.due_s, job.spec.id)

    # -- hosts, cores and slots --------------------------------------------

    def _choose_hosts(self, now: float) -> None:
        """Find hosts for jobs that have none."""
        for job in sorted(
            self._unplaced,
            key=lambda each: hjf.hjf_key(each.contender(now), now),
        ):
            host = self._host_for(job, now)
            if host is None:
                return
            self._unplaced.remove(job)
            self._changed[job.spec.id] = job
            self._go_to(host, job)
            job.slot_chunk_s = self._slot_chunk_s(job.spec, host)

    def _host_for(self, job: _Job, now: float) -> _Host | None:
        with_room = [host for host in self._hosts if host.has_room]
        plain = [host for host in with_room if not host.holders]
        better = [host for host in with_room if host.holders]
        on_core_s = job.chunks * job.cpu_chunk_s
        if plain and (
            not better
            or job.job.arrival_s + on_core_s
            <= job.deadline_s + deadlines.TOLERANCE_S
        ):
            # The fullest one, so that others stay empty.
            return min(plain, key=lambda each: each.cores - len(each.waiting))
        return min(
            better, key=lambda each: each.stress_per_slot(now), default=None
        )

    def _slot_chunk_s(
        self, spec: scenarios.JobSpec, host: _Host | None
    ) -> float:
        cluster = self._cluster
        numbers = cluster.fpga_hosts
        if host is not None and host.holders:
            numbers = (host.number,)
        peak_in = cluster.accelerators[spec.accelerator].peak_in
        return self._quanta_bytes[spec.accelerator] / max(
            peak_in(cluster.shape_of(number)) for number in numbers
        )

    def _give_cores(self, host: _Host, now: float) -> None:
        while host.cores and host.waiting:
            job = self._most_urgent(host.waiting, None, now, 0.0)
            host.waiting.remove(job)
            host.running.append(job)
            host.cores -= 1
            job.start_s = now
            job.go_on(now, job.cpu_chunk_s)
            self._changed[job.spec.id] = job

    def _give_slots(self, host: _Host, now: float) -> None:
        for number, holder in enumerate(host.holders):
            if holder is not None and holder.border_s > now:
                continue
            rivals = [
                job
                for job in host.running
                if job.slot is None or job is holder
            ]
            if not rivals:
                continue
            job = self._most_urgent(rivals, holder, now, self._attach_s)
            if holder is not None and not self._may_displace(job, holder, now):
                job = holder
            if holder is not None and job is not holder:
                self._detach(holder, now)
                holder.preemptions += 1
                holder.go_on(now, holder.cpu_chunk_s)
                self._changed[holder.spec.id] = holder
            if job is not holder:
                self._attach(job, host, number, now)
            job.go_on(
                now,
                job.slot_chunk_s,
                0.0 if job is holder else self._attach_s,
            )
            if self._changes_hands and job.chunks > 1 + _NOTHING:
                job.border_s = job.since_s + job.chunk_s
            self._changed[job.spec.id] = job

    def _most_urgent(
        self,
        jobs: list[_Job],
        holder: _Job | None,
        now: float,
        attach_s: float,
    ) -> _Job:
        """Return the job that the strategy chooses.

        :param holder: has the slot already, so that it needs no attaching.
        """
        chosen = self._strategy.most_urgent(
            [
                each.contender(now, 0.0 if each is holder else attach_s)
                for each in self._in_order(jobs)
            ],
            now,
        )
        return self._jobs[chosen.job.id]

    def _may_displace(self, job: _Job, holder: _Job, now: float) -> bool:
        return not self._gain or hjf.may_displace(
            job.contender(now, self._attach_s),
            holder.contender(now),
            now,
            self._gain,
        )

    @staticmethod
    def _attach(job: _Job, host: _Host, number: int, now: float) -> None:
        host.holders[number] = job
        job.slot = job.last_slot = number
        job.slot_since_s = now

    @staticmethod
    def _detach(job: _Job, now: float) -> None:
        assert job.host is not None
        assert job.slot is not None
        job.host.holders[job.slot] = None
        job.slot_s += now - job.slot_since_s
        job.slot = None
