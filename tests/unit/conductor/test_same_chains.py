# SPDX-License-Identifier: Apache-2.0

"""The conductor's engine and the simulator serve chains alike."""

import collections

import msgspec
import pytest

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.vocabulary import states
from tests.unit.conductor import test_same_as_simulator as same
from tests.unit.conductor import world

#: A stage with ``other`` takes twice as long as one with ``copy``.
SLOWER = 2
RECONFIGURATION_S = 0.75
CHAIN = ("copy", "other")


def make_trace(
    seed: int, name: str, reconfiguration_s: float
) -> scenarios.Scenario:
    """Every fourth job is a chain, whose stages all return what they get."""
    trace = same.make_trace(
        seed, count=30, reconfiguration_s=reconfiguration_s, names=(name,)
    )
    profiles = {
        "copy": scenarios.AcceleratorProfile(same.BYTES_PER_S, 1.0),
        "other": scenarios.AcceleratorProfile(same.BYTES_PER_S / SLOWER, 1.0),
    }
    return msgspec.structs.replace(
        trace,
        cluster=msgspec.structs.replace(
            trace.cluster,
            accelerators=profiles,
            dma_bytes_per_s=same.FAST_BYTES_PER_S,
        ),
        jobs=[
            job
            if job.id % 4
            else msgspec.structs.replace(job, chain=CHAIN, accelerator="")
            for job in trace.jobs
        ],
    )


def sessions_of(trace: scenarios.Scenario) -> list[scenarios.JobSpec]:
    """Return what clients request; ids are ten times those of the jobs."""
    return [
        msgspec.structs.replace(
            job,
            id=10 * job.id + number,
            accelerator=accelerator,
            chain=None,
            set_id=None if job.chain is None else f"chain{job.id}",
        )
        for job in trace.jobs
        for number, accelerator in enumerate(job.accelerators)
    ]


class Replay(same.Replay):
    """Plays a trace with sets whose sessions run at the slowest one's pace."""

    def __init__(self, trace: scenarios.Scenario, name: str) -> None:
        sessions = sessions_of(trace)
        self._sizes = collections.Counter(job.set_id for job in sessions)
        #: By set, those that are programmed.
        self._ready: dict[str, set[tuple[str, int]]] = {}
        super().__init__(
            msgspec.structs.replace(trace, jobs=sessions), name, woken=True
        )

    def _more_of(self, job: scenarios.JobSpec) -> dict[str, object]:
        if job.set_id is None:
            return {}
        return {"set_id": job.set_id, "set_size": self._sizes[job.set_id]}

    def _begin(self, now: float) -> None:
        """Have clients connect, those of a set when all are ready."""
        for host in same.HOSTS:
            agent = self._pool.agents[host]
            for number, slot in enumerate(agent.slots):
                if slot.state == states.SLOT_PREPARING:
                    self._prepare(host, number, now)
            self._pool.feed(agent.report())

    def _prepare(self, host: str, number: int, now: float) -> None:
        slot = self._pool.agents[host].slots[number]
        job = self._job_in(host, number)
        if slot.programmed != job.accelerator:
            ready_s = self._ready_s.setdefault(
                (host, number), now + self._reconfiguration_s
            )
            if ready_s > now:
                return
        self._ready_s.pop((host, number), None)
        ready = {(host, number)}
        self._pool.feed(self._pool.agents[host].prepared(number))
        if job.set_id is not None:
            ready |= self._ready.setdefault(job.set_id, set())
            self._ready[job.set_id] = ready
            if len(ready) < self._sizes[job.set_id]:
                return
        for key in sorted(ready):
            self._connect(key, now)

    def _job_in(self, host: str, number: int) -> scenarios.JobSpec:
        slot = self._pool.agents[host].slots[number]
        session = next(
            one
            for one in self._pool.rows["sessions"].values()
            if one.session_id == slot.session_id
        )
        return self._jobs[session.request_id]

    def _connect(self, key: tuple[str, int], now: float) -> None:
        host, number = key
        slot, job = self._pool.agents[host].slots[number], self._job_in(*key)
        visit = same.HOSTS.index(host), number, now
        self.grants[job.id].append(visit)
        slot.state = states.SLOT_ACTIVE
        slot.input_bytes = 0
        running = same.Running(job, now, 0, int(job.size_bytes))
        self._go_to_border(running)
        if job.set_id is not None or job.accelerator == "other":
            running.due_s = now + SLOWER * (running.due_s - now)
        self._running[key] = running


@pytest.mark.parametrize("reconfiguration_s", [0.0, RECONFIGURATION_S])
@pytest.mark.parametrize("name", ["fifo", "sjf", "edf"])
def test_chains_get_the_same_slots(
    name: str, reconfiguration_s: float
) -> None:
    trace = make_trace(7, name, reconfiguration_s)
    replay = Replay(trace, name)
    replay.run()
    expected = {}
    for job, one in zip(trace.jobs, simulation.run(trace, name), strict=True):
        for number, slot in enumerate(one.stages or (one,)):
            assert slot.host is not None
            assert slot.slot is not None
            visit = slot.host, slot.slot, one.start_s
            expected[10 * job.id + number] = same.near([visit])
    assert replay.grants == expected
    waits_s = [
        one[0][2] - job.arrival_s
        for job, one in zip(
            sessions_of(trace), replay.grants.values(), strict=True
        )
        if job.set_id is not None
    ]
    assert len(waits_s) == 14
    assert max(waits_s) > 0


def test_the_world_is_that_of_the_other_traces() -> None:
    """Both have the accelerators of the library."""
    assert set(CHAIN) == set(same.ACCELERATORS)
    assert world.PROFILE.peak_bytes_per_s == same.BYTES_PER_S
