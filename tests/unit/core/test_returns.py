# SPDX-License-Identifier: Apache-2.0

"""Sessions that lost their slots come before sets that are due."""

import dataclasses
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import sharing
from fpgapool.core.rules import returns
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.unit.core import pools
from tests.unit.core import test_preemption
from tests.unit.core import test_session_sets as sets


def leave(
    pool: pools.Pool, slot_id: int, **how: typing.Any
) -> list[instructions.Instruction]:
    """Let a session lose its slot, and wait for another one."""
    hold = pool.state.hold(slot_id)
    assert hold is not None
    assert hold.record is not None
    return pool.step(
        events.SlotReleased(slot_id, hold.generation),
        events.JobSubmitted(
            dataclasses.replace(hold.record.job, together=None), 0.0, **how
        ),
    )


def chain_beside_set(strategy: str = "fifo") -> pools.Pool:
    """A pool of 2 slots, both used by jobs 1 and 2, for which 3 and 4 wait.

    Jobs 1 and 2 began together, and need each other.
    """
    pool = pools.make_pool(pools.make_host(1, 2), strategy=strategy)
    sets.submit_set(pool, 1, 2)
    sets.use(pool, 10, 11)
    sets.submit_set(pool, 3, 4)
    return pool


@pytest.mark.parametrize("strategy", ["fifo", "sjf", "wra", "auto"])
@pytest.mark.parametrize("yields", [False, True])
def test_a_stage_does_not_wait_for_a_set_that_waits_for_its_chain(
    strategy: str, yields: bool
) -> None:
    pool = chain_beside_set(strategy)
    # At first it is no set's turn; at the second loss one is due.
    for _ in range(2):
        output = leave(pool, 10, returns=True, yields=yields)
        assert pools.taken(output) == [(1, 10)]
        sets.use(pool, 10)
    assert not pools.taken(sets.release(pool, 10))
    assert sorted(pools.taken(sets.release(pool, 11))) == [(3, 10), (4, 11)]


def test_who_exceeded_its_claim_waits_behind_due_sets() -> None:
    pool = chain_beside_set()
    assert not pools.taken(leave(pool, 10, yields=True))
    assert not pools.taken(pool.submit(pools.make_job(5)))
    assert sets.job_ids(sets.release(pool, 11)) == [3, 4]
    sets.use(pool, 10, 11)
    assert sets.job_ids(sets.release(pool, 10)) == [1]


@pytest.mark.parametrize("loss", [events.HostLost, events.DrainRequested])
def test_a_slot_that_is_lost_before_its_client_came(loss: type) -> None:
    """The core queues the job itself."""
    pool = pools.make_pool(
        pools.make_host(1, 1), pools.make_host(2, 1), strategy="fifo"
    )
    sets.submit_set(pool, 1, 2)
    for slot_id in (10, 20):
        pool.hear(events.SlotReady, slot_id)
    sets.submit_set(pool, 3, 4)
    pool.hear(events.HolderAttached, 20)
    if loss is events.HostLost:
        pool.step(loss(1))
        back = pool.step(events.HostUp(pools.make_host(1, 1)))
    else:
        pool.step(loss(1, 0.0))
        back = pool.step(events.DeviceEnabled(1))
    assert pools.taken(back) == [(1, 10)]


def test_a_slot_that_fails_is_not_taken_again() -> None:
    pool = pools.make_pool(pools.make_host(1, 3), strategy="fifo")
    sets.submit_set(pool, 1, 2)
    for slot_id in (10, 11):
        pool.hear(events.SlotReady, slot_id)
    sets.submit_set(pool, 3, 4, 5)
    assert pools.taken(pool.hear(events.PrepareFailed, 10, "X")) == [(1, 12)]


def test_several_return_in_the_order_of_the_queue() -> None:
    pool = pools.make_pool(pools.make_host(1, 3), strategy="fifo")
    for number in (1, 2, 3):
        pool.submit(pools.make_job(number, arrival_s=float(number)))
    sets.use(pool, 10, 11, 12)
    sets.submit_set(pool, 5, 6, 7, arrival_s=4.0)
    pool.step(events.DeviceDisabled(1))
    for slot_id in (12, 10, 11):
        leave(pool, slot_id, returns=True)
    assert sets.job_ids(pool.step(events.DeviceEnabled(1))) == [1, 2, 3]


def test_their_own_host_and_its_programmed_slots_come_first() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 1, programming_time_s=1.0, programmed="aes"),
        pools.make_host(2, 2, programming_time_s=1.0, programmed="aes"),
        strategy="fifo",
    )
    pool.submit(
        *(pools.make_job(number, 2, arrival_s=1.0) for number in (1, 2, 3))
    )
    sets.use(pool, 10, 20, 21)
    sets.submit_set(pool, 5, 6, 7)
    pool.step(events.DeviceDisabled(1), events.DeviceDisabled(2))
    for slot_id in (10, 20, 21):
        assert leave(pool, slot_id, returns=True) == []
    both = events.DeviceEnabled(1), events.DeviceEnabled(2)
    assert sets.job_ids(pool.step(*both))[:2] == [1, 2]
    hold = pool.state.hold(10)
    assert hold is not None
    assert hold.record is not None
    assert hold.record.job.id == 3


def shared_pool(slots: int, limit: int | None = None) -> pools.Pool:
    """A pool that projects share, and the limit of project ``a``."""
    options = sharing.ShareOptions(quantum_bytes=2e8)
    made = shared.SharedStrategy(strategies.fifo({}, 0), options, None)
    pool = pools.make_pool_of(made, pools.make_host(1, slots))
    pool.step(events.SessionLimitsChanged(None, (("a", limit),)))
    return pool


