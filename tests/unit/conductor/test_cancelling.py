# SPDX-License-Identifier: Apache-2.0

"""Sessions that are cancelled, and what the next leader makes of them."""

import concurrent.futures

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def test_cancel_while_queued_prepared_ready_and_active(single):
    held = single.open()
    queued = single.open()
    single.cancel(queued)
    assert single.view(queued).state == states.CANCELLED
    for step in (lambda: None, steps.ready_up, steps.activate):
        single.deliver_all()
        if step is not steps.activate:
            step(single) if step is steps.ready_up else step()
        else:
            steps.ready_up(single)
            steps.activate(single)
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
    request_id = steps.open_until_ready(single)
    steps.activate(single)
    single.feed(inputs.Cancel("p", None, request_id, codes.CLIENT_GONE))
    assert single.view(request_id).state == states.ACTIVE
    single.cancel(request_id)
    assert single.view(request_id).state == states.CANCELLED


def test_a_leader_hears_the_board_before_it_believes_that_a_client_left(
    single,
):
    """The client may have connected while there was no leader."""
    request_id = steps.open_until_ready(single)
    single.boot_conductor()
    gone = inputs.Cancel("p", None, request_id, codes.CLIENT_GONE)
    single.feed(gone)
    assert single.view(request_id).state == states.READY
    agent = single.agents["a"]
    steps.activate(single)
    single.feed(gone)
    assert single.view(request_id).state == states.ACTIVE
    agent.end(0, states.CLOSED, codes.OK, single.now)
    single.feed(agent.report())
    assert single.view(request_id).state == states.CLOSED


def test_a_leader_cancels_what_the_board_says_no_client_uses(single):
    request_id = steps.open_until_ready(single)
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
    request_id = steps.open_until_ready(single)
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
    request_id = steps.open_until_ready(single)
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
    request_id = steps.open_until_ready(single)
    steps.activate(single)
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
    request_id = steps.open_until_ready(single)
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
    request_id = steps.open_until_ready(single)
    single.end(states.CLOSED, codes.OK)
    ended = single.view(request_id)
    single.cancel(request_id)
    assert single.view(request_id) == ended
    # The news of it may have been lost; then it is asked for.
    asked = {ended.session_id: ended.revision - 1}
    ((news,), unknown) = single.ask.changed(asked, "a")
    assert (news.state, news.reason) == (states.CLOSED, codes.OK)
    assert unknown == []


def _ended(pool, view, *, kind=inputs.Cancel, project_id="p", **closed):
    """End a session for a caller that waits; return what it is answered."""
    future = concurrent.futures.Future()
    if kind is inputs.Cancel:
        closed = {"request_id": None, "reason": "X"}
    pool.wire.clear()
    pool.feed(kind(project_id, view.session_id, **closed, future=future))
    for one in pool.wire:
        if isinstance(one, effects.PublishSession) and future in one.waiting:
            return one.view
    (reply,) = [o for o in pool.sent(effects.Reply) if o.future is future]
    return reply.value


def test_who_ends_a_session_and_waits_is_told_how_it_is_then(single):
    view = single.view(steps.open_until_ready(single))
    for _ in range(2):
        told = _ended(single, view)
        assert (told.state, told.reason) == (states.CANCELLED, "X")
        assert told.revision == view.revision + 1
        assert told.secret == ""


def test_who_closes_a_session_and_waits_is_told_how_it_is_then(single):
    view = single.view(steps.open_until_ready(single))
    closed = {"input_bytes": 7, "output_bytes": 7, "confirmed": False}
    told = _ended(
        single, view, kind=inputs.Close, generation=view.generation, **closed
    )
    assert (told.state, told.input_bytes) == (states.CLOSED, 7)


@pytest.mark.security
def test_who_ends_a_session_of_another_project_hears_nothing_of_it(single):
    view = single.view(steps.open_until_ready(single))
    assert _ended(single, view, project_id="q") is None
    assert single.view(view.request_id).state == states.READY
