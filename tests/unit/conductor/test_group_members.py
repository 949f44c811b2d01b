# SPDX-License-Identifier: Apache-2.0

"""The engine and the slots of groups: from the request to the release."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.views import journal
from fpgapool.conductor.decisions.views import summary
from fpgapool.core import model
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.db import api as db_api
from fpgapool.strategies import elasticity as policies
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import states
from tests.unit.conductor import administering
from tests.unit.conductor import group_steps
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Two hosts with two slots each."""
    return world.Conductor(world.hosts(a=2, b=2))


def ask(pool: world.Conductor, wanted: Any) -> str:
    """Make a change; return the code of its refusal, or nothing."""
    refusal = pool.answer(inputs.ChangeGroup(wanted))
    return refusal.code if refusal else ""


def create(pool: world.Conductor, size: int = 2, **members: Any) -> str:
    wanted = group_steps.new(size=size, **members)
    assert ask(pool, wanted) == ""
    return wanted.group_id


def attach(pool: world.Conductor, group_id: str, project_id: str = "p") -> str:
    wanted = group_steps.client(group_id, project_id=project_id)
    assert ask(pool, wanted) == ""
    return wanted.client_id


def delete(pool: world.Conductor, group_id: str) -> None:
    assert ask(pool, objects.DeleteGroup(group_id=group_id)) == ""


def view(pool: world.Conductor, group_id: str) -> objects.GroupView:
    (found,) = pool.ask.groups([group_id])
    return found


def state(pool: world.Conductor, group_id: str) -> str:
    found = [
        row.state
        for row in pool.rows["groups"].values()
        if row.group_id == group_id
    ]
    return found[0] if found else "gone"


def members(pool: world.Conductor, group_id: str) -> list[holds.Member]:
    return [
        one for one in pool.memory.holds.members() if one.public_id == group_id
    ]


def idle(pool: world.Conductor) -> bool:
    return all(
        slot.state == states.SLOT_IDLE
        for agent in pool.agents.values()
        for slot in agent.slots
    )


def test_a_slot_from_the_request_to_its_release(pool):
    group_id = create(pool)
    (first, second) = pool.sent(effects.AssignSlot)
    assert {first.request.slot, second.request.slot} == {0, 1}
    for order in (first.request, second.request):
        assert order.group_id == order.session_id == group_id
        assert (order.project_id, order.accelerator) == ("p", "copy")
        assert not order.self_test
        assert (order.claimed_bytes, order.max_hold_s) == (0, 0.0)
        # A task may compute as long as a session may be idle.
        assert order.idle_timeout_s == pool.settings.idle_timeout_s > 0
    rows = pool.rows["assignments"].values()
    assert {row.holder_kind for row in rows} == {"group"}
    assert {row.phase for row in rows} == {"PREPARING"}
    pool.settle()
    assert state(pool, group_id) == states.GROUP_ACTIVE
    assert {row.phase for row in rows} == {"ACTIVE"}
    found = view(pool, group_id)
    assert [(one.host_uuid, one.slot) for one in found.members] == [
        ("a", 0),
        ("a", 1),
    ]
    (place,) = found.hosts
    assert (place.host_uuid, place.members) == ("a", 2)
    assert place.endpoints[0].port == 4001
    assert place.certificate_sha256 == "cd" * 32
    assert found.hosts_revision == pool.agents["a"].desks[group_id].revision
    delete(pool, group_id)
    assert state(pool, group_id) == states.GROUP_DRAINING
    releases = pool.sent(effects.ReleaseSlot)
    assert [one.session_id for one in releases] == [group_id] * 2
    assert {one.reason for one in releases} == {codes.RESIZED}
    pool.settle()
    assert state(pool, group_id) == "gone"
    assert idle(pool)
    assert not pool.memory.holds
    assert not pool.rows["assignments"]
    assert not pool.agents["a"].desks


def test_a_slot_that_is_programmed_but_has_not_joined(pool):
    group_id = create(pool, size=1)
    pool.deliver_all()
    pool.agents["a"].slots[0].state = states.SLOT_READY
    pool.report("a")
    (member,) = members(pool, group_id)
    assert member.prepared
    assert member.phase is model.Phase.ACTIVE
    assert state(pool, group_id) == states.GROUP_ACTIVE


def test_desks_learn_of_clients(pool):
    group_id = create(pool, size=3)
    pool.settle()
    desks = [agent.desks[group_id] for agent in pool.agents.values()]
    client_id = attach(pool, group_id)
    pool.deliver_all()
    for desk in desks:
        assert [one.client_id for one in desk.order.clients] == [client_id]
        assert desk.order.clients[0].secret_sha256 == group_steps.HASH
        assert [(one.host_uuid, one.members) for one in desk.order.hosts] == [
            ("a", 2),
            ("b", 1),
        ]
        assert all(one.endpoints for one in desk.order.hosts)
    revisions = [desk.revision for desk in desks]
    ask(pool, objects.RevokeClient(group_id=group_id, client_id=client_id))
    pool.deliver_all()
    for desk, before in zip(desks, revisions, strict=True):
        assert desk.order.clients == ()
        assert desk.revision > before


def test_members_are_cleared_as_their_core_needs_it(pool):
    """A core without state can only pass on what a slot still holds."""
    create(pool, size=1)
    create(pool, size=1, shared=True)
    cleared = [
        order.order.clear_between for order in pool.sent(effects.KeepGroup)
    ]
    assert set(cleared) == {description.PROJECTS}
    profile = dataclasses.replace(world.PROFILE, stateless=False)
    record = db_api.AcceleratorRecord(
        name="copy", profile=profile.to_primitive()["data"]
    )
    pool.feed(inputs.Library((record,)))
    pool.wire.clear()
    create(pool, size=1)
    (order,) = pool.sent(effects.KeepGroup)
    assert order.order.clear_between == description.CLIENTS


