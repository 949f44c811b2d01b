# SPDX-License-Identifier: Apache-2.0

"""Random sets among single sessions: all or none, and none waits for ever."""

import dataclasses
import heapq
import itertools
import typing

import numpy
import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import cases
from tests.harness import pool_invariants
from tests.property import small_pools
from tests.unit.core import pools

_JOB_S = 10.0
_PLACEMENTS = (None, *states.PLACEMENTS)


class Life:
    """A pool in virtual time, whose clients use their slots and leave.

    :param prepares: how long slots are prepared, relative to their use.
    :ivar arrived_s: when each job was submitted; likewise for the others.
    """

    def __init__(self, pool: state.PoolState, prepares: float = 0.0) -> None:
        self.pool = pool
        self.prepares = prepares
        self.arrived_s: dict[int, float] = {}
        self.began_s: dict[int, float] = {}
        self.rejected: dict[int, str] = {}
        self.sets: list[tuple[int, ...]] = []
        self.slots: dict[int, tuple[int, int]] = {}
        self._due: list[tuple[float, int, typing.Any]] = []
        self._numbers = itertools.count()

    def expect(self, time_s: float, event: typing.Any) -> None:
        """Let an event come, or a function that makes it."""
        heapq.heappush(self._due, (time_s, next(self._numbers), event))

    def submit(
        self,
        jobs: list[model.Job],
        placement: str | None = None,
        *,
        is_set: bool,
    ) -> None:
        """Let jobs arrive."""
        for job in jobs:
            self.arrived_s[job.id] = job.arrival_s
        if is_set:
            ids = tuple(job.id for job in jobs)
            self.sets.append(ids)
            together = model.Together(f"set{ids[0]}", len(ids), placement)
            jobs = [dataclasses.replace(j, together=together) for j in jobs]
        for job in jobs:
            self.expect(job.arrival_s, events.JobSubmitted(job))

    def run(self, jobs_s: dict[int, float], *, checks: bool = True) -> None:
        """Run until nothing is due."""
        while self._due:
            now, _, event = heapq.heappop(self._due)
            for order in self.pool.step([event], now):
                self._obey(order, now, jobs_s)
            if checks:
                pool_invariants.check(self.pool)

    def _obey(
        self,
        order: instructions.Instruction,
        now: float,
        jobs_s: dict[int, float],
    ) -> None:
        match order:
            case instructions.Program(slot_id, job_id, generation):
                ready_s = now + self.prepares * jobs_s[job_id]
                self.expect(ready_s, events.SlotReady(slot_id, generation))
            case instructions.Grant(slot_id, job_id, generation):
                self.began_s[job_id] = now
                self.slots[job_id] = slot_id, generation
                self.expect(now, events.HolderAttached(slot_id, generation))
                self.expect(
                    now + jobs_s[job_id],
                    events.SlotReleased(slot_id, generation),
                )
            case instructions.Reject(job_id, code):
                self.rejected[job_id] = code
            case instructions.WakeAt(time_s):
                if self.pool.waiting_count or self.pool._sets.of_job:
                    self.expect(time_s, events.Wake())


def _random_life(
    name: str, random: numpy.random.Generator
) -> tuple[Life, dict[int, float]]:
    strategy = small_pools.INNER[name]({}, 1)
    if random.random() < 0.5:
        options = sharing.ShareOptions(quantum_bytes=2e8)
        strategy = shared.SharedStrategy(strategy, options, 50.0)
    pool = state.PoolState(strategy)
    specs = [
        pools.make_host(host_id, 3, shape)
        for host_id, shape in enumerate(("small", "large", "small"))
    ]
    pool.step(
        [
            events.AcceleratorsChanged((pools.AES, pools.FFT)),
            *map(events.HostUp, specs),
            events.SessionLimitsChanged(None, (("a", 4),)),
        ],
        0.0,
    )
    life, numbers, jobs_s = Life(pool, 0.2), itertools.count(1), {}
    for _ in range(40):
        now = float(random.uniform(0, 60))
        placement = _PLACEMENTS[random.integers(4)]
        count = int(random.choice([1, 1, 1, 2, 3]))
        project = str(random.choice(["a", "b"]))
        jobs = [
            pools.make_job(
                next(numbers),
                (None, 0, 1, 2)[random.integers(4)],
                accelerator=str(random.choice(["aes", "aes", "fft"])),
                claimed_bytes=float(random.choice([1e6, 1e8, 5e9])),
                arrival_s=now,
                project=project,
            )
            for _ in range(count)
        ]
        for job in jobs:
            jobs_s[job.id] = float(random.exponential(_JOB_S))
        life.submit(jobs, placement, is_set=count > 1)
    return life, jobs_s


