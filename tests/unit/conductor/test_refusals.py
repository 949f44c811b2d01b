# SPDX-License-Identifier: Apache-2.0

"""Requests that are refused."""

import pytest

from fpgapool.conductor.decisions.requests import admission
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


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
    agents = world.hosts(a=1, b=1)
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
    agents = world.hosts(a=1, b=1)
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
    pool = world.Conductor(world.hosts(a=0))
    pool.wire.clear()
    pool.open()
    assert pool.wire[0].view.reason == codes.NO_COMPATIBLE_SLOT


def test_a_call_that_was_answered_while_it_waited_opens_nothing(single):
    """It had to wait here, where the bus drops it no more."""
    past = single.now - 0.1
    assert steps.outcome(single, "call", awaited_until=past) == []
    assert not single.rows["sessions"]


def test_requests_are_refused_while_they_cannot_be_recorded(single):
    single.memory.outages.database_failing = True
    single.wire.clear()
    single.open()
    assert single.wire[0].view.reason == codes.DATABASE_UNAVAILABLE


def test_a_repeated_request_is_not_refused_in_an_outage(single):
    held = single.open()
    request_id = single.open()
    before = single.view(request_id)
    single.memory.outages.database_failing = True
    single.wire.clear()
    single.open(request_id=request_id)
    (answer,) = single.wire
    assert answer.view.state == states.QUEUED
    single.memory.outages.database_failing = False
    assert single.view(request_id) == before
    single.cancel(held)


def test_limits_of_the_queue_and_of_a_project():
    pool = world.Conductor(
        world.hosts(a=1),
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
