# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions: all slots at the same time, or none."""

from __future__ import annotations

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import member_sets
from fpgapool.core import model
from fpgapool.core.rules import session_sets
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def open_set(
    pool: world.Conductor,
    count: int = 2,
    placement: str | None = None,
    **wanted: object,
) -> list[str]:
    """Open all sessions of a set, one by one."""
    members = {
        "set_id": "one",
        "set_size": count,
        "set_placement": placement,
        **wanted,
    }
    return [pool.open(**members) for _ in range(count)]


def refusal(pool: world.Conductor, **wanted: object) -> tuple[str, str]:
    """Ask for a session that is refused; nothing changes."""
    before = dict(pool.memory.sessions.by_id), dict(pool.rows["sessions"])
    (view,) = steps.outcome(pool, "refused", **wanted)
    assert view.state == states.REJECTED
    assert not view.session_id
    after = dict(pool.memory.sessions.by_id), dict(pool.rows["sessions"])
    assert after == before
    return view.reason, view.message


def of_all(pool: world.Conductor, names: list[str]) -> set[tuple[str, str]]:
    """Return the states and reasons of sessions."""
    views = [pool.view(name) for name in names]
    return {(view.state, view.reason) for view in views}


def waits(pool: world.Conductor, names: list[str]) -> None:
    """Check that the sessions of a set wait, and say so."""
    for name in names:
        view = pool.view(name)
        assert (view.state, view.reason) == (states.QUEUED, codes.SET_WAITS)
        assert (view.set_id, view.set_size) == ("one", len(names))
        assert view.message == f"set one of {len(names)} sessions"


def test_all_slots_at_the_same_time(pool: world.Conductor) -> None:
    single = pool.open()
    names = open_set(pool)
    waits(pool, names)
    pool.cancel(single)
    pool.settle(1)
    assert of_all(pool, names) == {(states.PREPARING, codes.SET_WAITS)}
    # No client connects before the slots of all are ready.
    pool.deliver_all()
    agent = pool.agents["a"]
    first = agent.prepared(0)
    assert first is not None
    pool.feed(first, agent.report())
    assert of_all(pool, names) == {(states.PREPARING, codes.SET_WAITS)}
    last = agent.prepared(1)
    assert last is not None
    pool.feed(last)
    assert of_all(pool, names) == {(states.READY, "")}
    assert {pool.view(name).set_id for name in names} == {None}


def test_an_agent_waits_longer_for_the_client(pool: world.Conductor) -> None:
    """The other slot may still be programmed."""
    open_set(pool)
    settings = pool.settings
    (limit_s,) = {
        order.request.connect_timeout_s
        for order in pool.sent(effects.AssignSlot)
    }
    assert limit_s == settings.connect_timeout_s + settings.prepare_timeout_s


@pytest.mark.parametrize(
    ("wanted", "code", "word"),
    [
        ({"set_id": "one", "set_size": 1}, codes.INVALID_SET, "set_size"),
        ({"set_id": "one", "set_size": 65}, codes.INVALID_SET, "set_size"),
        ({"set_id": "one"}, codes.INVALID_SET, "set_size"),
        ({"set_size": 2}, codes.INVALID_SET, "set_id"),
        ({"set_placement": "spread"}, codes.INVALID_SET, "set_id"),
        ({"set_id": "a b", "set_size": 2}, codes.INVALID_SET, "set_id"),
        (
            {"set_id": "one", "set_size": 2, "set_placement": "near"},
            codes.INVALID_SET,
            "set_placement",
        ),
        (
            {"set_id": "one", "set_size": 4},
            codes.SET_IMPOSSIBLE,
            "the number of slots is 3",
        ),
        (
            {"set_id": "one", "set_size": 3, "set_placement": "spread"},
            codes.SET_IMPOSSIBLE,
            "the number of boards is 2",
        ),
        (
            {"set_id": "one", "set_size": 3, "set_placement": "same_board"},
            codes.SET_IMPOSSIBLE,
            "the most slots of a board are 2",
        ),
        (
            {"set_id": "one", "set_size": 3, "set_placement": "same_host"},
            codes.SET_IMPOSSIBLE,
            "the most slots of a host are 2",
        ),
    ],
)
def test_what_is_refused_changes_nothing(
    wanted: dict[str, object], code: str, word: str
) -> None:
    pool = world.Conductor(world.hosts(a=2, b=1))
    found, message = refusal(pool, **wanted)
    assert found == code
    assert word in message


