# SPDX-License-Identifier: Apache-2.0

"""The engine and the requests of owners and clients of groups."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import random
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.views import journal
from fpgapool.db import api as db_api
from fpgapool.objects import group as group_objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import group_steps
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Give a pool with three slots, and quotas for groups."""
    return group_steps.make_pool()


def elastic(**members: Any) -> objects.CreateGroup:
    return group_steps.new(
        **{"elastic": True, "min_size": 1, "max_size": 4} | members
    )


def only(pool: world.Conductor) -> db_api.GroupRecord:
    (group,) = group_steps.rows(pool)[0]
    return group


def test_a_group_is_recorded_and_gets_slots(pool):
    wanted = group_steps.new(name="render")
    assert group_steps.change(pool, wanted) == ""
    group = only(pool)
    assert (group.name, group.state) == ("render", states.GROUP_CREATING)
    assert (group.size, group.min_size, group.max_size) == (2, 2, 2)
    assert group.created_at == group.updated_at == pool.now
    (view,) = pool.ask.groups([wanted.group_id, "unknown"])
    assert (view.name, view.hosts) == ("render", ())
    assert [one.slot for one in view.members] == [0, 1]
    assert {one.phase for one in view.members} == {"PREPARING"}
    assert objects.GroupView.from_primitive(view.to_primitive()) == view


def test_a_repeated_request_creates_one_group(pool):
    wanted = group_steps.new()
    assert (
        group_steps.change(pool, wanted)
        == group_steps.change(pool, wanted)
        == ""
    )
    assert len(group_steps.rows(pool)[0]) == 1


def test_a_new_leader_has_the_groups_and_clients(pool):
    for _ in range(2):
        wanted = elastic(goal=objects.Goal(rate_per_s=5.0))
        group_steps.change(pool, wanted)
        group_steps.change(pool, group_steps.client(wanted.group_id))
    before = group_steps.book(pool)
    pool.boot_conductor()
    assert group_steps.book(pool) == before
    group_steps.change(pool, group_steps.new())
    assert group_steps.change(pool, group_steps.client(wanted.group_id)) == ""
    for found in group_steps.rows(pool):
        assert [row.id for row in found] == [1, 2, 3]


def test_a_new_leader_finishes_what_drains(pool):
    wanted = group_steps.new()
    group_steps.change(pool, wanted)
    draining = dataclasses.replace(only(pool), state=states.GROUP_DRAINING)
    pool.rows["groups"][draining.id] = draining
    pool.boot_conductor()
    pool.settle()
    assert group_steps.rows(pool) == group_steps.book(pool) == ([], [])


def test_nothing_changes_a_group_that_drains():
    wanted = db_api.GroupRecord(
        id=1,
        group_id="g",
        name="n",
        project_id="p",
        accelerator="copy",
        state=states.GROUP_DRAINING,
        size=1,
        min_size=1,
        max_size=1,
        created_at=1.0,
    )
    known = group_book.GroupBook([wanted])
    for one in (
        objects.UpdateGroup(group_id="g", size=2),
        objects.DeleteGroup(group_id="g"),
        group_steps.client("g"),
    ):
        with pytest.raises(admission.Rejected) as caught:
            known.planned(one, None)  # type: ignore[arg-type]
        assert caught.value.code == codes.GROUP_NOT_FOUND


def test_a_change_keeps_what_it_does_not_name(pool):
    wanted = elastic()
    group_steps.change(pool, wanted)
    before = only(pool)
    pool.tick(5.0)
    update = objects.UpdateGroup(group_id=wanted.group_id, size=3)
    assert group_steps.change(pool, update) == ""
    assert only(pool) == dataclasses.replace(
        before, size=3, updated_at=pool.now
    )
    pool.tick(5.0)
    # It is as it was: nothing is written.
    changed = only(pool)
    assert group_steps.change(pool, update) == ""
    assert only(pool) == changed


def test_names_can_be_exchanged(pool):
    first, second = group_steps.new(name="a"), group_steps.new(name="b")
    group_steps.change(pool, first)
    group_steps.change(pool, second)
    for group, name in ((second, "c"), (first, "b"), (second, "a")):
        update = objects.UpdateGroup(group_id=group.group_id, name=name)
        assert group_steps.change(pool, update) == ""
    assert [group.name for group in group_steps.rows(pool)[0]] == ["b", "a"]


