# SPDX-License-Identifier: Apache-2.0

"""The engine's decisions, one rule a test."""

import concurrent.futures
import dataclasses
import logging
import math

import pytest

from fpgapool import objects
from fpgapool import strategies
from fpgapool.conductor.decisions import admission
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import sessions
from fpgapool.db import api as db_api
from fpgapool.strategies import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Host a with two slots, host b without a board."""
    return world.Conductor(
        [world.FakeAgent("a", 2), world.FakeAgent("b", 0, board=False)]
    )


@pytest.fixture
def single() -> world.Conductor:
    """Host a with one slot."""
    return world.Conductor([world.FakeAgent("a", 1)])


def open_until_ready(pool: world.Conductor, host: str = "a") -> str:
    request_id = pool.open(host)
    pool.deliver_all()
    ready_up(pool)
    return request_id


def ready_up(pool: world.Conductor) -> None:
    for agent in pool.agents.values():
        for number, slot in enumerate(agent.slots):
            if slot.state == states.SLOT_PREPARING:
                answer = agent.prepared(number)
                assert answer is not None
                pool.feed(answer)
    pool.deliver_all()


def activate(pool: world.Conductor, number: int = 0) -> None:
    agent = pool.agents["a"]
    agent.slots[number].state = states.SLOT_ACTIVE
    pool.feed(agent.report())


def test_a_session_gets_a_slot_and_its_secret_goes_to_its_front_door(pool):
    request_id = open_until_ready(pool, "b")
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
    request_id = open_until_ready(pool)
    activate(pool)
    assert pool.view(request_id).state == states.ACTIVE
    assert pool.view(request_id).secret == ""
    assert "5ec7e7" not in repr(pool.memory.holds)


def test_a_result_ends_the_session_and_frees_the_slot(single):
    first = open_until_ready(single)
    second = single.open()
    activate(single)
    single.end(states.CLOSED, codes.OK)
    assert single.view(first).state == states.CLOSED
    assert single.view(second).state == states.PREPARING


def test_a_lost_preparation_order_is_sent_again(single):
    request_id = single.open()
    single.wire.clear()
    single.now += 1
    single.feed(single.agents["a"].report())
    assert not single.wire, "the order may still be on its way"
    single.now += 2
    single.feed(single.agents["a"].report())
    single.deliver_all()
    ready_up(single)
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
    request_id = open_until_ready(single)
    agent = single.agents["a"]
    ready = agent.report()
    activate(single)
    single.feed(ready)
    single.feed(ready)
    assert single.view(request_id).state == states.ACTIVE
    agent.restart()
    single.feed(agent.report())
    single.feed(ready)
    assert single.view(request_id).state == states.ACTIVE


def test_a_repeated_request_opens_once(single):
    request_id = single.open()
    session_id = single.view(request_id).session_id
    single.open(request_id=request_id)
    assert single.view(request_id).session_id == session_id
    assert len(single.rows["sessions"]) == 1


def test_a_repeat_after_the_end_learns_the_end(single):
    request_id = single.open()
    single.cancel(request_id)
    single.wire.clear()
    single.open(request_id=request_id)
    (news,) = single.wire
    assert news.view.state == states.CANCELLED


def _news_of(pool):
    return [
        message.view
        for message in pool.wire
        if isinstance(message, effects.PublishSession)
    ]


def test_a_repeat_after_a_restart_learns_the_end(single):
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    (row,) = single.rows["sessions"].values()
    single.boot_conductor()
    single.settle()
    single.open(request_id=request_id)
    # Only the database remembers, and it takes its time.
    assert _news_of(single) == []
    single.tell_unrecorded()
    (news,) = _news_of(single)
    assert news.session_id == row.session_id
    assert news.state == states.CANCELLED
    assert list(single.rows["sessions"].values()) == [row]
    single.settle()
    assert not single.memory.holds


def test_a_name_of_long_ago_cannot_be_used_for_something_else(single):
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    single.boot_conductor()
    single.settle()
    single.open(request_id=request_id, claimed_bytes=5)
    single.tell_unrecorded()
    (news,) = _news_of(single)
    assert news.reason == codes.REQUEST_ID_REUSED
    single.settle()
    assert not single.memory.holds


def _outcome(
    pool: world.Conductor,
    request_id: str,
    *,
    awaited_until: float = math.inf,
    host_uuid: str | None = None,
    **changes: object,
) -> list[objects.SessionView]:
    """Ask for a session, and return what is answered; nothing so far: []."""
    request = world.request(
        request_id=request_id, host_uuid=host_uuid, **changes
    )
    pool.wire.clear()
    pool.feed(world.opening(request, awaited_until))
    return _news_of(pool)


def test_without_a_front_door_the_answer_is_all_that_is_told(single):
    (view,) = _outcome(single, "first")
    assert (view.state, view.secret) == (states.PREPARING, "")
    single.deliver_all()
    ready_up(single)
    # Who asks for the project gets the secret, now and later.
    assert _news_of(single) == []
    for _ in range(2):
        (again,) = _outcome(single, "first")
        assert (again.state, again.secret) == (states.READY, "")
        asked = single.ask.session(again.session_id, again.project_id)
        assert asked == dataclasses.replace(again, secret="5ec7e7")
        for project_id in ("", "other"):
            assert single.ask.session(again.session_id, project_id) == again
        single.settle()
    (refused,) = _outcome(single, "second", claimed_bytes=0)
    assert refused.reason == codes.INVALID_SIZE
    assert refused.message
    (reused,) = _outcome(single, "first", claimed_bytes=5)
    assert reused.reason == codes.REQUEST_ID_REUSED
    assert _outcome(single, "third", awaited_until=single.now - 1) == []


def test_who_repeats_at_the_same_front_door_gets_the_secret(single):
    """The answer may have been lost."""
    request_id = open_until_ready(single)
    (view,) = _outcome(single, request_id, host_uuid="a")
    assert (view.state, view.secret) == (states.READY, "5ec7e7")


#: A value of each option that is not what the pool takes without it.
_OTHERS = {
    "priority": 7,
    "wait_timeout_s": 900.0,
    "connect_timeout_s": 9.0,
    "resume_grace_s": 9.0,
    "deadline_s": 900.0,
    "deadline_action": states.KILL,
    "application": "other",
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    "option", description.FIELDS.options, ids=lambda one: one.name
)
def test_a_repeated_request_has_the_same_options(single, option, restarted):
    name, other = option.name, {option.name: _OTHERS[option.name]}
    plain, special = single.open(), single.open(**other)
    if restarted:
        single.settle()
        single.boot_conductor()
    kept = single.memory.sessions.by_request["p", special]
    before = getattr(kept, name)

    def is_refused(request_id, **options):
        single.settle()
        return any(
            news.reason == codes.REQUEST_ID_REUSED
            for news in _outcome(single, request_id, host_uuid="a", **options)
        )

    assert not is_refused(plain)
    assert not is_refused(special, **other)
    assert is_refused(plain, **other) is not option.limits_only, name
    assert is_refused(special) is not option.limits_only, name
    assert getattr(kept, name) == before


def test_a_request_whose_session_has_yielded_may_be_repeated(single):
    request_id = single.open()
    session = single.memory.sessions.by_request["p", request_id]
    session.former_input_bytes, session.claimed_bytes = 900, 1800
    assert not any(
        news.reason == codes.REQUEST_ID_REUSED
        for news in _outcome(single, request_id, host_uuid="a")
    )


@pytest.mark.parametrize("host_uuid", [None, "a"])
def test_what_answers_a_name_of_long_ago_is_known_after_the_commit(
    single, host_uuid
):
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    single.boot_conductor()
    single.settle()
    for changes, expected in (
        ({}, (states.CANCELLED, codes.CANCELLED_BY_CLIENT)),
        ({"claimed_bytes": 5}, (states.REJECTED, codes.REQUEST_ID_REUSED)),
    ):
        # Only the database remembers, and it takes its time.
        news = _outcome(single, request_id, host_uuid=host_uuid, **changes)
        assert news == []
        single.tell_unrecorded()
        (news,) = _news_of(single)
        assert (news.state, news.reason) == expected
        single.settle()
    assert not single.memory.holds


def test_what_cannot_be_recorded_is_taken_back(single):
    single.database_away = True
    served, waiting = single.open(), single.open()
    assert len(single.memory.holds) == single.ask.queued_count == 1
    single.tell_unrecorded()
    refused = {news.request_id: news.reason for news in _news_of(single)}
    assert refused == dict.fromkeys(
        (served, waiting), codes.DATABASE_UNAVAILABLE
    )
    single.settle()
    assert not single.rows["sessions"]
    assert not single.memory.holds
    assert single.ask.queued_count == 0
    single.open(request_id=served)
    assert single.view(served).state == states.PREPARING


def test_what_ended_before_its_name_was_refused_gets_no_row(single):
    """Its slot is free only later; the row would be one of that name, too."""
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    single.boot_conductor()
    single.settle()
    before = dict(single.rows["sessions"])
    single.open(request_id=request_id, claimed_bytes=5)
    single.deliver_all()
    single.cancel(request_id)
    single.tell_unrecorded()
    assert single.memory.holds
    single.end(states.CANCELLED, codes.CANCELLED_BY_CLIENT)
    single.settle()
    assert not single.memory.holds
    assert single.rows["sessions"] == before
    assert not single.rows["assignments"]


def test_what_ended_before_it_was_recorded_stays_ended(single):
    single.database_away = True
    request_id = single.open()
    single.cancel(request_id)
    single.tell_unrecorded()
    single.settle()
    assert single.view_or_none(request_id) is None
    assert not single.memory.holds


def test_a_request_id_cannot_be_used_for_something_else(single):
    request_id = single.open()
    single.wire.clear()
    single.open(request_id=request_id, claimed_bytes=5)
    (news,) = single.wire
    assert news.view.reason == codes.REQUEST_ID_REUSED
    assert news.view.session_id == ""
    assert single.view(request_id).claimed_bytes == 1000


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"accelerator": "warp"}, codes.UNKNOWN_ACCELERATOR),
        ({"claimed_bytes": 0}, codes.INVALID_SIZE),
        ({"claimed_bytes": -1}, codes.INVALID_SIZE),
        ({"claimed_bytes": 2**70}, codes.SIZE_TOO_LARGE),
        ({"host_uuid": "nowhere"}, codes.UNKNOWN_HOST),
        ({"request_id": "a b"}, codes.INVALID_REQUEST_ID),
        ({"request_id": ""}, codes.INVALID_REQUEST_ID),
        ({"request_id": "x" * 65}, codes.INVALID_REQUEST_ID),
        ({"wait_timeout_s": 0.0}, codes.INVALID_TIMEOUT),
        ({"connect_timeout_s": -1.0}, codes.INVALID_TIMEOUT),
        ({"resume_grace_s": -1.0}, codes.INVALID_TIMEOUT),
        ({"priority": 1001}, codes.INVALID_REQUEST),
    ],
)
def test_bad_requests_are_refused_and_leave_no_trace(single, changes, code):
    single.wire.clear()
    single.open(**changes)
    (news,) = single.wire
    assert news.view.state == states.REJECTED
    assert news.view.reason == code
    assert not single.rows["sessions"]
    assert not single.memory.holds


def test_what_no_driver_has_is_refused():
    agents = [world.FakeAgent("a", 1), world.FakeAgent("b", 1)]
    agents[0].builtins = {"aes": {}}
    agents[1].builtins = {"copy": {}}
    agents[1].shape = "large"
    pool = world.Conductor(agents)
    pool.open()
    (hold,) = pool.memory.holds.values()
    assert hold.slot.host.uuid == "b"
    # Its agent has a driver now that does not have it either.
    agents[1].builtins = {"aes": {}}
    agents[1].boots += 1
    pool.feed(agents[1].report())
    pool.wire.clear()
    pool.open(request_id="again")
    (news,) = pool.wire
    assert news.view.reason == codes.NO_COMPATIBLE_SLOT


def test_a_new_leader_waits_to_hear_what_drivers_have():
    agents = [world.FakeAgent("a", 1), world.FakeAgent("b", 1)]
    agents[0].builtins = {"aes": {}}
    agents[1].shape = "large"
    pool = world.Conductor(agents)
    pool.boot_conductor()
    pool.feed(agents[0].report())
    request_id = pool.open()
    assert pool.view(request_id).state == states.QUEUED
    pool.feed(agents[1].report())
    (hold,) = pool.memory.holds.values()
    assert hold.slot.host.uuid == "b"


def test_an_accelerator_that_fits_no_slot_is_refused():
    pool = world.Conductor([world.FakeAgent("a", 0, board=False)])
    pool.wire.clear()
    pool.open()
    assert pool.wire[0].view.reason == codes.NO_COMPATIBLE_SLOT


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
    assert "The clock of host a agrees" in caplog.text


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
    ready_up(single)
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


def _reports(agent, boot_s: float, name: str, *sent_s: float):
    """Make reports of the agent that was started at some time."""
    for at in sent_s:
        report = agent.report()
        yield dataclasses.replace(
            report,
            host_name=name,
            agent_boot_id=f"{int(boot_s * 1e9)}-7",
            sent_at=at,
        )


def test_two_agents_with_one_uuid_are_named(single, caplog):
    agent, now = single.agents["a"], single.now
    for one in _reports(agent, now - 99, "node1", now):
        single.feed(one)
    for one in _reports(agent, now - 50, "node2", now + 1):
        single.feed(one)
    assert "host_uuid" not in caplog.text
    for one in _reports(agent, now - 99, "node1", now + 2, now + 7, now + 12):
        single.feed(one)
    (line,) = (one for one in caplog.messages if "host_uuid" in one)
    assert "node1" in line
    assert "node2" in line
    assert "host a: " in line


def test_an_agent_that_was_started_anew_is_no_second_one(single, caplog):
    agent, now = single.agents["a"], single.now
    for one in _reports(agent, now - 99, "node1", now):
        single.feed(one)
    for one in _reports(agent, now + 10, "node1", now + 11):
        single.feed(one)
    # On their way for long.
    for one in _reports(agent, now - 99, "node1", *[now + 9] * 20):
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


def test_a_call_that_was_answered_while_it_waited_opens_nothing(single):
    """It had to wait here, where the bus drops it no more."""
    past = single.now - 0.1
    assert _outcome(single, "call", awaited_until=past) == []
    assert not single.rows["sessions"]


def test_requests_are_refused_while_they_cannot_be_recorded(single):
    single.memory.database_failing = True
    single.wire.clear()
    single.open()
    assert single.wire[0].view.reason == codes.DATABASE_UNAVAILABLE


def test_a_repeated_request_is_not_refused_in_an_outage(single):
    held = single.open()
    request_id = single.open()
    before = single.view(request_id)
    single.memory.database_failing = True
    single.wire.clear()
    single.open(request_id=request_id)
    (answer,) = single.wire
    assert answer.view.state == states.QUEUED
    single.memory.database_failing = False
    assert single.view(request_id) == before
    single.cancel(held)


def test_limits_of_the_queue_and_of_a_project():
    pool = world.Conductor(
        [world.FakeAgent("a", 1)],
        max_queued_sessions=3,
        default_quota=admission.ProjectQuota(queued=2),
    )
    pool.open()  # gets the slot
    first, _ = pool.open(), pool.open()
    pool.wire.clear()
    pool.open()
    assert pool.wire.pop().view.reason == codes.QUOTA_EXCEEDED
    pool.open(project_id="q")
    pool.wire.clear()
    pool.open(project_id="q")
    assert pool.wire.pop().view.reason == codes.QUEUE_FULL
    pool.cancel(first)
    pool.open(request_id="again")
    assert pool.view("again").state == states.QUEUED


def test_cancel_while_queued_prepared_ready_and_active(single):
    held = single.open()
    queued = single.open()
    single.cancel(queued)
    assert single.view(queued).state == states.CANCELLED
    for step in (lambda: None, ready_up, activate):
        single.deliver_all()
        if step is not activate:
            step(single) if step is ready_up else step()
        else:
            ready_up(single)
            activate(single)
        single.cancel(held)
        assert single.view(held).state == states.CANCELLED
        held = single.open()
        assert single.view(held).state == states.QUEUED, "still being freed"
        single.settle()
        assert single.view(held).generation
        single.cancel(held)
        single.settle()
        held = single.open()


def test_cancel_and_open_in_one_batch(single):
    single.open(request_id="busy")
    single.feed(
        world.opening(world.request()),
        inputs.Cancel("p", None, "r", codes.CLIENT_GONE),
    )
    assert single.view("r").state == states.CANCELLED
    assert single.view("r").reason == codes.CLIENT_GONE


def test_a_client_that_left_the_front_door_keeps_its_connection(single):
    request_id = open_until_ready(single)
    activate(single)
    single.feed(inputs.Cancel("p", None, request_id, codes.CLIENT_GONE))
    assert single.view(request_id).state == states.ACTIVE
    single.cancel(request_id)
    assert single.view(request_id).state == states.CANCELLED


def test_a_leader_hears_the_board_before_it_believes_that_a_client_left(
    single,
):
    """The client may have connected while there was no leader."""
    request_id = open_until_ready(single)
    single.boot_conductor()
    gone = inputs.Cancel("p", None, request_id, codes.CLIENT_GONE)
    single.feed(gone)
    assert single.view(request_id).state == states.READY
    agent = single.agents["a"]
    activate(single)
    single.feed(gone)
    assert single.view(request_id).state == states.ACTIVE
    agent.end(0, states.CLOSED, codes.OK, single.now)
    single.feed(agent.report())
    assert single.view(request_id).state == states.CLOSED


def test_a_leader_cancels_what_the_board_says_no_client_uses(single):
    request_id = open_until_ready(single)
    single.boot_conductor()
    gone = inputs.Cancel("p", None, request_id, codes.CLIENT_GONE)
    single.feed(gone, single.agents["a"].report())
    assert single.view(request_id).state == states.READY
    # The front door repeats it.
    single.feed(gone)
    assert single.view(request_id).state == states.CANCELLED


@pytest.mark.parametrize(
    "reason", [codes.CLIENT_GONE, codes.CANCELLED_BY_CLIENT]
)
def test_a_session_that_was_served_has_not_been_cancelled(single, reason):
    """What its worker says may come later than that its client left."""
    request_id = open_until_ready(single)
    agent = single.agents["a"]
    agent.end(0, states.CLOSED, codes.OK, single.now)
    single.feed(inputs.Cancel("p", None, request_id, reason))
    assert single.view(request_id).state == states.CANCELLED
    single.feed(agent.report())
    view = single.view(request_id)
    assert (view.state, view.reason) == (states.CLOSED, codes.OK)
    (row,) = single.rows["sessions"].values()
    assert row.state == states.CLOSED


@pytest.mark.parametrize("leaders", [1, 2])
def test_a_session_that_was_served_is_known_to_the_next_leader(
    single, leaders
):
    """The one who heard that the client left did not hear the worker."""
    request_id = open_until_ready(single)
    single.now += 5.0
    agent = single.agents["a"]
    agent.end(0, states.CLOSED, codes.OK, single.now)
    single.feed(inputs.Cancel("p", None, request_id, codes.CLIENT_GONE))
    for _ in range(leaders):
        single.boot_conductor()
        assert single.view(request_id).state == states.CANCELLED
    single.feed(agent.report())
    view = single.view(request_id)
    assert (view.state, view.reason) == (states.CLOSED, codes.OK)
    (row,) = single.rows["sessions"].values()
    assert row.state == states.CLOSED
    (used,) = single.rows["usage"].values()
    assert (used.sessions, used.slot_s) == (1, pytest.approx(5.0))
    assert not single.rows["assignments"]
    single.boot_conductor()
    assert single.view_or_none(request_id) is None


def test_a_session_that_was_cancelled_leaves_its_slot_to_the_next_leader(
    single,
):
    request_id = open_until_ready(single)
    activate(single)
    single.cancel(request_id)
    # The order to give the slot back was lost, too.
    single.wire.clear()
    single.boot_conductor()
    waiter = single.open()
    single.settle()
    view = single.view(request_id)
    assert (view.state, view.reason) == (
        states.CANCELLED,
        codes.CANCELLED_BY_CLIENT,
    )
    assert single.view(waiter).generation
    assert single.counts.reconciled["stray"] == 0


def test_an_end_that_was_told_is_no_other_by_what_its_slot_says(single):
    """A session that moved, and ended where it was, gives its slot back."""
    request_id = open_until_ready(single)
    closed = objects.SessionResult(
        session_id=single.view(request_id).session_id,
        generation=1,
        state=states.CLOSED,
        code=codes.OK,
        finished_at=single.now,
        input_bytes=77,
    )
    single.engine._reports._end_late(single.memory.registry.hosts["a"], closed)
    single.feed()
    assert single.view(request_id).input_bytes == 77
    single.boot_conductor()
    single.settle()
    (row,) = single.rows["sessions"].values()
    assert (row.state, row.input_bytes) == (states.CLOSED, 77)


def test_nobody_cancels_a_session_of_another_project(single):
    request_id = single.open()
    session_id = single.view(request_id).session_id
    single.feed(inputs.Cancel("q", session_id, None, codes.CLIENT_GONE))
    assert single.view(request_id).state == states.PREPARING


def test_who_cancels_what_has_ended_changes_nothing(single):
    request_id = open_until_ready(single)
    single.end(states.CLOSED, codes.OK)
    ended = single.view(request_id)
    single.cancel(request_id)
    assert single.view(request_id) == ended
    # The news of it may have been lost; then it is asked for.
    asked = {ended.session_id: ended.revision - 1}
    ((news,), unknown) = single.ask.changed(asked, "a")
    assert (news.state, news.reason) == (states.CLOSED, codes.OK)
    assert unknown == []


def test_waiting_too_long_expires(single):
    single.open()
    request_id = single.open(wait_timeout_s=5.0)
    single.now += 4.9
    single.feed()
    assert single.view(request_id).state == states.QUEUED
    assert single.engine.wake_at <= single.now + 0.2
    single.now += 0.2
    single.feed()
    assert single.view(request_id).state == states.EXPIRED
    assert single.view(request_id).reason == codes.WAIT_TIMEOUT


@pytest.mark.parametrize("jumps_s", [(7200.0,), (-600.0,), (7200.0, -7200.0)])
def test_no_clock_that_was_set_makes_a_wait_shorter_or_longer(single, jumps_s):
    """The next leader, and the one after it, go by other clocks."""
    open_until_ready(single)
    waiters = [single.open(wait_timeout_s=60.0) for _ in range(6)]
    queued_at = single.now
    for jump_s in jumps_s:
        single.now += 50.0 / len(jumps_s)
        single.boot_conductor(jump_s)
        single.feed(single.agents["a"].report())
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
    single.feed(single.agents["a"].report())
    single.end(states.EXPIRED, codes.CONNECT_TIMEOUT)
    (row,) = single.rows["sessions"].values()
    patience_s = single.settings.wait_timeout_s
    assert row.wait_timeout_s == pytest.approx(40.0 + patience_s)


def test_a_project_does_not_pay_for_a_clock_that_was_set(single):
    open_until_ready(single)
    single.now += 5.0
    single.boot_conductor(7200.0)
    single.feed(single.agents["a"].report())
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
    ready_up(single)
    assert single.view(request_id).state == states.READY


def test_a_client_that_was_told_and_does_not_come_has_lost_its_slot(single):
    request_id = open_until_ready(single)
    for _ in range(15):
        single.tick(2.0)
        single.feed(single.agents["a"].report())
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
    request_id = open_until_ready(single)
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
    single.memory.database_failing = True
    single.feed(single.agents["a"].prepared(0))
    single.tick(25.0)
    single.memory.database_failing = False
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
    request_id = open_until_ready(single)
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
    assert len(generations) == sessions.MAX_VAIN_SLOTS


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
    pool.feed(*(agent.report() for agent in pool.agents.values()))
    assert pool.view(request_id).slot == 0
    pool.now += 31
    pool.feed(*(agent.report() for agent in pool.agents.values()))
    pool.tick()
    view = pool.view(request_id)
    assert (view.state, view.slot) == (states.PREPARING, 1)
    released = [m for m in pool.wire if isinstance(m, effects.ReleaseSlot)]
    assert released[0].reason == codes.PREPARE_TIMEOUT


def test_a_new_leader_waits_to_hear_how_preparations_went(pool):
    request_id = pool.open()
    pool.deliver_all()
    before = pool.view(request_id)
    pool.now += 61
    pool.boot_conductor()
    pool.tick()
    assert pool.view(request_id) == before
    assert not [m for m in pool.wire if isinstance(m, effects.ReleaseSlot)]
    pool.feed(*(agent.report() for agent in pool.agents.values()))
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
    pool.feed(*(agent.report() for agent in pool.agents.values()))
    pool.tick()
    assert pool.view(request_id).slot == 0
    pool.now += 31
    pool.feed(*(agent.report() for agent in pool.agents.values()))
    pool.tick()
    assert pool.view(request_id).slot == 1


def three_hosts() -> world.Conductor:
    return world.Conductor([world.FakeAgent(name, 1) for name in "abc"])


def test_a_lost_host_requeues_what_has_not_started():
    pool = three_hosts()
    ready, active = pool.open(), pool.open()
    pool.deliver_all()
    ready_up(pool)
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
    request_id = open_until_ready(pool)
    lost = pool.view(request_id).slot_host_uuid
    alive = [a for u, a in pool.agents.items() if u != lost]
    if not free:
        for _ in range(2):
            open_until_ready(pool)
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
    pool.feed(*(agent.report() for agent in pool.agents.values()))
    assert pool.view(request_id).state == states.CLOSED
    assert pool.memory.holds == {} if free else len(pool.memory.holds) == 2
    assert len(pool.state.assignments()) == len(pool.memory.holds)


def test_a_lost_host_keeps_its_active_session_until_it_is_given_up():
    pool = three_hosts()
    request_id = open_until_ready(pool)
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
    request_id = open_until_ready(pool)
    generation = pool.view(request_id).generation
    for _ in range(10):
        pool.feed(pool.agents["c"].report())
        pool.tick(10.0)
    assert pool.view(request_id).generation == generation
    assert all(host.up for host in pool.memory.registry.hosts.values())


def test_a_silent_host_is_asked_before_it_is_given_up():
    pool = three_hosts()
    request_id = open_until_ready(pool)
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
    pool.feed(pool.agents["c"].report())
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
    request_id = open_until_ready(single)
    activate(single)
    agent = single.agents["a"]
    agent.restart(workers_too=True)
    single.feed(agent.report())
    assert single.view(request_id).state == states.FAILED
    assert single.view(request_id).reason == codes.WORKER_LOST


def test_a_vanished_worker_costs_an_unconnected_session_nothing(single):
    request_id = open_until_ready(single)
    agent = single.agents["a"]
    agent.restart(workers_too=True)
    single.feed(agent.report())
    single.settle()
    assert single.view(request_id).state == states.READY


def test_a_restart_keeps_queue_order_and_running_sessions(single):
    active = open_until_ready(single)
    activate(single)
    waiting = [single.open() for _ in range(5)]
    arrival = {r: single.view(r).queued_at for r in waiting}
    single.now += 3
    single.boot_conductor()
    single.check()
    assert single.view(active).state == states.ACTIVE
    assert [single.view(r).queue_position for r in waiting] == [*range(5)]
    assert {r: single.view(r).queued_at for r in waiting} == arrival
    single.settle()
    assert single.view(active).state == states.ACTIVE
    single.end(states.CLOSED, codes.OK)
    assert single.view(waiting[0]).state == states.PREPARING
    assert single.view(waiting[0]).generation >= 2 << 32


def skipping() -> base.Strategy:
    """Sessions leave their host when they were passed over five times."""
    return strategies.ra({"skip_limit": 5, "wait_s_per_byte": 1e9}, 0)


def test_a_restart_keeps_how_often_sessions_were_passed_over() -> None:
    """Each time is recorded, though nobody is told."""
    pool = world.Conductor(
        [world.FakeAgent("a", 1), world.FakeAgent("b", 1)],
        make_strategy=skipping,
    )
    open_until_ready(pool)
    waits = pool.open()
    rows = pool.rows["sessions"]
    (row_id,) = (r.id for r in rows.values() if r.request_id == waits)
    for _ in range(5):
        before = pool.state.skips(row_id)
        assert rows[row_id].skips == before
        pool.boot_conductor()
        assert pool.state.skips(row_id) >= before
        pool.cancel(pool.open("b"))
        pool.settle()
    assert rows[row_id].skips == 5
    assert pool.view(waits).slot_host_uuid == "b"


def test_a_restart_renews_the_secret_of_a_ready_session(single):
    request_id = open_until_ready(single)
    single.agents["a"].views.clear()
    single.boot_conductor()
    assert single.view(request_id).secret == ""
    single.settle()
    assert single.agents["a"].views[request_id].secret == "5ec7e7"


def test_nothing_is_scheduled_before_a_host_has_reported(single):
    single.boot_conductor()
    request_id = single.open()
    view = single.view(request_id)
    assert view.state == states.QUEUED
    assert view.pending_reasons == (codes.NO_HOST_UP,)
    single.deliver_all()
    assert single.view(request_id).state == states.PREPARING


def test_a_query_is_answered_after_the_commit(single):
    future = concurrent.futures.Future()
    wanted = single.engine.process(
        (inputs.Query(lambda asked: asked.now(), future),), single.now
    )
    (answer,) = wanted.after_commit
    assert answer.future is future
    assert answer.value["strategy"] == "fifo"
    assert answer.value["hosts"]["a"]["last_report_at"] == single.now


def test_a_question_that_fails_is_answered_with_the_error(single):
    error = ZeroDivisionError("no such question")

    def fail(engine):
        raise error

    futures = [concurrent.futures.Future() for _ in range(2)]
    wanted = single.engine.process(
        (
            inputs.Query(fail, futures[0]),
            inputs.Query(lambda asked: asked.queued_count, futures[1]),
        ),
        single.now,
    )
    assert wanted.after_commit == [
        effects.Answer(futures[0], error, failed=True),
        effects.Answer(futures[1], 0),
    ]
    assert open_until_ready(single)


def test_only_sessions_that_changed_are_told(pool):
    first, second = pool.open(), pool.open()
    views = [pool.view(request_id) for request_id in (first, second)]
    known = {view.session_id: view.revision for view in views}
    assert pool.ask.changed(known) == ([], [])
    pool.cancel(second)
    changed, missing = pool.ask.changed(known | {"no-such": 1})
    assert changed == [pool.view(second)]
    assert changed[0].state == states.CANCELLED
    assert missing == ["no-such"]


def test_the_leader_says_why_a_link_is_not_capped(single):
    agent = single.agents["a"]
    for message in (None, "outgoing: no (KERNEL_REFUSED)", None):
        agent.link_message = message
        single.feed(agent.report())
        host = single.ask.now()["hosts"]["a"]
        assert host["link_message"] == message


def test_a_board_that_is_no_longer_reported_is_not_used(single):
    agent = single.agents["a"]
    slots, agent.slots = agent.slots, []
    single.feed(agent.report())
    request_id = single.open()
    assert single.view(request_id).state == states.QUEUED
    agent.slots = slots
    single.feed(agent.report())
    assert single.view(request_id).state == states.PREPARING


def test_a_new_accelerator_can_be_used_without_a_restart(single):
    profile = world.PROFILE.to_primitive()["data"]
    record = db_api.AcceleratorRecord(
        name="new", profile=profile | {"name": "new"}
    )
    single.feed(inputs.Library((record,)))
    request_id = single.open(accelerator="new")
    assert single.view(request_id).state == states.PREPARING
    single.wire.clear()
    single.open(accelerator="copy")
    assert single.wire[0].view.reason == codes.UNKNOWN_ACCELERATOR


def reopen(pool: world.Conductor, request_id: str, host: str = "a") -> None:
    view = pool.view(request_id)
    pool.feed(world.reopening(view, host))


def send(pool: world.Conductor, sent_bytes: int) -> None:
    agent = pool.agents["a"]
    agent.slots[0].input_bytes = sent_bytes
    pool.feed(agent.report())


def test_a_session_whose_worker_died_goes_on_elsewhere(pool):
    request_id = open_until_ready(pool)
    activate(pool)
    before = pool.view(request_id)
    pool.end(states.FAILED, codes.WORKER_DIED)
    assert pool.view(request_id).state == states.FAILED
    reopen(pool, request_id)
    after = pool.view(request_id)
    assert after.state == states.PREPARING
    assert after.session_id == before.session_id
    assert after.generation > before.generation
    assert after.queued_at == before.queued_at
    assert after.revision > before.revision
    assert after.finished_at is None


def test_a_connected_session_moves_only_when_its_client_says_so(pool):
    request_id = open_until_ready(pool)
    activate(pool)
    before = pool.view(request_id)
    reopen(pool, request_id)
    after = pool.view(request_id)
    assert (after.state, after.slot) == (states.PREPARING, 1)
    released = [m for m in pool.wire if isinstance(m, effects.ReleaseSlot)]
    assert [m.generation for m in released] == [before.generation]
    pool.settle()
    assert pool.view(request_id).state == states.READY
    assert pool.agents["a"].slots[0].state == states.SLOT_IDLE
    assert len(pool.memory.holds) == 1


def test_a_client_may_be_connected_before_a_report_shows_it(pool):
    """Its host was lost then, and is back with a slot that awaits it."""
    request_id = open_until_ready(pool)
    assert pool.view(request_id).state == states.READY
    reopen(pool, request_id)
    after = pool.view(request_id)
    assert (after.state, after.slot) == (states.PREPARING, 1)
    pool.settle()
    assert pool.agents["a"].slots[0].state == states.SLOT_IDLE


@pytest.mark.parametrize("is_active", [True, False])
def test_a_repeated_reopen_moves_once(pool, is_active):
    request_id = open_until_ready(pool)
    if is_active:
        activate(pool)
    view = pool.view(request_id)
    again = world.reopening(view, "a")
    pool.feed(again)
    moved = pool.view(request_id)
    pool.feed(again, again)
    assert pool.view(request_id).generation == moved.generation


def test_a_reopened_session_survives_a_restart(pool):
    request_id = open_until_ready(pool)
    activate(pool)
    reopen(pool, request_id)
    pool.boot_conductor()
    pool.settle()
    assert pool.view(request_id).state == states.READY
    assert len(pool.rows["sessions"]) == 1


def test_another_leader_reopens_what_lost_its_slot_before(pool):
    request_id = open_until_ready(pool)
    activate(pool)
    pool.end(states.FAILED, codes.WORKER_DIED)
    ended = pool.rows["usage"].copy()
    pool.boot_conductor()
    reopen(pool, request_id)
    pool.settle()
    assert pool.view(request_id).state == states.READY
    assert len(pool.rows["sessions"]) == 1
    assert pool.rows["usage"] == ended


@pytest.mark.parametrize(
    "how", ["stateful", "client's doing", "other project"]
)
def test_what_cannot_be_reopened_stays_ended(pool, how):
    request_id = open_until_ready(pool)
    activate(pool)
    code = codes.WORKER_DIED
    if how == "client's doing":
        code = codes.PROTOCOL_ERROR
    pool.end(states.FAILED, code)
    if how == "stateful":
        profile = world.PROFILE.to_primitive()["data"] | {"stateless": False}
        record = db_api.AcceleratorRecord(name="copy", profile=profile)
        pool.feed(inputs.Library((record,)))
    view = pool.view(request_id)
    project = "q" if how == "other project" else "p"
    pool.wire.clear()
    asked = dataclasses.replace(view, project_id=project)
    pool.feed(world.reopening(asked, "a"))
    assert pool.view(request_id).state == states.FAILED
    (answer,) = pool.wire
    if how == "other project":
        assert answer.value is None
    else:
        assert (answer.host_uuid, answer.view.state) == ("a", states.FAILED)


@pytest.mark.security
def test_answers_have_no_secret(single):
    request_id = open_until_ready(single)
    view = single.agents["a"].views[request_id]
    assert view.secret == "5ec7e7"
    engine = single.engine
    changed, _ = engine.questions.changed({view.session_id: -1})
    others, _ = engine.questions.changed({view.session_id: -1}, "b")
    answers = [*changed, *others]
    answers += _outcome(single, request_id)
    assert [one.secret for one in answers] == [""] * 3


def test_a_front_door_that_asks_what_has_changed_gets_the_secret(single):
    """The news may have been lost that had it."""
    request_id = open_until_ready(single)
    view = single.view(request_id)
    ((news,), _) = single.ask.changed({view.session_id: -1}, "a")
    assert news.secret == "5ec7e7"


@pytest.mark.security
def test_a_secret_is_for_its_project_while_it_is_ready_only(single):
    request_id = open_until_ready(single)
    name = single.view(request_id).session_id
    assert single.ask.session(name, "p").secret == "5ec7e7"
    assert single.ask.session(name, "q").secret == ""
    assert single.ask.session(name, "").secret == ""
    assert single.ask.session("other", "p") is None
    activate(single)
    assert single.ask.session(name, "p").secret == ""


@pytest.mark.security
@pytest.mark.parametrize("reopens", [True, False])
def test_no_other_host_becomes_a_front_door_of_a_session(pool, reopens):
    request_id = open_until_ready(pool)
    view = pool.view(request_id)
    if reopens:
        pool.feed(
            world.reopening(view, "b"),
            inputs.RenewSecret(view.session_id),
        )
    else:
        pool.open("b", request_id=request_id)
    pool.settle()
    told = pool.agents["b"].views.values()
    assert [one.reason for one in told] == (
        [] if reopens else [codes.REQUEST_ID_REUSED]
    )
    assert not any(one.secret for one in told)
    assert pool.view(request_id).state == states.READY


@pytest.mark.security
def test_a_front_door_ends_sessions_of_its_own_only(single):
    request_id = open_until_ready(single)
    view = single.view(request_id)
    single.wire.clear()
    single.feed(
        inputs.Cancel("p", view.session_id, None, "X", "b"),
        inputs.Cancel("p", None, request_id, "X", "b"),
    )
    assert (list(single.wire), single.view(request_id)) == ([], view)
    single.feed(inputs.Cancel("p", view.session_id, None, "X", "a"))
    assert single.view(request_id).state == states.CANCELLED


def test_a_liar_keeps_the_slot_while_nobody_waits(single):
    request_id = open_until_ready(single)
    activate(single)
    send(single, 5000)
    assert single.view(request_id).state == states.ACTIVE
    assert not single.memory.holds[1].revoked


def test_a_liar_yields_and_waits_with_a_doubled_claim(single):
    liar = open_until_ready(single)
    activate(single)
    honest = single.open()
    send(single, 1100)
    assert not single.memory.holds[1].revoked, "within the slack"
    send(single, 1101)
    assert single.memory.holds[1].revoked == codes.YIELDED
    agent = single.agents["a"]
    single.deliver_all()
    agent.slots[0].last_result = dataclasses.replace(
        agent.slots[0].last_result, input_bytes=3000
    )
    single.feed(agent.report())
    view = single.view(liar)
    assert view.state == states.QUEUED
    assert view.claimed_bytes == 6000
    assert view.queued_at == 1000.0
    assert single.view(honest).state == states.PREPARING


def test_a_liar_that_closes_in_time_has_closed(single):
    liar = open_until_ready(single)
    activate(single)
    single.open()
    send(single, 2000)
    single.end(states.CLOSED, codes.OK)
    assert single.view(liar).state == states.CLOSED


def test_a_stateful_liar_ends_with_the_offset(single):
    profile = world.PROFILE.to_primitive()["data"] | {"stateless": False}
    record = db_api.AcceleratorRecord(name="copy", profile=profile)
    single.feed(inputs.Library((record,)))
    liar = open_until_ready(single)
    activate(single)
    single.open()
    send(single, 2000)
    single.deliver_all()
    agent = single.agents["a"]
    agent.slots[0].last_result = dataclasses.replace(
        agent.slots[0].last_result, input_bytes=2048
    )
    single.feed(agent.report())
    view = single.view(liar)
    assert (view.state, view.reason) == (states.FAILED, codes.CLAIM_EXCEEDED)
    assert "2048" in view.message


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
    given_at = []
    for request_id in opened[:7]:
        single.settle()
        assert single.view(request_id).expected_wait_s is None
        activate(single)
        single.now += 2
        single.end(states.CLOSED, codes.OK)
        given_at.append(single.now)
    first, second = (single.view(r).expected_wait_s for r in opened[8:])
    assert first == pytest.approx((given_at[-1] - given_at[0]) / 7)
    assert second == pytest.approx(2 * first)