def test_the_own_sets_of_a_project_do_not_hold_it_back() -> None:
    """Else its chain and its set would wait for each other."""
    pool = shared_pool(4, limit=2)
    sets.submit_set(pool, 1, 2, project="a")
    sets.use(pool, 10, 11)
    sets.submit_set(pool, 3, 4, project="a")
    first = next(iter(pool.state.assignments()))
    assert sets.job_ids(leave(pool, first, returns=True)) == [1]


def test_limits_hold() -> None:
    pool = shared_pool(4, limit=2)
    sets.submit_set(pool, 1, 2, project="a")
    slots = sorted(pool.state.assignments())
    sets.use(pool, *slots)
    sets.submit_set(pool, 3, 4, 5, 6, project="b")
    sets.submit_set(pool, 7, 8, 9, project="b")
    pool.step(events.SessionLimitsChanged(None, (("a", 1),)))
    assert not pools.taken(leave(pool, slots[0], returns=True))
    assert 1 in sets.job_ids(sets.release(pool, slots[1]))


def test_turns_hold() -> None:
    """A project without a budget gets no slot for a session that lost one."""
    pool = shared_pool(2)
    sets.submit_set(pool, 1, 2, project="a")
    sets.use(pool, 10, 11)
    sets.submit_set(pool, 3, 4, project="b")
    pool.step(events.TurnChanged("a", model.Turn.NEVER))
    assert not pools.taken(leave(pool, 10, returns=True))
    output = pool.step(events.TurnChanged("a", model.Turn.LAST))
    assert pools.taken(output) == [(1, 10)]


def test_reserved_slots_stay_reserved() -> None:
    pool = chain_beside_set()
    pool.step(events.ReservationsChanged(((1, (("vm", 1),)),)))
    assert not pools.taken(leave(pool, 10, returns=True))
    assert pool.state.view.slots.reserved_idle["vm"]


def test_members_of_groups_do_not_return() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 1), pools.make_host(2, 1), strategy="fifo"
    )
    group = model.Group(
        id=1, accelerator="aes", size=2, min_size=0, max_size=2
    )
    pool.step(events.GroupCreated(group))
    assert sorted(pool.state.assignments()) == [10, 20]
    sets.submit_set(pool, 3, 4)
    pool.step(events.HostLost(1))
    assert not pool.state._admission.returns.waiting()


@pytest.mark.parametrize("is_told", [False, True])
def test_a_new_leader_is_told(is_told: bool) -> None:
    pool = pools.Pool(state.PoolState(strategies.fifo({}, 0)))
    together = model.Together("set3", 2)
    output = pool.step(
        events.AcceleratorsChanged((pools.AES,)),
        events.AssignmentRestored(
            pools.make_job(1), 10, 7, model.Phase.ACTIVE, 1, 1
        ),
        *(
            events.JobSubmitted(
                pools.make_job(number, together=together), is_known=True
            )
            for number in (3, 4)
        ),
        events.JobSubmitted(
            pools.make_job(2, arrival_s=1.0), returns=is_told, is_known=True
        ),
        events.HostUp(pools.make_host(1, 2)),
    )
    assert pools.taken(output) == ([(2, 11)] if is_told else [])


def test_nobody_is_preempted_for_a_set() -> None:
    """Who made room for its leader would have the slot again at once."""
    pool = pools.make_pool(pools.make_host(1, 2), strategy="fifo")
    pool.submit(*map(pools.make_job, (1, 2)))
    sets.use(pool, 10, 11)
    sets.submit_set(pool, 3, 4, priority=9)
    output = pool.hear(events.QuantumDone, 10, 1_000_000)
    assert not [o for o in output if isinstance(o, instructions.Yield)]


def test_who_made_room_for_a_single_returns_before_due_sets() -> None:
    """It gives nothing back a second time: only higher priorities wait."""
    pool = test_preemption.make_pool(slots=2)
    jobs = [pools.make_job(number, project="p") for number in (1, 2)]
    pool.submit(*jobs)
    sets.use(pool, 10, 11)
    sets.submit_set(pool, 3, 4, project="p")
    leave(pool, 11, returns=True, yields=True)
    sets.use(pool, 11)
    assert len(pool.state.sets.turns.waiting) == 1
    pool.submit(pools.make_job(5, project="p", priority=9))
    assert test_preemption.border(pool) == [(10, 1, codes.PREEMPTED)]
    output = leave(pool, 10, returns=True, yields=True)
    assert pools.taken(output) == [(5, 10)]
    sets.use(pool, 10)
    assert sets.job_ids(sets.release(pool, 11)) == [1]
    sets.use(pool, 11)
    assert test_preemption.border(pool, slot_id=11) == []
    assert not pools.taken(sets.release(pool, 10))
    assert sorted(sets.job_ids(sets.release(pool, 11))) == [3, 4]


def test_entries_of_jobs_that_have_slots_are_removed() -> None:
    pool = pools.make_pool(pools.make_host(1, 1), strategy="fifo")
    pool.submit(pools.make_job(1))
    for _ in range(3 * returns._LEAST_KEPT):
        pool.step(events.HostLost(1))
        pool.step(events.HostUp(pools.make_host(1, 1)))
    for number in range(2, 3 * returns._LEAST_KEPT):
        pool.hear(events.SlotReady, 10)
        pool.submit(pools.make_job(number))
        pool.hear(events.SlotReleased, 10)
        pool.step(events.HostLost(1))
        pool.step(events.HostUp(pools.make_host(1, 1)))
    assert len(pool.state._admission.returns._records) <= returns._LEAST_KEPT