def test_a_deleted_group_takes_its_clients_along(pool):
    wanted, other = group_steps.new(), group_steps.new()
    for group in (wanted, other):
        group_steps.change(pool, group)
        group_steps.change(pool, group_steps.client(group.group_id))
    deletion = objects.DeleteGroup(group_id=wanted.group_id)
    assert group_steps.change(pool, deletion) == ""
    assert group_steps.change(pool, deletion) == codes.GROUP_NOT_FOUND
    pool.settle()
    ((group,), (left,)) = group_steps.rows(pool)
    assert group.group_id == left.group_id == other.group_id
    # Its name, and what it used, are free again.
    assert group_steps.change(pool, group_steps.new(name=wanted.name)) == ""
    assert pool.in_use("p")["group_clients"] == 1


# Bad input.


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"size": 0}, codes.INVALID_GROUP_SIZE),
        ({"min_size": 3}, codes.INVALID_GROUP_SIZE),
        ({"min_size": 3, "max_size": 2}, codes.INVALID_GROUP_SIZE),
        ({"size": 5, "max_size": 4, "min_size": 1}, codes.INVALID_GROUP_SIZE),
        ({"name": "a b"}, codes.INVALID_REQUEST),
        ({"projects": ("q",)}, codes.GROUP_NOT_SHARED),
        ({"accelerator": "unknown"}, codes.UNKNOWN_ACCELERATOR),
        ({"accelerator": "copy@q"}, codes.UNKNOWN_ACCELERATOR),
        ({"accelerator": "other"}, codes.NO_COMPATIBLE_SLOT),
        (
            {"accelerator": "stateful", "shared": True},
            codes.ACCELERATOR_NOT_STATELESS,
        ),
        ({"goal": objects.Goal(rate_per_s=1.0)}, codes.GROUP_NOT_ELASTIC),
        ({"elastic": True, "goal": objects.Goal()}, codes.INVALID_GOAL),
        (
            {"elastic": True, "goal": objects.Goal(rate_per_s=-1.0)},
            codes.INVALID_GOAL,
        ),
        ({"name": "taken"}, codes.GROUP_NAME_TAKEN),
        ({"size": 9}, codes.QUOTA_EXCEEDED),
        ({"elastic": True, "max_size": 9}, codes.QUOTA_EXCEEDED),
    ],
)
def test_a_group_that_is_refused(pool, members, code):
    group_steps.change(pool, group_steps.new(name="taken"))
    assert group_steps.change(pool, group_steps.new(**members)) == code
    # The refused group has used nothing: its number is free.
    group_steps.change(pool, group_steps.new())
    assert [group.id for group in group_steps.rows(pool)[0]] == [1, 2]


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        ({"rate_per_s": 5.0}, ""),
        ({"rate_per_s": 5.0, "actions": 9}, ""),
        ({"deadline_at": 1000.1, "actions": 9}, ""),
        ({}, codes.INVALID_GOAL),
        ({"deadline_at": 1000.1}, codes.INVALID_GOAL),
        ({"actions": 9}, codes.INVALID_GOAL),
        ({"deadline_at": 1000.0, "actions": 9}, codes.INVALID_GOAL),
        ({"deadline_at": 1e17, "actions": 9}, codes.INVALID_GOAL),
        ({"deadline_at": 1000.1, "actions": 0}, codes.INVALID_GOAL),
        ({"rate_per_s": 0.0}, codes.INVALID_GOAL),
        ({"rate_per_s": 1e10}, codes.INVALID_GOAL),
        (
            {"rate_per_s": 5.0, "deadline_at": 1000.1, "actions": 9},
            codes.INVALID_GOAL,
        ),
    ],
)
def test_goals(pool, goal, code):
    """The clock of the pool is at 1000 s."""
    wanted = elastic(goal=objects.Goal(rate_per_s=3.0))
    group_steps.change(pool, wanted)
    wish = objects.SetGoal(group_id=wanted.group_id, goal=objects.Goal(**goal))
    assert group_steps.change(pool, wish) == code
    found = only(pool)
    if not code:
        assert found.actions == goal.get("actions")
    else:
        assert (found.goal_kind, found.rate_per_s) == ("rate", 3.0)


