# SPDX-License-Identifier: Apache-2.0

"""A dry run tells what the pool then does, and changes nothing."""

import pickle
import threading

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import what_if
from fpgapool.vocabulary import codes
from tests.harness import pool_invariants
from tests.property import small_pools
from tests.unit.core import pools


def outcome(
    pool: state.PoolState, job: model.Job, now: float
) -> tuple[what_if.Prediction, list[instructions.Instruction]]:
    """Submit a job, and say what became of it."""
    done = pool.step([events.JobSubmitted(job)], now)
    for one in done:
        if isinstance(one, instructions.Reject) and one.job_id == job.id:
            status = model.Status(model.Verdict.NEVER, (one.code,))
            return what_if.Prediction(status, message=one.message), done
    status = pool.status(job.id)
    programs = [
        one.slot_id
        for one in done
        if isinstance(one, instructions.Program) and one.job_id == job.id
    ]
    assert bool(programs) == (status.verdict is model.Verdict.OK)
    waits = status.verdict is model.Verdict.NOT_NOW
    position = pool.queue_position(job.id) if waits else None
    return what_if.Prediction(status, position), done


@pytest.mark.parametrize("name", small_pools.INNER)
def test_the_pool_does_what_a_dry_run_has_said(name: str) -> None:
    verdicts: set[model.Verdict] = set()

    @hypothesis.settings(max_examples=4)
    @hypothesis.given(seed=st.integers(0, 2**32 - 1))
    def check(seed: int) -> None:
        random = numpy.random.default_rng(seed)
        pool = small_pools.make_pool(name, random)
        # The same pool, which hears of no dry run.
        other = small_pools.make_pool(name, numpy.random.default_rng(seed))
        now = 0.0
        for job_id in range(20):
            now += float(random.choice([0.0, 0.1, 2.0, 30.0]))
            happened = small_pools.go_on(pool, now, random)
            assert pool.step(happened, now) == other.step(happened, now)
            pool.take_skips()
            other.take_skips()
            job = small_pools.make_job(job_id, now, random)
            before = pickle.dumps(pool)
            asked = what_if.Snapshot(pool).ask(job)
            assert pickle.dumps(pool) == before
            expected, done = outcome(pool, job, now)
            assert asked == expected
            assert done == outcome(other, job, now)[1]
            verdicts.add(asked.status.verdict)
        pool_invariants.check(pool)

    check()
    assert verdicts == set(model.Verdict)


def test_a_snapshot_stays_as_it_was() -> None:
    """The answer is about the moment of the snapshot, whenever it comes."""
    pool = state.PoolState(strategies.wra({}, 1))
    pool.step(
        [
            events.AcceleratorsChanged((pools.AES,)),
            events.HostUp(pools.make_host(1, 1)),
        ],
        0.0,
    )
    snapshot = what_if.Snapshot(pool)
    pool.step([events.JobSubmitted(pools.make_job(1, 1))], 1.0)
    asked = snapshot.ask(pools.make_job(2, 1))
    assert asked == what_if.Prediction(model.Status(model.Verdict.OK))
    asked = what_if.Snapshot(pool).ask(pools.make_job(2, 1, arrival_s=1.0))
    reasons = (codes.NO_IDLE_SLOT,)
    assert asked.status == model.Status(model.Verdict.NOT_NOW, reasons)
    assert asked.position == 0
    assert [one.slot_id for one in pool.assignments().values()] == [10]
    assert not pool.waiting_count


def test_a_strategy_that_cannot_be_copied_is_an_error() -> None:
    strategy = strategies.fifo({}, 1)
    strategy.lock = threading.Lock()  # type: ignore[attr-defined]
    pool = state.PoolState(strategy)
    with pytest.raises(what_if.NotCopyable, match="lock"):
        what_if.Snapshot(pool)


def test_the_size_of_a_copy_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = state.PoolState(strategies.fifo({}, 1))
    happened: list[events.Event] = [
        events.AcceleratorsChanged((pools.AES,)),
        events.HostUp(pools.make_host(1, 2)),
        *(events.JobSubmitted(pools.make_job(n)) for n in range(3)),
    ]
    pool.step(happened, 0.0)
    monkeypatch.setattr(what_if, "MOST", 3)
    assert what_if.Snapshot(pool).ask(pools.make_job(9)).position == 1
    monkeypatch.setattr(what_if, "MOST", 2)
    with pytest.raises(what_if.NotCopyable, match="3 slots and waiting"):
        what_if.Snapshot(pool)
