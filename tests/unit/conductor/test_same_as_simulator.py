# SPDX-License-Identifier: Apache-2.0

"""The conductor's engine and the simulator serve a trace alike."""

import dataclasses
import math
import random
import typing
from collections.abc import Callable

import msgspec
import pytest

from fpgapool import strategies
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

HOSTS = ("a", "b")
SLOTS = 2
STRATEGIES = ("fifo", "sjf", "edf", "hjf", "ra")
#: All of the same rate.
ACCELERATORS = ("copy", "other")
BYTES_PER_S = int(world.PROFILE.peak_bytes_per_s)
#: Links that are never the bottleneck.
FAST_BYTES_PER_S = 1e15
#: In the trace: host, slot, and when.
Visit: typing.TypeAlias = tuple[int, int, float]
#: The number of a job to its tenant and priority.
Owners: typing.TypeAlias = Callable[[int], tuple[str, int]]


def make_trace(
    seed: int,
    owners: Owners = lambda _number: ("", 0),
    count: int = 60,
    *,
    accelerators: int = 1,
    applications: int = 0,
    reconfiguration_s: float = 0.0,
    names: tuple[str, ...] = STRATEGIES,
    **options: typing.Any,
) -> scenarios.Scenario:
    """Return jobs that overload four slots, most with deadlines.

    :param applications: every other one belongs to one of so many.
    """
    chooser = random.Random(seed)
    jobs = []
    arrival_s = 0.0
    for number in range(1, count + 1):
        arrival_s += round(chooser.expovariate(0.6), 3)
        work_s = chooser.randrange(1, 15)
        tenant, priority = owners(number)
        jobs.append(
            scenarios.JobSpec(
                id=number,
                host=chooser.randrange(len(HOSTS)),
                size_bytes=work_s * BYTES_PER_S,
                arrival_s=arrival_s,
                accelerator=ACCELERATORS[number % 7 % accelerators],
                app=f"app{number % 8 % applications}"
                if applications and number % 2
                else None,
                tenant=tenant,
                deadline_s=chooser.choice(
                    [None, 1.5 * work_s, 4.0 * work_s, 9.0 * work_s]
                ),
                priority=priority,
            )
        )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        strategies=dict.fromkeys(
            names,
            scenarios.StrategyOptions(slot_choice="index", **options),
        ),
        cluster=scenarios.Cluster(
            hosts=len(HOSTS),
            fpga_hosts=tuple(range(len(HOSTS))),
            accelerators=dict.fromkeys(
                ACCELERATORS, scenarios.AcceleratorProfile(BYTES_PER_S, 1.0)
            ),
            reconfiguration_s=reconfiguration_s,
            slots_per_device=SLOTS,
            # As much as the slots need, and as the agents report.
            dma_bytes_per_s=SLOTS * BYTES_PER_S,
            nic_bytes_per_s=FAST_BYTES_PER_S,
        ),
        jobs=jobs,
    )


@dataclasses.dataclass
class Running:
    """A session in its slot.

    :ivar due_s: its next border, or its end.
    :ivar due_bytes: what its slot has computed then.
    """

    job: scenarios.JobSpec
    due_s: float
    due_bytes: int
    left_bytes: int


