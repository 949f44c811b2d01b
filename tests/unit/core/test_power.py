# SPDX-License-Identifier: Apache-2.0

"""Caps on the power of slots."""

import math

import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import what_if
from fpgapool.vocabulary import codes
from tests.harness import pool_invariants
from tests.property import small_pools
from tests.unit.core import pools

SLOTS_W = (("large", 30.0), ("small", 10.0))


def caps(
    pool_w: float | None = None, **hosts_w: float
) -> events.PowerCapsChanged:
    """Caps of the pool, and of hosts h1, h2."""
    return events.PowerCapsChanged(
        model.PowerCaps(
            pool_w,
            tuple((int(name[1:]), cap) for name, cap in hosts_w.items()),
            SLOTS_W,
        )
    )


def reasons(pool: pools.Pool, job_id: int) -> tuple[str, ...]:
    return pool.state.status(job_id).reasons


def jobs(*job_ids: int, **members: object) -> list[model.Job]:
    return [pools.make_job(job_id, **members) for job_id in job_ids]


@pytest.mark.parametrize(
    "strategy", ["fifo", "sjf", "ra", "wra", "era", "auto"]
)
def test_a_released_slot_lets_the_next_job_go(strategy: str) -> None:
    pool = pools.make_pool(pools.make_host(1, 4), strategy=strategy)
    pool.step(caps(20.0))
    output = pool.submit(*jobs(1, 2, 3, host_id=1))
    assert len(pools.taken(output)) == 2
    (waits,) = pool.state.waiting()
    assert reasons(pool, waits.id) == (codes.POWER_CAP,)
    first = pools.taken(output)[0][1]
    output = pool.hear(events.SlotReleased, first)
    assert [job_id for job_id, _ in pools.taken(output)] == [waits.id]


def test_a_slot_of_another_host_leaves_its_power_to_a_job() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 1), pools.make_host(2, 1), strategy="wra"
    )
    pool.step(caps(10.0))
    assert pools.taken(pool.submit(*jobs(1, host_id=1))) == [(1, 10)]
    assert not pools.taken(pool.submit(*jobs(2, host_id=2)))
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 20)]


def test_a_host_has_a_cap_of_its_own() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 2), pools.make_host(2, 2), strategy="fifo"
    )
    pool.step(caps(h1=10.0))
    assert pools.taken(pool.submit(*jobs(1, 2, 3, 4))) == [
        (1, 10),
        (2, 20),
        (3, 21),
    ]
    assert reasons(pool, 4) == (codes.POWER_CAP,)


def test_each_shape_has_its_power_and_jobs_find_slots_that_fit() -> None:
    """Slots that come first, and fit no job, take no power from others."""
    pool = pools.make_pool(
        pools.make_host(1, 3, "small"),
        pools.make_host(2, 2, "large"),
        strategy="fifo",
    )
    pool.step(caps(40.0))
    output = pool.submit(*jobs(1, 2, accelerator="fft"))
    assert pools.taken(output) == [(1, 20)]
    assert reasons(pool, 2) == (codes.POWER_CAP,)
    # A small one fits beside it.
    assert pools.taken(pool.submit(*jobs(3))) == [(3, 10)]
    assert not pools.taken(pool.submit(*jobs(4)))


def test_the_caps_may_change() -> None:
    pool = pools.make_pool(pools.make_host(1, 4), strategy="fifo")
    pool.step(caps(10.0))
    assert pools.taken(pool.submit(*jobs(1, 2, 3, 4))) == [(1, 10)]
    assert pools.taken(pool.step(caps(30.0))) == [(2, 11), (3, 12)]
    # A lower one takes no slot away, and gives none.
    assert not pool.step(caps(10.0))
    assert not pools.taken(pool.hear(events.SlotReleased, 12))
    assert reasons(pool, 4) == (codes.POWER_CAP,)
    assert pools.taken(pool.step(caps())) == [(4, 12)]


