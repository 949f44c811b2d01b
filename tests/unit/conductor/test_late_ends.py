# SPDX-License-Identifier: Apache-2.0

"""Ends that the conductor hears of late, and what of them is in the usage."""

import dataclasses

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

DONE_BYTES = 700


@pytest.fixture
def pool() -> world.Conductor:
    """Give three hosts with a slot each, the session has that of a."""
    made = world.Conductor([world.FakeAgent(name, 1) for name in "abc"])
    request_id = made.open()
    assert request_id == "r1"
    ready(made, "a")
    return made


def ready(pool: world.Conductor, name: str) -> None:
    pool.deliver_all()
    answer = pool.agents[name].prepared(0)
    assert answer is not None
    pool.feed(answer)


def lose_host(pool: world.Conductor, name: str = "a") -> None:
    """A host is silent; the conductor gives it up."""
    while pool.memory.registry.hosts[name].up:
        wait_without(pool, name)
    # It does not hear that it is asked for a report.
    pool.wire = [
        one for one in pool.wire if not isinstance(one, effects.AskReport)
    ]


def wait_without(pool: world.Conductor, name: str) -> None:
    """Let some time pass in which a host is silent."""
    silent = pool.agents[name]
    for agent in pool.agents.values():
        if agent is not silent:
            pool.feed(agent.report())
    pool.tick(5.0)


def send(pool: world.Conductor, input_bytes: int, name: str = "a") -> None:
    """The client of a slot has sent so much, and its agent says so."""
    slot = pool.agents[name].slots[0]
    slot.state, slot.input_bytes = states.SLOT_ACTIVE, input_bytes
    pool.feed(pool.agents[name].report())


def end(
    pool: world.Conductor,
    input_bytes: int,
    state: str = states.CLOSED,
    code: str = codes.OK,
    name: str = "a",
) -> None:
    """A slot's worker ends, after ten seconds."""
    agent = pool.agents[name]
    agent.end(0, state, code, pool.now)
    slot = agent.slots[0]
    assert slot.last_result is not None
    slot.last_result = dataclasses.replace(
        slot.last_result,
        input_bytes=input_bytes,
        output_bytes=2 * input_bytes,
        started_at=pool.now - 10.0,
    )


def used(pool: world.Conductor) -> tuple[int, int, int]:
    """Sessions, input and output in the usage."""
    rows = pool.rows["usage"].values()
    return (
        sum(row.sessions for row in rows),
        sum(row.input_bytes for row in rows),
        sum(row.output_bytes for row in rows),
    )


def row(pool: world.Conductor) -> tuple[str, int, int]:
    found = pool.rows["sessions"][1]
    return found.state, found.input_bytes, found.output_bytes


def report(pool: world.Conductor, name: str = "a") -> None:
    for _ in range(3):
        pool.feed(pool.agents[name].report())
        pool.deliver_all()


SERVED = (states.CLOSED, DONE_BYTES, 2 * DONE_BYTES)


def test_a_session_that_waits_again_ends_with_what_its_slot_did(pool):
    lose_host(pool)
    assert pool.view("r1").state in states.UNCONNECTED
    end(pool, DONE_BYTES)
    report(pool)
    assert row(pool) == SERVED
    assert used(pool) == (1, DONE_BYTES, 2 * DONE_BYTES)
    assert sum(r.slot_s for r in pool.rows["usage"].values()) >= 10.0
    # It is in the usage once, whoever leads and however often it is told.
    pool.boot_conductor()
    report(pool)
    assert used(pool) == (1, DONE_BYTES, 2 * DONE_BYTES)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (states.EXPIRED, codes.CONNECT_TIMEOUT),
        (states.FAILED, codes.WORKER_DIED),
        (states.CANCELLED, codes.CLIENT_GONE),
    ],
)
def test_a_session_whose_next_slot_waited_in_vain_ends_as_served(
    pool, state, code
):
    lose_host(pool)
    name = pool.view("r1").slot_host_name
    if state == states.CANCELLED:
        pool.feed(inputs.Cancel("p", None, "r1", code))
    else:
        ready(pool, name)
        pool.now += 40.0
        pool.agents[name].end(0, state, code, pool.now)
        pool.feed(pool.agents[name].report())
    assert row(pool) == (state, 0, 0)
    end(pool, DONE_BYTES)
    report(pool)
    assert row(pool) == SERVED
    assert used(pool) == (1, DONE_BYTES, 2 * DONE_BYTES)


def test_a_session_that_was_given_up_with_its_host_ends_as_served(pool):
    send(pool, 300)
    lose_host(pool)
    while pool.view("r1").state == states.ACTIVE:
        wait_without(pool, "a")
    assert row(pool) == (states.LOST, 300, 0)
    assert used(pool) == (1, 300, 0)
    end(pool, DONE_BYTES)
    report(pool)
    assert row(pool) == SERVED
    assert used(pool) == (1, DONE_BYTES, 2 * DONE_BYTES)


def test_what_a_lost_slot_computed_stays_counted(pool):
    send(pool, 300)
    pool.feed(world.reopening(pool.view("r1"), "a"))
    # The first slot's worker says that it was more than was known.
    end(pool, 350, states.CANCELLED, codes.MOVED)
    report(pool)
    view = pool.view("r1")
    assert (view.state, view.input_bytes) == (states.PREPARING, 300)
    ready(pool, view.slot_host_name)
    send(pool, 100, view.slot_host_name)
    assert pool.view("r1").input_bytes == 400
    end(pool, DONE_BYTES, name=view.slot_host_name)
    report(pool, view.slot_host_name)
    assert row(pool) == (states.CLOSED, 300 + DONE_BYTES, 2 * DONE_BYTES)
    assert used(pool)[:2] == (1, 350 + DONE_BYTES)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_slot_computed_that_nobody_hears_of_again_is_used(
    pool, restarted
):
    send(pool, 300)
    pool.feed(world.reopening(pool.view("r1"), "a"))
    assert used(pool)[1] == 300
    if restarted:
        pool.boot_conductor()
    pool.agents["a"].restart(workers_too=True)
    report(pool)
    assert used(pool)[1] == 300


