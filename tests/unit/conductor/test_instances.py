# SPDX-License-Identifier: Apache-2.0

"""Instances: tokens, limits, and what becomes of them."""

import dataclasses
import typing
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.clients import nova
from fpgapool.common import exception
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.outside import instance_watch
from fpgapool.db import api as db_api
from fpgapool.objects import instance
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world as worlds

State = db_api.ComputeState

VM = str(uuid.UUID(int=1))
OTHER = str(uuid.UUID(int=2))
HASH = "ab" * 32


def entry(instance_id: str = VM, **members) -> objects.InstanceEntry:
    values = {
        "project_id": "p",
        "name": "web",
        "token_nonce": "0" * 32,
        "token_hash": HASH,
    }
    return objects.InstanceEntry(
        instance_id=instance_id, **{**values, **members}
    )


def record(instance_id: str = VM, **members) -> db_api.InstanceRecord:
    values = {
        "id": 1,
        "project_id": "p",
        "token_nonce": "0" * 32,
        "token_hash": HASH,
        "created_at": 100.0,
    }
    return db_api.InstanceRecord(
        instance_id=instance_id, **{**values, **members}
    )


def server(instance_id: str = VM, **members) -> nova.Server:
    return nova.Server(
        **{"id": instance_id, "project_id": "p", "extra_specs": {}, **members}
    )


def make_world(**settings) -> worlds.Conductor:
    world = worlds.Conductor(
        worlds.hosts(a=2, b=2),
        **settings,
    )
    world.feed(inputs.AdmitInstance(entry(max_sessions=2)))
    return world


def opened(world: worlds.Conductor, instance_id: str = VM, **members) -> str:
    """Open a session as the API does for an instance."""
    return world.open(None, user_id=instance.user_of(instance_id), **members)


def refusal(world: worlds.Conductor, request_id: str) -> str:
    assert world.view_or_none(request_id) is None
    return refusals(world)[request_id]


def refusals(world: worlds.Conductor) -> dict[str, str]:
    """Return why requests were refused, by their names."""
    return {
        message.view.request_id: message.view.reason
        for message in world.wire
        if isinstance(message, effects.PublishSession)
        and message.view.state == states.REJECTED
    }


def row(world: worlds.Conductor) -> db_api.InstanceRecord:
    (found,) = world.rows["instances"].values()
    return found


def test_an_instance_gets_one_row_and_keeps_its_first_token():
    world = make_world()
    world.feed(
        inputs.AdmitInstance(
            entry(token_nonce="1" * 32, token_hash="cd" * 32, name="new")
        )
    )
    assert row(world).token_hash == HASH
    assert row(world).name == "new"
    assert row(world).created_at == world.now
    # Another one has a row of its own, also under the next leader.
    world.boot_conductor()
    world.feed(inputs.AdmitInstance(entry(OTHER)))
    assert sorted(world.rows["instances"]) == [1, 2]


def test_a_token_is_replaced_only_if_it_is_the_one_that_was_lost():
    world = make_world()
    for lost, expected in (("ef" * 32, HASH), (HASH, "cd" * 32)):
        new = entry(token_nonce="1" * 32, token_hash="cd" * 32)
        world.feed(inputs.AdmitInstance(new, lost))
        assert row(world).token_hash == expected


def test_a_lost_token_stays_lost():
    world = make_world()
    world.feed(inputs.RevokeInstance(VM), inputs.RevokeInstance(OTHER))
    world.boot_conductor()
    world.feed(inputs.AdmitInstance(entry()))
    assert row(world).token_revoked
    assert not row(world).usable


def test_limit_of_sessions_counts_those_that_wait_and_run():
    world = make_world()
    first, second = opened(world), opened(world)
    assert refusal(world, opened(world)) == codes.INSTANCE_SESSION_LIMIT
    world.settle()
    assert world.view(first).state == states.READY
    assert refusal(world, opened(world)) == codes.INSTANCE_SESSION_LIMIT
    # Others of the project are not concerned, nor is it after an end.
    assert world.view(world.open(None)).state in states.LIVE
    world.cancel(second)
    assert world.view(opened(world)).session_id


