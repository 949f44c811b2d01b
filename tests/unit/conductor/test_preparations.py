# SPDX-License-Identifier: Apache-2.0

"""Preparations that fail or hang."""

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states


def test_a_failed_preparation_requeues_at_the_old_place(pool):
    request_id = pool.open()
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, codes.PROGRAM_FAILED)
    view = pool.view(request_id)
    assert (view.state, view.slot) == (states.PREPARING, 1)
    assert view.queued_at == 1000.0


def test_a_slot_that_keeps_failing_is_taken_out_and_stays_out(single):
    failed, request_id = single.open(), single.open()
    agent = single.agents["a"]
    for _ in range(3):
        single.deliver_all()
        agent.end(0, states.PREPARE_FAILED, codes.PROGRAM_FAILED, single.now)
        # Its worker dies of it each time.
        agent.slots[0].state = states.SLOT_STARTING
        single.feed(agent.report())
        agent.slots[0].state = states.SLOT_IDLE
        single.feed(agent.report())
    assert single.view(failed).state == states.FAILED
    assert single.view(request_id).state == states.QUEUED
    (row,) = single.rows["slots"].values()
    assert row.faulty
    single.boot_conductor()
    single.settle()
    assert single.view(request_id).state == states.QUEUED


def test_preparation_that_hangs_goes_elsewhere(pool):
    request_id = pool.open()
    pool.deliver_all()
    pool.now += 30
    pool.report()
    assert pool.view(request_id).slot == 0
    pool.now += 31
    pool.report()
    pool.tick()
    view = pool.view(request_id)
    assert (view.state, view.slot) == (states.PREPARING, 1)
    released = pool.sent(effects.ReleaseSlot)
    assert released[0].reason == codes.PREPARE_TIMEOUT


def test_a_new_leader_waits_to_hear_how_preparations_went(pool):
    request_id = pool.open()
    pool.deliver_all()
    before = pool.view(request_id)
    pool.now += 61
    pool.boot_conductor()
    pool.tick()
    assert pool.view(request_id) == before
    assert not pool.sent(effects.ReleaseSlot)
    pool.report()
    pool.tick()
    view = pool.view(request_id)
    assert (view.state, view.slot) == (states.PREPARING, 1)


@pytest.mark.parametrize("code", [codes.PREPARE_TIMEOUT, codes.SUPERSEDED])
def test_a_slot_that_an_unrecorded_leader_gave_up_is_replaced(pool, code):
    request_id = pool.open()
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.end(0, states.CANCELLED, code, pool.now)
    pool.boot_conductor()
    pool.feed(*(each.report() for each in pool.agents.values()))
    view = pool.view(request_id)
    assert (view.state, view.slot) == (states.PREPARING, 1)


def test_a_clock_that_was_set_makes_no_preparation_too_long(pool):
    request_id = pool.open()
    pool.deliver_all()
    pool.now += 30
    pool.boot_conductor(7200.0)
    pool.report()
    pool.tick()
    assert pool.view(request_id).slot == 0
    pool.now += 31
    pool.report()
    pool.tick()
    assert pool.view(request_id).slot == 1
