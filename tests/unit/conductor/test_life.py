# SPDX-License-Identifier: Apache-2.0

"""The life of a session, from the request to the end."""

from fpgapool.conductor.decisions import effects
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def test_a_session_gets_a_slot_and_its_secret_goes_to_its_front_door(pool):
    request_id = steps.open_until_ready(pool, "b")
    view = pool.agents["b"].views[request_id]
    assert view.state == states.READY
    assert view.secret == "5ec7e7"
    assert view.endpoints[0].port == 4000
    assert (view.slot_host_uuid, view.device, view.slot) == ("a", "board0", 0)
    assert view.local is False
    assert view.generation == 1 << 32
    assert request_id not in pool.agents["a"].views


def test_ready_is_told_only_after_its_rows_are_durable(pool):
    pool.open()
    assign = pool.wire.pop(0)
    assert isinstance(assign, effects.AssignSlot)
    pool.deliver(assign)
    answer = pool.agents["a"].prepared(0)
    wanted = pool.engine.process((answer,), pool.now)
    assert not wanted.at_once
    (news,) = wanted.after_commit
    assert news.view.state == states.READY
    assert wanted.changes.rows(db_api.SessionRecord)[0].state == states.READY


def test_the_secret_is_forgotten_once_the_client_is_connected(pool):
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
    assert pool.view(request_id).state == states.ACTIVE
    assert pool.view(request_id).secret == ""
    assert "5ec7e7" not in repr(pool.memory.holds)


def test_a_result_ends_the_session_and_frees_the_slot(single):
    first = steps.open_until_ready(single)
    second = single.open()
    steps.activate(single)
    single.end(states.CLOSED, codes.OK)
    assert single.view(first).state == states.CLOSED
    assert single.view(second).state == states.PREPARING


def test_a_lost_preparation_order_is_sent_again(single):
    request_id = single.open()
    single.wire.clear()
    single.now += 1
    single.report("a")
    assert not single.wire, "the order may still be on its way"
    single.now += 2
    single.report("a")
    single.deliver_all()
    steps.ready_up(single)
    assert single.view(request_id).state == states.READY


def test_lost_word_of_readiness_gets_a_new_secret(single):
    request_id = single.open()
    single.deliver_all()
    agent = single.agents["a"]
    assert agent.prepared(0) is not None  # and it is lost
    single.now += 3
    single.feed(agent.report())
    single.deliver_all()
    assert agent.views[request_id].secret == "5ec7e7"


def test_missed_phases_are_caught_up_from_one_report(single):
    request_id = single.open()
    single.deliver_all()
    agent = single.agents["a"]
    agent.slots[0].state = states.SLOT_DETACHED
    single.feed(agent.report())
    assert single.view(request_id).state == states.DETACHED
    agent.slots[0].state = states.SLOT_ACTIVE
    single.feed(agent.report())
    assert single.view(request_id).state == states.ACTIVE


def test_late_and_doubled_reports_change_nothing(single):
    request_id = steps.open_until_ready(single)
    agent = single.agents["a"]
    ready = agent.report()
    steps.activate(single)
    single.feed(ready)
    single.feed(ready)
    assert single.view(request_id).state == states.ACTIVE
    agent.restart()
    single.feed(agent.report())
    single.feed(ready)
    assert single.view(request_id).state == states.ACTIVE


def test_a_report_that_was_overtaken_by_news_of_a_slot_harms_nobody(single):
    """It shows the slot idle: the order came to the agent after it."""
    agent = single.agents["a"]
    late = agent.report()
    request_id = single.open()
    single.deliver_all()
    single.feed(agent.prepared(0))
    single.feed(late)
    assert single.view(request_id).state == states.READY
    # The next one is believed again.
    agent.restart(workers_too=True)
    single.feed(agent.report())
    # The slot that was lost is given to it anew.
    assert single.view(request_id).state == states.PREPARING


def test_a_report_after_the_news_that_a_slot_is_ready_counts(single):
    agent = single.agents["a"]
    request_id = single.open()
    single.deliver_all()
    single.feed(agent.prepared(0))
    agent.slots[0] = world.Slot()
    single.feed(agent.report())
    # The slot that was lost is given to it anew.
    assert single.view(request_id).state == states.PREPARING


def test_who_waits_hears_for_how_long(single):
    """One slot, given from one to the next seven times."""
    opened = [single.open() for _ in range(10)]
    assert single.view(opened[-1]).expected_wait_s is None
    for _ in range(7):
        single.settle()
        steps.activate(single)
        single.now += 2
        single.end(states.CLOSED, codes.OK)
    first, second = (single.view(r) for r in opened[8:])
    assert first.expected_wait_s < second.expected_wait_s
    for view in (first, second):
        assert view.expected_wait_low_s < view.expected_wait_s
        assert view.expected_wait_s < view.expected_wait_high_s