def test_a_cap_below_the_power_of_one_slot_is_said() -> None:
    pool = pools.make_pool(pools.make_host(1, 4), strategy="fifo")
    pool.step(caps(9.0))
    assert not pools.taken(pool.submit(*jobs(1)))
    assert reasons(pool, 1) == (codes.POWER_CAP,)
    found = what_if.Snapshot(pool.state).ask(pools.make_job(2))
    assert found.status.reasons == (codes.POWER_CAP,)
    assert found.position == 1


def test_slots_in_use_are_the_first_reason() -> None:
    pool = pools.make_pool(pools.make_host(1, 1), strategy="fifo")
    pool.step(caps(10.0))
    pool.submit(*jobs(1, 2))
    assert reasons(pool, 2) == (codes.NO_IDLE_SLOT,)


def test_reserved_slots_count_and_are_capped() -> None:
    pool = pools.make_pool(pools.make_host(1, 3), strategy="fifo")
    pool.step(
        events.ReservableSlotsChanged(1, 2),
        events.ReservationsChanged(((1, (("vm", 2),)),)),
        caps(10.0),
    )
    output = pool.submit(*jobs(1, 2, instance_id="vm"))
    assert len(pools.taken(output)) == 1
    slot_id = pools.taken(output)[0][1]
    assert len(pools.taken(pool.hear(events.SlotReleased, slot_id))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"pool_w": -1.0},
        {"pool_w": math.nan},
        {"hosts_w": ((1, math.inf),)},
        {"slots_w": (("small", -0.5),)},
    ],
)
def test_wrong_powers_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="power must be"):
        model.PowerCaps(**wrong)


@pytest.mark.parametrize("name", small_pools.INNER)
def test_no_cap_is_ever_exceeded_and_no_slot_is_forgotten(name: str) -> None:
    for seed in range(4):
        random = numpy.random.default_rng(seed)
        pool = small_pools.make_pool(name, random)
        other = small_pools.make_pool(name, numpy.random.default_rng(seed))
        pool_w = float(random.choice([10.0, 40.0, 75.0]))
        pool.step([caps(pool_w, h1=20.0)], 0.0)
        # Caps that are never reached change nothing.
        other_2 = small_pools.make_pool(name, numpy.random.default_rng(seed))
        other_2.step([caps(1e9)], 0.0)
        now = 0.0
        for job_id in range(25):
            now += float(random.choice([0.0, 0.1, 2.0, 30.0]))
            before = random.bit_generator.state
            batch = [
                *small_pools.go_on(pool, now, random),
                events.JobSubmitted(small_pools.make_job(job_id, now, random)),
            ]
            given = _given(pool.step(batch, now))
            pool_invariants.check(pool)
            _check(pool, pool_w, name, given)
            random.bit_generator.state = before
            same = [
                *small_pools.go_on(other, now, random),
                events.JobSubmitted(small_pools.make_job(job_id, now, random)),
            ]
            assert _given(other.step(same, now)) == _given(
                other_2.step(same, now)
            )


def _given(
    output: list[instructions.Instruction],
) -> list[instructions.Instruction]:
    return [one for one in output if isinstance(one, instructions.Program)]


def _check(
    pool: state.PoolState,
    pool_w: float,
    name: str,
    given: list[instructions.Instruction],
) -> None:
    slot_w = dict(SLOTS_W)
    table = pool.view.slots
    hosts_w = dict.fromkeys(table.hosts, 0.0)
    for hold in table.assignments.values():
        if hold.slot is not None:
            hosts_w[hold.slot.host.id] += slot_w[hold.slot.spec.shape]
    used_w = sum(hosts_w.values())
    if given:
        # A group had its slots before the caps came.
        assert used_w <= pool_w
    if any(table.slots[one.slot_id].host.id == 1 for one in given):
        assert hosts_w[1] <= 20.0
    if name not in ("fifo", "sjf", "edf", "random", "wa"):
        return
    # These let no job wait that an idle slot fits.
    for job in pool.waiting():
        record = pool.view.record(job.id)
        if pool.view.is_held(record.group.lane.project):
            continue
        for slot in table.idle_slots():
            if record.group.fits(slot.id, slot.shape):
                own_w = slot_w[slot.spec.shape]
                host_w = hosts_w[slot.host.id] + own_w
                assert used_w + own_w > pool_w or (
                    slot.host.id == 1 and host_w > 20.0
                )
