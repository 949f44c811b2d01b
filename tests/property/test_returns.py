# SPDX-License-Identifier: Apache-2.0

"""Chains and other sets among single sessions that lose slots: all end.

The stages of a chain compute only while all of them have slots. So a session
that has lost its slot must get another one even if a set is due that waits for
the slots of its chain.
"""

import dataclasses
import heapq
import itertools
from collections import abc

import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.harness import cases
from tests.harness import pool_invariants
from tests.property import small_pools
from tests.unit.core import pools

_JOB_S = 10.0
_HOSTS, _SLOTS = 3, 2
_LOAD = 0.9
_QUANTUM_S = 2.0
_WORKS = 60
# When all have ended, even if each waits for all others.
_LATEST_S = 10_000.0

#: Something that happens: an event, or a function that returns some.
_Happening = events.Event | abc.Callable[[], abc.Sequence[events.Event]]


class Work:
    """A chain, or a single session.

    :param jobs: its stages; a single has one.
    :param left_s: for how long all of them need slots.
    :param exceeds_s: after how long a single exceeds its claim.
    """

    def __init__(
        self, jobs: list[model.Job], left_s: float, exceeds_s: float
    ) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.left_s = left_s
        self.exceeds_s = exceeds_s
        self.slots: dict[int, tuple[int, int]] = {}
        self.since_s = 0.0
        # How often it has begun or stopped.
        self.changes = 0

    @property
    def is_running(self) -> bool:
        return len(self.slots) == len(self.jobs)


class Life:
    """A pool in virtual time, and the works that its clients have."""

    def __init__(self, pool: state.PoolState) -> None:
        self.pool = pool
        self.now = 0.0
        self.works: dict[int, Work] = {}
        self.ended: set[int] = set()
        self.left = dict.fromkeys(
            (codes.YIELDED, codes.PREEMPTED, codes.WORKER_LOST), 0
        )
        self._due: list[tuple[float, int, _Happening]] = []
        self._numbers = itertools.count()

    def expect(self, time_s: float, happening: _Happening) -> None:
        """Let something happen later."""
        heapq.heappush(self._due, (time_s, next(self._numbers), happening))

    def add(self, work: Work) -> None:
        """Let a chain or a single session arrive."""
        size = len(work.jobs)
        for job_id, job in work.jobs.items():
            self.works[job_id] = work
            if size > 1:
                name = f"set{min(work.jobs)}"
                job = dataclasses.replace(
                    job, together=model.Together(name, size)
                )
            self.expect(job.arrival_s, events.JobSubmitted(job))

    def run(self) -> None:
        """Run until nothing is due."""
        while self._due:
            self.now, _, happening = heapq.heappop(self._due)
            assert self.now < _LATEST_S, "somebody waits for ever"
            happened = (
                [happening]
                if isinstance(happening, events.Event)
                else happening()
            )
            for order in self.pool.step(happened, self.now):
                self._obey(order)
            pool_invariants.check(self.pool)

    def _obey(self, order: instructions.Instruction) -> None:
        now = self.now
        match order:
            case instructions.Program(slot_id, _, generation):
                self.expect(now + 0.5, events.SlotReady(slot_id, generation))
            case instructions.Grant(slot_id, job_id, generation):
                self.expect(now, events.HolderAttached(slot_id, generation))
                work = self.works[job_id]
                work.slots[job_id] = slot_id, generation
                if work.is_running:
                    self._start(work)
            case instructions.Requeue(job_id):
                self._stop(self.works[job_id], job_id)
            case instructions.Yield(_, job_id, _, reason):
                self.expect(now, lambda: self.leave(job_id, reason))
            case instructions.WakeAt(time_s):
                if self.pool.waiting_count or self.pool.sets.of_job:
                    self.expect(time_s, events.Wake())

    def _start(self, work: Work) -> None:
        work.since_s, work.changes = self.now, work.changes + 1
        changes = work.changes

        def end() -> abc.Sequence[events.Event]:
            if changes != work.changes:
                return []
            self.ended.update(work.jobs)
            return [events.SlotReleased(*one) for one in work.slots.values()]

        self.expect(self.now + work.left_s, end)
        slot = next(iter(work.slots.values()))
        if len(work.jobs) == 1 and work.exceeds_s < work.left_s:
            self.expect(self.now + work.exceeds_s, events.ClaimExceeded(*slot))
        for slot in work.slots.values():
            self.expect(
                self.now + _QUANTUM_S, events.QuantumDone(*slot, bytes=1)
            )

    def _stop(self, work: Work, job_id: int) -> None:
        if work.is_running:
            spent_s = self.now - work.since_s
            work.left_s = max(work.left_s - spent_s, 0.0)
            work.exceeds_s = max(work.exceeds_s - spent_s, 0.0)
            work.changes += 1
        work.slots.pop(job_id, None)

    def leave(self, job_id: int, reason: str) -> list[events.Event]:
        """Let a session lose its slot, and wait for another one."""
        work = self.works[job_id]
        if job_id not in work.slots or job_id in self.ended:
            return []
        self.left[reason] += 1
        released = events.SlotReleased(*work.slots[job_id])
        self._stop(work, job_id)
        if reason == codes.YIELDED:
            work.exceeds_s = 2 * work.left_s + 1.0
        again = events.JobSubmitted(
            work.jobs[job_id],
            0.0,
            yields=True,
            returns=reason != codes.YIELDED,
        )
        return [released, again]

    def kill(self, random: numpy.random.Generator) -> list[events.Event]:
        """Let the worker of a session die."""
        using = [
            job_id
            for job_id, work in self.works.items()
            if job_id in work.slots and job_id not in self.ended
        ]
        if not using:
            return []
        return self.leave(int(random.choice(using)), codes.WORKER_LOST)


