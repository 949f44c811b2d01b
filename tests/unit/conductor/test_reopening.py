# SPDX-License-Identifier: Apache-2.0

"""Sessions that go on in another slot."""

import dataclasses

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def reopen(pool: world.Conductor, request_id: str, host: str = "a") -> None:
    view = pool.view(request_id)
    pool.feed(world.reopening(view, host))


def test_a_session_whose_worker_died_goes_on_elsewhere(pool):
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
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
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
    before = pool.view(request_id)
    reopen(pool, request_id)
    after = pool.view(request_id)
    assert (after.state, after.slot) == (states.PREPARING, 1)
    released = pool.sent(effects.ReleaseSlot)
    assert [m.generation for m in released] == [before.generation]
    pool.settle()
    assert pool.view(request_id).state == states.READY
    assert pool.agents["a"].slots[0].state == states.SLOT_IDLE
    assert len(pool.memory.holds) == 1


def test_a_client_may_be_connected_before_a_report_shows_it(pool):
    """Its host was lost then, and is back with a slot that awaits it."""
    request_id = steps.open_until_ready(pool)
    assert pool.view(request_id).state == states.READY
    reopen(pool, request_id)
    after = pool.view(request_id)
    assert (after.state, after.slot) == (states.PREPARING, 1)
    pool.settle()
    assert pool.agents["a"].slots[0].state == states.SLOT_IDLE


@pytest.mark.parametrize("is_active", [True, False])
def test_a_repeated_reopen_moves_once(pool, is_active):
    request_id = steps.open_until_ready(pool)
    if is_active:
        steps.activate(pool)
    view = pool.view(request_id)
    again = world.reopening(view, "a")
    pool.feed(again)
    moved = pool.view(request_id)
    pool.feed(again, again)
    assert pool.view(request_id).generation == moved.generation


def test_a_reopened_session_survives_a_restart(pool):
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
    reopen(pool, request_id)
    pool.boot_conductor()
    pool.settle()
    assert pool.view(request_id).state == states.READY
    assert len(pool.rows["sessions"]) == 1


def test_another_leader_reopens_what_lost_its_slot_before(pool):
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
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
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
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