def _fault(life: Life, random: numpy.random.Generator, until_s: float) -> None:
    """Let a host be lost for a while, and a job be cancelled."""
    lost_s = float(random.uniform(0, until_s))
    host_id = int(random.integers(3))
    shape = ("small", "large", "small")[host_id]
    life.expect(lost_s, events.HostLost(host_id))
    life.expect(
        lost_s + 20.0, events.HostUp(pools.make_host(host_id, 3, shape))
    )
    cancelled = int(random.choice(list(life.arrived_s)))
    life.expect(
        float(random.uniform(60, 90)), events.JobCancelled(cancelled, "X")
    )


@pytest.mark.parametrize("name", sorted(small_pools.INNER))
@pytest.mark.parametrize("seed", cases.first(0, 1))
def test_all_or_none(name: str, seed: int) -> None:
    """Without faults, all begin; those of a set begin together."""
    random = numpy.random.default_rng([seed, 1])
    life, jobs_s = _random_life(name, random)
    life.run(jobs_s)
    assert life.sets
    # Only what can never be was refused.
    assert life.began_s.keys() ^ life.rejected.keys() == life.arrived_s.keys()
    assert set(life.rejected.values()) <= {codes.SET_IMPOSSIBLE}
    for ids in life.sets:
        assert len({life.began_s.get(i) for i in ids}) == 1


@pytest.mark.parametrize("name", ["fifo", "wra", "auto"])
@pytest.mark.parametrize("seed", cases.first(0, 1, 2))
def test_faults(name: str, seed: int) -> None:
    """Hosts fail and clients cancel; nobody waits when all is over."""
    random = numpy.random.default_rng([seed, 2])
    life, jobs_s = _random_life(name, random)
    for _ in range(3):
        _fault(life, random, 60.0)
    life.run(jobs_s)
    assert not life.pool.waiting()
    assert not life.pool.assignments()
    assert not life.pool._sets.of_job


def _waits(
    name: str, seed: int, count: int
) -> tuple[dict[int, float], list[tuple[int, ...]]]:
    """Return the waits of singles and sets of 4 at a load of 0.9.

    A tenth of the requests are sets. 4 hosts have 16 slots.
    """
    random = numpy.random.default_rng([seed, 3])
    options = {"slot_choice": "index", "offer_order": "index"}
    made = getattr(strategies, name)(
        options if name in ("fifo", "wra") else {}, 0
    )
    pool = state.PoolState(made)
    pool.step(
        [
            events.AcceleratorsChanged((pools.AES,)),
            *(events.HostUp(pools.make_host(i, 4)) for i in range(4)),
        ],
        0.0,
    )
    life, numbers, jobs_s, now = Life(pool), itertools.count(1), {}, 0.0
    per_request = 0.9 * 1 + 0.1 * 4
    every_s = per_request * _JOB_S / (0.9 * 16)
    for _ in range(count):
        now += float(random.exponential(every_s))
        size = 4 if random.random() < 0.1 else 1
        jobs = []
        for job_id in itertools.islice(numbers, size):
            jobs_s[job_id] = float(random.exponential(_JOB_S))
            jobs.append(
                pools.make_job(
                    job_id,
                    int(random.integers(4)),
                    claimed_bytes=jobs_s[job_id] * 5e8,
                    arrival_s=now,
                )
            )
        life.submit(jobs, is_set=size > 1)
    life.run(jobs_s, checks=False)
    waits = {
        job_id: began_s - life.arrived_s[job_id]
        for job_id, began_s in life.began_s.items()
    }
    assert waits.keys() == life.arrived_s.keys()
    return waits, life.sets


@pytest.mark.parametrize("name", ["fifo", "sjf", "wra", "auto"])
def test_sets_wait_like_singles(name: str) -> None:
    """At a load of 0.9, sets of 4 wait at most 3 times as long."""
    of_sets: list[float] = []
    of_singles: list[float] = []
    for seed in range(2):
        waits, sets = _waits(name, seed, 800)
        in_sets = {job_id for ids in sets for job_id in ids}
        of_sets += [waits[ids[0]] for ids in sets]
        of_singles += [waits[i] for i in waits if i not in in_sets]
    mean = float(numpy.mean(of_sets)), float(numpy.mean(of_singles))
    assert mean[0] <= 3 * mean[1]