def _pool(name: str, random: numpy.random.Generator) -> state.PoolState:
    strategy = small_pools.INNER[name]({}, 1)
    if random.random() < 0.7:
        options = sharing.ShareOptions(
            fair=bool(random.random() < 0.5), quantum_bytes=2e8
        )
        strategy = shared.SharedStrategy(strategy, options, 50.0, 0.25)
    pool = state.PoolState(strategy)
    aes = dataclasses.replace(pools.AES, stateless=True)
    fft = dataclasses.replace(pools.FFT, stateless=True, shapes=frozenset())
    pool.step(
        [
            events.AcceleratorsChanged((aes, fft)),
            *(
                events.HostUp(pools.make_host(host_id, _SLOTS))
                for host_id in range(_HOSTS)
            ),
            events.SessionLimitsChanged(None, (("a", 4),), None),
        ],
        0.0,
    )
    return pool


def _random_life(name: str, random: numpy.random.Generator) -> Life:
    """Chains of 2 to 4 stages, and as many singles, at a load of 0.9."""
    life, numbers, now = Life(_pool(name, random)), itertools.count(1), 0.0
    mean_jobs = 0.5 * 1 + 0.5 * 3
    every_s = mean_jobs * _JOB_S / (_LOAD * _HOSTS * _SLOTS)
    for _ in range(_WORKS):
        now += float(random.exponential(every_s))
        size = 1 if random.random() < 0.5 else int(random.integers(2, 5))
        needed_s = float(random.exponential(_JOB_S))
        project = str(random.choice(["a", "b"]))
        priority = int(random.choice([0, 0, 3]))
        # How much the stages before return for each byte.
        ratios = random.choice([0.1, 0.5, 1.0, 3.0], size)
        jobs = [
            pools.make_job(
                job_id,
                (None, 0, 1, 2)[random.integers(4)],
                accelerator=str(random.choice(["aes", "fft"])),
                claimed_bytes=needed_s * 5e8 * float(ratio),
                arrival_s=now,
                project=project,
                priority=priority,
            )
            for job_id, ratio in zip(numbers, ratios, strict=False)
        ]
        life.add(Work(jobs, needed_s, needed_s * float(ratios[0])))
    return life


def _let_fail(life: Life, random: numpy.random.Generator) -> None:
    """Let workers die now and then, and each host once for a while."""
    until_s = max(
        job.arrival_s
        for one in life.works.values()
        for job in one.jobs.values()
    )
    for _ in range(_WORKS // 2):
        life.expect(
            float(random.uniform(0, until_s)), lambda: life.kill(random)
        )
    for host_id in range(_HOSTS):
        lost_s = float(random.uniform(0, until_s))
        life.expect(lost_s, events.HostLost(host_id))
        life.expect(
            lost_s + 15.0, events.HostUp(pools.make_host(host_id, _SLOTS))
        )


@pytest.mark.parametrize(
    "name", ["fifo", "sjf", "wra", "auto", "edf", "affinity"]
)
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("seed", cases.first(0, 1, 2))
def test_all_end(name: str, fails: bool, seed: int) -> None:
    random = numpy.random.default_rng([seed, fails, 7])
    life = _random_life(name, random)
    if fails:
        _let_fail(life, random)
    life.run()
    assert life.ended == life.works.keys()
    assert not life.pool.waiting()
    assert not life.pool.assignments()
    assert not life.pool.sets.of_job
    assert bool(life.left[codes.WORKER_LOST]) == fails


def test_what_happens() -> None:
    """Sessions lose slots in each of the ways, also while a set is due."""
    left: dict[str, int] = {}
    for seed in range(6):
        random = numpy.random.default_rng([seed, 8])
        life = _random_life("fifo", random)
        _let_fail(life, random)
        life.run()
        for reason, count in life.left.items():
            left[reason] = left.get(reason, 0) + count
    assert min(left.values()) > 0, left
