# SPDX-License-Identifier: Apache-2.0

"""Slots that hosts keep for their own jobs, as long as these need them."""

import math
import random

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import state
from fpgapool.core import strategy
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from tests.unit.core import pools

FEW, SLOTS = 100, 4


def make_pool(
    name: str | strategy.Strategy = "wra", hosts: int = 2, **options: object
) -> state.PoolState:
    if isinstance(name, str):
        name = getattr(strategies, name)(options, 0)
    pool = state.PoolState(name)
    pool.step([events.AcceleratorsChanged((pools.AES,))], 0.0)
    for host_id in range(hosts):
        host = pools.make_host(host_id, SLOTS)
        pool.step([events.HostUp(host)], 0.0)
    return pool


class Pool:
    """Serves each job until it is cancelled, at once if a slot is idle."""

    def __init__(self, pool: state.PoolState) -> None:
        self.pool = pool
        self.last_id = 0
        self.taken: dict[int, instructions.Program] = {}

    def submit(self, host_id: int | None, size: float = 1.0) -> int | None:
        """Submit a job; return the slot that it gets at once."""
        self.last_id += 1
        job = pools.make_job(
            self.last_id, host_id, claimed_bytes=size, arrival_s=0.0
        )
        for order in self.pool.step([events.JobSubmitted(job)], 0.0):
            if isinstance(order, instructions.Program):
                self.taken[self.last_id] = order
                return order.slot_id
        return None

    def cancel(self, job_id: int) -> None:
        self.pool.step([events.JobCancelled(job_id, "X")], 0.0)
        if (taken := self.taken.pop(job_id, None)) is not None:
            self.pool.step(
                [events.SlotReleased(taken.slot_id, taken.generation)], 0.0
            )

    def learn(
        self, count: int, host_id: int | None, size: float = 1.0
    ) -> None:
        """Let jobs of a host come and go."""
        for _ in range(count):
            self.submit(host_id, size)
            self.cancel(self.last_id)

    def count_remote(self) -> int:
        """Return how many jobs from outside get slots, then end them."""
        first = self.last_id + 1
        taken = [self.submit(None) for _ in range(3 * SLOTS)]
        for job_id in range(self.last_id, first - 1, -1):
            self.cancel(job_id)
        return len(taken) - taken.count(None)


@pytest.mark.parametrize("name", ["ra", "wra"])
def test_the_reserve_gives_way_and_comes_back(name: str) -> None:
    pool = Pool(make_pool(name, fallback=False))
    pool.learn(FEW, None)
    assert pool.count_remote() == 2 * SLOTS
    # Half of all work is the first host's: it keeps its half.
    for _ in range(4):
        pool.learn(FEW, 0)
    assert pool.count_remote() == SLOTS // 2 + SLOTS
    assert pool.pool.view.slots.kept_for_local() == (SLOTS // 2, SLOTS)


@pytest.mark.parametrize(("size", "waited_for"), [(1.0, 1.0), (1e6, 2.0)])
def test_kept_slots_go_to_jobs_that_have_waited(
    size: float, waited_for: float
) -> None:
    """A program that opens a session for each slot at once gets them all.

    It waits 10 times as long as it needs a slot, or a mean session does.
    """
    pool = Pool(make_pool("wra"))
    for _ in range(4):
        pool.learn(FEW, 0, 2.0)
    orders = pool.pool.step(
        [
            events.JobSubmitted(pools.make_job(10000 + n, claimed_bytes=size))
            for n in range(2 * SLOTS)
        ],
        0.0,
    )
    assert len(pools.taken(orders)) == SLOTS // 2 + SLOTS
    (wake,) = [o for o in orders if isinstance(o, instructions.WakeAt)]
    due_s = 10 * waited_for / pools.AES.peak_bytes_per_s
    assert math.isclose(wake.time_s, due_s, abs_tol=1e-11)
    assert not pools.taken(pool.pool.step([], wake.time_s / 2))
    orders = pool.pool.step([events.Wake()], wake.time_s)
    assert len(pools.taken(orders)) == SLOTS // 2


@pytest.mark.parametrize("options", [{"fallback": True}, {"remote_limit": 1}])
def test_with_these_options_nobody_waits(options: dict[str, object]) -> None:
    pool = Pool(make_pool("wra", **options))
    for _ in range(4):
        pool.learn(FEW, 0)
    assert pool.count_remote() == 2 * SLOTS


@pytest.mark.parametrize(("fair", "slots"), [(True, 2), (False, 1.5)])
def test_with_fair_shares_nobody_waits(fair: bool, slots: float) -> None:
    made = shared.SharedStrategy(
        strategies.wra({}, 0), sharing.ShareOptions(fair=fair)
    )
    pool = Pool(make_pool(made))
    for _ in range(4):
        pool.learn(FEW, 0)
    assert pool.count_remote() == slots * SLOTS


def test_urgent_jobs_take_kept_slots_at_once() -> None:
    made = shared.SharedStrategy(
        strategies.wra({}, 0), sharing.ShareOptions(fair=False), max_wait_s=5.0
    )
    pool = Pool(make_pool(made))
    peak = pools.AES.peak_bytes_per_s
    for _ in range(4):
        pool.learn(FEW, 0, peak)
    orders = pool.pool.step(
        [
            events.JobSubmitted(
                pools.make_job(10000 + n, claimed_bytes=peak, arrival_s=-5.0)
            )
            for n in range(2 * SLOTS)
        ],
        0.0,
    )
    assert len(pools.taken(orders)) == 2 * SLOTS


def test_a_given_limit_is_kept() -> None:
    pool = Pool(make_pool("ra", remote_limit=1))
    pool.learn(2 * FEW, None)
    assert pool.count_remote() == 2


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_only_relations_between_sizes_count(scale: float) -> None:
    drawn = random.Random(1)
    pool = Pool(make_pool(hosts=3))
    for _ in range(300):
        # One host in three brings nearly all bytes.
        host_id = drawn.choice([0, 1, 2])
        size = 30.0 if host_id == 0 else 0.5
        pool.submit(host_id, size * scale)
        pool.cancel(pool.last_id)
    kept = [host.kept_count for host in pool.pool.view.slots.hosts.values()]
    assert kept == [SLOTS // 2, 0, 0]


def test_a_new_leader_keeps_as_many_slots() -> None:
    old, new = Pool(make_pool()), make_pool(hosts=0)
    sizes = [(host_id, 1.0) for host_id in [0] + 9 * [None]] * 30
    for host_id, size in sizes:
        old.submit(host_id, size)
        old.cancel(old.last_id)
    new.apply([events.ClaimsRestored(tuple(sizes), len(sizes))], 0.0)
    for host_id in (0, 1):
        new.step([events.HostUp(pools.make_host(host_id, SLOTS))], 0.0)
    kept = new.view.slots.kept_for_local()
    assert kept == old.pool.view.slots.kept_for_local() == (1, SLOTS)


def test_strategies_without_a_limit_keep_nothing() -> None:
    pool = make_pool("fifo")
    assert pool.view.slots.kept_for_local() == (0, 0)
    assert math.isclose(pool.idle_count, 2 * SLOTS)