def test_an_order_that_was_lost_is_sent_again(pool):
    group_id = create(pool, size=1)
    pool.settle()
    client_id = attach(pool, group_id)
    pool.wire.clear()
    desk = pool.agents["a"].desks[group_id]
    assert not desk.order.clients
    pool.tick(10.0)
    pool.report("a")
    (order,) = pool.sent(effects.KeepGroup)
    assert [one.client_id for one in order.order.clients] == [client_id]
    # Not with each report.
    pool.report("a")
    assert len(pool.sent(effects.KeepGroup)) == 1
    pool.deliver_all()
    pool.tick(10.0)
    pool.report("a")
    assert not pool.sent(effects.KeepGroup)


def test_a_new_agent_learns_all_orders(pool):
    group_id = create(pool, size=1)
    client_id = attach(pool, group_id)
    pool.settle()
    agent = pool.agents["a"]
    agent.restart()
    pool.feed(agent.report())
    pool.feed(agent.report())
    pool.deliver_all()
    order = agent.desks[group_id].order
    assert [one.client_id for one in order.clients] == [client_id]


def test_a_desk_of_no_group_ends(pool):
    pool.agents["a"].desks["other"] = world.Desk(revision=2**40)
    pool.report("a")
    (order,) = pool.sent(effects.KeepGroup)
    assert order.order.deleted
    assert order.order.group_id == "other"
    pool.agents["a"].desks.clear()
    pool.report("a")
    pool.wire.clear()
    pool.tick(30.0)
    pool.report("a")
    assert not pool.sent(effects.KeepGroup)


def test_slots_that_cannot_be_programmed(pool):
    group_id = create(pool, size=1)
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, codes.PREPARE_FAILED)
    (member,) = members(pool, group_id)
    assert member.slot.number == 1, "another slot"
    pool.settle()
    assert state(pool, group_id) == states.GROUP_ACTIVE


def test_an_accelerator_that_is_deleted(pool):
    group_id = create(pool, size=2)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.prepared(1)
    pool.feed(inputs.Library(()))
    agent.end(0, states.PREPARE_FAILED, codes.PREPARE_FAILED, pool.now)
    pool.feed(agent.report())
    pool.settle()
    # The member that is there serves on.
    assert [one.slot.number for one in members(pool, group_id)] == [1]
    assert len(pool.rows["assignments"]) == 1
    delete(pool, group_id)
    pool.settle()
    assert idle(pool)
    assert state(pool, group_id) == "gone"


def test_a_member_whose_worker_dies(pool):
    group_id = create(pool, min_size=2)
    pool.settle()
    generations = {one.generation for one in members(pool, group_id)}
    pool.end(states.FAILED, codes.WORKER_DIED)
    pool.settle()
    assert state(pool, group_id) == states.GROUP_ACTIVE
    now = {one.generation for one in members(pool, group_id)}
    assert len(now) == 2
    assert len(now & generations) == 1


def test_a_member_whose_worker_dies_before_it_joins_its_desk(pool):
    group_id = create(pool, size=1)
    pool.deliver_all()
    agent = pool.agents["a"]
    # The core counts on it from now on; its desk is not there yet.
    agent.slots[0].state = states.SLOT_READY
    agent.slots[0].programmed = "copy"
    pool.feed(agent.report())
    (before,) = members(pool, group_id)
    assert before.phase is model.Phase.ACTIVE
    pool.end(states.PREPARE_FAILED, codes.WORKER_DIED)
    assert before not in members(pool, group_id)
    for _ in range(20):
        pool.feed(agent.report())
    assert not pool.memory.probation.faults, "it is one failure"
    pool.settle()
    (member,) = members(pool, group_id)
    assert member.generation > before.generation
    assert agent.slots[member.slot.number].state == states.SLOT_ACTIVE
    assert state(pool, group_id) == states.GROUP_ACTIVE


def test_a_slot_whose_workers_die_before_members_join_is_taken_out(pool):
    group_id = create(pool, size=1)
    for _ in range(pool.settings.health.slot_limit):
        pool.deliver_all()
        (member,) = members(pool, group_id)
        agent = pool.agents[member.slot.host.uuid]
        agent.slots[member.slot.number].state = states.SLOT_READY
        pool.feed(agent.report())
        pool.end(
            states.PREPARE_FAILED,
            codes.WORKER_DIED,
            member.slot.number,
            agent.uuid,
        )
    assert pool.memory.probation.faults


@pytest.mark.parametrize(
    "code", [codes.BITSTREAM_UNFIT, codes.PROGRAM_FAILED, codes.WORKER_DIED]
)
def test_a_group_that_no_slot_serves_asks_ever_less_often(code):
    pool = world.Conductor(world.hosts(a=2, b=2), fault_limit=99)
    group_id = create(pool, size=1)
    tried: list[tuple[str, int]] = []

    def fail_all() -> None:
        while found := members(pool, group_id):
            (member,) = found
            pool.deliver_all()
            host, number = member.slot.host.uuid, member.slot.number
            tried.append((host, number))
            pool.end(states.PREPARE_FAILED, code, number, host)

    def go_on(passed_s: float) -> None:
        for _ in range(int(passed_s / 0.5)):
            for agent in pool.agents.values():
                pool.feed(agent.report())
            pool.tick(0.5)

    fail_all()
    # Three, one after the other, and then it rests.
    assert len(set(tried)) == len(tried) == 3
    for _ in range(60):
        go_on(5.0)
        fail_all()
    assert 6 <= len(tried) <= 12
    pool.settle(rounds=40)
    assert state(pool, group_id) == states.GROUP_ACTIVE
    # The next failure is a first one.
    tried.clear()
    (member,) = members(pool, group_id)
    pool.end(
        states.FAILED,
        codes.CORE_FAILED,
        member.slot.number,
        member.slot.host.uuid,
    )
    assert members(pool, group_id)


