# SPDX-License-Identifier: Apache-2.0

"""A dry run tells what the pool then does, and changes nothing."""

import pickle
import threading
import typing

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import strategy as strategy_api
from fpgapool.core import what_if
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.harness import pool_invariants
from tests.unit.core import pools

PROJECTS = ("a", "b", "c")
INNER: dict[str, typing.Callable[..., strategy_api.Strategy]] = {
    "fifo": strategies.fifo,
    "sjf": strategies.sjf,
    "edf": strategies.edf,
    "random": strategies.random,
    "wa": strategies.wa,
    "ra": strategies.ra,
    "wra": strategies.wra,
    "era": strategies.era,
    "hjf": strategies.hjf,
}
NEXT = (None, events.SlotReady, events.HolderAttached, events.SlotReleased)


def make_pool(name: str, random: numpy.random.Generator) -> state.PoolState:
    """A pool of up to five hosts, perhaps with a group, or fair shares."""
    options: dict[str, object] = {}
    if name in ("ra", "wra"):
        options = {
            "remote_limit": random.choice([0, 1, 2]),
            "wait_s_per_byte": random.choice([0.0, 1e-8, 1e-7]),
        }
        options = {key: value.item() for key, value in options.items()}
    strategy = INNER[name](options, int(random.integers(9)))
    fair = random.choice([None, False, True])
    if fair is not None:
        sharing_options = sharing.Options(fair=bool(fair), quantum_bytes=2e8)
        strategy = shared.SharedStrategy(strategy, sharing_options, 50.0)
    pool = state.PoolState(strategy)
    pool.take_skips()
    happened: list[events.Event] = [
        events.AcceleratorsChanged((pools.AES, pools.FFT)),
        events.SessionLimitsChanged(None, (("a", 2),)),
    ]
    for host_id in range(int(random.integers(6))):
        shape = str(random.choice(["small", "large"]))
        slots = int(random.integers(4))
        programmed = random.choice([None, "aes", "fft"])
        happened.append(
            events.HostUp(
                pools.make_host(host_id, slots, shape, programmed=programmed)
            )
        )
    if random.random() < 0.3:
        group = model.Group(
            id=1, accelerator="aes", size=2, min_size=1, max_size=3
        )
        happened.append(events.GroupCreated(group))
    pool.step(happened, 0.0)
    return pool


def make_job(
    job_id: int, now: float, random: numpy.random.Generator
) -> model.Job:
    """Any job of the present."""
    choose = random.choice
    return pools.make_job(
        job_id,
        choose([None, *range(6)]),
        accelerator=str(choose(["aes", "aes", "aes", "fft", "none"])),
        claimed_bytes=float(choose([1e6, 1e8, 3e8, 5e9])),
        arrival_s=now,
        project=str(choose(PROJECTS)),
        deadline_s=choose([None, now + 3.0, now + 90.0]),
        wait_timeout_s=choose([None, None, None, 0.0, 5.0]),
    )


def go_on(
    pool: state.PoolState, now: float, random: numpy.random.Generator
) -> list[events.Event]:
    """What agents and operators may report next."""
    happened: list[events.Event] = []
    for slot_id, one in pool.assignments().items():
        kind = random.choice(NEXT)
        if kind is not None:
            happened.append(kind(slot_id, one.generation))
    if random.random() < 0.2:
        happened.append(events.HostLost(int(random.integers(6))))
    if random.random() < 0.2:
        happened.append(events.DeviceDisabled(int(random.integers(6))))
    if random.random() < 0.2:
        happened.append(
            events.ReservableSlotsChanged(int(random.integers(6)), 1)
        )
    return happened


def outcome(
    pool: state.PoolState, job: model.Job, now: float
) -> tuple[what_if.Answer, list[instructions.Instruction]]:
    """Submit a job, and say what became of it."""
    done = pool.step([events.JobSubmitted(job)], now)
    for one in done:
        if isinstance(one, instructions.Reject) and one.job_id == job.id:
            status = model.Status(model.Verdict.NEVER, (one.code,))
            return what_if.Answer(status, message=one.message), done
    status = pool.status(job.id)
    programs = [
        one.slot_id
        for one in done
        if isinstance(one, instructions.Program) and one.job_id == job.id
    ]
    assert bool(programs) == (status.verdict is model.Verdict.OK)
    waits = status.verdict is model.Verdict.NOT_NOW
    position = pool.queue_position(job.id) if waits else None
    return what_if.Answer(status, position), done


@pytest.mark.parametrize("name", INNER)
def test_the_pool_does_what_a_dry_run_has_said(name: str) -> None:
    verdicts: set[model.Verdict] = set()

    @hypothesis.settings(max_examples=4)
    @hypothesis.given(seed=st.integers(0, 2**32 - 1))
    def check(seed: int) -> None:
        random = numpy.random.default_rng(seed)
        pool = make_pool(name, random)
        # The same pool, which hears of no dry run.
        other = make_pool(name, numpy.random.default_rng(seed))
        now = 0.0
        for job_id in range(20):
            now += float(random.choice([0.0, 0.1, 2.0, 30.0]))
            happened = go_on(pool, now, random)
            assert pool.step(happened, now) == other.step(happened, now)
            pool.take_skips()
            other.take_skips()
            job = make_job(job_id, now, random)
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
    assert asked == what_if.Answer(model.Status(model.Verdict.OK))
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