def test_what_was_lost_does_not_count_against_the_claim(pool):
    send(pool, 900)
    pool.feed(world.reopening(pool.view("r1"), "a"))
    (order,) = [
        one.request
        for one in pool.wire
        if getattr(getattr(one, "request", None), "generation", 0)
        == pool.view("r1").generation
    ]
    assert order.claim_limit_bytes == 1100
    name = pool.view("r1").slot_host_name
    ready(pool, name)
    for _ in range(9):
        pool.open()
    send(pool, 1000, name)
    assert pool.view("r1").state == states.ACTIVE
    hold = pool.memory.sessions.by_request["p", "r1"].hold
    assert not hold.revoked
    send(pool, 1101, name)
    assert hold.revoked == codes.YIELDED


def test_counts_never_go_back(pool):
    for told, known in ((300, 300), (200, 300), (400, 400)):
        send(pool, told)
        assert pool.view("r1").input_bytes == known
    end(pool, 100)
    report(pool)
    assert row(pool)[:2] == (states.CLOSED, 400)
    assert used(pool)[1] == 400


SAID = (states.CLOSED, DONE_BYTES, DONE_BYTES)


def closed(
    pool: world.Conductor, confirmed: bool = True, **said
) -> inputs.Close:
    """The client's word, by the front door of its host."""
    members = {
        "project_id": "p",
        "session_id": pool.view("r1").session_id,
        "generation": pool.agents["a"].slots[0].seen_generation,
        "input_bytes": DONE_BYTES,
        "output_bytes": DONE_BYTES,
        "confirmed": confirmed,
    }
    return inputs.Close(**{**members, **said})


def give_up_host(pool: world.Conductor) -> None:
    lose_host(pool)
    while pool.view("r1").state == states.ACTIVE:
        wait_without(pool, "a")


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("confirmed", [False, True])
def test_a_client_that_was_served_says_so_when_its_host_is_lost(
    pool, seen, confirmed
):
    if seen:
        send(pool, 300)
    said = closed(pool, confirmed)
    give_up_host(pool)
    for _ in range(2):
        pool.feed(said)
        assert row(pool) == SAID
        assert used(pool) == (1, DONE_BYTES, DONE_BYTES)
    # The host comes back with the result, or a new leader asks.
    pool.boot_conductor()
    end(pool, DONE_BYTES)
    report(pool)
    assert row(pool) == SAID
    assert used(pool) == (1, DONE_BYTES, DONE_BYTES)


@pytest.mark.parametrize("seen", [False, True])
def test_a_client_that_was_served_says_so_when_agent_and_worker_died(
    pool, seen
):
    if seen:
        send(pool, 300)
    said = closed(pool)
    pool.feed(said)
    # The worker's report may be on its way.
    assert pool.view("r1").state != states.CLOSED
    pool.agents["a"].restart(workers_too=True)
    report(pool)
    assert pool.view("r1").state in {states.PREPARING, states.FAILED}
    pool.feed(said)
    assert row(pool) == SAID
    assert used(pool) == (1, DONE_BYTES, DONE_BYTES)
    for name in pool.agents:
        pool.deliver_all()
        report(pool, name)
    assert not pool.memory.holds


def test_a_close_that_no_worker_confirmed_takes_the_slot_back(pool):
    send(pool, 300)
    pool.feed(closed(pool, confirmed=False))
    assert row(pool) == SAID
    pool.deliver_all()
    end(pool, DONE_BYTES, states.CANCELLED, codes.SUPERSEDED)
    report(pool)
    assert row(pool) == SAID
    assert used(pool) == (1, DONE_BYTES, DONE_BYTES)


@pytest.mark.parametrize("most", [2**62, 5000])
def test_a_client_cannot_say_more_than_it_claimed(pool, most):
    give_up_host(pool)
    pool.feed(closed(pool, input_bytes=most, output_bytes=most))
    assert row(pool) == (states.CLOSED, 1100, 1100)
    assert used(pool) == (1, 1100, 1100)


def test_a_client_cannot_say_more_than_a_slot_can_do():
    pool = world.Conductor(world.hosts(a=1))
    pool.open(claimed_bytes=2**50)
    ready(pool, "a")
    pool.now += 2.0
    pool.feed(closed(pool, confirmed=False, input_bytes=2**62))
    assert 0 < row(pool)[1] < 2**40


@pytest.mark.parametrize(
    "wrong",
    [
        {"project_id": "q"},
        {"session_id": "unknown"},
        {"generation": 0},
        {"generation": 2**62},
        {"sender": "b"},
    ],
)
def test_others_do_not_close_a_session(pool, wrong):
    give_up_host(pool)
    before = row(pool)
    pool.feed(closed(pool, **wrong))
    assert row(pool) == before
    assert used(pool)[1] == 0


def test_an_end_that_has_a_cause_stays(pool):
    pool.feed(inputs.Cancel("p", None, "r1", codes.CLAIM_EXCEEDED))
    pool.feed(closed(pool))
    assert pool.view("r1").reason == codes.CLAIM_EXCEEDED