def test_a_group_that_rests_can_be_deleted(pool):
    group_id = create(pool, size=1)
    for _ in range(3):
        (member,) = members(pool, group_id)
        pool.deliver_all()
        pool.end(
            states.PREPARE_FAILED,
            codes.BITSTREAM_UNFIT,
            member.slot.number,
            member.slot.host.uuid,
        )
    assert not members(pool, group_id)
    delete(pool, group_id)
    pool.settle()
    assert state(pool, group_id) == "gone"


def test_slots_that_fail_at_once_do_not_delay_a_group_for_long(pool):
    group_id = create(pool, size=4)
    pool.deliver_all()
    for agent in pool.agents.values():
        for number in range(2):
            agent.end(
                number, states.PREPARE_FAILED, codes.WORKER_DIED, pool.now
            )
    pool.report()
    pool.settle(rounds=2, round_s=1.0)
    assert len(members(pool, group_id)) == 4


def test_a_host_that_is_lost(pool):
    group_id = create(pool, size=2)
    pool.settle()
    assert {one.slot.host.uuid for one in members(pool, group_id)} == {"a"}
    silent = pool.agents.pop("a")
    pool.agents["a"] = silent
    limit_s = pool.settings.lost_session_timeout_s
    passed_s = 0.0
    while passed_s < limit_s + 120.0:
        pool.wire = [
            one
            for one in pool.wire
            if getattr(one, "host_uuid", "") != "a"
            and getattr(getattr(one, "request", None), "host_uuid", "") != "a"
        ]
        pool.deliver_all()
        for number in range(2):
            pool.agents["b"].prepared(number)
        pool.report("b")
        pool.tick(5.0)
        passed_s += 5.0
    assert {one.slot.host.uuid for one in members(pool, group_id)} == {"b"}
    assert state(pool, group_id) == states.GROUP_ACTIVE
    # It comes back, and its slots are strays.
    pool.settle()
    assert all(
        slot.state == states.SLOT_IDLE for slot in pool.agents["a"].slots
    )
    assert len(members(pool, group_id)) == 2


def test_a_drain_moves_members(pool):
    group_id = create(pool, size=2)
    pool.settle()
    draining = model.AdminState.DRAINING
    assert administering.administer(pool, draining, 0.0, device=None)
    releases = pool.sent(effects.ReleaseSlot)
    assert {one.reason for one in releases} == {codes.DRAINED}
    pool.settle()
    assert {one.slot.host.uuid for one in members(pool, group_id)} == {"b"}
    assert state(pool, group_id) == states.GROUP_ACTIVE


def test_a_session_gets_the_slot_of_a_member(pool):
    group_id = create(pool, size=4, min_size=1)
    pool.settle()
    session = pool.open()
    pool.settle()
    assert pool.view(session).state == states.READY
    assert len(members(pool, group_id)) == 3


# A new leader.


def test_a_new_leader_keeps_the_members(pool):
    group_id = create(pool, size=3)
    client_id = attach(pool, group_id)
    pool.settle()
    before = {one.slot.id: one.generation for one in members(pool, group_id)}
    revision = pool.agents["a"].desks[group_id].revision
    pool.boot_conductor()
    assert before == {
        one.slot.id: one.generation for one in members(pool, group_id)
    }
    pool.settle()
    assert before == {
        one.slot.id: one.generation for one in members(pool, group_id)
    }
    assert state(pool, group_id) == states.GROUP_ACTIVE
    desk = pool.agents["a"].desks[group_id]
    assert desk.revision > revision
    assert [one.client_id for one in desk.order.clients] == [client_id]
    delete(pool, group_id)
    pool.settle()
    assert idle(pool)
    assert state(pool, group_id) == "gone"


def test_a_new_leader_prepares_on(pool):
    group_id = create(pool, size=2)
    pool.boot_conductor()
    pool.settle()
    assert state(pool, group_id) == states.GROUP_ACTIVE
    assert len(members(pool, group_id)) == 2


def test_a_member_whose_group_is_gone(pool):
    group_id = create(pool, size=1)
    pool.settle()
    pool.rows["groups"].clear()
    pool.boot_conductor()
    assert not pool.rows["assignments"]
    pool.settle()
    assert idle(pool)
    assert group_id not in pool.agents["a"].desks


# Tasks.


class Recorder(elasticity.Policy):
    """Remembers what it sees; it lets a group grow when told so."""

    def __init__(self) -> None:
        self.views: list[elasticity.View] = []
        self.sizes: dict[int, int] = {}
        self.refusal: goals.Infeasible | None = None

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        """Return the sizes that the test has set."""
        self.views.append(view)
        return self.sizes

    def admit(
        self, view: elasticity.View, group_id: int, now: float
    ) -> elasticity.Sizes:
        """Refuse what the test wants refused."""
        if self.refusal is not None:
            raise self.refusal
        return {}


@pytest.fixture
def policy() -> Recorder:
    return Recorder()


@pytest.fixture
def elastic(policy: Recorder) -> world.Conductor:
    return world.Conductor(world.hosts(a=2, b=2), policy=policy)


