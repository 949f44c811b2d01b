# SPDX-License-Identifier: Apache-2.0

"""Sessions that lose slots: how many they get, and what they are told."""

import dataclasses

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.core import health
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import group_steps
from tests.unit.conductor import world

WORDS = "cannot import\n  module datetime"


def make_world(slots: int = 12, **limits: int) -> world.Conductor:
    return world.Conductor(
        [world.FakeAgent("a", slots)],
        health=health.HealthOptions(**limits),
        report_timeout_s=1e6,
    )


def fail(
    pool: world.Conductor,
    request_id: str,
    code: str = codes.PROGRAM_FAILED,
    words: str = WORDS,
) -> int:
    """The slot of a session cannot be prepared; return its number."""
    pool.deliver_all()
    agent, number = pool.agents["a"], pool.view(request_id).slot
    assert number is not None
    agent.end(number, states.PREPARE_FAILED, code, pool.now)
    slot = agent.slots[number]
    assert slot.last_result is not None
    slot.last_result = dataclasses.replace(slot.last_result, message=words)
    pool.feed(agent.report())
    return number


def ready(pool: world.Conductor, request_id: str) -> None:
    pool.deliver_all()
    number = pool.view(request_id).slot
    assert number is not None
    answer = pool.agents["a"].prepared(number)
    assert answer is not None
    pool.feed(answer)


def attach(pool: world.Conductor, request_id: str) -> None:
    ready(pool, request_id)
    agent, number = pool.agents["a"], pool.view(request_id).slot
    agent.slots[number].state = states.SLOT_ACTIVE
    pool.feed(agent.report())


def told(pool: world.Conductor, request_id: str) -> objects.SessionView:
    """What the front door knows of a session."""
    pool.deliver_all()
    return pool.agents["a"].views[request_id]


def test_a_session_ends_with_what_the_driver_says():
    pool = make_world()
    request_id = pool.open()
    tried = []
    for _ in range(2):
        tried.append(fail(pool, request_id))
        view = told(pool, request_id)
        assert (view.state, view.reason, view.message) == (
            states.PREPARING,
            codes.PROGRAM_FAILED,
            f"slot a board0 {tried[-1]} failed: cannot import module datetime",
        )
    tried.append(fail(pool, request_id))
    view = told(pool, request_id)
    assert (view.state, view.reason) == (states.FAILED, codes.PROGRAM_FAILED)
    assert view.message == (
        "3 slots could not be prepared; the last one was"
        f" a board0 {tried[-1]}: cannot import module datetime"
    )
    assert len(set(tried)) == 3


@pytest.mark.parametrize(
    "code",
    [
        codes.CORE_UNAVAILABLE,
        codes.HOST_OUT_OF_MEMORY,
        codes.PREPARE_FAILED,
        codes.UNKNOWN_ACCELERATOR,
        codes.WORKER_DIED,
        codes.BITSTREAM_UNKNOWN,
    ],
)
def test_every_cause_has_the_same_bound(code):
    pool = make_world()
    request_id = pool.open()
    for _ in range(3):
        assert pool.view(request_id).state == states.PREPARING
        fail(pool, request_id, code)
    view = pool.view(request_id)
    assert (view.state, view.reason) == (states.FAILED, code)
    assert not pool.memory.holds


def test_slots_whose_workers_are_gone_have_it_too():
    pool = make_world()
    request_id = pool.open()
    for _ in range(3):
        pool.deliver_all()
        assert pool.view(request_id).state == states.PREPARING
        slot = pool.agents["a"].slots[pool.view(request_id).slot]
        slot.state, slot.session_id = states.SLOT_IDLE, None
        slot.generation = slot.last_result = None
        pool.report("a")
    view = pool.view(request_id)
    assert (view.state, view.reason) == (states.FAILED, codes.WORKER_LOST)


def test_slots_that_hang_have_it_too():
    pool = make_world()
    request_id = pool.open()
    for _ in range(3):
        pool.deliver_all()
        assert pool.view(request_id).state == states.PREPARING
        pool.now += pool.settings.prepare_timeout_s + 1
        pool.report("a")
        pool.tick()
    view = pool.view(request_id)
    assert (view.state, view.reason) == (states.FAILED, codes.PREPARE_TIMEOUT)
    assert "not prepared within 60 s" in view.message


def test_long_words_are_cut():
    pool = make_world()
    request_id = pool.open()
    fail(pool, request_id, words="x" * 9999)
    assert len(pool.view(request_id).message) < 500


def test_causes_count_apart_and_anew_when_the_client_has_come():
    pool = make_world(accelerator_limit=99, slot_limit=99, device_limit=99)
    request_id = pool.open()
    for code in (codes.PROGRAM_FAILED, codes.WORKER_DIED) * 2:
        fail(pool, request_id, code)
    attach(pool, request_id)
    view = pool.view(request_id)
    assert (view.state, view.reason, view.message) == (states.ACTIVE, "", "")
    pool.feed(world.reopening(view, "a"))
    fail(pool, request_id)
    assert pool.view(request_id).state == states.PREPARING


def test_the_reason_is_gone_when_the_next_slot_is_ready():
    pool = make_world()
    request_id = pool.open()
    fail(pool, request_id)
    ready(pool, request_id)
    view = told(pool, request_id)
    assert (view.state, view.reason, view.message) == (states.READY, "", "")


def test_a_lost_host_is_a_reason():
    pool = world.Conductor([world.FakeAgent(name, 1) for name in "abc"])
    request_id = pool.open()
    pool.deliver_all()
    for _ in range(12):
        for name in "bc":
            pool.feed(pool.agents[name].report())
        pool.tick(2.0)
    view = told(pool, request_id)
    assert (view.state, view.reason, view.message) == (
        states.PREPARING,
        codes.HOST_LOST,
        "its slot's host does not report",
    )


def test_an_accelerator_that_all_slots_fail_is_refused_until_it_works():
    pool = make_world(first_s=60.0)
    pool.feed(world.library("copy", "other"))
    request_id = pool.open()
    for _ in range(3):
        fail(pool, request_id)
    refused = pool.open()
    view = told(pool, refused)
    assert (view.state, view.reason) == (
        states.REJECTED,
        codes.ACCELERATOR_OUT_OF_USE,
    )
    assert codes.PROGRAM_FAILED in view.message
    (unit,) = pool.memory.probation.faults
    assert unit.level is health.Level.ACCELERATOR
    assert pool.view(pool.open(accelerator="other")).state == states.PREPARING
    refusal = group_steps.change(pool, group_steps.new(size=1))
    assert refusal == codes.ACCELERATOR_OUT_OF_USE
    # The pool tests it, and it is back.
    pool.tick(61.0)
    (order,) = [one.request for one in pool.sent(effects.TestSlot)]
    pool.deliver_all()
    pool.report("a")
    pool.end(states.CLOSED, codes.OK, order.slot)
    assert pool.view(pool.open()).state == states.PREPARING


def test_one_host_that_runs_it_is_enough():
    pool = world.Conductor(
        [world.FakeAgent(name, 3) for name in "ab"], report_timeout_s=1e6
    )
    request_id = pool.open()
    for _ in range(3):
        fail(pool, request_id)
    assert pool.memory.probation.faults
    view = pool.view(pool.open())
    assert (view.state, view.slot_host_name) == (states.PREPARING, "b")