class Replay:
    """Plays a trace through the engine.

    :param fair: whether projects share the slots evenly.
    :param woken: whether the engine is called whenever it asks for it.
    :ivar grants: by job, the host and slot of each grant, and when.
    :ivar preempted: the same for each slot that it had to leave.
    """

    def __init__(
        self,
        trace: scenarios.Scenario,
        name: str,
        *,
        fair: bool = False,
        woken: bool = False,
    ) -> None:
        self._jobs = {f"r{job.id}": job for job in trace.jobs}
        self.grants: dict[int, list[Visit]] = {
            one.id: [] for one in trace.jobs
        }
        self.preempted: dict[int, list[Visit]] = {
            one.id: [] for one in trace.jobs
        }
        options = trace.strategies[name]
        preempts = options.preempt == "fine"
        self._quantum_bytes = (options.preempt_quantum_bytes or 0) * preempts
        self._pool = world.Conductor(
            [world.FakeAgent(host, SLOTS) for host in HOSTS],
            fair=fair,
            preempt_gain=options.preempt_gain if preempts else None,
            quantum_bytes=self._quantum_bytes,
            make_strategy=lambda: getattr(strategies, name)(
                options.options(), 0
            ),
        )
        self._woken = woken
        self._reconfiguration_s = trace.cluster.reconfiguration_s
        for agent in self._pool.agents.values():
            for slot in agent.slots:
                slot.programming_time_s = self._reconfiguration_s
            self._pool.feed(agent.report())
        self._pool.feed(world.library(*ACCELERATORS))
        self._set_limits(trace, 2 * len(HOSTS) * SLOTS)
        self._began_s = self._pool.now
        # By host and slot.
        self._running: dict[tuple[str, int], Running] = {}
        # When slots will be programmed.
        self._ready_s: dict[tuple[str, int], float] = {}

    def _set_limits(self, trace: scenarios.Scenario, sessions: int) -> None:
        """Set limits of priorities, and of sessions that none reaches."""
        quotas = self._pool.memory.quotas
        for tenant in {job.tenant or "p" for job in trace.jobs}:
            highest = trace.max_priorities.get(tenant, 0)
            quotas.set(tenant, {"sessions": sessions, "max_priority": highest})
        self._pool.memory.link.tell(quotas.session_limits())
        self._pool.feed()

    def run(self) -> None:
        """Play it to the end."""
        to_come = list(self._jobs.values())
        while to_come or self._running or self._ready_s:
            now = min(
                [
                    *(one.due_s for one in self._running.values()),
                    *(job.arrival_s for job in to_come[:1]),
                    *self._ready_s.values(),
                    self._wake_s(),
                ]
            )
            self._pool.now = self._began_s + now
            batch = self._reports_of(self._go_on(now))
            while to_come and to_come[0].arrival_s <= now:
                batch.append(self._opening(to_come.pop(0)))
            self._decide(batch)
            while batch := self._reports_of(self._leave(now)):
                self._decide(batch)
            self._begin(now)

    def _decide(self, batch: list[object]) -> None:
        self._pool.feed(*batch)
        self._pool.deliver_all()

    def _wake_s(self) -> float:
        wake_at = self._pool.memory.link.wake_at
        if not self._woken or wake_at is None:
            return math.inf
        wake_s = wake_at - self._began_s
        # Not too early by a rounding error.
        while self._began_s + wake_s < wake_at:
            wake_s = math.nextafter(wake_s, math.inf)
        return wake_s

    def _reports_of(self, hosts: set[str]) -> list[object]:
        return [self._pool.agents[host].report() for host in sorted(hosts)]

    def _go_on(self, now: float) -> set[str]:
        """End sessions that are done, and bring others to their borders."""
        hosts = set()
        for (host, number), running in list(self._running.items()):
            if running.due_s > now:
                continue
            hosts.add(host)
            agent = self._pool.agents[host]
            agent.slots[number].input_bytes = running.due_bytes
            if running.left_bytes:
                self._go_to_border(running)
            else:
                del self._running[host, number]
                agent.end(number, states.CLOSED, codes.OK, self._pool.now)
        return hosts

    def _go_to_border(self, running: Running) -> None:
        piece_bytes = min(
            running.left_bytes, self._quantum_bytes or running.left_bytes
        )
        running.due_s += piece_bytes / BYTES_PER_S
        running.due_bytes += piece_bytes
        running.left_bytes -= piece_bytes

    def _leave(self, now: float) -> set[str]:
        """Take over which sessions have left their slots by order."""
        left = [
            key
            for key in self._running
            if self._pool.agents[key[0]].slots[key[1]].state
            == states.SLOT_IDLE
        ]
        for host, number in left:
            slot = self._pool.agents[host].slots[number]
            assert slot.last_result is not None
            assert slot.last_result.code == codes.PREEMPTED
            slot.last_result = dataclasses.replace(
                slot.last_result,
                input_bytes=slot.input_bytes,
                output_bytes=slot.input_bytes,
                started_at=self._pool.now,
            )
            job = self._running.pop((host, number)).job
            self.preempted[job.id].append((HOSTS.index(host), number, now))
        return {host for host, _ in left}

    def _more_of(self, job: scenarios.JobSpec) -> dict[str, object]:
        """Return further members of a session's request."""
        return {}

    def _opening(self, job: scenarios.JobSpec) -> object:
        return world.opening(
            world.request(
                request_id=f"r{job.id}",
                project_id=job.tenant or "p",
                host_uuid=HOSTS[job.host or 0],
                claimed_bytes=int(job.size_bytes),
                accelerator=job.accelerator,
                application=job.app,
                deadline_s=job.deadline_s,
                priority=job.priority,
                **self._more_of(job),
            )
        )

    def _begin(self, now: float) -> None:
        """Have the clients of the slots that were given connect."""
        for index, host in enumerate(HOSTS):
            agent = self._pool.agents[host]
            for number, slot in enumerate(agent.slots):
                if slot.state != states.SLOT_PREPARING:
                    continue
                session = next(
                    one
                    for one in self._pool.rows["sessions"].values()
                    if one.session_id == slot.session_id
                )
                job = self._jobs[session.request_id]
                if slot.programmed != job.accelerator:
                    ready_s = self._ready_s.setdefault(
                        (host, number), now + self._reconfiguration_s
                    )
                    if ready_s > now:
                        continue
                self._ready_s.pop((host, number), None)
                self.grants[job.id].append((index, number, now))
                self._pool.feed(agent.prepared(number))
                slot.state = states.SLOT_ACTIVE
                slot.input_bytes = 0
                left_bytes = int(job.size_bytes) - session.input_bytes
                running = Running(job, now, 0, left_bytes)
                self._go_to_border(running)
                self._running[host, number] = running
            self._pool.feed(agent.report())