def test_sizes_follow_the_policy(elastic, policy):
    group_id = create(elastic, size=2, elastic=True, min_size=1, max_size=4)
    other = create(elastic, size=2, elastic=True, min_size=1, max_size=4)
    elastic.settle()
    policy.sizes = {1: 1, 2: 3}
    elastic.settle()
    assert len(members(elastic, group_id)) == 1
    assert len(members(elastic, other)) == 3
    sizes = [row.size for row in elastic.rows["groups"].values()]
    assert sizes == [1, 3]
    assert state(elastic, other) == states.GROUP_ACTIVE
    # The next leader begins with these.
    elastic.boot_conductor()
    policy.sizes = {}
    elastic.settle()
    assert len(members(elastic, other)) == 3


def test_a_goal_that_is_refused_changes_nothing(elastic, policy):
    policy.refusal = goals.Infeasible("too much", elastic.now + 90.0)
    wanted = group_steps.new(
        size=1,
        elastic=True,
        goal=objects.Goal(deadline_at=elastic.now + 30.0, actions=100),
    )
    assert ask(elastic, wanted) == codes.GOAL_INFEASIBLE
    assert not elastic.rows["groups"]
    assert not elastic.memory.groups.groups
    assert not elastic.sent(effects.AssignSlot)
    policy.refusal = None
    assert ask(elastic, wanted) == ""
    policy.refusal = goals.Infeasible("too much")
    change = objects.SetGoal(
        group_id=wanted.group_id, goal=objects.Goal(rate_per_s=1e6)
    )
    before = dict(elastic.rows["groups"])
    assert ask(elastic, change) == codes.GOAL_INFEASIBLE
    assert elastic.rows["groups"] == before


def test_tasks_are_counted_by_differences(elastic, policy):
    group_id = create(elastic, size=1, elastic=True, min_size=1, max_size=2)
    client_id = attach(elastic, group_id)
    elastic.settle()
    desk = elastic.agents["a"].desks[group_id]
    elastic.tick(10.0)
    policy.views.clear()
    # A report is lost: the next one has its counts, too.
    desk.count(client_id, ended=4, arrived=6, busy_s=2.0, waiting=2, running=1)
    elastic.agents["a"].report()
    desk.count(client_id, ended=4, arrived=2, busy_s=2.0, waiting=1, running=1)
    elastic.report("a", "b")
    elastic.report("a", "b")
    elastic.tick(10.0)
    (group,) = policy.views[-1].groups
    assert group.waiting_s == pytest.approx(0.5)
    assert group.arrived_s == pytest.approx(4.0)
    # The desk begins anew, and counts from 0.
    desk.boot_id, desk.counts = "2", {}
    desk.count(client_id, ended=2, arrived=3, busy_s=1.0, waiting=0, running=1)
    elastic.report("a", "b")
    elastic.tick(10.0)
    (group,) = policy.views[-1].groups
    assert group.arrived_s == pytest.approx(1.5)
    # A new leader does not count them again.
    elastic.boot_conductor()
    elastic.report("a", "b")
    desk.count(client_id, ended=2, arrived=2, busy_s=2.0, waiting=0, running=0)
    elastic.report("a", "b")
    elastic.tick(10.0)
    (group,) = policy.views[-1].groups
    assert group.arrived_s == pytest.approx(2.0)


def test_a_goal_from_its_first_task_to_the_last(elastic):
    group_id = create(
        elastic,
        size=1,
        elastic=True,
        min_size=1,
        max_size=2,
        goal=objects.Goal(rate_per_s=2.0, actions=10),
    )
    client_id = attach(elastic, group_id)
    elastic.settle()
    desk = elastic.agents["a"].desks[group_id]
    desk.count(client_id, ended=4, arrived=10, busy_s=4, waiting=5, running=1)
    elastic.report("a", "b")
    (row,) = elastic.rows["groups"].values()
    assert row.actions_done == 4
    elastic.tick(10.0)
    found = view(elastic, group_id)
    assert found.actions_done == 4
    assert found.goal_progress is not None
    assert found.goal_progress < 1
    assert found.goal_slots
    assert found.expected_finish_at > elastic.now
    # A new leader goes on from there.
    elastic.boot_conductor()
    elastic.report("a", "b")
    desk.count(client_id, ended=6, waiting=0, running=0, busy_s=6)
    elastic.report("a", "b")
    (row,) = elastic.rows["groups"].values()
    assert row.actions_done == row.actions == 10
    assert view(elastic, group_id).goal_progress is None
    elastic.boot_conductor()
    elastic.settle()
    assert view(elastic, group_id).goal_progress is None
    # The same goal again begins anew.
    goal = objects.Goal(rate_per_s=2.0, actions=10)
    assert ask(elastic, objects.SetGoal(group_id=group_id, goal=goal)) == ""
    assert view(elastic, group_id).goal_slots
    (row,) = elastic.rows["groups"].values()
    assert row.actions_done == 0


def work(pool: world.Conductor, seconds: int) -> None:
    """Let all members end a task each second, as long as there are clients."""
    for _ in range(seconds):
        for agent in pool.agents.values():
            for group_id, desk in agent.desks.items():
                here = [
                    one
                    for one in members(pool, group_id)
                    if one.serves and one.slot.host.uuid == agent.uuid
                ]
                for client in desk.order.clients[:1] if desk.order else ():
                    desk.count(
                        client.client_id,
                        ended=len(here),
                        arrived=len(here),
                        busy_s=float(len(here)),
                        waiting=50,
                        running=len(here),
                    )
        pool.settle(1, 1.0)


