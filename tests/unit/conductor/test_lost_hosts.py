# SPDX-License-Identifier: Apache-2.0

"""Hosts that fall silent, and workers that vanish."""

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def three_hosts() -> world.Conductor:
    return world.Conductor([world.FakeAgent(name, 1) for name in "abc"])


def test_a_lost_host_requeues_what_has_not_started():
    pool = three_hosts()
    ready, active = pool.open(), pool.open()
    pool.deliver_all()
    steps.ready_up(pool)
    slots = {pool.view(r).slot_host_uuid: r for r in (ready, active)}
    lost = pool.view(ready).slot_host_uuid
    kept = pool.view(active).slot_host_uuid
    pool.agents[kept].slots[0].state = states.SLOT_ACTIVE
    assert len(slots) == 2
    before = pool.view(ready).generation
    for _ in range(5):
        pool.feed(*(a.report() for u, a in pool.agents.items() if u != lost))
        pool.tick(5.0)
    view = pool.view(ready)
    assert view.slot_host_uuid not in (lost, kept)
    assert view.generation > before
    assert pool.view(active).state == states.ACTIVE


@pytest.mark.parametrize("free", [True, False])
def test_a_session_that_a_lost_host_served_to_its_end_has_ended(free):
    """Its client had come just before the host fell silent."""
    pool = three_hosts()
    request_id = steps.open_until_ready(pool)
    lost = pool.view(request_id).slot_host_uuid
    alive = [a for u, a in pool.agents.items() if u != lost]
    if not free:
        for _ in range(2):
            steps.open_until_ready(pool)
        for agent in alive:
            agent.slots[0].state = states.SLOT_ACTIVE
    for _ in range(5):
        pool.feed(*(agent.report() for agent in alive))
        pool.tick(5.0)
    # Nothing reaches the silent one.
    pool.wire = [
        one for one in pool.wire if getattr(one, "host_uuid", "") != lost
    ]
    pool.deliver_all()
    for agent in alive:
        answer = agent.prepared(0)
        if answer is not None:
            pool.feed(answer)
    state = states.READY if free else states.QUEUED
    assert pool.view(request_id).state == state
    agent = pool.agents[lost]
    agent.end(0, states.CLOSED, codes.OK, pool.now)
    for _ in range(2):
        pool.feed(agent.report())
    view = pool.view(request_id)
    assert (view.state, view.reason) == (states.CLOSED, codes.OK)
    pool.settle()
    pool.report()
    assert pool.view(request_id).state == states.CLOSED
    assert pool.memory.holds == {} if free else len(pool.memory.holds) == 2
    assert len(pool.state.assignments()) == len(pool.memory.holds)


def test_a_lost_host_keeps_its_active_session_until_it_is_given_up():
    pool = three_hosts()
    request_id = steps.open_until_ready(pool)
    lost = pool.view(request_id).slot_host_uuid
    pool.agents[lost].slots[0].state = states.SLOT_ACTIVE
    pool.feed(pool.agents[lost].report())
    alive = [a for u, a in pool.agents.items() if u != lost]
    for _ in range(20):
        pool.feed(*(a.report() for a in alive))
        pool.tick(5.0)
    assert not pool.memory.registry.hosts[lost].up
    assert pool.view(request_id).state == states.ACTIVE
    pool.feed(pool.agents[lost].report())
    assert pool.view(request_id).state == states.ACTIVE
    for _ in range(140):
        pool.feed(*(a.report() for a in alive))
        pool.tick(5.0)
    assert pool.view(request_id).state == states.LOST
    assert pool.view(request_id).reason == codes.HOST_LOST


def test_more_than_half_of_all_hosts_silent_means_an_ill_bus():
    pool = three_hosts()
    request_id = steps.open_until_ready(pool)
    generation = pool.view(request_id).generation
    for _ in range(10):
        pool.report("c")
        pool.tick(10.0)
    assert pool.view(request_id).generation == generation
    assert all(host.up for host in pool.memory.registry.hosts.values())


def test_a_silent_host_is_asked_before_it_is_given_up():
    pool = three_hosts()
    request_id = steps.open_until_ready(pool)
    silent = pool.view(request_id).slot_host_uuid
    alive = [a for u, a in pool.agents.items() if u != silent]
    pool.wire.clear()
    for _ in range(4):
        pool.feed(*(a.report() for a in alive))
        pool.tick(5.0)
    assert pool.wire == [effects.AskReport(silent)]
    pool.feed(pool.agents[silent].report())
    # From here on it has its full time again, and is asked again.
    for _ in range(4):
        pool.feed(*(a.report() for a in alive))
        pool.tick(5.0)
    assert pool.memory.registry.hosts[silent].up
    assert pool.wire == [effects.AskReport(silent)] * 2
    pool.feed(*(a.report() for a in alive))
    pool.tick(5.0)
    assert not pool.memory.registry.hosts[silent].up


def test_hosts_have_time_to_find_back_to_a_bus_that_was_ill():
    pool = three_hosts()
    for _ in range(10):
        pool.tick(5.0)
    for _ in range(3):
        pool.feed(*(pool.agents[name].report() for name in "ab"))
        pool.tick(5.0)
    assert pool.memory.registry.hosts["c"].up
    for _ in range(2):
        pool.feed(*(pool.agents[name].report() for name in "ab"))
        pool.tick(5.0)
    assert not pool.memory.registry.hosts["c"].up


def test_a_conductor_that_stood_still_first_listens():
    pool = three_hosts()
    pool.tick(1.0)
    pool.now += 1000.0
    pool.feed(*(pool.agents[name].report() for name in "ab"))
    for _ in range(3):
        pool.tick(5.0)
        assert pool.memory.registry.hosts["c"].up
        pool.feed(*(pool.agents[name].report() for name in "ab"))
    pool.report("c")
    pool.tick(5.0)
    assert pool.memory.registry.hosts["c"].up


def test_a_preparation_is_not_late_while_its_host_cannot_be_heard():
    pool = three_hosts()
    request_id = pool.open()
    pool.deliver_all()
    before = pool.view(request_id)
    for _ in range(20):
        pool.tick(5.0)
    assert pool.view(request_id) == before
    agent = pool.agents[before.slot_host_uuid]
    agent.slots[before.slot].state = states.SLOT_READY
    pool.feed(*(one.report() for one in pool.agents.values()))
    # Its secret is still on the way.
    pool.tick()
    assert pool.view(request_id).generation == before.generation
    pool.settle()
    view = pool.view(request_id)
    assert (view.state, view.generation) == (states.READY, before.generation)


def test_strays_are_released_and_their_slot_is_not_used_meanwhile(single):
    agent = single.agents["a"]
    agent.slots[0].state = states.SLOT_ACTIVE
    agent.slots[0].generation = agent.slots[0].seen_generation = 7
    agent.slots[0].session_id = "unknown"
    single.feed(agent.report())
    request_id = single.open()
    assert single.view(request_id).state == states.QUEUED
    single.settle()
    assert single.view(request_id).state == states.READY


def test_a_vanished_worker_fails_its_connected_session(single):
    request_id = steps.open_until_ready(single)
    steps.activate(single)
    agent = single.agents["a"]
    agent.restart(workers_too=True)
    single.feed(agent.report())
    assert single.view(request_id).state == states.FAILED
    assert single.view(request_id).reason == codes.WORKER_LOST


def test_a_vanished_worker_costs_an_unconnected_session_nothing(single):
    request_id = steps.open_until_ready(single)
    agent = single.agents["a"]
    agent.restart(workers_too=True)
    single.feed(agent.report())
    single.settle()
    assert single.view(request_id).state == states.READY