def test_a_session_too_many_or_unlike_the_others(
    pool: world.Conductor,
) -> None:
    single = pool.open()
    first = pool.open(set_id="one", set_size=2)
    found, message = refusal(pool, set_id="one", set_size=3)
    assert found == codes.INVALID_SET
    assert "2 sessions, not 3 sessions" in message
    # Names are those of a project.
    other = pool.open(project_id="q", set_id="one", set_size=2)
    second = pool.open(set_id="one", set_size=2)
    # A request that is repeated is no further session.
    assert pool.open(request_id=second, set_id="one", set_size=2) == second
    waits(pool, [first, second])
    found, message = refusal(pool, set_id="one", set_size=2)
    assert found == codes.INVALID_SET
    assert "has all its 2 sessions" in message
    pool.cancel(single)
    pool.settle(2)
    assert of_all(pool, [first, second]) == {(states.READY, "")}
    left = pool.view_or_none(other, "q")
    assert left is not None
    assert left.pending_reasons == (codes.SET_WAITS,)


def test_the_quota_counts_the_whole_set() -> None:
    pool = world.Conductor(
        world.hosts(a=2, b=2, c=2),
        default_quota=admission.ProjectQuota(queued=4, sessions=5),
    )
    found, _ = refusal(pool, set_id="one", set_size=5)
    assert found == codes.QUOTA_EXCEEDED
    found, message = refusal(pool, set_id="one", set_size=6)
    assert found == codes.SET_IMPOSSIBLE
    assert "may have 5 slots" in message
    first = pool.open(set_id="one", set_size=4)
    # The others have their places already.
    assert refusal(pool)[0] == codes.QUOTA_EXCEEDED
    rest = [pool.open(set_id="one", set_size=4) for _ in range(3)]
    pool.settle(2)
    assert of_all(pool, [first, *rest]) == {(states.READY, "")}
    assert not pool.state.sets.to_come


def test_a_client_that_dies_leaves_no_half_set(pool: world.Conductor) -> None:
    names = [pool.open(set_id="one", set_size=2)]
    waits_for = pool.view(names[0])
    assert waits_for.pending_reasons == (codes.SET_WAITS,)
    pool.tick(session_sets.GATHER_S)
    (name,) = names
    view = pool.view(name)
    assert (view.state, view.reason) == (
        states.REJECTED,
        codes.SET_INCOMPLETE,
    )
    assert "only 1 of its 2 sessions were opened" in view.message
    assert view.set_id is None


@pytest.mark.parametrize("starts", [False, True])
def test_who_cancels_one_cancels_all(
    pool: world.Conductor, starts: bool
) -> None:
    others = [] if starts else [pool.open()]
    names = open_set(pool)
    pool.cancel(names[0])
    assert pool.view(names[1]).reason == codes.SET_INCOMPLETE
    pool.settle(4)
    for name in others:
        pool.cancel(name)
    pool.settle(4)
    assert not pool.state.assignments()
    assert {slot.state for slot in pool.agents["a"].slots} == {
        states.SLOT_IDLE
    }


def test_a_slot_that_fails_is_given_back_with_the_others() -> None:
    pool = world.Conductor(world.hosts(a=2, b=2))
    names = open_set(pool, placement=states.SAME_HOST)
    pool.deliver_all()
    (host,) = {pool.view(name).slot_host_name for name in names}
    agent = pool.agents[host]
    answer = agent.prepared(0)
    assert answer is not None
    pool.feed(answer)
    agent.end(1, states.PREPARE_FAILED, codes.PROGRAM_FAILED, pool.now)
    pool.feed(agent.report())
    pool.settle(3)
    assert of_all(pool, names) == {(states.READY, "")}
    (other,) = {pool.view(name).slot_host_name for name in names}
    assert other != host
    assert {slot.state for slot in agent.slots} == {states.SLOT_IDLE}


def restart(pool: world.Conductor) -> None:
    """Another conductor takes over; hosts report to it after a while."""
    pool.boot_conductor()
    pool.tick(1.0)