def test_limit_holds_in_one_batch_and_after_a_change_of_leader():
    world = make_world()
    user = instance.user_of(VM)
    batch = [
        worlds.opening(
            worlds.request(
                request_id=f"x{number}", user_id=user, host_uuid=None
            )
        )
        for number in range(5)
    ]
    world.feed(*batch)
    found = [world.view_or_none(f"x{number}") for number in range(5)]
    assert [view is not None for view in found] == [True] * 2 + [False] * 3
    world.boot_conductor()
    assert refusal(world, opened(world)) == codes.INSTANCE_SESSION_LIMIT


def test_a_limit_of_none_at_all():
    world = make_world()
    world.feed(inputs.AdmitInstance(entry(max_sessions=0)))
    assert refusal(world, opened(world)) == codes.INSTANCE_SESSION_LIMIT


def test_reopening_does_not_pass_the_limit():
    world = make_world()
    world.feed(inputs.AdmitInstance(entry(max_sessions=1)))
    moved = opened(world)
    world.settle()
    agent = next(a for a in world.agents.values() if _serving(a))
    number = _serving(agent)[0]
    agent.slots[number].state = states.SLOT_ACTIVE
    world.feed(agent.report())
    world.end(states.FAILED, codes.WORKER_DIED, number, agent.uuid)
    view = world.view(moved)
    assert view.reason in codes.REOPENABLE
    other = opened(world)
    again = worlds.reopening(view, "")
    world.feed(again)
    assert world.view(moved).state not in states.LIVE
    world.cancel(other)
    world.feed(again)
    assert world.view(moved).state in states.LIVE


def _serving(agent: worlds.FakeAgent) -> list[int]:
    return [n for n, slot in enumerate(agent.slots) if slot.session_id]


@pytest.mark.parametrize(
    ("instance_id", "project_id"), [(OTHER, "p"), (VM, "q")]
)
def test_nobody_opens_for_an_instance_that_is_not_there(
    instance_id, project_id
):
    world = make_world()
    request_id = opened(world, instance_id, project_id=project_id)
    assert refusal(world, request_id) == codes.INSTANCE_DELETED


def test_sessions_of_a_deleted_instance_end():
    world = make_world()
    waiting, theirs = opened(world), world.open(None)
    ready = opened(world)
    world.settle()
    world.feed(inputs.InstanceDeleted(VM))
    for request_id in (waiting, ready):
        view = world.view(request_id)
        assert view.state == states.CANCELLED
        assert view.reason == codes.INSTANCE_DELETED
    assert world.view(theirs).state == states.READY
    assert row(world).deleted_at == world.now
    world.settle()
    assert len(world.memory.holds) == 1
    # Twice is once, and nothing brings it back.
    world.feed(inputs.InstanceDeleted(VM), inputs.AdmitInstance(entry()))
    assert len(world.rows["instances"]) == 1
    assert VM not in world.memory.instances.live
    assert refusal(world, opened(world)) == codes.INSTANCE_DELETED


def test_a_request_of_somebody_else_is_not_told_to_an_instance():
    world = make_world()
    world.feed(inputs.AdmitInstance(entry(OTHER)))
    theirs, own = world.open(None), opened(world)
    for request_id, user in (
        (theirs, instance.user_of(VM)),
        (own, instance.user_of(OTHER)),
        (own, "u"),
    ):
        request = worlds.request(
            request_id=request_id, user_id=user, host_uuid=None
        )
        world.feed(worlds.opening(request))
        assert refusals(world)[request_id] == codes.REQUEST_ID_REUSED
    # A member of the project may repeat what another one has asked for.
    assert world.open(None, user_id="u2", request_id=theirs) == theirs
    assert world.view(theirs).user_id == "u"


@pytest.mark.parametrize("local", [False, True])
def test_the_next_session_counts_as_from_where_the_instance_is(local):
    world = make_world(instances_are_local=local)
    hosts = []
    for host_uuid in ("a", "b", None, "nowhere"):
        world.feed(inputs.InstanceChanged(VM, host_uuid, None))
        hosts.append(world.view(opened(world)).host_uuid)
    assert hosts == (["a", "b", None, None] if local else [None] * 4)
    assert row(world).host_uuid == "nowhere"