def test_another_goal_goes_on_from_the_tasks_done(pool):
    wanted = elastic(goal=objects.Goal(rate_per_s=3.0))
    group_steps.change(pool, wanted)
    done = dataclasses.replace(only(pool), actions_done=7)
    pool.rows["groups"][done.id] = done
    pool.boot_conductor()
    update = objects.UpdateGroup(group_id=wanted.group_id, size=3)
    group_steps.change(pool, update)
    assert only(pool).actions_done == 7
    group_steps.change(
        pool,
        objects.SetGoal(
            group_id=wanted.group_id, goal=objects.Goal(rate_per_s=4.0)
        ),
    )
    assert only(pool).actions_done == 7
    group_steps.change(
        pool, objects.SetGoal(group_id=wanted.group_id, goal=None)
    )
    assert (only(pool).goal_kind, only(pool).rate_per_s) == ("", None)
    assert only(pool).actions_done == 0


def test_a_group_that_is_unknown(pool):
    for wanted in (
        objects.UpdateGroup(group_id="g", size=2),
        objects.SetGoal(group_id="g", goal=None),
        objects.DeleteGroup(group_id="g"),
        group_steps.client("g"),
        objects.RevokeClient(group_id="g", client_id="c"),
    ):
        assert group_steps.change(pool, wanted) == codes.GROUP_NOT_FOUND


# Clients.


def test_clients_of_another_project(pool):
    wanted = group_steps.new()
    group_steps.change(pool, wanted)
    foreign = group_steps.client(wanted.group_id, project_id="q")
    assert group_steps.change(pool, foreign) == codes.GROUP_NOT_FOUND
    share = objects.UpdateGroup(
        group_id=wanted.group_id, shared=True, projects=("q",)
    )
    assert group_steps.change(pool, share) == ""
    assert group_steps.change(pool, foreign) == ""
    other = group_steps.client(wanted.group_id, project_id="r")
    assert group_steps.change(pool, other) == codes.GROUP_NOT_FOUND
    assert group_steps.change(pool, group_steps.client(wanted.group_id)) == ""
    # It belongs to the project that has attached it.
    assert pool.in_use("q")["group_clients"] == 1
    assert pool.in_use("q")["groups"] == 0
    private = objects.UpdateGroup(group_id=wanted.group_id, shared=False)
    assert group_steps.change(pool, private) == ""
    assert only(pool).projects == ()
    assert [one.project_id for one in group_steps.rows(pool)[1]] == ["p"]


def test_a_repeated_request_attaches_one_client(pool):
    wanted = group_steps.new()
    group_steps.change(pool, wanted)
    first = group_steps.client(wanted.group_id)
    assert group_steps.change(pool, first) == ""
    assert group_steps.change(pool, first) == ""
    assert [one.client_id for one in group_steps.rows(pool)[1]] == [
        first.client_id
    ]
    assert pool.in_use("p")["group_clients"] == 1
    # Nor is one that was revoked attached by a message that is late.
    revoke = objects.RevokeClient(
        group_id=wanted.group_id, client_id=first.client_id
    )
    assert group_steps.change(pool, revoke) == ""
    assert group_steps.change(pool, first) == ""
    assert group_steps.rows(pool)[1] == []


def test_a_late_request_does_not_create_a_deleted_group(pool):
    wanted = group_steps.new()
    group_steps.change(pool, wanted)
    assert (
        group_steps.change(pool, objects.DeleteGroup(group_id=wanted.group_id))
        == ""
    )
    assert group_steps.change(pool, wanted) == ""
    assert group_steps.rows(pool)[0] == []


def test_a_client_is_revoked_once(pool):
    wanted, other = group_steps.new(), group_steps.new()
    group_steps.change(pool, wanted)
    group_steps.change(pool, other)
    attached = group_steps.client(wanted.group_id)
    group_steps.change(pool, attached)
    wrong = objects.RevokeClient(
        group_id=other.group_id, client_id=attached.client_id
    )
    assert group_steps.change(pool, wrong) == codes.GROUP_CLIENT_NOT_FOUND
    right = dataclasses.replace(wrong, group_id=wanted.group_id)
    assert group_steps.change(pool, right) == ""
    assert group_steps.change(pool, right) == codes.GROUP_CLIENT_NOT_FOUND


def test_a_secret_without_a_hash(pool):
    wanted = group_steps.new()
    group_steps.change(pool, wanted)
    for hash_ in ("", "AB" * 32, "secret"):
        bad = group_steps.client(wanted.group_id, secret_hash=hash_)
        assert group_steps.change(pool, bad) == codes.INVALID_REQUEST