@pytest.mark.parametrize("name", ["edf", "throughput", "hybrid"])
def test_a_group_that_may_be_empty_has_members_while_it_has_a_goal(name):
    """Without a member it has no desk: no task of it would ever begin."""
    pool = world.Conductor(
        world.hosts(a=2, b=2),
        policy=getattr(policies, f"make_{name}")({}),
    )
    limits = {"elastic": True, "min_size": 0, "max_size": 4}
    far = objects.Goal(deadline_at=pool.now + 3000.0, actions=1000)
    busy = create(pool, size=3, goal=far, **limits)
    attach(pool, busy)
    work(pool, 6)
    assert members(pool, busy)
    due_at = pool.now + 40.0
    soon = objects.Goal(deadline_at=due_at, actions=12)
    group_id = create(pool, size=1, goal=soon, **limits)
    assert view(pool, group_id).goal_kind
    attach(pool, group_id)
    work(pool, 9)
    assert view(pool, group_id).actions_done
    while view(pool, group_id).goal_progress is not None:
        assert pool.now < due_at
        work(pool, 1)
    work(pool, 5)
    assert members(pool, group_id) == []
    assert state(pool, group_id) == states.GROUP_ACTIVE
    # It serves its clients again when it has another goal.
    again = objects.Goal(deadline_at=pool.now + 40.0, actions=12)
    wanted = objects.SetGoal(group_id=group_id, goal=again)
    assert ask(pool, wanted) == ""
    work(pool, 9)
    assert view(pool, group_id).actions_done


def test_progress_alone_is_no_notification(elastic):
    create(elastic, size=1, elastic=True, goal=objects.Goal(rate_per_s=2.0))
    (row,) = elastic.rows["groups"].values()
    notes = journal.Journal(elastic._snapshot())
    more = dataclasses.replace(row, actions_done=5)
    assert notes.events(db_api.Changes.of([more])) == []
    other = dataclasses.replace(more, state=states.GROUP_DEGRADED)
    (told,) = notes.events(db_api.Changes.of([other]))
    assert told.payload.state == states.GROUP_DEGRADED
    assert told.payload.actions_done == 5


def test_notifications_of_the_life_of_a_group(elastic, policy, monkeypatch):
    notes = journal.Journal(elastic._snapshot())
    told: list[str] = []
    take = elastic._take

    def note(wanted: effects.Effects) -> None:
        told.extend(one.type for one in notes.events(wanted.changes))
        take(wanted)

    monkeypatch.setattr(elastic, "_take", note)

    def news() -> list[str]:
        found = [one for one in told if one.startswith("group.")]
        told.clear()
        return found

    group_id = create(elastic, size=2, elastic=True, min_size=1, max_size=2)
    assert news() == ["group.create"]
    elastic.settle()
    assert news() == ["group.update"], "it is ACTIVE"
    client_id = attach(elastic, group_id)
    assert news() == ["group.client.attach"]
    policy.sizes = {1: 1}
    elastic.settle()
    assert [one.size for one in elastic.rows["groups"].values()] == [1]
    assert set(news()) == {"group.update"}
    goal = objects.Goal(rate_per_s=1.0, actions=5)
    assert ask(elastic, objects.SetGoal(group_id=group_id, goal=goal)) == ""
    assert news() == ["group.update"]
    desk = elastic.agents["a"].desks[group_id]
    for ended, expected in ((2, []), (3, ["group.goal.reach"])):
        desk.count(client_id, ended=ended, arrived=ended, waiting=0, running=0)
        elastic.report("a")
        assert news() == expected
    assert ask(elastic, objects.SetGoal(group_id=group_id, goal=None)) == ""
    assert news() == ["group.update"]
    ask(elastic, objects.RevokeClient(group_id=group_id, client_id=client_id))
    assert news() == ["group.client.revoke"]
    client_id = attach(elastic, group_id)
    ask(
        elastic,
        objects.RevokeClient(
            group_id=group_id, client_id=client_id, ended=True
        ),
    )
    assert news() == ["group.client.attach", "group.client.end"]
    desk.away = {attach(elastic, group_id)}
    news()
    pass_time(elastic, elastic.settings.connect_timeout_s + 10.0, "a")
    assert news() == ["group.client.end"], "its program is gone"
    attach(elastic, group_id)
    delete(elastic, group_id)
    elastic.settle()
    assert news() == [
        *("group.client.attach", "group.update", "group.client.revoke"),
        "group.delete",
    ]


def usage(pool: world.Conductor) -> dict[str, tuple[float, float]]:
    """Return the busy and the idle time of each project in groups."""
    rows = pool.rows["usage"].values()
    for row in rows:
        assert row.slot_s == pytest.approx(row.group_busy_s + row.group_idle_s)
    return {
        row.project_id: (row.group_busy_s, row.group_idle_s) for row in rows
    }


