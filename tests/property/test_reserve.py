# SPDX-License-Identifier: Apache-2.0

"""Slots that are kept for local jobs stay idle for a bounded time only."""

import heapq
import itertools
import typing

import hypothesis
import hypothesis.strategies as st
import numpy

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import times
from tests.property import fuzzing
from tests.unit.core import pools

PEAK = pools.AES.peak_bytes_per_s
seeds = st.integers(0, 2**32 - 1)


def make_jobs(random: numpy.random.Generator, scale: float) -> list[model.Job]:
    """Jobs of three hosts with boards, and of others, of widely spread size.

    The work of the first host dominates, so that it keeps slots.
    """
    hosts = random.choice([0, 1, 2, -1], 120, p=[0.6, 0.1, 0.1, 0.2]).tolist()
    sizes = 2.0 ** random.uniform(20, 30, 120)
    gaps_s = random.exponential(sizes.mean() / PEAK / 4, 120)
    return [
        pools.make_job(
            job_id,
            None if host_id < 0 else host_id,
            claimed_bytes=size * scale,
            arrival_s=arrival_s * scale,
        )
        for job_id, (host_id, size, arrival_s) in enumerate(
            zip(
                hosts,
                sizes.tolist(),
                numpy.cumsum(gaps_s).tolist(),
                strict=True,
            )
        )
    ]


class Run:
    """Serves jobs on virtual time, and hears of wake-ups only if asked for.

    :ivar starts: jobs and their slots, in order.
    """

    def __init__(
        self, jobs: list[model.Job], *, wakeups: bool, **options: object
    ) -> None:
        self.pool = state.PoolState(
            strategies.wra(options, 0), wakeups=wakeups
        )
        self.sizes = {job.id: job.claimed_bytes for job in jobs}
        self.to_come = [
            (job.arrival_s, events.JobSubmitted(job)) for job in jobs
        ]
        self.number = itertools.count()
        self.due: list[tuple[float, int, events.Event]] = []
        self.starts: list[tuple[int, int]] = []
        for time_s, event in self.to_come:
            self.expect(time_s, event)
        self.step(
            0.0,
            events.AcceleratorsChanged((pools.AES,)),
            *(events.HostUp(pools.make_host(each, 3)) for each in range(3)),
        )

    def expect(self, time_s: float, event: events.Event) -> None:
        heapq.heappush(self.due, (time_s, next(self.number), event))

    def step(self, now: float, *batch: events.Event) -> None:
        for order in self.pool.step(batch, now):
            if isinstance(order, instructions.WakeAt):
                self.expect(order.time_s, events.Wake())
            if isinstance(order, instructions.Program):
                self.starts.append((order.job_id, order.slot_id))
                self.expect(
                    now + self.sizes[order.job_id] / PEAK,
                    events.SlotReleased(order.slot_id, order.generation),
                )

    def run(self) -> typing.Iterator[float]:
        """Yield the time after the last step of each instant."""
        while self.due:
            now, _, event = heapq.heappop(self.due)
            self.step(now, event)
            if not self.due or self.due[0][0] > now:
                yield now


@hypothesis.given(seed=seeds)
@fuzzing.examples(50)
def test_no_slot_stays_idle_while_the_first_job_has_waited(seed: int) -> None:
    """The bound: 10 times its own time, or that of a mean claim."""
    jobs = make_jobs(numpy.random.default_rng(seed), 1.0)
    run = Run(jobs, wakeups=True)
    for now in run.run():
        pool = run.pool
        if not (pool.idle_count and pool.waiting_count):
            continue
        shares = pool.view.slots.shares
        assert shares is not None
        first = pool.waiting()[0]
        wait_s = 10 * min(first.claimed_bytes, shares.mean_bytes) / PEAK
        assert not times.has_waited(first.arrival_s, wait_s, now)
    assert len(run.starts) == len(jobs)


@hypothesis.given(seed=seeds, scale=st.sampled_from([2.0**-9, 2.0**9]))
@hypothesis.settings(max_examples=25)
def test_the_wait_scales_with_sizes_and_times(seed: int, scale: float) -> None:
    """A power of two scales all times exactly."""
    starts = []
    for each in (1.0, scale):
        jobs = make_jobs(numpy.random.default_rng(seed), each)
        # The time for the own host has a scale of its own.
        run = Run(jobs, wakeups=True, wait_s_per_byte=1.0 / PEAK)
        list(run.run())
        starts.append(run.starts)
    assert starts[0] == starts[1]


@hypothesis.given(seed=seeds)
@hypothesis.settings(max_examples=25)
def test_without_wakeups_no_slot_is_idle_while_a_job_waits(seed: int) -> None:
    jobs = make_jobs(numpy.random.default_rng(seed), 1.0)
    run = Run(jobs, wakeups=False)
    for _ in run.run():
        assert not (run.pool.idle_count and run.pool.waiting_count)


def test_slots_are_kept_at_all() -> None:
    jobs = make_jobs(numpy.random.default_rng(1), 1.0)
    run = Run(jobs, wakeups=True)
    assert any(
        run.pool.idle_count and run.pool.waiting_count for _ in run.run()
    )