# Limits.


def test_limits_of_a_project(pool):
    first = group_steps.new()
    group_steps.change(pool, first)
    # The elastic one counts as much as it may grow.
    assert group_steps.change(pool, elastic()) == ""
    assert pool.in_use("p") | {
        "groups": 2,
        "group_slots": 6,
        "group_clients": 0,
    } == pool.in_use("p")
    more = objects.UpdateGroup(group_id=first.group_id, size=7, max_size=7)
    assert group_steps.change(pool, more) == codes.QUOTA_EXCEEDED
    assert group_steps.change(pool, group_steps.new(size=4)) == ""
    assert (
        group_steps.change(pool, group_steps.new(size=1))
        == codes.QUOTA_EXCEEDED
    )
    for _ in range(3):
        assert (
            group_steps.change(pool, group_steps.client(first.group_id)) == ""
        )
    assert (
        group_steps.change(pool, group_steps.client(first.group_id))
        == codes.QUOTA_EXCEEDED
    )
    assert group_steps.change(pool, group_steps.new(project_id="q")) == ""


def test_a_lower_limit_takes_nothing_away(pool):
    wanted = group_steps.new(size=4)
    group_steps.change(pool, wanted)
    pool.feed(inputs.SetQuota("p", {"group_slots": 2, "groups": 0}))
    assert only(pool).size == 4
    fewer = objects.UpdateGroup(group_id=wanted.group_id, size=3, min_size=3)
    assert group_steps.change(pool, fewer) == ""


# Around it.


def test_no_change_while_the_database_is_away(pool):
    wanted = group_steps.new()
    group_steps.change(pool, wanted)
    pool.engine.set_database_state(0, failing=True)
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    found = pool.engine.process(
        [inputs.ChangeGroup(group_steps.new(), future=future)], pool.now
    )
    (answer,) = found.at_once
    assert isinstance(answer, effects.EarlyReply)
    assert answer.value.code == codes.DATABASE_UNAVAILABLE
    assert not found.changes
    assert len(pool.memory.groups.groups) == 1


def test_notifications_tell_the_life_of_a_group(pool):
    told: list[journal.Event] = []
    notes = journal.Journal(pool._snapshot())

    def run(wanted: group_objects.GroupChange) -> list[str]:
        found = pool.engine.process(
            [inputs.ChangeGroup(wanted)],
            pool.now,
        )
        told.extend(events := notes.events(found.changes))
        return [event.type for event in events]

    wanted = elastic()
    attached = group_steps.client(wanted.group_id)
    group_id = wanted.group_id
    assert run(wanted) == ["group.create"]
    assert run(wanted) == []
    assert run(attached) == ["group.client.attach"]
    update = objects.UpdateGroup(group_id=group_id, size=3)
    assert run(update) == ["group.update"]
    assert run(update) == []
    assert run(objects.UpdateGroup(group_id=group_id, size=0)) == []
    assert run(objects.DeleteGroup(group_id=group_id)) == [
        "group.delete",
        "group.client.revoke",
    ]
    assert group_steps.HASH not in repr(told)
    assert told[-2].payload.state == states.GROUP_DELETED
    assert told[-1].payload.state == states.CLIENT_REVOKED
    assert told[-1].payload.group_id == group_id


def test_a_group_that_was_not_recorded_before_its_end_is_not_told():
    notes = journal.Journal(world.Conductor([])._snapshot())
    gone = db_api.GroupRecord(
        id=1,
        group_id="g",
        name="n",
        project_id="p",
        accelerator="copy",
        state=states.GROUP_DELETED,
        size=1,
        min_size=1,
        max_size=1,
        created_at=1.0,
    )
    assert notes.events(db_api.Changes.of([gone])) == []