def test_busy_time_is_the_clients_and_idle_time_the_owners(elastic):
    group_id = create(elastic, size=1, shared=True)
    client_id = attach(elastic, group_id, "q")
    elastic.settle()
    began_at = elastic.rows["assignments"][1].assigned_at
    desk = elastic.agents["a"].desks[group_id]
    desk.count(client_id, ended=3, arrived=3, busy_s=7.0, waiting=0, running=0)
    elastic.tick(10.0)
    elastic.report("a")
    used = usage(elastic)
    assert used["q"] == (pytest.approx(7.0), 0.0)
    assert used["p"] == (0.0, pytest.approx(elastic.now - began_at - 7.0))
    (row,) = elastic.rows["group_clients"].values()
    assert (row.tasks, row.slot_s) == (3, pytest.approx(7.0))
    # The last tasks of a client that is gone are its project's, too.
    ask(elastic, objects.RevokeClient(group_id=group_id, client_id=client_id))
    desk.count(client_id, ended=1, busy_s=2.0, waiting=0, running=0)
    elastic.tick(5.0)
    elastic.report("a")
    assert usage(elastic)["q"] == (pytest.approx(9.0), 0.0)
    # A member is charged to its end.
    delete(elastic, group_id)
    elastic.deliver_all()
    elastic.tick(4.0)
    elastic.agents["a"].desks.clear()
    elastic.report("a")
    assert not elastic.memory.holds
    total_s = sum(map(sum, usage(elastic).values()))
    assert total_s == pytest.approx(elastic.now - began_at)
    elastic.settle()
    assert not elastic.rows["group_desks"]


def test_a_member_with_a_long_task_is_not_idle(pool):
    group_id = create(pool, size=2)
    client_id = attach(pool, group_id)
    pool.settle()
    agent = pool.agents["a"]
    desk = agent.desks[group_id]
    pool.feed(agent.report())
    (busy_s, idle_s) = usage(pool)["p"]
    desk.count(client_id, arrived=1, waiting=0, running=1)
    for _ in range(3):
        pool.tick(10.0)
        pool.feed(agent.report())
    assert usage(pool)["p"] == (busy_s, pytest.approx(idle_s + 30.0))
    # It began after the first report that had it.
    desk.count(client_id, ended=1, busy_s=27.0, waiting=0, running=0)
    pool.tick(10.0)
    pool.feed(agent.report())
    assert usage(pool)["p"] == (
        pytest.approx(busy_s + 27.0),
        pytest.approx(idle_s + 80.0 - 27.0),
    )


def test_the_owner_pays_for_a_task_whose_desk_is_gone(pool):
    group_id = create(pool, size=1)
    client_id = attach(pool, group_id)
    pool.settle()
    began_at = pool.rows["assignments"][1].assigned_at
    agent = pool.agents["a"]
    desk = agent.desks[group_id]
    desk.count(client_id, arrived=1, waiting=0, running=1)
    for _ in range(2):
        pool.tick(10.0)
        pool.feed(agent.report())
    _, idle_s = usage(pool)["p"]
    assert idle_s <= pool.now - began_at - 10.0
    # The task dies with its member and its desk, and nothing counts it.
    delete(pool, group_id)
    pool.deliver_all()
    pool.tick(1.0)
    agent.desks.clear()
    pool.feed(agent.report())
    ended_at = pool.now
    pool.settle()
    assert state(pool, group_id) == "gone"
    assert usage(pool)["p"] == (0.0, pytest.approx(ended_at - began_at))


def test_figures_of_groups(pool):
    first, second = create(pool, size=2), create(pool, size=1)
    client_id = attach(pool, first)
    pool.deliver_all()
    found = pool.ask.figures(0, 5).groups
    of_group = summary.GroupFigures
    assert found[first] == of_group(wanted=2, programming=2)
    assert found[summary.OTHER] == of_group()
    pool.tick(4.0)
    pool.report()
    assert pool.counts.group_slot_s == {"programming": 12.0}
    pool.settle()
    desk = pool.agents["a"].desks[first]
    desk.count(client_id, ended=3, arrived=7, busy_s=1.5, waiting=4, running=0)
    pool.report()
    found = pool.ask.figures(0, 1).groups
    assert found == {
        first: of_group(wanted=2, serving=2, waiting=4),
        summary.OTHER: of_group(wanted=1, serving=1),
    }
    counts = pool.counts
    assert (counts.group_tasks, counts.group_busy_s) == (3, 1.5)
    assert counts.moved_bytes == 3 * sum(world.TASK_BYTES.values())
    assert counts.group_slot_s["serving"] > 0
    for size in (3, 1):
        update = objects.UpdateGroup(
            group_id=second, size=size, min_size=0, max_size=size
        )
        assert ask(pool, update) == ""
    assert counts.group_resizes == {"grow": 1, "shrink": 1}
    delete(pool, first)
    assert pool.ask.figures(0, 2).groups[first].wanted == 0


def counted(pool: world.Conductor) -> tuple[int, float]:
    """Return the ended tasks of the client and their charged time."""
    (row,) = pool.rows["group_clients"].values()
    assert usage(pool)["q"][0] == pytest.approx(row.slot_s)
    for name, one_bytes in world.TASK_BYTES.items():
        moved_bytes = {
            one.project_id: getattr(one, name)
            for one in pool.rows["usage"].values()
        }
        assert moved_bytes.get("q") == one_bytes * row.tasks
        assert not moved_bytes.get("p"), "the owner pays none of it"
    return row.tasks, pytest.approx(row.slot_s)


def test_a_client_that_ends_before_a_report_of_its_use_pays(elastic):
    group_id = create(elastic, size=1, shared=True)
    elastic.settle()
    client_id = attach(elastic, group_id, "q")
    ask(elastic, objects.RevokeClient(group_id=group_id, client_id=client_id))
    desk = elastic.agents["a"].desks[group_id]
    # It had a lock.
    desk.count(client_id, busy_s=2.0, waiting=0, running=0)
    elastic.tick(5.0)
    elastic.report("a")
    assert usage(elastic)["q"] == (pytest.approx(2.0), 0.0)
    assert usage(elastic)["p"][0] == 0.0


