# SPDX-License-Identifier: Apache-2.0

"""Sessions with deadlines."""

import pytest

from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world


def serve(pool: world.Conductor, **wanted: object) -> str:
    """Open a session, and have its client connect."""
    request_id = pool.open(**wanted)
    pool.deliver_all()
    agent = pool.agents["a"]
    pool.feed(agent.prepared(0))
    agent.slots[0].state = states.SLOT_ACTIVE
    pool.feed(agent.report())
    return request_id


def used(pool: world.Conductor) -> tuple[int, int, int]:
    """Return the ended sessions, and the deadlines met and missed."""
    (row,) = pool.rows["usage"].values() or (None,)
    if row is None:
        return 0, 0, 0
    return row.sessions, row.sessions_met, row.sessions_missed


def test_a_session_that_closes_in_time_has_met_its_deadline(single):
    request_id = serve(single, deadline_s=5.0)
    view = single.view(request_id)
    assert view.deadline_at == view.queued_at + 5.0
    assert view.deadline_met is None
    single.now += 5.0
    single.end(states.CLOSED, codes.OK)
    assert single.view(request_id).deadline_met is True
    assert used(single) == (1, 1, 0)
    assert single.memory.counts.deadlines == {("p", "met"): 1}


def test_work_of_a_waiting_client_counts_before_the_deadline(single):
    """Another client's word does not."""
    serve(single)
    waiting = single.open(deadline_s=60.0, deadline_action=states.EARLY)
    session_id = single.view(waiting).session_id
    job = single.memory.sessions.by_id[session_id]
    for project, who, input_bytes in (
        ("q", session_id, 500),
        ("p", "another", 500),
        ("p", session_id, 300),
        ("p", session_id, 200),
    ):
        single.feed(inputs.ClientProgress(project, who, input_bytes))
    assert (job.own_bytes, job.done_bytes, job.input_bytes) == (300, 300, 0)
    record = single.state.view.jobs.records[job.job_id]
    assert record.done_bytes == 300
    assert job.job(0.0).done_bytes == 300


def test_a_session_may_go_on_and_misses_its_deadline(single):
    request_id = serve(single, deadline_s=5.0)
    single.now += 5.1
    single.report("a")
    assert single.view(request_id).state == states.ACTIVE
    single.end(states.CLOSED, codes.OK)
    assert single.view(request_id).deadline_met is False
    assert used(single) == (1, 0, 1)


def test_the_operator_decides_unless_the_request_does(single):
    single.settings = admission.PoolLimits(deadline_action=states.KILL)
    single.boot_conductor()
    single.report("a")
    killed = serve(single, deadline_s=5.0)
    left = single.open(deadline_s=5.0, deadline_action=states.CONTINUE)
    assert single.view(killed).deadline_action == states.KILL
    single.now += 5.0
    single.feed()
    single.deliver_all()
    single.report("a")
    view = single.view(killed)
    assert (view.state, view.reason) == (
        states.EXPIRED,
        codes.DEADLINE_PASSED,
    )
    assert (
        "the deadline passed; the session ended at input offset 0"
        in view.message
    )
    assert view.deadline_met is False
    assert single.view(left).state == states.PREPARING


def test_a_waiting_session_ends_without_a_slot(single):
    serve(single)
    waiting = single.open(deadline_s=5.0, deadline_action=states.KILL)
    single.now += 5.0
    single.feed()
    view = single.view(waiting)
    assert (view.state, view.reason) == (
        states.EXPIRED,
        codes.DEADLINE_PASSED,
    )
    assert used(single) == (0, 0, 1)


def test_what_no_slot_can_do_is_refused_and_leaves_no_trace(single):
    single.open(claimed_bytes=10**10, deadline_s=9.9)
    (answer,) = single.wire
    assert answer.view.reason == codes.DEADLINE_IMPOSSIBLE
    assert "at least 10 s" in answer.view.message
    assert "the deadline is in 9.9 s" in answer.view.message
    assert not single.rows["sessions"]
    single.open(claimed_bytes=10**10, deadline_s=10.0)
    assert len(single.rows["sessions"]) == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"deadline_s": 0.0}, codes.INVALID_TIMEOUT),
        ({"deadline_s": float("nan")}, codes.INVALID_TIMEOUT),
        ({"deadline_action": "stop"}, codes.INVALID_REQUEST),
    ],
)
def test_wrong_values_are_refused(single, wrong, code):
    single.open(**wrong)
    (answer,) = single.wire
    assert answer.view.reason == code
    assert not single.rows["sessions"]


def test_a_request_with_another_deadline_is_another_request(single):
    request_id = single.open(deadline_s=5.0)
    single.wire.clear()
    single.open(request_id=request_id, deadline_s=6.0)
    assert single.wire[-1].view.reason == codes.REQUEST_ID_REUSED


def test_a_cancelled_session_has_neither_met_nor_missed(single):
    request_id = serve(single, deadline_s=5.0)
    single.cancel(request_id)
    assert single.view(request_id).deadline_met is None
    single.end(states.CANCELLED, codes.CANCELLED_BY_CLIENT)
    assert used(single) == (1, 0, 0)


def test_a_session_that_goes_on_elsewhere_is_counted_once(single):
    request_id = serve(single, deadline_s=5.0)
    single.end(states.FAILED, codes.WORKER_DIED)
    assert single.view(request_id).deadline_met is None
    single.feed(world.reopening(single.view(request_id), "a"))
    single.deliver_all()
    agent = single.agents["a"]
    single.feed(agent.prepared(0))
    agent.slots[0].state = states.SLOT_ACTIVE
    single.feed(agent.report())
    single.end(states.CLOSED, codes.OK)
    assert single.view(request_id).deadline_met is True
    assert used(single) == (1, 1, 0)


@pytest.mark.parametrize("jump_s", [7200.0, -600.0])
def test_no_clock_that_was_set_moves_a_deadline(single, jump_s):
    """The next leader goes by another clock."""
    request_id = serve(single, deadline_s=60.0, deadline_action=states.KILL)
    single.now += 50.0
    single.boot_conductor(jump_s)
    single.report("a")
    single.now += 9.0
    single.report("a")
    assert single.view(request_id).state == states.ACTIVE
    single.end(states.CLOSED, codes.OK)
    assert single.view(request_id).deadline_met is True