def counted(world, request_id):
    """Return where a session counts, in all places that say it."""
    view = world.view(request_id)
    job = world.memory.core.view.jobs.records[1].job
    uuids = {
        host.id: host.uuid for host in world.memory.registry.hosts.values()
    }
    (session,) = world.rows["sessions"].values()
    assert uuids.get(job.host_id) == view.host_uuid
    assert uuids.get(session.host_id) == view.host_uuid
    return view.host_uuid


@pytest.mark.parametrize("local", [False, True])
def test_a_session_that_runs_keeps_its_slot_when_the_instance_moves(local):
    world = make_world(instances_are_local=local)
    world.feed(inputs.InstanceChanged(VM, "a", None))
    request_id = opened(world)
    world.settle()
    before = world.view(request_id)
    assert before.slot_host_uuid == "a"
    for host_uuid, is_local in (("b", False), (None, False), ("a", True)):
        world.feed(inputs.InstanceChanged(VM, host_uuid, None))
        world.settle()
        after = world.view(request_id)
        assert after.state == states.READY
        assert after.generation == before.generation
        # It counts as from where the instance is.
        assert counted(world, request_id) == (host_uuid if local else None)
        (assignment,) = world.rows["assignments"].values()
        assert assignment.local == after.local == (local and is_local)
    world.feed(inputs.InstanceChanged(VM, "b", None))
    # Nobody waits at the front door of that host for its secret.
    assert not world.agents["a"].views
    world.boot_conductor()
    world.report()
    world.settle()
    assert not world.agents["a"].views


def test_a_session_that_waits_moves_with_its_instance():
    world = make_world(instances_are_local=True)
    world.feed(inputs.InstanceChanged(VM, "a", None))
    for _ in range(4):
        world.open("a")
    waits = opened(world)
    world.settle()
    book = world.memory.sessions
    ids = {host.uuid: host.id for host in world.memory.registry.hosts.values()}
    assert +book.queued_by_host == {ids["a"]: 1}
    world.feed(inputs.InstanceChanged(VM, "b", None))
    assert +book.queued_by_host == {ids["b"]: 1}
    assert world.view(waits).host_uuid == "b"
    (job,) = world.memory.core.waiting()
    assert job.host_id == ids["b"]


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("board", [True, False])
def test_a_host_without_a_compute_is_forgotten_if_it_has_nothing(up, board):
    world = worlds.Conductor(
        [
            worlds.FakeAgent("a", slots=1),
            worlds.FakeAgent("b", slots=1, board=board),
            worlds.FakeAgent("c", slots=1),
        ]
    )
    world.deliver_all()
    make_silent(world, "nobody" if up else "b")
    assert world.memory.registry.hosts["b"].up == up
    world.feed(inputs.ComputeDeleted("b"), inputs.ComputeDeleted("z"))
    is_gone = not up and not board
    assert [uuid for uuid in "abc" if uuid not in uuids_in_rows(world)] == (
        ["b"] if is_gone else []
    )
    assert ("b" not in world.memory.registry.hosts) == is_gone
    deleted = [
        host
        for host in world.memory.registry.hosts_by_id.values()
        if host.uuid == "b"
    ]
    assert (not deleted) == is_gone
    world.report("b")
    assert world.memory.registry.hosts["b"].up


def uuids_in_rows(world: worlds.Conductor) -> set[str]:
    return {host.uuid for host in world.rows["hosts"].values()}


def make_silent(world: worlds.Conductor, host_uuid: str) -> None:
    """Let time pass in which the others report."""
    for _ in range(20):
        world.tick(2.0)
        world.wire.clear()
        for agent in world.agents.values():
            if agent.uuid != host_uuid:
                world.feed(agent.report())


def world_with_an_empty_host() -> worlds.Conductor:
    world = worlds.Conductor(worlds.hosts(a=1, b=0, c=1))
    world.deliver_all()
    return world


