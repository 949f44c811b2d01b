# SPDX-License-Identifier: Apache-2.0

"""``wra`` counts the time that programming takes."""

import dataclasses
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from tests.unit.core import pools

M1, M2 = (dataclasses.replace(pools.AES, name=name) for name in ("m1", "m2"))
GB = 1e9
# 100 sizes for 20 queues: 0.1 GB, 0.2 GB, ... 10 GB.
CLAIMS = tuple((None, n * GB / 10) for n in range(1, 101))
#: Seconds; the accelerators compute 1 GB/s.
PROGRAMMING_S = 2.0


def make_pool(**options: object) -> state.PoolState:
    """One slot, which holds m1 and is busy."""
    pool = state.PoolState(strategies.wra(options, 0))
    host = pools.make_host(1, 1, programming_time_s=PROGRAMMING_S)
    pool.step([events.AcceleratorsChanged((M1, M2))], 0.0)
    pool.step([events.ClaimsRestored(CLAIMS, 0)], 0.0)
    pool.step([events.HostUp(host)], 0.0)
    submit(pool, 1, "m1", 1.0)
    return pool


def submit(
    pool: state.PoolState, job_id: int, accelerator: str, size: float
) -> None:
    job = pools.make_job(
        job_id, accelerator=accelerator, claimed_bytes=size, arrival_s=0.0
    )
    program(pool, pool.step([events.JobSubmitted(job)], pool.view.now))


def program(
    pool: state.PoolState, output: list[instructions.Instruction]
) -> list[model.JobId]:
    """Carry out the orders; return the jobs that got slots."""
    orders = [o for o in output if isinstance(o, instructions.Program)]
    for order in orders:
        ready = events.SlotReady(order.slot_id, order.generation)
        pool.step([ready], pool.view.now)
    return [order.job_id for order in orders]


def next_job(pool: state.PoolState, now: float) -> model.JobId | None:
    """Release the slot; return who gets it."""
    (held,) = pool.assignments().values()
    released = events.SlotReleased(held.slot_id, held.generation)
    return next(iter(program(pool, pool.step([released], now))), None)


@pytest.mark.parametrize(
    ("larger", "smaller", "first"),
    [
        # The other one counts as 1 + 2 · (1 + 2 waiting / 1 slot) = 7 GB.
        (6.0, 1.0, 10),
        (9.5, 1.0, 11),
    ],
)
def test_the_slots_own_accelerator_goes_first_while_it_is_worth_it(
    larger: float, smaller: float, first: int
) -> None:
    pool = make_pool()
    submit(pool, 10, "m1", larger * GB)
    submit(pool, 11, "m2", smaller * GB)
    assert next_job(pool, 1.0) == first


def test_more_waiting_jobs_make_programming_count_more() -> None:
    pool = make_pool()
    submit(pool, 10, "m1", 9.5 * GB)
    for job_id in range(11, 20):
        submit(pool, job_id, "m2", 1.0 * GB)
    assert next_job(pool, 1.0) == 10


def test_a_job_does_not_give_way_for_ever() -> None:
    pool = make_pool()
    submit(pool, 11, "m2", 1.0 * GB)
    given_way = 0
    for job_id in range(100, 300):
        submit(pool, job_id, "m1", 5.0 * GB)
        if next_job(pool, float(given_way)) == 11:
            break
        given_way += 1
    # Twenty times the delay, at two waiting jobs for a slot.
    assert given_way == 20 * PROGRAMMING_S * (1 + 2)


@pytest.mark.parametrize(
    "options",
    [{"thresholds_bytes": (5 * GB,)}, {"E_bytes": 5 * GB}],
)
def test_with_fixed_queues_programming_is_free(
    options: dict[str, typing.Any],
) -> None:
    pool = make_pool(**options)
    submit(pool, 10, "m1", 6.0 * GB)
    submit(pool, 11, "m2", 1.0 * GB)
    assert next_job(pool, 1.0) == 11
