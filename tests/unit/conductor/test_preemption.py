# SPDX-License-Identifier: Apache-2.0

"""Sessions that leave their slots to others."""

import dataclasses

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

QUANTUM_BYTES = 100


def make_pool(**settings: object) -> world.Conductor:
    """Host a with one slot, whose sessions preempt."""
    return world.Conductor(
        world.hosts(a=1),
        **{"fair": True, "preempt_gain": 0.25, "quantum_bytes": QUANTUM_BYTES}
        | settings,
    )


@pytest.fixture
def single() -> world.Conductor:
    """Give such a pool."""
    return make_pool()


def order_of(pool: world.Conductor) -> effects.AssignSlot:
    """Return the order that is on its way."""
    [order] = pool.sent(effects.AssignSlot)
    return order


def attach(pool: world.Conductor) -> None:
    """Have the client of the next session connect."""
    pool.deliver_all()
    agent = pool.agents["a"]
    pool.feed(agent.prepared(0))
    agent.slots[0].state = states.SLOT_ACTIVE
    agent.slots[0].input_bytes = agent.slots[0].output_bytes = 0
    pool.feed(agent.report())


def send(pool: world.Conductor, sent_bytes: int) -> None:
    """Have the slot compute so much."""
    slot = pool.agents["a"].slots[0]
    slot.input_bytes = slot.output_bytes = sent_bytes
    pool.report("a")


def end(
    pool: world.Conductor, done_bytes: int, state: str = "", code: str = ""
) -> None:
    """Report the end of the holder; else carry out the order to leave."""
    agent = pool.agents["a"]
    if code:
        agent.end(0, state, code, pool.now)
    else:
        pool.deliver_all()
    agent.slots[0].last_result = dataclasses.replace(
        agent.slots[0].last_result,
        input_bytes=done_bytes,
        output_bytes=done_bytes,
        started_at=pool.now,
    )
    pool.feed(agent.report())


def serve(pool: world.Conductor, **wanted: object) -> str:
    """Open a session, and have its client connect."""
    request_id = pool.open(**wanted)
    attach(pool)
    return request_id


def preempt(pool: world.Conductor, low: str, done_bytes: int) -> str:
    """Have a session lose its slot to another one, which is returned."""
    high = pool.open(priority=5)
    send(pool, QUANTUM_BYTES)
    assert pool.memory.holds[1].revoked == codes.PREEMPTED
    end(pool, done_bytes)
    assert pool.view(low).state == states.QUEUED
    assert pool.view(high).state == states.PREPARING
    return high


def used_energy_j(pool: world.Conductor) -> float:
    return sum(row.energy_j for row in pool.rows["usage"].values())


def used_bytes(pool: world.Conductor) -> int:
    return sum(row.input_bytes for row in pool.rows["usage"].values())


def test_a_session_leaves_its_slot_at_a_border(single):
    low = serve(single)
    high = single.open(priority=5)
    send(single, QUANTUM_BYTES - 1)
    assert not single.memory.holds[1].revoked
    send(single, QUANTUM_BYTES)
    assert single.memory.holds[1].revoked == codes.PREEMPTED
    end(single, 150)
    view = single.view(low)
    assert (view.state, view.reason) == (states.QUEUED, codes.PREEMPTED)
    assert (view.claimed_bytes, view.queued_at) == (1000, 1000.0)
    assert (view.input_bytes, view.output_bytes) == (150, 150)
    assert used_bytes(single) == 150
    assert single.view(high).state == states.PREPARING


def test_it_goes_on_with_what_is_left_of_its_claim(single):
    low = serve(single)
    preempt(single, low, 150)
    attach(single)
    end(single, 7, states.CLOSED, codes.OK)
    request = order_of(single).request
    assert request.claim_limit_bytes == 1100 - 150
    assert request.quantum_bytes == QUANTUM_BYTES
    attach(single)
    view = single.view(low)
    assert (view.state, view.reason, view.message) == (states.ACTIVE, "", "")
    send(single, 50)
    assert single.view(low).input_bytes == 200
    end(single, 850, states.CLOSED, codes.OK)
    view = single.view(low)
    assert (view.state, view.input_bytes) == (states.CLOSED, 1000)
    assert used_bytes(single) == 1000 + 7


def test_after_nine_times_claim_and_account_equal_the_bytes(single):
    low = serve(single)
    for number in range(1, 10):
        preempt(single, low, QUANTUM_BYTES + 5)
        attach(single)
        end(single, 0, states.CLOSED, codes.OK)
        attach(single)
        view = single.view(low)
        assert view.claimed_bytes == 1000
        assert view.input_bytes == number * (QUANTUM_BYTES + 5)
    end(single, 55, states.CLOSED, codes.OK)
    assert single.view(low).input_bytes == used_bytes(single) == 1000


def test_what_its_former_slots_computed_counts_for_its_claim(single):
    low = serve(single)
    preempt(single, low, 1000)
    attach(single)
    end(single, 0, states.CLOSED, codes.OK)
    attach(single)
    single.open()
    send(single, 100)
    assert not single.memory.holds[1].revoked
    send(single, 101)
    assert single.memory.holds[1].revoked == codes.YIELDED
    end(single, 101)
    assert single.view(low).claimed_bytes == 2 * 1101


