# SPDX-License-Identifier: Apache-2.0

"""Sessions that have a slot before its holder has left."""

import dataclasses
import random

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.core import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import test_offers
from tests.unit.conductor import world

HASH = test_offers.HASH
#: What the conductor has made for sessions of the REST API.
SECRET = "5e" * 32
OFFER = test_offers.OFFER
_ENDS = (
    (states.CLOSED, codes.OK),
    (states.FAILED, codes.WORKER_LOST),
    (states.PREPARE_FAILED, codes.PREPARE_FAILED),
)


@pytest.fixture
def pool() -> world.Conductor:
    """Host a with one slot, which has an offer."""
    return test_offers.make_pool()


def two(pool: world.Conductor, **changes: object) -> tuple[str, str]:
    """A session with the slot, and the next one."""
    first = pool.open(**{"secret_sha256": HASH} | changes)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    second = pool.open(**{"secret_sha256": HASH} | changes)
    pool.deliver_all()
    return first, second


def state_of(pool: world.Conductor, *request_ids: str) -> list[str]:
    return [pool.view(one).state for one in request_ids]


def test_the_next_client_learns_early_where_to_come(pool):
    first, second = two(pool)
    generation = pool.view(first).generation
    order = pool.agents["a"].next[0]
    assert order.after_generation == generation
    told = pool.agents["a"].views[second]
    assert (told.state, told.endpoints) == (states.PREPARING, OFFER.endpoints)
    assert told.secret_sha256 == HASH
    # Nobody else does, and the slot is the first one's.
    assert pool.view(second).endpoints == ()
    (row,) = pool.rows["assignments"].values()
    assert row.generation == generation


def test_an_end_and_a_start_are_one_report(pool):
    first, second = two(pool)
    pool.tick(0.3)
    pool.end(states.CLOSED, codes.OK)
    assert state_of(pool, first, second) == [states.CLOSED, states.READY]
    assert not pool.sent(effects.AssignSlot)
    (hold,) = pool.memory.holds.values()
    assert hold.assigned_at == pool.now
    pool.agents["a"].prepared(0)
    pool.tick(2.0)
    pool.end(states.CLOSED, codes.OK)
    used = sum(row.slot_s for row in pool.rows["usage"].values())
    assert used == pytest.approx(2.3)


def test_a_successor_that_ends_first_gives_its_place_to_the_next(pool):
    first, second = two(pool)
    third = pool.open(secret_sha256=HASH)
    pool.cancel(second)
    pool.deliver_all()
    pool.report("a")
    pool.deliver_all()
    assert state_of(pool, first, second, third) == [
        states.READY,
        states.CANCELLED,
        states.PREPARING,
    ]
    pool.end(states.CLOSED, codes.OK)
    assert state_of(pool, third) == [states.READY]


def test_a_successor_waits_again_if_the_holder_stays(pool):
    first, second = two(pool)
    revision = pool.view(second).revision
    pool.agents["a"].give_back(0)
    pool.report("a")
    view = pool.view(second)
    assert (view.state, view.slot) == (states.QUEUED, None)
    assert view.revision > revision
    assert pool.memory.sessions.by_id[view.session_id].secret_sha256 == HASH
    pool.deliver_all()
    pool.end(states.CLOSED, codes.OK)
    pool.deliver_all()
    assert state_of(pool, first, second) == [states.CLOSED, states.READY]


def test_a_place_that_was_given_back_is_so_if_the_holder_leaves_then(pool):
    first, second = two(pool)
    agent = pool.agents["a"]
    agent.give_back(0)
    pool.end(states.CLOSED, codes.OK)
    assert state_of(pool, first, second) == [states.CLOSED, states.READY]
    pool.deliver_all()
    assert agent.slots[0].session_id == pool.view(second).session_id


@pytest.mark.parametrize(
    ("holders", "nexts"),
    [
        ({"claimed_bytes": 10**9}, {}),
        ({}, {"project_id": "q"}),
        ({}, {"secret_sha256": ""}),
    ],
)
def test_others_wait_for_the_release(pool, holders, nexts):
    pool.open(**{"secret_sha256": HASH} | holders)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    pool.open(**{"secret_sha256": HASH} | nexts)
    assert not pool.sent(effects.AssignSlot)
    assert pool.state.waiting_count == 1
    pool.end(states.CLOSED, codes.OK)
    assert len(pool.sent(effects.AssignSlot)) == 1


def test_a_slot_that_is_free_needs_no_successors():
    pool = test_offers.make_pool(slots=2)
    two(pool)
    assert [h.former for h in pool.memory.holds.with_successors()] == [
        None
    ] * 2


def test_the_next_leader_knows_the_successor(pool):
    first, second = two(pool)
    pool.boot_conductor()
    pool.report("a")
    assert state_of(pool, first, second) == [states.READY, states.PREPARING]
    pool.end(states.CLOSED, codes.OK)
    pool.deliver_all()
    assert state_of(pool, first) == [states.CLOSED]
    pool.agents["a"].prepared(0)
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    view = test_offers.told(pool, second)
    assert (view.state, view.secret) == (states.READY, "5ec7e7")


def test_an_agent_that_was_started_anew_shows_the_successor(pool):
    first, second = two(pool)
    agent = pool.agents["a"]
    agent.end(0, states.CLOSED, codes.OK, pool.now)
    agent.prepared(0)
    agent.restart()
    pool.report("a")
    assert state_of(pool, second) == [states.READY]
    assert pool.view(first).state in states.TERMINAL | {states.QUEUED}
    hold = pool.memory.holds[next(iter(pool.memory.holds))]
    assert hold.former is None