def test_a_desk_that_was_in_no_report_is_not_counted_twice(elastic):
    group_id = create(elastic, size=1, shared=True)
    client_id = attach(elastic, group_id, "q")
    elastic.settle()
    agent = elastic.agents["a"]
    desk = agent.desks[group_id]
    desk.count(client_id, ended=3, arrived=5, busy_s=3.0, waiting=0, running=0)
    elastic.feed(agent.report())
    # Its member is gone, and so is the desk, as it seems.
    elastic.end(states.FAILED, codes.WORKER_DIED)
    for passed_s in (5.0, 300.0):
        del agent.desks[group_id]
        elastic.tick(passed_s)
        elastic.feed(agent.report())
        agent.desks[group_id] = desk
        desk.count(client_id, ended=1, busy_s=1.0, waiting=0, running=0)
        elastic.feed(agent.report())
    assert counted(elastic) == (5, 5.0)
    # The same while its agent has not asked it yet.
    counts, desk.counts = desk.counts, {}
    desk.boot_id, desk.away = "", {client_id}
    elastic.feed(agent.report())
    desk.boot_id, desk.counts, desk.away = "1", counts, set()
    elastic.feed(agent.report())
    assert counted(elastic) == (5, 5.0)
    # Another process counts from 0.
    desk.boot_id, desk.counts = "2", {}
    desk.count(client_id, ended=2, arrived=2, busy_s=1, waiting=0, running=0)
    elastic.feed(agent.report())
    assert counted(elastic) == (7, 6.0)


def test_tasks_between_two_leaders_are_counted_once(elastic, policy):
    group_id = create(elastic, size=1, shared=True)
    client_id = attach(elastic, group_id, "q")
    elastic.settle()
    began_at = elastic.rows["assignments"][1].assigned_at
    agent = elastic.agents["a"]
    desk = agent.desks[group_id]
    desk.count(client_id, ended=3, arrived=3, busy_s=3.0, waiting=0, running=0)
    elastic.feed(agent.report())
    # The first report that the next leader gets has more.
    elastic.boot_conductor()
    elastic.now += 20.0
    desk.count(client_id, ended=2, arrived=2, busy_s=2.0, waiting=0, running=0)
    elastic.feed(agent.report())
    assert counted(elastic) == (5, 5.0)
    elastic.boot_conductor()
    elastic.feed(agent.report())
    assert counted(elastic) == (5, 5.0)
    total_s = sum(map(sum, usage(elastic).values()))
    assert total_s == pytest.approx(elastic.now - began_at)


@pytest.mark.parametrize("seed", range(10))
def test_every_task_is_charged_once_whatever_happens(seed):
    """Reports that are lost, desks that are not in one, or that are new, and
    new leaders.
    """
    rng = random.Random(seed)
    pool = world.Conductor(world.hosts(a=2, b=2))
    group_id = create(pool, size=3, shared=True)
    client_id = attach(pool, group_id, "q")
    pool.settle()
    began_at = pool.rows["assignments"][1].assigned_at
    tasks = 0
    for _ in range(60):
        agent = pool.agents[rng.choice("ab")]
        desk = agent.desks[group_id]
        number = rng.randrange(4)
        tasks += number
        desk.count(
            client_id,
            ended=number,
            arrived=number,
            busy_s=0.25 * number,
            waiting=0,
            running=rng.randrange(2),
        )
        match rng.randrange(6):
            case 0:
                pool.boot_conductor()
            case 1:
                agent.report()
            case 2:
                del agent.desks[group_id]
                pool.feed(agent.report())
                agent.desks[group_id] = desk
            case 3:
                pool.feed(agent.report())
                desk.boot_id += "1"
                desk.counts.clear()
            case _:
                pool.feed(agent.report())
        pool.tick(rng.uniform(0.0, 3.0))
        pool.deliver_all()
    for agent in pool.agents.values():
        agent.desks[group_id].count(client_id, waiting=0, running=0)
        pool.feed(agent.report())
    assert counted(pool) == (tasks, 0.25 * tasks)
    # All three members were held all the time.
    held_s = sum(map(sum, usage(pool).values()))
    assert held_s == pytest.approx(3 * (pool.now - began_at))


# Programs that are gone.


def clients(pool: world.Conductor) -> set[str]:
    return {row.client_id for row in pool.rows["group_clients"].values()}


def pass_time(pool: world.Conductor, time_s: float, *agents: str) -> None:
    """Let time pass, with a report of each of these agents every 5 s."""
    while time_s > 0:
        pool.tick(min(time_s, 5.0))
        for name in agents or ("a", "b"):
            pool.feed(pool.agents[name].report())
        pool.tick()
        pool.deliver_all()
        time_s -= 5.0


def test_a_client_whose_program_dies_ends(pool):
    group_id = create(pool, size=3)
    gone, stays = attach(pool, group_id), attach(pool, group_id)
    pool.settle()
    first, second = (one.desks[group_id] for one in pool.agents.values())
    # One connection is enough.
    first.away = {gone, stays}
    pass_time(pool, 60.0)
    assert clients(pool) == {gone, stays}
    grace_s = pool.settings.resume_grace_s
    second.away = {gone}
    pass_time(pool, grace_s)
    second.away = set()
    pass_time(pool, grace_s)
    assert clients(pool) == {gone, stays}, "it came back in time"
    second.away = {gone}
    pass_time(pool, grace_s + 10.0)
    assert clients(pool) == {stays}
    assert pool.memory.groups.in_use("p")["group_clients"] == 1
    assert [one.client_id for one in first.order.clients] == [stays]


