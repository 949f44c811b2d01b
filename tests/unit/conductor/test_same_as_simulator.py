# SPDX-License-Identifier: Apache-2.0

"""The conductor's engine and the simulator serve a trace alike."""

import random

import pytest

from fpgapool import strategies
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import simulation
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

HOSTS = ("a", "b")
SLOTS = 2
STRATEGIES = ("fifo", "sjf", "edf", "hjf", "ra")
BYTES_PER_S = world.PROFILE.peak_bytes_per_s
#: Links that are never the bottleneck.
FAST_BYTES_PER_S = 1e15


def make_trace(seed: int) -> scenarios.Scenario:
    """Return jobs that overload four slots, most with deadlines."""
    chooser = random.Random(seed)
    jobs = []
    arrival_s = 0.0
    for number in range(1, 61):
        arrival_s += round(chooser.expovariate(0.6), 3)
        work_s = chooser.randrange(1, 15)
        jobs.append(
            scenarios.JobSpec(
                id=number,
                host=chooser.randrange(len(HOSTS)),
                size_bytes=work_s * BYTES_PER_S,
                arrival_s=arrival_s,
                accelerator="copy",
                deadline_s=chooser.choice(
                    [None, 1.5 * work_s, 4.0 * work_s, 9.0 * work_s]
                ),
            )
        )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        strategies=dict.fromkeys(
            STRATEGIES, scenarios.StrategyOptions(slot_choice="index")
        ),
        cluster=scenarios.Cluster(
            hosts=len(HOSTS),
            fpga_hosts=tuple(range(len(HOSTS))),
            accelerators={
                "copy": scenarios.AcceleratorProfile(BYTES_PER_S, 1.0)
            },
            slots_per_device=SLOTS,
            dma_bytes_per_s=FAST_BYTES_PER_S,
            nic_bytes_per_s=FAST_BYTES_PER_S,
        ),
        jobs=jobs,
    )


class Replay:
    """Plays a trace through the engine.

    :param trace: the jobs.
    :param name: of the strategy.
    :ivar grants: by job, the host and slot that it got, and when.
    """

    def __init__(self, trace: scenarios.Scenario, name: str) -> None:
        self._jobs = {f"r{job.id}": job for job in trace.jobs}
        self.grants: dict[int, tuple[int, int, float]] = {}
        self._pool = world.World(
            [world.FakeAgent(host, SLOTS) for host in HOSTS],
            make_strategy=lambda: getattr(strategies, name)(
                {"slot_choice": "index"}, 0
            ),
        )
        self._began_s = self._pool.now
        # By host and slot.
        self._ends: dict[tuple[str, int], float] = {}

    def run(self) -> None:
        """Play it to the end."""
        to_come = list(self._jobs.values())
        while to_come or self._ends:
            now = min(
                [*self._ends.values(), *(job.arrival_s for job in to_come[:1])]
            )
            self._pool.now = self._began_s + now
            due = [one for one, end in self._ends.items() if end <= now]
            for host, number in due:
                del self._ends[host, number]
                self._pool.agents[host].end(
                    number, states.CLOSED, codes.OK, self._pool.now
                )
            batch = [
                self._pool.agents[host].report()
                for host in sorted({host for host, _ in due})
            ]
            while to_come and to_come[0].arrival_s <= now:
                batch.append(self._opening(to_come.pop(0)))
            self._pool.feed(*batch)
            self._pool.deliver_all()
            self._begin(now)

    @staticmethod
    def _opening(job: scenarios.JobSpec) -> object:
        return world.opening(
            world.request(
                request_id=f"r{job.id}",
                host_uuid=HOSTS[job.host or 0],
                claimed_bytes=int(job.size_bytes),
                deadline_s=job.deadline_s,
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
                self.grants[job.id] = index, number, now
                self._pool.feed(agent.prepared(number))
                slot.state = states.SLOT_ACTIVE
                self._ends[host, number] = now + job.size_bytes / BYTES_PER_S
            self._pool.feed(agent.report())


@pytest.mark.parametrize("name", STRATEGIES)
def test_grants_are_the_same(name: str) -> None:
    trace = make_trace(7)
    replay = Replay(trace, name)
    replay.run()
    outcomes = simulation.run(trace, name)
    assert replay.grants == {
        one.id: (one.host, one.slot, pytest.approx(one.start_s))
        for one in outcomes
    }
    starts_s = [one.start_s for one in outcomes]
    assert starts_s != sorted(starts_s) or name == "fifo"
