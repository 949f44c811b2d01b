# SPDX-License-Identifier: Apache-2.0

"""What strategies learn from the latest claims."""

import bisect
import itertools
import random
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import state
from fpgapool.core.queues import claims
from fpgapool.core.queues import thresholds
from fpgapool.vocabulary import scheduling
from tests.unit.core import pools

_RANDOM = random.Random(3)
SIZES = [_RANDOM.paretovariate(1.3) for _ in range(700)]
RESTORED = tuple((None, size) for size in SIZES)


def learnt(sizes: list[float], queues: int = 20) -> tuple[float, ...]:
    found = claims.RecentClaims(queues)
    for job_id, size in enumerate(sizes):
        found.note(pools.make_job(job_id, claimed_bytes=size))
    return found.thresholds_bytes


@pytest.mark.parametrize("queues", [1, 2, 7, 20])
def test_each_queue_gets_the_same_share(queues: int) -> None:
    found = thresholds.learnt_thresholds(SIZES, queues)
    assert len(found) == queues - 1
    shares = []
    for low, high in itertools.pairwise((0.0, *found, max(SIZES))):
        inside = [size for size in SIZES if low < size <= high]
        shares.append(len(inside) / len(SIZES) + sum(inside) / sum(SIZES))
    # The largest size is a large part of all bytes.
    slack = max(SIZES) / sum(SIZES) + 1 / len(SIZES)
    assert shares == pytest.approx([2 / queues] * queues, abs=slack)


@pytest.mark.parametrize("factor", [1e-6, 3.0, 475.45])
def test_sizes_times_k_give_the_same_queues(factor: float) -> None:
    for sizes in (SIZES, [1.0] * 90, [1.0, 2.0, 2.0, 5.0] * 40):
        expected = [bound * factor for bound in learnt(sizes)]
        assert learnt([size * factor for size in sizes]) == pytest.approx(
            tuple(expected)
        )


def test_old_claims_are_forgotten() -> None:
    news = [size * 1000.0 for size in SIZES] * 2
    assert len(news) > scheduling.RECENT_CLAIMS
    assert learnt(SIZES + news)[0] > max(SIZES)


def make_pool() -> state.PoolState:
    return state.PoolState(strategies.wra({}, 0))


def queue_of(pool: state.PoolState, job_id: int) -> int:
    return typing.cast(int, pool.view.record(job_id).key[0])


def submit(pool: state.PoolState, first_id: int, sizes: list[float]) -> None:
    for job_id, size in enumerate(sizes, first_id):
        job = pools.make_job(job_id, claimed_bytes=size, arrival_s=0.0)
        pool.step([events.JobSubmitted(job)], 0.0)


def test_a_job_keeps_the_queue_of_its_arrival() -> None:
    pool = make_pool()
    pool.step([events.AcceleratorsChanged((pools.AES,))], 0.0)
    submit(pool, 1, [*SIZES[:99], 50.0])
    before = queue_of(pool, 100)
    submit(pool, 101, [size * 1e6 for size in SIZES])
    assert queue_of(pool, 100) == before
    submit(pool, 900, [50.0])
    assert queue_of(pool, 900) < before


def test_a_new_leader_learns_from_the_sessions_that_the_pool_keeps() -> None:
    pool = make_pool()
    pool.step([events.AcceleratorsChanged((pools.AES,))], 0.0)
    pool.apply([events.ClaimsRestored(RESTORED, len(SIZES))], 0.0)
    # Those who still wait are among them, and do not count twice.
    submit(pool, 1, SIZES)
    submit(pool, 1000, SIZES[:200])
    expected = thresholds.learnt_thresholds(SIZES, 20)
    for job_id, size in enumerate(SIZES[:200], 1000):
        assert queue_of(pool, job_id) == bisect.bisect_left(expected, size)


def test_a_job_that_waits_again_is_no_new_claim() -> None:
    pool = make_pool()
    pool.step([events.AcceleratorsChanged((pools.AES,))], 0.0)
    submit(pool, 1, [1.0, 2.0])
    for job_id in range(10, 200):
        job = pools.make_job(job_id, claimed_bytes=9.0, arrival_s=0.0)
        pool.step([events.JobSubmitted(job, paid_bytes=0.0)], 0.0)
    submit(pool, 300, [9.0])
    assert queue_of(pool, 300) > 0