def test_what_nova_has_of_hosts_outlives_the_conductor():
    world = world_with_an_empty_host()
    world.feed(inputs.ComputesSeen(frozenset({"a", "b", "z"})))
    world.feed(inputs.ComputeDeleted("a"))
    world.boot_conductor()
    assert world.memory.registry.computes == {
        "a": State.DELETED,
        "b": State.KNOWN,
        "c": State.NONE,
    }


@pytest.mark.parametrize("restarted", [False, True])
def test_a_host_is_forgotten_when_its_agent_falls_silent_later(restarted):
    world = world_with_an_empty_host()
    world.feed(inputs.ComputeDeleted("b"))
    assert "b" in world.memory.registry.hosts
    if restarted:
        # Nobody knows yet whether its agent lives.
        world.boot_conductor()
        world.feed(inputs.ComputeDeleted("b"))
        assert "b" in world.memory.registry.hosts
    make_silent(world, "b")
    assert "b" not in world.memory.registry.hosts
    assert uuids_in_rows(world) == {"a", "c"}
    world.report("b")
    assert world.memory.registry.computes["b"] is State.NONE


def test_a_compute_node_that_came_back_is_not_forgotten():
    world = world_with_an_empty_host()
    world.feed(inputs.ComputeDeleted("b"))
    world.feed(inputs.ComputesSeen(frozenset({"b"})))
    make_silent(world, "b")
    assert not world.memory.registry.hosts["b"].up


@pytest.mark.parametrize(
    "members",
    [
        {"instance_id": "x"},
        {"instance_id": VM.upper() + " "},
        {"instance_id": VM.replace("-", "")},
        {"project_id": ""},
        {"token_nonce": ""},
        {"token_nonce": "G" * 32},
        {"token_hash": "ab"},
        {"token_hash": "AB" * 32},
        {"max_sessions": -1},
        {"max_sessions": 2**31},
    ],
)
def test_what_no_row_can_hold_is_refused(members):
    values = dataclasses.asdict(entry()) | members
    with pytest.raises(ValueError, match=next(iter(members))):
        instances.ENTRY(values, "")
    instances.ENTRY(vars(entry()), "")


# -- what Nova's news mean ---------------------------------------------------


COMPUTES = {"c1": "u1", "c2": "u2"}


@pytest.mark.parametrize(
    ("status", "hypervisor", "expected"),
    [
        # Live and cold migration, evacuation: another host.
        ("ACTIVE", "c2", inputs.InstanceChanged(VM, "u2", None)),
        ("VERIFY_RESIZE", "c2", inputs.InstanceChanged(VM, "u2", None)),
        # Stop, rebuild, rescue, pause, suspend, error: nothing.
        ("SHUTOFF", "c1", None),
        ("REBUILD", "c1", None),
        ("RESCUE", "c1", None),
        ("SUSPENDED", "c1", None),
        ("ERROR", "c1", None),
        # Shelved instances are still on their host, offloaded ones on none.
        ("SHELVED", "c1", None),
        ("SHELVED_OFFLOADED", None, inputs.InstanceChanged(VM, None, None)),
        # One that can be restored is not gone.
        ("SOFT_DELETED", "c1", None),
        ("DELETED", "c1", inputs.InstanceDeleted(VM)),
        ("DELETED", None, inputs.InstanceDeleted(VM)),
        # Whose name several have cannot be told.
        ("ACTIVE", "c9", inputs.InstanceChanged(VM, None, None)),
    ],
)
def test_what_an_instances_state_means(status, hypervisor, expected):
    known = {VM: record(host_uuid="u1")}
    told = server(status=status, hypervisor=hypervisor)
    found = list(instances.changes(known, [told, server(OTHER)], COMPUTES))
    assert found == ([expected] if expected else [])


def test_a_resize_brings_the_limit_of_the_new_flavor():
    known = {VM: record(host_uuid="u1", max_sessions=1)}
    specs = {"fpgapool:max_sessions": "4"}
    (change,) = instances.changes(
        known, [server(hypervisor="c1", extra_specs=specs)], COMPUTES
    )
    assert change == inputs.InstanceChanged(VM, "u1", 4)
    # What is not told stays.
    silent = server(hypervisor="c1", extra_specs=None)
    assert not list(instances.changes(known, [silent], COMPUTES))


