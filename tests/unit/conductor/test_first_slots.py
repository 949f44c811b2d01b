# SPDX-License-Identifier: Apache-2.0

"""The engine and groups whose first slots come all at once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import group_steps
from tests.unit.conductor import test_group_members as steps
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Two hosts with two slots each."""
    return world.Conductor(world.hosts(a=2, b=2))


def create(pool: world.Conductor, size: int = 3, **members: Any) -> str:
    return steps.create(pool, size, all_or_none=True, **members)


def phases(pool: world.Conductor, group_id: str) -> list[str]:
    return sorted(one.phase.value for one in steps.members(pool, group_id))


def fill(pool: world.Conductor, count: int) -> list[str]:
    """Let sessions take slots; return their requests."""
    found = [pool.open() for _ in range(count)]
    pool.settle(2)
    return found


def leave(pool: world.Conductor, request_id: str) -> None:
    """Let a session end and its slot be free."""
    pool.cancel(request_id)
    pool.deliver_all()
    pool.report(*pool.agents)


def row_of(pool: world.Conductor, group_id: str) -> db_api.GroupDeskRecord:
    (found,) = (
        row
        for row in pool.rows["group_desks"].values()
        if row.group_id == group_id and row.host_id == 0
    )
    return found


def test_all_at_once(pool: world.Conductor) -> None:
    first, _ = fill(pool, 2)
    group_id = create(pool, placement=None)
    view = steps.view(pool, group_id)
    assert (view.all_or_none, view.state, view.members) == (
        True,
        states.GROUP_CREATING,
        (),
    )
    pool.deliver_all()
    assert not steps.members(pool, group_id)
    leave(pool, first)
    assert phases(pool, group_id) == ["PREPARING"] * 3
    assert not steps.view(pool, group_id).hosts
    pool.settle()
    assert steps.state(pool, group_id) == states.GROUP_ACTIVE
    assert phases(pool, group_id) == ["ACTIVE"] * 3


def test_no_member_before_all_are_ready(pool: world.Conductor) -> None:
    group_id = create(pool)
    pool.agents["b"].silent = True
    pool.report("a")
    assert phases(pool, group_id) == ["PREPARING"] * 3
    assert not steps.view(pool, group_id).hosts
    rows = pool.rows["assignments"].values()
    assert {row.phase for row in rows} == {"PREPARING"}


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"size": 5}, codes.SET_IMPOSSIBLE),
        ({"placement": states.SAME_HOST}, codes.SET_IMPOSSIBLE),
        ({"placement": states.SPREAD}, codes.SET_IMPOSSIBLE),
        ({"placement": "near"}, codes.INVALID_REQUEST),
        ({"wait_timeout_s": 0.0}, codes.INVALID_TIMEOUT),
        ({"min_size": 0}, codes.INVALID_GROUP_SIZE),
        ({"size": 65}, codes.INVALID_GROUP_SIZE),
        ({"all_or_none": None, "wait_timeout_s": 1.0}, codes.INVALID_REQUEST),
        ({"all_or_none": False, "placement": "spread"}, codes.INVALID_REQUEST),
    ],
)
def test_refused(pool: world.Conductor, members: Any, code: str) -> None:
    wanted = group_steps.new(**{"size": 3, "all_or_none": True} | members)
    assert group_steps.change(pool, wanted) == code
    assert not pool.rows["group_desks"]


def test_more_than_the_project_may_have(pool: world.Conductor) -> None:
    pool = world.Conductor(
        world.hosts(a=4),
        default_quota=dataclasses.replace(group_steps.QUOTA, sessions=2),
    )
    wanted = group_steps.new(size=3, all_or_none=True)
    assert group_steps.change(pool, wanted) == codes.SET_IMPOSSIBLE


def test_wait_limit(pool: world.Conductor) -> None:
    fill(pool, 2)
    group_id = create(pool, wait_timeout_s=30.0)
    client_id = steps.attach(pool, group_id)
    pool.tick(31.0)
    view = steps.view(pool, group_id)
    assert (view.state, view.reason) == (
        states.GROUP_FAILED,
        codes.WAIT_TIMEOUT,
    )
    assert not pool.ask.has_client("p", group_id, client_id)
    # It takes nothing from the project but its name.
    assert pool.in_use("p")["group_slots"] == 0
    for change in (
        objects.UpdateGroup(group_id=group_id, size=2),
        group_steps.client(group_id),
    ):
        assert steps.ask(pool, change) == codes.GROUP_FAILED
    # A new leader knows it, too, and gives it nothing.
    pool.boot_conductor()
    pool.settle()
    assert steps.view(pool, group_id).reason == codes.WAIT_TIMEOUT
    assert not steps.members(pool, group_id)
    steps.delete(pool, group_id)
    assert steps.state(pool, group_id) == "gone"
    assert not pool.rows["group_desks"]


