# SPDX-License-Identifier: Apache-2.0

"""Slots of groups in an agent's table."""

from __future__ import annotations

import pytest

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import table
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.agent import factories

KEY = ("board0", 0)
GROUP = "group-1"


def request(generation: int = 7) -> objects.AssignRequest:
    return factories.assign_request(
        generation, session_id=GROUP, group_id=GROUP
    )


def member(state: str, generation: int = 7, **changes: object):
    return factories.status(
        state,
        generation,
        **{"session_id": GROUP, "is_member": True, **changes},
    )


def make_ready(state: str = states.SLOT_ACTIVE) -> table.SlotTable:
    """Return a table whose first slot is a group's."""
    slots = factories.make_table()
    slots.worker_connected(KEY)
    slots.worker_status(KEY, factories.status(), 1.0)
    slots.assign(1, request(), 2.0)
    slots.worker_status(KEY, member(state), 3.0)
    return slots


def told(effects: list[orders.Effect]) -> list[str]:
    """Return what the worker is asked."""
    return [
        one.operation for one in effects if isinstance(one, orders.ToWorker)
    ]


def release(slots: table.SlotTable, now: float = 10.0) -> list[str]:
    return told(slots.release(1, KEY, GROUP, 7, "GROUP_RESIZED", now))


def members(slots: table.SlotTable) -> dict[str, dict]:
    return slots.standing().members


def test_a_slot_is_a_member_from_its_assignment_to_its_result():
    slots = factories.make_table()
    slots.worker_connected(KEY)
    slots.worker_status(KEY, factories.status(), 1.0)
    assert members(slots) == {}
    effects = slots.assign(1, request(), 2.0)
    (order,) = [one for one in effects if isinstance(one, orders.ToWorker)]
    assert order.members["group_id"] == GROUP
    assert members(slots) == {GROUP: {KEY: table.Member(7, leaves=False)}}
    slots.worker_status(KEY, member(states.SLOT_ACTIVE), 3.0)
    assert members(slots) == {GROUP: {KEY: table.Member(7, leaves=False)}}
    slots.worker_status(
        KEY,
        factories.status(seen_generation=7, last_result=factories.result(7)),
        4.0,
    )
    assert members(slots) == {}
    report = slots.device_reports()[0].slots[0]
    assert (report.state, report.last_result.code) == ("idle", codes.OK)


def test_a_session_makes_no_member():
    slots = factories.make_table()
    slots.worker_connected(KEY)
    slots.worker_status(KEY, factories.status("active", 7), 1.0)
    assert members(slots) == {}


def test_a_slot_without_a_status_is_unreported():
    slots = factories.make_table()
    assert slots.standing().unreported == {("board0", 0), ("board0", 1)}
    slots.worker_connected(KEY)
    slots.worker_status(KEY, member(states.SLOT_ACTIVE), 1.0)
    assert slots.standing().unreported == {("board0", 1)}
    slots.worker_died(KEY, 2.0)
    assert KEY in slots.standing().unreported
    slots.assign(1, request(8), 3.0)
    assert KEY not in slots.standing().unreported


def test_the_desk_is_asked_before_the_worker():
    slots = make_ready()
    assert release(slots) == []
    assert members(slots) == {GROUP: {KEY: table.Member(7, leaves=True)}}
    # A repeated release gives the desk no more time.
    assert release(slots, 15.0) == []
    assert told(slots.tick(19.9)) == []
    assert told(slots.tick(20.0)) == ["release"]
    assert release(slots, 21.0) == ["release"]
    assert slots.tick(29.9) == []
    (ended,) = slots.tick(30.0)
    assert ended == orders.EndWorker(KEY, "did not release its holder in time")


def test_a_desk_that_answers_has_more_time_but_not_forever():
    slots = make_ready()
    release(slots)
    now = 10.0
    while now < 10.0 + table.MAX_LEAVE_S - 5.0:
        now += 5.0
        assert slots.member_leaves(KEY, 7, now) == []
        assert told(slots.tick(now)) == []
    slots.member_leaves(KEY, 7, now)
    assert told(slots.tick(10.0 + table.MAX_LEAVE_S)) == ["release"]
    slots.member_leaves(KEY, 7, now + 20.0)
    assert release(slots, now + 21.0) == ["release"]


@pytest.mark.parametrize(
    ("key", "generation"), [(KEY, 6), (("board0", 1), 7), (("none", 0), 7)]
)
def test_a_desk_speaks_of_its_own_members_only(key, generation):
    slots = make_ready()
    release(slots)
    slots.member_leaves(key, generation, 19.0)
    assert told(slots.tick(20.0)) == ["release"]


def test_a_member_that_loses_its_desk_is_released_at_once():
    slots = make_ready()
    release(slots)
    effects = slots.worker_status(KEY, member(states.SLOT_DETACHED), 11.0)
    assert told(effects) == ["release"]


@pytest.mark.parametrize(
    "state",
    [states.SLOT_PREPARING, states.SLOT_READY, states.SLOT_DETACHED],
)
def test_a_slot_that_has_not_joined_is_released_at_once(state):
    slots = make_ready(state)
    assert release(slots) == ["release"]


def test_a_member_that_has_left_needs_no_release():
    slots = make_ready()
    release(slots)
    slots.worker_status(
        KEY,
        factories.status(seen_generation=7, last_result=factories.result(7)),
        11.0,
    )
    assert slots.tick(100.0) == []


def test_a_worker_that_dies_while_it_leaves_has_the_releases_result():
    slots = make_ready()
    release(slots)
    slots.worker_died(KEY, 11.0)
    report = slots.device_reports()[0].slots[0]
    assert report.last_result.code == "GROUP_RESIZED"
    assert slots.tick(100.0) == []


def test_no_secret_is_asked_for_a_member():
    slots = make_ready(states.SLOT_READY)
    assert told(slots.assign(1, request(), 4.0)) == []
    assert told(slots.reissue_secret(1, KEY, 7)) == []


def test_orders_of_former_leaders_are_refused():
    slots = factories.make_table()
    order = objects.GroupOrder(
        group_id=GROUP,
        revision=3,
        project_id=factories.PROJECT,
        accelerator="copy",
        arbitration="fifo",
        clear_between="clients",
        max_task_bytes=1000,
    )
    assert slots.keep_group(2, order) == [orders.KeepGroup(2, order)]
    assert slots.keep_group(1, order) == []
    assert slots.refusals == {"epoch": 1}