def test_an_order_that_was_lost_comes_again(pool):
    _, second = two(pool)
    agent = pool.agents["a"]
    agent.next.clear()
    pool.end(states.CLOSED, codes.OK)
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    pool.deliver_all()
    assert agent.slots[0].session_id == pool.view(second).session_id


def test_an_older_agent_gets_no_order_for_later():
    """It would refuse it, and the session wait for the repetition."""
    offer = dataclasses.replace(OFFER, keeps_order=False)
    pool = test_offers.make_pool(offer)
    two(pool)
    assert pool.state.waiting_count == 1
    pool.end(states.CLOSED, codes.OK)
    assert len(pool.sent(effects.AssignSlot)) == 1


def test_an_agent_that_has_lost_the_order_gets_it_again(pool):
    first, second = two(pool)
    agent = pool.agents["a"]
    agent.next.clear()
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    pool.deliver_all()
    assert agent.next[0].session_id == pool.view(second).session_id
    agent.give_back(0)
    pool.report("a")
    assert state_of(pool, first, second) == [states.READY, states.QUEUED]


def test_a_report_that_is_late_takes_nothing_from_a_successor(pool):
    first, second = two(pool)
    agent = pool.agents["a"]
    late = agent.report()
    agent.end(0, states.CLOSED, codes.OK, pool.now)
    agent.prepared(0)
    pool.tick(60.0)
    pool.feed(late)
    pool.deliver_all()
    pool.report("a")
    assert state_of(pool, first, second) == [states.CLOSED, states.READY]
    assert agent.slots[0].session_id == pool.view(second).session_id


def test_all_wait_again_if_the_host_is_lost():
    agents = world.hosts(a=1, b=0, c=0)
    agents[0].offer = OFFER
    agents[0].slots[0].programmed = "copy"
    pool = world.Conductor(agents)
    first, second = two(pool)
    assert state_of(pool, first, second) == [states.READY, states.PREPARING]
    for _ in range(12):
        pool.report("b", "c")
        pool.tick(2.0)
    assert state_of(pool, first, second) == [states.QUEUED, states.QUEUED]
    assert not pool.memory.holds


def test_a_holder_that_is_cancelled_makes_room(pool):
    first, second = two(pool)
    pool.cancel(first)
    pool.deliver_all()
    pool.report("a")
    assert state_of(pool, first, second) == [states.CANCELLED, states.READY]
    (hold,) = pool.memory.holds.values()
    assert hold.phase is model.Phase.READY


def test_an_order_that_comes_too_late_does_not_keep_the_slot(pool):
    """A holder that is older than what its agent has seen can be released."""
    request_id = pool.open(secret_sha256=HASH)
    (late,) = pool.sent(effects.AssignSlot)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.prepared(0)
    pool.report("a")
    agent.restart(workers_too=True)
    pool.report("a")
    (newer,) = pool.sent(effects.AssignSlot)
    agent.assign(late.request)
    pool.deliver_all()
    assert agent.slots[0].generation == late.request.generation
    pool.cancel(request_id)
    pool.deliver_all()
    assert agent.slots[0].seen_generation == newer.request.generation
    pool.settle()
    assert agent.slots[0].state == states.SLOT_IDLE
    assert not pool.memory.holds


# Chance.


def test_random_histories_end_with_an_idle_pool():
    assert sum(orders_that_waited(seed) for seed in range(20)) > 40


def orders_that_waited(seed: int) -> int:
    """Lost and doubled messages, new leaders, restarts of agents, while
    holders and their successors are cancelled.
    """
    rng = random.Random(seed)
    pool = test_offers.make_pool(slots=rng.randint(1, 2), fault_limit=999)
    agent, seen = pool.agents["a"], 0
    for _ in range(100):
        live = [
            row.request_id
            for row in pool.rows["sessions"].values()
            if row.state in states.LIVE
        ]
        number = rng.randrange(len(agent.slots))
        match rng.randrange(12):
            case 0 | 1 | 2 | 3 if len(live) < 5:
                door = rng.choice(("a", "b", None))
                own = {"secret_sha256": HASH} if door else {"secret": SECRET}
                pool.open(door, **own)
            case 4 | 5 if live:
                pool.cancel(rng.choice(live))
            case 6 if rng.random() < 0.3:
                pool.boot_conductor()
            case 7 if rng.random() < 0.3:
                agent.restart(workers_too=rng.random() < 0.5)
            case 8 | 9 if agent.slots[number].session_id is not None:
                agent.end(number, *rng.choice(_ENDS), pool.now)
            case 10 if number in agent.next:
                agent.give_back(number)
            case _:
                pool.tick(rng.choice((0.0, 0.1, 1.0, 5.0)))
        for _ in range(rng.randrange(4)):
            if not pool.wire:
                break
            message = pool.wire.pop(rng.randrange(len(pool.wire)))
            for _ in range(rng.choice((0, 1, 1, 1, 2))):
                pool.deliver(message)
            if rng.random() < 0.1:
                pool.wire.append(message)
        answer = agent.prepared(number) if rng.random() < 0.7 else None
        if answer and rng.random() < 0.7:
            pool.feed(answer)
        if answer and rng.random() < 0.5:
            agent.slots[number].state = states.SLOT_ACTIVE
        if rng.random() < 0.5:
            pool.report("a")
        seen += bool(agent.next)
    for row in list(pool.rows["sessions"].values()):
        if row.state in states.LIVE:
            pool.cancel(row.request_id)
    for _ in range(2):
        pool.settle()
    assert not pool.memory.holds
    assert not pool.rows["assignments"]
    assert not agent.next
    assert {slot.state for slot in agent.slots} == {states.SLOT_IDLE}
    return seen