@pytest.mark.parametrize(
    ("specs", "limit"),
    [
        ({}, 1),
        ({"hw:cpu_policy": "dedicated"}, 1),
        # One that speaks of accelerators and has no limit lifts it.
        ({"fpgapool:accelerators": "aes"}, None),
    ],
)
def test_a_flavor_that_says_nothing_leaves_the_limit(specs, limit):
    known = {VM: record(host_uuid="u1", max_sessions=1)}
    told = server(hypervisor="c2", extra_specs=specs)
    (change,) = instances.changes(known, [told], COMPUTES)
    assert change == inputs.InstanceChanged(VM, "u2", limit)


def test_where_to_go_on_asking():
    start = instances.query_start
    assert start(None, 5.0) is None
    assert start(1000.0, 1010.0) == 880.0
    # After a long while, and after a clock was set back, all is looked at.
    assert start(1000.0, 4600.0) is None
    assert start(1000.0, 999.0) is None


class FakeNova:
    """Tells what tests say."""

    def __init__(self) -> None:
        self.alive: dict[str, nova.Server] = {}
        self.dead: dict[str, nova.Server] = {}
        self.nodes = dict(COMPUTES)
        # What lists of nodes have, if not all that there are.
        self.listed: dict[str, str] | None = None
        self.away = False
        self.asked: list[object] = []

    def _ask(self, question: object) -> None:
        self.asked.append(question)
        if self.away:
            raise exception.NovaUnavailable(reason="away")

    def servers(self, changed_since=None):
        self._ask(changed_since)
        yield from self.alive.values()
        if changed_since is not None:
            yield from self.dead.values()

    def server(self, instance_id):
        self._ask(instance_id)
        return self.alive.get(instance_id)

    def computes(self):
        self._ask("computes")
        listed = self.nodes if self.listed is None else self.listed
        return nova.Computes(frozenset(listed.values()), listed)

    def has_compute(self, host_uuid):
        self._ask(host_uuid)
        return host_uuid in self.nodes.values()


class Watching:
    """A watch without a thread, and what it says."""

    def __init__(self, **known: db_api.InstanceRecord) -> None:
        self.nova = FakeNova()
        self.known = {one.instance_id: one for one in known.values()}
        self.hosts: dict[str, db_api.ComputeState] = {}
        self.told: list[inputs.Input] = []
        self.now = 1000.0
        self.begin()

    def begin(self) -> None:
        """Begin anew, as after a change of leader."""
        self.watch = instance_watch.InstanceWatch(
            self.nova,  # type: ignore[arg-type]
            known=lambda: dict(self.known),
            hosts=lambda: dict(self.hosts),
            put=self._put,
            on_failure=lambda name: None,
            poll_interval_s=10.0,
            compute_interval_s=60.0,
            clock=lambda: self.now,
        )

    def _put(self, change) -> None:
        self.told.append(change)
        match change:
            case inputs.InstanceDeleted(instance_id):
                self.known.pop(instance_id, None)
            case inputs.ComputesSeen(host_uuids):
                self.hosts |= dict.fromkeys(host_uuids, State.KNOWN)
            case inputs.ComputeDeleted(host_uuid):
                self.hosts[host_uuid] = State.DELETED

    def look(self, passed_s: float = 10.0) -> list[inputs.Input]:
        self.now += passed_s
        self.told.clear()
        self.nova.asked.clear()
        self.watch.look()
        return list(self.told)


def test_the_first_look_finds_who_is_gone_for_long():
    watching = Watching(a=record(), b=record(OTHER))
    watching.nova.alive[OTHER] = server(OTHER, hypervisor="c1")
    told = watching.look()
    assert inputs.InstanceDeleted(VM) in told
    assert inputs.InstanceChanged(OTHER, "u1", None) in told
    assert watching.nova.asked == ["computes", None, VM]