def test_its_energy_is_that_of_all_slots_that_it_has_left(single):
    low = serve(single)
    assert single.view(low).energy_j is None
    slot = single.agents["a"].slots[0]
    slot.energy_j = 40.0
    preempt(single, low, 150)
    assert single.view(low).energy_j == 40.0
    slot.energy_j = 5.0
    attach(single)
    end(single, 0, states.CLOSED, codes.OK)
    slot.energy_j = 10.0
    attach(single)
    single.boot_conductor()
    send(single, 30)
    assert single.view(low).energy_j == 40.0
    end(single, 50, states.CLOSED, codes.OK)
    assert single.view(low).energy_j == 50.0
    assert used_energy_j(single) == 55.0


def test_slots_that_sessions_have_to_leave_are_counted(single):
    low = serve(single)
    preempt(single, low, 150)
    assert single.counts.taken_back == {("p", codes.PREEMPTED): 1}
    attach(single)
    end(single, 0, states.CLOSED, codes.OK)
    # An end is no slot that is taken back.
    single.cancel(low)
    assert single.counts.taken_back.total() == 1


def test_the_next_leader_knows_what_was_computed(single):
    low = serve(single)
    preempt(single, low, 150)
    attach(single)
    end(single, 0, states.CLOSED, codes.OK)
    attach(single)
    single.boot_conductor()
    send(single, 30)
    assert single.view(low).input_bytes == 180
    end(single, 50, states.CLOSED, codes.OK)
    assert single.view(low).input_bytes == 200
    assert used_bytes(single) == 200


def test_its_owner_learns_nothing_of_another_project():
    pool = make_pool()
    low = serve(pool, project_id="p", claimed_bytes=2**40)
    pool.memory.quotas.set("secret", {"max_priority": 5})
    pool.memory.link.tell(pool.memory.quotas.session_limits())
    high = pool.open(project_id="secret", user_id="v", priority=9)
    send(pool, QUANTUM_BYTES)
    end(pool, 100)
    view = pool.view(low)
    assert (view.state, view.reason) == (states.QUEUED, codes.PREEMPTED)
    assert "'secret'" not in str(view)
    taken = world.find(pool.ask, "secret", high)
    assert taken.state == states.PREPARING


@pytest.mark.parametrize("early", [True, False])
def test_a_client_may_reopen_before_or_after_the_word_of_its_worker(
    single, early
):
    low = serve(single)
    view = single.view(low)
    high = single.open(priority=5)
    send(single, QUANTUM_BYTES)
    if early:
        single.feed(world.reopening(view, "a"))
        assert single.view(low).state == states.ACTIVE
    end(single, 150)
    if not early:
        single.feed(world.reopening(view, "a"))
    assert single.view(low).state == states.QUEUED
    assert single.view(low).input_bytes == 150
    assert single.view(high).state == states.PREPARING
    assert not single.counts.reconciled["wrong_move"]


def test_on_a_host_that_falls_silent_it_does_not_wait_for_that_word():
    pool = world.Conductor(
        world.hosts(a=1, b=0),
        fair=True,
        preempt_gain=0.25,
        quantum_bytes=QUANTUM_BYTES,
    )
    low = serve(pool, host="b")
    view = pool.view(low)
    pool.open(priority=5)
    send(pool, QUANTUM_BYTES)
    pool.feed(world.reopening(view, "b"))
    assert pool.view(low).state == states.ACTIVE
    for _ in range(8):
        pool.report("b")
        pool.tick(3.0)
    assert pool.view(low).state == states.QUEUED


@pytest.mark.parametrize(
    ("programming_time_s", "wanted"), [(0.0, 100), (2.0, 20 * 10**9)]
)
def test_a_quantum_is_worth_the_programming(
    single, programming_time_s, wanted
):
    single.memory.registry.slots[1].programming_time_s = programming_time_s
    view = single.memory.core.view
    peak_bytes_per_s = view.accelerators["copy"].peak_bytes_per_s
    single.open()
    expected = max(100, 10 * programming_time_s * peak_bytes_per_s)
    assert order_of(single).request.quantum_bytes == expected


def test_without_preemption_there_are_no_borders():
    pool = make_pool(quantum_bytes=0, preempt_gain=None)
    pool.open()
    assert order_of(pool).request.quantum_bytes == 0
    attach(pool)
    pool.open(priority=5)
    send(pool, 900)
    assert not pool.memory.holds[1].revoked


def test_a_host_that_was_lost_does_not_know_what_it_has_computed(single):
    low = serve(single)
    single.open(priority=5)
    send(single, QUANTUM_BYTES)
    single.agents["a"].restart(workers_too=True)
    # The order to leave finds nobody there.
    single.deliver_all()
    result = single.agents["a"].slots[0].last_result
    assert (result.code, result.input_bytes) == (codes.PREEMPTED, 0)
    single.report("a")
    view = single.view(low)
    assert (view.state, view.reason) == (states.QUEUED, codes.PREEMPTED)
    assert view.input_bytes == used_bytes(single) == QUANTUM_BYTES