def test_a_set_that_waits_survives_the_leader(pool: world.Conductor) -> None:
    single = pool.open()
    names = open_set(pool)
    restart(pool)
    waits(pool, names)
    pool.report()
    waits(pool, names)
    # It is no larger than it was.
    assert refusal(pool, set_id="one", set_size=2)[0] == codes.INVALID_SET
    pool.cancel(single)
    pool.settle(3)
    assert of_all(pool, names) == {(states.READY, "")}


def test_a_set_that_starts_survives_the_leader() -> None:
    pool = world.Conductor(world.hosts(a=2, b=2))
    names = open_set(pool, placement=states.SAME_BOARD)
    pool.deliver_all()
    agent = pool.agents[pool.view(names[0]).slot_host_name or ""]
    restart(pool)
    assert of_all(pool, names) == {(states.PREPARING, codes.SET_WAITS)}
    answer = agent.prepared(0)
    assert answer is not None
    pool.feed(agent.report(), answer)
    assert of_all(pool, names) == {(states.PREPARING, codes.SET_WAITS)}
    agent.end(1, states.PREPARE_FAILED, codes.PROGRAM_FAILED, pool.now)
    pool.report()
    pool.settle(4)
    assert of_all(pool, names) == {(states.READY, "")}
    assert agent.uuid not in {pool.view(n).slot_host_name for n in names}


def test_a_set_that_runs_survives_the_leader(pool: world.Conductor) -> None:
    names = open_set(pool)
    pool.settle(2)
    restart(pool)
    pool.settle(2)
    assert of_all(pool, names) == {(states.READY, "")}
    assert not pool.state.sets.of_job


def test_half_a_set_in_the_database_ends(pool: world.Conductor) -> None:
    """The leader died before the others came, and so has the client."""
    name = pool.open(set_id="one", set_size=2)
    restart(pool)
    pool.tick(session_sets.GATHER_S)
    assert pool.view(name).reason == codes.SET_INCOMPLETE


def test_rows_of_an_impossible_half_are_single_sessions(
    pool: world.Conductor,
) -> None:
    """No commit leaves them; what has a slot keeps it."""
    names = open_set(pool)
    pool.deliver_all()
    for row_id, row in list(pool.rows["sessions"].items()):
        if row.request_id == names[0]:
            del pool.rows["sessions"][row_id]
    restart(pool)
    pool.settle(2)
    assert of_all(pool, names[1:]) == {(states.READY, "")}


def test_mixed_accelerators_that_no_board_holds() -> None:
    pool = world.Conductor(world.hosts(a=2, b=2))
    pool.feed(world.library("copy", "other"))
    names = [
        pool.open(
            accelerator=accelerator,
            set_id="one",
            set_size=2,
            set_placement=states.SAME_BOARD,
        )
        for accelerator in ("copy", "other")
    ]
    pool.settle(2)
    assert of_all(pool, names) == {(states.READY, "")}


@pytest.mark.parametrize(
    ("wanted", "state", "reasons"),
    [
        ({"set_size": 2}, states.PREPARING, ()),
        ({"set_size": 3}, states.REJECTED, (codes.SET_IMPOSSIBLE,)),
        ({"set_id": "one"}, states.REJECTED, (codes.INVALID_SET,)),
    ],
)
def test_dry_runs(
    pool: world.Conductor,
    wanted: dict[str, object],
    state: str,
    reasons: tuple[str, ...],
) -> None:
    found = _dry_run(pool, **wanted)
    assert (found.state, found.reasons) == (state, reasons)
    assert not pool.state.sets.of_job


def test_a_dry_run_says_that_all_slots_are_needed(
    pool: world.Conductor,
) -> None:
    pool.open()
    found = _dry_run(pool, set_size=2)
    assert (found.state, found.reasons) == (
        states.QUEUED,
        (codes.SET_WAITS,),
    )


def _dry_run(pool: world.Conductor, **wanted: object) -> objects.DryRun:
    return pool.ask.opening.dry_run(
        world.request(request_id="dry", **wanted)
    )()


@pytest.mark.parametrize("placement", [None, *states.PLACEMENTS])
@pytest.mark.parametrize("size", [2, 64])
def test_rows_name_the_set(placement: str | None, size: int) -> None:
    together = model.Together("a.b:c-d_e" * 7, size, placement)
    told = member_sets.told(together)
    assert member_sets.read(codes.SET_WAITS, told) == together
    assert member_sets.read(codes.DRAINED, told) is None
    assert member_sets.read(codes.SET_WAITS, told + "!") is None