def test_a_client_that_never_connects_ends(pool):
    group_id = create(pool, size=1)
    client_id = attach(pool, group_id)
    pool.deliver_all()
    pool.agents["a"].desks[group_id].away = {client_id}
    # There is nothing to connect to.
    pool.agents["a"].desks[group_id].has_endpoints = False
    limit_s = pool.settings.connect_timeout_s
    pass_time(pool, 2 * limit_s)
    pool.settle()
    assert clients(pool) == {client_id}
    pool.agents["a"].desks[group_id].has_endpoints = True
    pass_time(pool, limit_s - 5.0)
    assert clients(pool) == {client_id}
    pass_time(pool, 15.0)
    assert clients(pool) == set()


def test_a_client_is_not_missed_at_a_desk_without_members(elastic, policy):
    group_id = create(elastic, size=1, elastic=True, min_size=0, max_size=1)
    elastic.settle()
    agent = elastic.agents["a"]
    desk = agent.desks[group_id]
    policy.sizes = {1: 0}
    elastic.settle()
    assert members(elastic, group_id) == []
    client_id = attach(elastic, group_id)
    elastic.deliver_all()
    # A desk goes on for a while. Clients are not told of it.
    agent.desks[group_id] = desk
    desk.away = {client_id}
    assert view(elastic, group_id).hosts == ()
    pass_time(elastic, 3 * elastic.settings.connect_timeout_s)
    assert clients(elastic) == {client_id}


def test_a_client_that_could_not_learn_where_to_connect_stays(pool):
    group_id = create(pool, size=1)
    pool.settle()
    client_id = attach(pool, group_id)
    pool.deliver_all()
    pool.agents["a"].desks[group_id].away = {client_id}
    limit_s = pool.settings.connect_timeout_s
    pass_time(pool, 1.0)
    pool.engine.set_database_state(0, failing=True)
    pass_time(pool, 2 * limit_s)
    pool.engine.set_database_state(0, failing=False)
    pass_time(pool, limit_s - 5.0)
    assert clients(pool) == {client_id}
    pass_time(pool, 15.0)
    assert clients(pool) == set()


def test_a_client_stays_while_its_desks_cannot_be_heard(pool):
    group_id = create(pool, size=3)
    client_id = attach(pool, group_id)
    pool.settle()
    first, second = (one.desks[group_id] for one in pool.agents.values())
    # It is connected to the desk on a, whose agent is away.
    second.away = {client_id}
    pass_time(pool, 120.0, "b")
    assert clients(pool) == {client_id}
    # Nor does a new leader know at once.
    first.away = {client_id}
    pool.boot_conductor()
    pass_time(pool, 20.0, "b")
    assert clients(pool) == {client_id}
    first.away = set()
    pass_time(pool, 60.0)
    assert clients(pool) == {client_id}


# Chance.


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_end_with_an_idle_pool(seed):
    """Lost and doubled messages, new leaders, restarts of agents."""
    rng = random.Random(seed)
    policy = Recorder()
    pool = world.Conductor(world.hosts(a=2, b=2), policy=policy)
    groups: list[str] = []
    for _ in range(60):
        match rng.randrange(11):
            case 0 if len(groups) < 3:
                size = rng.randint(1, 3)
                groups.append(
                    create(
                        pool,
                        size=size,
                        min_size=rng.randint(0, size),
                        max_size=4,
                        elastic=rng.random() < 0.5,
                    )
                )
            case 1 if groups:
                delete(pool, groups.pop(rng.randrange(len(groups))))
            case 2 if groups:
                attach(pool, rng.choice(groups))
            case 3 if groups:
                size = rng.randint(1, 4)
                update = objects.UpdateGroup(
                    group_id=rng.choice(groups),
                    size=size,
                    min_size=rng.randint(0, size),
                    max_size=size,
                )
                ask(pool, update)
            case 4:
                pool.open(rng.choice("ab"))
            case 5 if rng.random() < 0.3:
                pool.boot_conductor()
            case 6 if rng.random() < 0.5:
                agent = pool.agents[rng.choice("ab")]
                agent.restart(workers_too=rng.random() < 0.5)
            case 7:
                agent = pool.agents[rng.choice("ab")]
                number = rng.randrange(2)
                if agent.slots[number].state == states.SLOT_ACTIVE:
                    agent.end(
                        number, states.FAILED, codes.WORKER_LOST, pool.now
                    )
            case 8:
                policy.sizes = {
                    group.id: rng.randint(0, 4)
                    for group in pool.memory.groups.groups.values()
                }
            case _:
                pool.tick(rng.choice((0.0, 1.0, 5.0)))
        for agent in pool.agents.values():
            for desk in agent.desks.values():
                desk.count(
                    "c", ended=1, arrived=1, busy_s=0.1, waiting=1, running=0
                )
        for _ in range(rng.randrange(4)):
            if not pool.wire:
                break
            message = pool.wire.pop(rng.randrange(len(pool.wire)))
            if rng.random() < 0.8:
                pool.deliver(message)
            if rng.random() < 0.2:
                pool.deliver(message)
        agent = pool.agents[rng.choice("ab")]
        for number in range(2):
            if rng.random() < 0.5:
                answer = agent.prepared(number)
                if answer:
                    pool.feed(answer)
        if rng.random() < 0.7:
            pool.feed(agent.report())
    for group_id in groups:
        delete(pool, group_id)
    for row in list(pool.rows["sessions"].values()):
        if row.state in states.LIVE:
            pool.cancel(row.request_id)
    for _ in range(4):
        pool.settle()
    assert not pool.memory.groups.groups
    assert not pool.rows["groups"]
    assert not pool.memory.holds
    assert not pool.rows["assignments"]
    assert idle(pool)
    assert not any(agent.desks for agent in pool.agents.values())