@pytest.mark.parametrize("seed", range(20))
def test_random_changes(pool, seed):
    """Refused or not, rows and memory agree, and no limit is exceeded."""
    rng = random.Random(seed)
    groups = [group_steps.new().group_id for _ in range(4)]
    clients = [group_steps.client("g").client_id for _ in range(4)]

    def one() -> group_objects.GroupChange:
        group_id, client_id = rng.choice(groups), rng.choice(clients)
        sizes = {
            name: rng.randrange(6)
            for name in ("size", "min_size", "max_size")
            if rng.random() < 0.7
        }
        options = sizes | {
            name: rng.random() < 0.5
            for name in ("elastic", "shared")
            if rng.random() < 0.5
        }
        match rng.randrange(6):
            case 0:
                members = {"size": 1} | options
                return group_steps.new(
                    group_id=group_id,
                    project_id=rng.choice("pq"),
                    name=rng.choice("ab"),
                    accelerator=rng.choice(("copy", "stateful")),
                    **members,
                )
            case 1:
                return objects.UpdateGroup(group_id=group_id, **options)
            case 2:
                rate = rng.choice((None, 0.0, 2.0))
                goal = rng.choice((None, objects.Goal(rate_per_s=rate)))
                return objects.SetGoal(group_id=group_id, goal=goal)
            case 3:
                return objects.DeleteGroup(group_id=group_id)
            case 4:
                return group_steps.client(
                    group_id, project_id=rng.choice("pq")
                )
        return objects.RevokeClient(group_id=group_id, client_id=client_id)

    for _ in range(60):
        wanted = one()
        if isinstance(wanted, objects.AttachClient):
            clients.append(wanted.client_id)
        group_steps.change(pool, wanted)
        if rng.random() < 0.1:
            pool.boot_conductor()
        for project_id in "pq":
            used = pool.in_use(project_id)
            assert used["groups"] <= 3
            assert used["group_slots"] <= 10
            assert used["group_clients"] <= 3
        for group in pool.memory.groups.groups.values():
            assert group.min_size <= group.size <= group.max_size
            assert group.elastic or not group.goal_kind
            assert not group.shared or group.accelerator == "copy"


# The endpoint.


class Pump:
    """Takes inputs, and answers them.

    :ivar answer: the result of every change.
    """

    database_failing = False

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.answer: Any = None

    def offer(self, item: Any, project_id: str | None = None) -> bool:
        self.inputs.append(item)
        item.future.set_result(self.answer)
        return True


@pytest.fixture
def endpoint() -> tuple[conductor_rpc.ConductorManager, Pump]:
    pump = Pump()
    made = conductor_rpc.ConductorManager(pump, None, 40)  # type: ignore[arg-type]
    return made, pump


def test_changes_reach_the_engine(endpoint):
    made, pump = endpoint
    wanted = [
        elastic(goal=objects.Goal(rate_per_s=1.0), projects=("q",)),
        objects.UpdateGroup(group_id="g", shared=True),
        objects.SetGoal(group_id="g", goal=None),
        objects.DeleteGroup(group_id="g"),
        group_steps.client("g"),
        objects.RevokeClient(group_id="g", client_id="c"),
    ]
    for one in wanted:
        assert made.change_group(None, one.to_primitive()) is None
    assert [item.change for item in pump.inputs] == wanted


def test_a_refusal_comes_back_with_its_code(endpoint):
    made, pump = endpoint
    pump.answer = admission.Rejected(codes.GROUP_NAME_TAKEN, "taken")
    with pytest.raises(Exception) as caught:
        made.change_group(None, group_steps.new().to_primitive())
    error = caught.value.exc_info[1]
    assert isinstance(error, exception.GroupRefused)
    assert (error.code, error.message) == (codes.GROUP_NAME_TAKEN, "taken")


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        [],
        {},
        {"fpgapool_object": "SetGoal"},
        {**group_steps.new().to_primitive(), "fpgapool_object": "Goal"},
        objects.SessionResult(
            session_id="s",
            generation=1,
            state="CLOSED",
            code="OK",
            finished_at=1.0,
        ).to_primitive(),
        group_steps.new(size=2**70).to_primitive(),
        group_steps.new(name="a\0b").to_primitive(),
        group_steps.new(accelerator="a" * 300).to_primitive(),
        group_steps.new(projects=("\ud800",)).to_primitive(),
    ],
)
def test_malformed_changes_are_refused(endpoint, junk):
    made, pump = endpoint
    with pytest.raises(Exception) as caught:
        made.change_group(None, junk)
    error = caught.value.exc_info[1]
    assert isinstance(error, exception.InvalidRequest)
    assert pump.inputs == []


@pytest.mark.parametrize("junk", [None, "g", [7], ["g"] * 1001])
def test_malformed_questions_are_refused(endpoint, junk):
    made, _ = endpoint
    with pytest.raises(Exception) as caught:
        made.get_groups(None, junk)
    assert isinstance(caught.value.exc_info[1], exception.InvalidRequest)