def test_later_looks_ask_for_news_only():
    watching = Watching(a=record(host_uuid="u1"))
    watching.nova.alive[VM] = server(hypervisor="c1")
    assert watching.look() == []
    watching.nova.dead[VM] = server(status="DELETED")
    del watching.nova.alive[VM]
    assert watching.look() == [inputs.InstanceDeleted(VM)]
    (since,) = watching.nova.asked
    assert since < 1010.0


def test_what_one_list_lacks_is_asked_for_once_more():
    watching = Watching(a=record())
    # It was booting in a cell that was away.
    listed = watching.nova.servers
    watching.nova.alive[VM] = server(hypervisor="c1")
    watching.nova.servers = lambda since=None: iter(())
    assert watching.look() == [inputs.InstanceChanged(VM, "u1", None)]
    watching.nova.servers = listed


def test_an_instance_that_was_there_before_its_token_is_found():
    watching = Watching(a=record(host_uuid="u1"))
    watching.nova.alive[VM] = server(hypervisor="c1")
    watching.look()
    watching.known[OTHER] = record(OTHER, created_at=watching.now + 5)
    watching.nova.alive[OTHER] = server(OTHER, hypervisor="c2")
    everything = watching.nova.servers
    watching.nova.servers = lambda since=None: iter(())
    assert watching.look() == [inputs.InstanceChanged(OTHER, "u2", None)]
    watching.nova.servers = everything


def test_nobody_asks_for_instances_while_there_are_none():
    watching = Watching()
    assert watching.look() == []
    assert watching.nova.asked == ["computes"]
    assert watching.look() == []
    assert watching.nova.asked == []
    # From then on, nothing was missed.
    watching.known[VM] = record(created_at=watching.now)
    watching.nova.dead[VM] = server(status="DELETED")
    assert watching.look() == [inputs.InstanceDeleted(VM)]


