# SPDX-License-Identifier: Apache-2.0

"""How long sessions wait, and clients that are not told of their slot."""

import pytest

from fpgapool.conductor.decisions.requests import sessions
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps


def test_waiting_too_long_expires(single):
    single.open()
    request_id = single.open(wait_timeout_s=5.0)
    single.now += 4.9
    single.feed()
    assert single.view(request_id).state == states.QUEUED
    assert single.memory.link.wake_at <= single.now + 0.2
    single.now += 0.2
    single.feed()
    assert single.view(request_id).state == states.EXPIRED
    assert single.view(request_id).reason == codes.WAIT_TIMEOUT


@pytest.mark.parametrize("jumps_s", [(7200.0,), (-600.0,), (7200.0, -7200.0)])
def test_no_clock_that_was_set_makes_a_wait_shorter_or_longer(single, jumps_s):
    """The next leader, and the one after it, go by other clocks."""
    steps.open_until_ready(single)
    waiters = [single.open(wait_timeout_s=60.0) for _ in range(6)]
    queued_at = single.now
    for jump_s in jumps_s:
        single.now += 50.0 / len(jumps_s)
        single.boot_conductor(jump_s)
        single.report("a")
    assert {single.view(one).state for one in waiters} == {states.QUEUED}
    single.now += 9.9
    single.feed()
    assert {single.view(one).state for one in waiters} == {states.QUEUED}
    assert {single.view(one).queued_at for one in waiters} == {queued_at}
    single.now += 0.2
    single.feed()
    for one in waiters:
        view = single.view(one)
        assert (view.state, view.reason) == (
            states.EXPIRED,
            codes.WAIT_TIMEOUT,
        )


def test_a_session_that_waits_again_has_its_patience_by_any_clock(single):
    """Its client was never told of the slot that it had."""
    single.open(wait_timeout_s=60.0)
    single.deliver_all()
    single.now += 40.0
    single.boot_conductor(7200.0)
    single.report("a")
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    (row,) = single.rows["sessions"].values()
    patience_s = single.settings.wait_timeout_s
    assert row.wait_timeout_s == pytest.approx(40.0 + patience_s)


def test_a_project_does_not_pay_for_a_clock_that_was_set(single):
    steps.open_until_ready(single)
    single.now += 5.0
    single.boot_conductor(7200.0)
    single.report("a")
    single.now += 5.0
    single.end(states.CLOSED, codes.OK)
    (row,) = single.rows["usage"].values()
    assert row.slot_s == pytest.approx(10.0)


def test_a_client_that_was_not_told_of_its_slot_keeps_its_place(single):
    request_id = single.open()
    single.deliver_all()
    generation = single.view(request_id).generation
    # The bus is away while the slot is ready and waits for the client.
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    view = single.view(request_id)
    assert view.state == states.PREPARING
    assert view.generation > generation
    assert view.queued_at == 1000.0
    single.deliver_all()
    steps.ready_up(single)
    assert single.view(request_id).state == states.READY


def test_a_client_that_was_told_and_does_not_come_has_lost_its_slot(single):
    request_id = steps.open_until_ready(single)
    for _ in range(15):
        single.tick(2.0)
        single.report("a")
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    view = single.view(request_id)
    assert (view.state, view.reason) == (
        states.EXPIRED,
        codes.CONNECT_TIMEOUT,
    )


@pytest.mark.parametrize("told_again", [False, True])
def test_a_session_whose_leader_died_before_it_told_waits_again(
    single, told_again
):
    """Its slot's time to connect went by, or nearly, without a leader."""
    request_id = steps.open_until_ready(single)
    single.now += 25.0
    single.boot_conductor()
    if told_again:
        agent = single.agents["a"]
        single.feed(agent.report(), agent.prepared(0))
        view = single.view(request_id)
        assert single.ask.session(view.session_id, "p").secret
        single.now += 5.0
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    assert single.view(request_id).state == states.PREPARING
    assert single.view(request_id).queued_at == 1000.0


def test_a_client_that_is_told_when_the_database_is_back_is_told_late(single):
    """That its slot is ready was not said before it was recorded."""
    request_id = single.open()
    single.deliver_all()
    single.memory.outages.database_failing = True
    single.feed(single.agents["a"].prepared(0))
    single.tick(25.0)
    single.memory.outages.database_failing = False
    single.tick(5.0)
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    assert single.view(request_id).state == states.PREPARING


def test_a_client_that_is_told_by_a_leader_that_stood_still_is_told_late(
    single,
):
    request_id = single.open()
    single.deliver_all()
    single.feed(single.agents["a"].prepared(0))
    single.tick()
    single.tick(25.0)
    single.tick(5.0)
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    assert single.view(request_id).state == states.PREPARING


def test_two_leaders_that_die_before_they_tell_cost_no_session(single):
    request_id = steps.open_until_ready(single)
    for _ in range(2):
        single.now += 14.0
        single.boot_conductor()
    agent = single.agents["a"]
    agent.end(0, states.EXPIRED, codes.CONNECT_TIMEOUT, single.now)
    single.feed(agent.report())
    assert single.view(request_id).state == states.PREPARING


def test_a_client_that_is_never_told_does_not_get_slots_for_ever(single):
    request_id = single.open()
    generations = set()
    while single.view(request_id).state == states.PREPARING:
        generations.add(single.view(request_id).generation)
        assert len(generations) < 9
        single.deliver_all()
        # Word that the slot is ready gets lost each time.
        single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    view = single.view(request_id)
    assert (view.state, view.reason) == (
        states.EXPIRED,
        codes.CONNECT_TIMEOUT,
    )
    assert len(generations) == sessions.MAX_FAILED_SLOTS
