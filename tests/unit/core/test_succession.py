# SPDX-License-Identifier: Apache-2.0
"""Jobs that have a slot before its holder has left."""

import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.vocabulary import codes
from tests.unit.core import pools


def held(count: int = 1) -> pools.Pool:
    """A pool whose only slot, 10, job 1 has; so many others wait."""
    pool = pools.make_pool(
        pools.make_host(1, slot_count=1), strategy="fifo", options={}
    )
    pool.submit(pools.make_job(1))
    pool.hear(events.SlotReady, 10)
    pool.hear(events.HolderAttached, 10)
    pool.submit(*(pools.make_job(2 + n) for n in range(count)))
    return pool


def test_the_job_that_would_have_the_slot_now_has_it_next() -> None:
    pool = held(2)
    first = pool.generation(10)
    assert pools.taken(pool.hear(events.HolderLeaves, 10)) == [(2, 10)]
    assert pool.state.waiting_count == 1
    assert pool.state.leaving(10).generation == first
    assert pool.step(events.SlotReleased(10, first)) == []
    assert pool.state.leaving(10) is None
    assert pool.state.assignments()[10].holder.id == 2
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(3, 10)]


def test_nobody_waits_so_the_holder_stays() -> None:
    pool = held(0)
    first = pool.generation(10)
    assert pool.hear(events.HolderLeaves, 10) == []
    assert pool.generation(10) == first
    assert pool.state.leaving(10) is None


def test_the_holder_goes_on_as_before() -> None:
    pool = held()
    first = pool.generation(10)
    pool.hear(events.HolderLeaves, 10)
    pool.step(events.HolderDetached(10, first))
    assert pool.state.leaving(10).phase is model.Phase.DETACHED
    assert pool.step(events.ClaimExceeded(10, first)) == []
    assert pool.step(events.JobCancelled(1, "why")) == [
        instructions.Revoke(10, 1, first, "why")
    ]


def test_a_holder_moves_while_it_has_a_successor() -> None:
    pool = held()
    first = pool.generation(10)
    # Whichever of the two is heard first.
    pool.step(events.HolderLeaves(10, first), events.JobMoved(1, 1))
    assert pool.state.leaving(10).local
    assert not pool.state.hold(10).local
    pool.step(events.JobMoved(1, 2))
    assert not pool.state.leaving(10).local
    pool.step(events.JobMoved(2, 1), events.JobMoved(1, 1))
    assert pool.state.hold(10).local
    pool.hear(events.HolderStays, 10)
    assert pool.generation(10) == first
    assert pool.state.hold(10).local


def test_a_holder_that_stays_has_its_slot_again() -> None:
    pool = held(2)
    first = pool.generation(10)
    pool.hear(events.HolderLeaves, 10)
    assert pool.hear(events.HolderStays, 10) == []
    assert pool.generation(10) == first
    assert [job.id for job in pool.state.waiting()] == [2, 3]
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_a_successor_that_is_cancelled_keeps_its_place_until_it_is_gone():
    pool = held(2)
    pool.hear(events.HolderLeaves, 10)
    second = pool.generation(10)
    assert pool.step(events.JobCancelled(2, "why")) == [
        instructions.Revoke(10, 2, second, "why")
    ]
    assert pool.step(events.SlotReleased(10, second)) == []
    assert pool.state.assignments()[10].holder.id == 1


def test_a_lost_host_sends_both_back() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.hear(events.SlotReady, 10)
    pool.submit(pools.make_job(2))
    pool.hear(events.HolderLeaves, 10)
    lost = pool.step(events.HostLost(1))
    assert [(one.job_id, one.reason) for one in lost] == [
        (2, codes.HOST_LOST),
        (1, codes.HOST_LOST),
    ]
    assert pool.state.waiting_count == 2


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_drain_takes_the_slot_from_both(is_connected: bool) -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.hear(events.SlotReady, 10)
    if is_connected:
        pool.hear(events.HolderAttached, 10)
    pool.submit(pools.make_job(2))
    pool.hear(events.HolderLeaves, 10)
    done = pool.step(events.DrainRequested(1, pool.now))
    kinds = [type(one).__name__ for one in done]
    assert kinds == (
        ["Requeue", "Revoke"]
        if is_connected
        else ["Requeue", "Requeue", "Drained"]
    )


def test_a_holder_whose_slot_fails_waits_again_and_the_next_one_stays():
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.hear(events.SlotReady, 10)
    first = pool.generation(10)
    pool.submit(pools.make_job(2))
    pool.hear(events.HolderLeaves, 10)
    (order,) = pool.step(events.PrepareFailed(10, first, "WORKER_LOST"))
    assert isinstance(order, instructions.Requeue)
    assert pool.state.assignments()[10].holder.id == 2


def test_a_claim_is_charged_once() -> None:
    pool = held()
    pool.step(events.SessionLimitsChanged(2, ()))
    first = pool.generation(10)
    pool.hear(events.HolderLeaves, 10)
    pool.hear(events.HolderStays, 10)
    assert pool.generation(10) == first


def test_the_next_leader_restores_both() -> None:
    pool = pools.make_pool(strategy="fifo")
    for job_id, generation, phase in (
        (1, 5, model.Phase.ACTIVE),
        (2, 6, model.Phase.PREPARING),
    ):
        pool.state.apply(
            [
                events.HolderLeaves(10, 5),
                events.AssignmentRestored(
                    job=pools.make_job(job_id),
                    slot_id=10,
                    generation=generation,
                    phase=phase,
                    host_id=1,
                    device_id=1,
                ),
            ],
            0.0,
        )
    pool.step(events.HostUp(pools.make_host(1, slot_count=1)))
    assert pool.state.leaving(10).generation == 5
    pool.step(events.SlotReleased(10, 5))
    assert pool.generation(10) == 6