def test_a_new_leader_while_it_waits(pool: world.Conductor) -> None:
    fill(pool, 2)
    group_id = create(pool, wait_timeout_s=100.0, placement=None)
    pool.tick(60.0)
    pool.boot_conductor()
    pool.settle(4)
    view = steps.view(pool, group_id)
    assert (view.all_or_none, view.wait_timeout_s) == (True, 100.0)
    assert not steps.members(pool, group_id)
    pool.tick(60.0)
    assert steps.view(pool, group_id).reason == codes.WAIT_TIMEOUT


def test_a_new_leader_gives_them_all(pool: world.Conductor) -> None:
    first, _ = fill(pool, 2)
    group_id = create(pool)
    pool.boot_conductor()
    pool.settle(2)
    leave(pool, first)
    pool.settle()
    assert phases(pool, group_id) == ["ACTIVE"] * 3


def test_a_new_leader_while_it_starts(pool: world.Conductor) -> None:
    group_id = create(pool)
    pool.deliver_all()
    before = {
        one.slot.id: one.generation for one in steps.members(pool, group_id)
    }
    pool.report("a")
    pool.boot_conductor()
    assert phases(pool, group_id) == ["PREPARING"] * 3
    assert not steps.view(pool, group_id).hosts
    pool.settle()
    after = {
        one.slot.id: one.generation for one in steps.members(pool, group_id)
    }
    assert (after, phases(pool, group_id)) == (before, ["ACTIVE"] * 3)


def test_some_of_its_first_slots_are_none(pool: world.Conductor) -> None:
    """One row is missing: all slots go back, and the group has all again."""
    group_id = create(pool)
    lost = next(iter(pool.rows["assignments"]))
    del pool.rows["assignments"][lost]
    pool.boot_conductor()
    assert not steps.members(pool, group_id)
    pool.settle(30)
    assert phases(pool, group_id) == ["ACTIVE"] * 3


def test_as_an_earlier_release_has_left_it(pool: world.Conductor) -> None:
    """It has given slots one by one; the group goes on with them."""
    fill(pool, 2)
    group_id = create(pool)
    (group,) = pool.memory.groups.groups.values()
    slot_id = min(
        slot.id
        for slot in pool.memory.registry.present_slots()
        if slot.id not in pool.rows["assignments"]
    )
    pool.rows["assignments"][slot_id] = db_api.AssignmentRecord(
        slot_id=slot_id,
        holder_kind=states.HELD_BY_GROUP,
        holder_id=group.id,
        accelerator=group.accelerator,
        generation=1000,
        phase=model.Phase.ACTIVE.value,
        local=True,
        assigned_at=1.0,
    )
    pool.boot_conductor()
    assert phases(pool, group_id) == ["ACTIVE"]


def test_deleted_while_it_waits_and_starts(pool: world.Conductor) -> None:
    group_id = create(pool)
    pool.deliver_all()
    steps.delete(pool, group_id)
    assert steps.state(pool, group_id) == "gone"
    pool.settle()
    assert steps.idle(pool)
    fill(pool, 2)
    group_id = create(pool)
    steps.delete(pool, group_id)
    pool.settle()
    assert steps.state(pool, group_id) == "gone"
    assert not pool.rows["group_desks"]
    assert not pool.memory.core.sets.of_job


def test_a_slot_that_cannot_be_prepared(pool: world.Conductor) -> None:
    group_id = create(pool)
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, codes.PROGRAM_FAILED)
    assert phases(pool, group_id) == ["PREPARING"] * 3
    pool.settle(30)
    assert phases(pool, group_id) == ["ACTIVE"] * 3
    assert pool.memory.core.assignments().keys() == {
        one.slot.id for one in steps.members(pool, group_id)
    }


def test_sizes_stay_until_it_has_them(pool: world.Conductor) -> None:
    first, _ = fill(pool, 2)
    group_id = create(pool)
    bigger = objects.UpdateGroup(group_id=group_id, size=4, max_size=4)
    assert group_steps.change(pool, bigger) == codes.GROUP_WAITS
    renamed = objects.UpdateGroup(group_id=group_id, name="other")
    assert group_steps.change(pool, renamed) == ""
    leave(pool, first)
    pool.settle()
    assert group_steps.change(pool, bigger) == ""


def test_other_groups_say_that_they_are_others(pool: world.Conductor) -> None:
    group_id = steps.create(pool)
    view = steps.view(pool, group_id)
    assert (view.all_or_none, view.placement, view.reason) == (
        False,
        None,
        None,
    )
    assert not pool.rows["group_desks"]
