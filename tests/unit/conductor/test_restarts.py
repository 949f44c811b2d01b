# SPDX-License-Identifier: Apache-2.0

"""What a new leader takes over, and answers."""

import concurrent.futures
import dataclasses

import pytest

from fpgapool import strategies
from fpgapool.agent.child import room
from fpgapool.common.walls import calls
from fpgapool.common.walls import landlock
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.db import api as db_api
from fpgapool.strategies import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def skipping() -> base.Strategy:
    """Sessions leave their host when they were passed over five times."""
    return strategies.ra({"skip_limit": 5, "wait_s_per_byte": 1e9}, 0)


def test_a_restart_keeps_queue_order_and_running_sessions(single):
    active = steps.open_until_ready(single)
    steps.activate(single)
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


def test_a_restart_keeps_how_often_sessions_were_passed_over() -> None:
    """Each time is recorded, though nobody is told."""
    pool = world.Conductor(
        world.hosts(a=1, b=1),
        make_strategy=skipping,
    )
    steps.open_until_ready(pool)
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
    request_id = steps.open_until_ready(single)
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
        (inputs.Query(lambda asked: asked.now(), future=future),), single.now
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
            inputs.Query(fail, future=futures[0]),
            inputs.Query(lambda asked: asked.queued_count, future=futures[1]),
        ),
        single.now,
    )
    assert wanted.after_commit == [
        effects.Reply(futures[0], error, failed=True),
        effects.Reply(futures[1], 0),
    ]
    assert steps.open_until_ready(single)


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


def test_the_leader_says_all_that_keeps_workers_from_being_isolated(single):
    """Also what to do about it, which comes last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landlock, "version", lambda: 0)
        patch.setattr(calls, "problem", lambda: "the kernel allows no filters")
        message = "; ".join(room.missing("preferred"))
    report = single.agents["a"].report()
    single.feed(dataclasses.replace(report, isolation_message=message))
    (host,) = single.ask.hosts_now(["a"]).values()
    assert host["isolation_message"] == message


def test_the_version_of_an_agent_is_known(single):
    for version in ("1.1.0", "1.2.0", ""):
        report = single.agents["a"].report()
        single.feed(dataclasses.replace(report, agent_version=version))
        (host,) = single.ask.hosts_now(["a"]).values()
        assert host["agent_version"] == version


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
