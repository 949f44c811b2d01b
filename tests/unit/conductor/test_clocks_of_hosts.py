# SPDX-License-Identifier: Apache-2.0

"""Hosts whose clocks are wrong, and agents that share a UUID."""

import logging

import pytest

from fpgapool import objects
from fpgapool.vocabulary import states
from tests.unit.conductor import steps


def _say_time(pool, agent, sent_at):
    """Have an agent report that it is some time, and a second pass."""
    agent.sent_at = sent_at
    pool.feed(agent.report())
    pool.tick(1)


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_a_host_whose_clock_is_wrong_is_understood(single, ahead_s, caplog):
    caplog.set_level(logging.INFO)
    agent = single.agents["a"]
    there = single.now + ahead_s
    agent.sent_at = there - 1
    for _ in range(12):
        there = single.now + ahead_s
        _say_time(single, agent, there - 1)
    assert caplog.text.count("The clock of host a is 3") == 1
    host = single.memory.registry.hosts["a"]
    # It was a second on its way, which nobody can know.
    assert host.our_time(single.now + ahead_s) == pytest.approx(
        single.now, abs=1.1
    )
    # Who reports for the first time says nothing of before.
    agent.boots += 1
    for _ in range(12):
        _say_time(single, agent, single.now)
    assert "The clock of host a is correct again" in caplog.text


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_an_older_agent_is_not_reckoned_with_as_the_one_before(
    single, ahead_s
):
    """It tells no time, so its clock is taken for a right one."""
    agent = single.agents["a"]
    agent.sent_at = single.now + ahead_s
    single.feed(agent.report())
    agent.boots += 1
    agent.sent_at = None
    single.feed(agent.report())
    assert single.memory.registry.hosts["a"].our_time(5.0) == 5.0


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_when_a_session_began_is_told_by_one_clock(single, ahead_s):
    agent = single.agents["a"]
    request_id = single.open()
    single.deliver_all()
    steps.ready_up(single)
    single.now += 30
    agent.sent_at = single.now + ahead_s
    slot = agent.slots[0]
    slot.state = states.SLOT_IDLE
    slot.last_result = objects.SessionResult(
        session_id=slot.session_id,
        generation=slot.generation,
        state=states.CLOSED,
        code="",
        message="",
        input_bytes=1,
        output_bytes=1,
        started_at=agent.sent_at - 10,
        finished_at=agent.sent_at,
    )
    slot.session_id = slot.generation = None
    single.feed(agent.report())
    view = single.view(request_id)
    assert view.state == states.CLOSED
    assert view.started_at == view.finished_at - 10


def test_two_agents_with_one_uuid_are_named(single, caplog):
    agent, now = single.agents["a"], single.now
    for one in steps.reports(agent, now - 99, "node1", now):
        single.feed(one)
    for one in steps.reports(agent, now - 50, "node2", now + 1):
        single.feed(one)
    assert "host_uuid" not in caplog.text
    for one in steps.reports(
        agent, now - 99, "node1", now + 2, now + 7, now + 12
    ):
        single.feed(one)
    (line,) = (one for one in caplog.messages if "host_uuid" in one)
    assert "node1" in line
    assert "node2" in line
    assert "host a: " in line


def test_an_agent_that_was_started_anew_is_no_second_one(single, caplog):
    agent, now = single.agents["a"], single.now
    for one in steps.reports(agent, now - 99, "node1", now):
        single.feed(one)
    for one in steps.reports(agent, now + 10, "node1", now + 11):
        single.feed(one)
    # On their way for long.
    for one in steps.reports(agent, now - 99, "node1", *[now + 9] * 20):
        single.feed(one)
    assert "host_uuid" not in caplog.text


def test_a_conductor_that_stood_still_takes_no_clock_for_wrong(single, caplog):
    """It reads at once what was said meanwhile."""
    caplog.set_level(logging.INFO)
    agent = single.agents["a"]
    single.now += 60
    for age_s in range(60, 0, -5):
        agent.sent_at = single.now - age_s
        single.feed(agent.report())
    for _ in range(20):
        _say_time(single, agent, single.now)
    assert "The clock of" not in caplog.text


def test_a_host_that_is_not_heard_again_has_no_wrong_clock(single, caplog):
    """What was read late, all at once, was its last word."""
    caplog.set_level(logging.INFO)
    agent = single.agents["a"]
    single.now += 60
    for age_s in range(60, 40, -5):
        agent.sent_at = single.now - age_s
        single.feed(agent.report())
    for _ in range(20):
        single.tick(1.0)
    assert "The clock of" not in caplog.text


def test_a_slow_bus_makes_no_clock_wrong(single):
    """One report that was fast is enough to know."""
    agent = single.agents["a"]
    agent.sent_at = single.now - 0.1
    single.feed(agent.report())
    agent.sent_at = single.now - 60
    single.feed(agent.report())
    host = single.memory.registry.hosts["a"]
    assert host.our_time(5.0) == pytest.approx(5.0, abs=0.2)