def test_nova_away_is_told_once_and_caught_up_with(caplog):
    watching = Watching(a=record(host_uuid="u1"))
    watching.nova.alive[VM] = server(hypervisor="c1")
    watching.look()
    asked_at = watching.now
    watching.nova.away = True
    watching.nova.dead[VM] = server(status="DELETED")
    del watching.nova.alive[VM]
    for _ in range(3):
        assert watching.look() == []
    warnings = [r for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1
    watching.nova.away = False
    assert watching.look() == [inputs.InstanceDeleted(VM)]
    assert watching.nova.asked[-1] <= asked_at


@pytest.mark.parametrize("restarted", [False, True])
def test_compute_nodes_that_vanish_are_told_once(restarted):
    watching = Watching()
    watching.hosts = {"u1": State.NONE, "u2": State.NONE}
    assert watching.look() == [inputs.ComputesSeen(frozenset({"u1", "u2"}))]
    assert watching.look(60.0) == []
    del watching.nova.nodes["c2"]
    assert watching.look() == []
    if restarted:
        # While no conductor runs, too.
        watching.begin()
    assert watching.look(60.0) == [inputs.ComputeDeleted("u2")]
    assert watching.look(60.0) == []
    watching.nova.nodes["c2"] = "u2"
    assert watching.look(60.0) == [inputs.ComputesSeen(frozenset({"u2"}))]


def test_hosts_that_never_were_compute_nodes_are_left_alone():
    watching = Watching()
    watching.hosts = {"network node": State.NONE}
    assert watching.look() == []
    watching.nova.nodes.clear()
    watching.begin()
    assert watching.look() == []
    assert watching.nova.asked == ["computes"]


@pytest.mark.parametrize("listed", [{}, {"c1": "u1"}])
def test_a_list_that_lacks_nodes_is_no_proof(listed):
    watching = Watching()
    watching.hosts = {"u1": State.NONE, "u2": State.NONE}
    watching.look()
    watching.nova.listed = listed
    watching.begin()
    assert watching.look() == []
    assert "u2" in watching.nova.asked


def test_a_node_that_cannot_be_asked_for_is_not_gone():
    watching = Watching()
    watching.hosts = {"u1": State.KNOWN, "u2": State.KNOWN}
    watching.nova.listed = {}
    watching.nova.nodes.clear()
    asks, watching.nova.has_compute = watching.nova.has_compute, _is_away
    assert watching.look() == []
    watching.nova.has_compute = asks
    # At the next look already.
    assert watching.look() == [
        inputs.ComputeDeleted("u1"),
        inputs.ComputeDeleted("u2"),
    ]


def _is_away(host_uuid: str | None = None) -> typing.NoReturn:
    raise exception.NovaUnavailable(reason="a cell is away")


def test_instances_end_while_a_compute_node_cannot_be_asked_for(caplog):
    watching = Watching(a=record())
    watching.hosts = {"u1": State.KNOWN, "u2": State.KNOWN}
    watching.nova.listed = {"c1": "u1"}
    watching.nova.has_compute = _is_away
    # Also for a leader that has never seen all.
    assert watching.look() == [inputs.InstanceDeleted(VM)]
    for _ in range(3):
        assert watching.look(60.0) == []
    assert caplog.text.count("Cannot get compute nodes from Nova") == 1


@pytest.mark.parametrize("asks", ["computes", "has_compute"])
def test_places_are_told_by_the_old_list_meanwhile(asks):
    watching = Watching(a=record(host_uuid="u1"))
    watching.nova.alive[VM] = server(hypervisor="c1")
    watching.hosts = {"u1": State.KNOWN, "u2": State.KNOWN}
    watching.look()
    if asks == "has_compute":
        watching.nova.listed = {"c1": "u1"}
    setattr(watching.nova, asks, _is_away)
    watching.nova.alive[VM] = server(hypervisor="c2")
    for _ in range(2):
        assert inputs.InstanceChanged(VM, "u2", None) in watching.look(60.0)


def test_nothing_is_told_before_any_compute_node_is_known():
    watching = Watching(a=record())
    watching.nova.computes = _is_away
    assert watching.look() == []


def test_a_file_that_is_not_there_does_not_end_the_watch(caplog):
    class Adapter:
        def get(self, path: str, **options: object) -> typing.NoReturn:
            raise OSError("no CA bundle, invalid path: /etc/ssl/gone.pem")

    watching = Watching(a=record())
    watching.nova = nova.Nova(Adapter())
    watching.begin()
    watching.watch.look()
    assert watching.told == []
    assert "gone.pem" in caplog.text


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(State)),
    st.sets(st.sampled_from("abcdef")),
)
def test_only_what_nova_had_can_be_missing(hosts, listed):
    seen, missing = instances.changed_computes(hosts, listed)
    for host_uuid, state in hosts.items():
        is_listed = host_uuid in listed
        assert (host_uuid in seen) == (is_listed and state != State.KNOWN)
        assert (host_uuid in missing) == (
            not is_listed and state == State.KNOWN
        )
    assert {*seen, *missing} <= set(hosts)


def test_a_former_leader_says_nothing():
    watching = Watching(a=record())
    watching.watch.stop()
    assert watching.look() == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "cancel", "delete", "admit", "settle"]),
            st.integers(0, 2),
            st.integers(0, 3) | st.none(),
        ),
        max_size=12,
    )
)
def test_an_instance_never_has_more_sessions_than_its_flavor_allows(steps):
    world = worlds.Conductor(worlds.hosts(a=2))
    names = [str(uuid.UUID(int=number)) for number in range(3)]
    opened_by: dict[str, list[str]] = {name: [] for name in names}
    for what, which, limit in steps:
        name = names[which]
        known = world.memory.instances.live.get(name)
        alive = [
            one
            for one in opened_by[name]
            if world.view(one).state in states.LIVE
        ]
        match what:
            case "open":
                request_id = opened(world, name)
                allowed = known is not None and (
                    known.max_sessions is None
                    or len(alive) < known.max_sessions
                )
                found = world.view_or_none(request_id)
                assert (found is not None) == allowed
                if allowed:
                    opened_by[name].append(request_id)
            case "cancel" if alive:
                world.cancel(alive[0])
            case "delete":
                world.feed(inputs.InstanceDeleted(name))
                assert all(
                    world.view(one).state not in states.LIVE for one in alive
                )
            case "admit":
                world.feed(
                    inputs.AdmitInstance(entry(name, max_sessions=limit))
                )
            case "settle":
                world.settle()