def near(visits: list[Visit]) -> list[Visit]:
    """Return visits that are equal to others but for rounding errors."""
    return [(host, slot, pytest.approx(at)) for host, slot, at in visits]


def check_same(replay: Replay, outcomes: list[schedules.JobOutcome]) -> None:
    """Check that both gave the same slots, and took the same ones away."""
    assert replay.grants == {
        one.id: near(
            [
                *((stay.host, stay.slot, stay.start_s) for stay in one.stays),
                (one.host, one.slot, one.start_s),  # type: ignore[list-item]
            ]
        )
        for one in outcomes
    }
    assert replay.preempted == {
        one.id: near(
            [(stay.host, stay.slot, stay.finish_s) for stay in one.stays]
        )
        for one in outcomes
    }


@pytest.mark.parametrize("name", STRATEGIES)
def test_grants_are_the_same(name: str) -> None:
    trace = make_trace(7)
    replay = Replay(trace, name)
    replay.run()
    outcomes = simulation.run(trace, name)
    check_same(replay, outcomes)
    starts_s = [one.start_s for one in outcomes]
    assert starts_s != sorted(starts_s) or name == "fifo"
    assert not any(one.preemptions for one in outcomes)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("affinity", {}),
        ("affinity", {"largest_first": True, "affinity_wait_s": 20.0}),
        ("wra", {"affinity": True}),
        ("ra", {"affinity": True, "wait_s_per_byte": 1e-9}),
    ],
)
def test_grants_with_affinity_are_the_same(
    name: str,
    options: dict[str, typing.Any],
) -> None:
    """Time causes passes, and slots take time to be programmed."""
    trace = msgspec.structs.replace(
        make_trace(
            11,
            accelerators=2,
            applications=3,
            reconfiguration_s=0.75,
            names=(name,),
            **options,
        ),
        wakeups=True,
    )
    replay = Replay(trace, name, woken=True)
    replay.run()
    outcomes = simulation.run(trace, name)
    check_same(replay, outcomes)
    off = {"affinity_wait_s": 0.0}
    other = msgspec.structs.replace(
        trace,
        strategies={
            name: msgspec.structs.replace(trace.strategies[name], **off)
        },
    )
    # Affinity makes a difference.
    assert simulation.run(other, name) != outcomes


PREEMPTS = {
    "preempt": "fine",
    "preempt_gain": 0.25,
    "preempt_quantum_bytes": 2 * BYTES_PER_S,
}


@pytest.mark.parametrize(
    ("name", "fair"),
    [("fifo", False), ("fifo", True), ("edf", False), ("hjf", True)],
)
def test_preemptions_within_a_project_are_the_same(
    name: str, fair: bool
) -> None:
    """By priorities, and with ``edf`` and ``hjf`` by deadlines."""
    trace = make_trace(1, lambda number: ("p", number % 3 - 1), 30, **PREEMPTS)
    replay = Replay(trace, name, fair=fair)
    replay.run()
    outcomes = simulation.run(trace, name, fair_share=fair)
    check_same(replay, outcomes)
    priorities = {
        job.priority
        for job, one in zip(trace.jobs, outcomes, strict=True)
        if one.preemptions
    }
    # Only deadlines take slots from the highest priority.
    assert priorities == ({-1, 0} if name == "fifo" else {-1, 0, 1})


@pytest.mark.parametrize("name", ["fifo", "edf", "hjf"])
def test_preemptions_across_projects_are_the_same(name: str) -> None:
    """One project has most jobs; of two others, one may use priorities."""

    def owner(number: int) -> tuple[str, int]:
        if number % 4:
            return "greedy", 0
        return ("urgent" if number % 8 else "modest"), 5

    trace = make_trace(27, owner, 30, **PREEMPTS)
    preempted = {}
    for highest in (0, 5):
        allowed = msgspec.structs.replace(
            trace, max_priorities={"urgent": highest}
        )
        replay = Replay(allowed, name, fair=True)
        replay.run()
        outcomes = simulation.run(allowed, name, fair_share=True)
        check_same(replay, outcomes)
        preempted[highest] = {
            job.tenant
            for job, one in zip(allowed.jobs, outcomes, strict=True)
            if one.preemptions
        }
    # With deadlines, projects also lose slots to others of no higher priority.
    by_deadline = set() if name == "fifo" else {"greedy", "urgent"}
    assert preempted == {0: by_deadline, 5: {"greedy"}}
