# SPDX-License-Identifier: Apache-2.0

"""Which sessions come before due sets, since they have lost a slot."""

from __future__ import annotations

import pytest

from fpgapool.conductor.decisions.requests import sessions
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import test_claims
from tests.unit.conductor import world


def returning(pool: world.Conductor) -> list[int]:
    """Return the jobs that the core knows to return."""
    return [
        record.job.id for record in pool.state._admission.returns.waiting()
    ]


def lose(pool: world.Conductor, how: str) -> str:
    """Let a session lose the only slot; another one has it then."""
    request_id = steps.open_until_ready(pool)
    steps.activate(pool)
    # In this order it has the slot before the first one is back.
    view = pool.view(request_id)
    if how == "worker":
        pool.end(states.FAILED, codes.WORKER_DIED)
        pool.open()
        pool.feed(world.reopening(view, "a"))
    elif how == "moved":
        pool.open()
        pool.feed(world.reopening(view, "a"))
    else:
        pool.open()
        test_claims.send(pool, 2000)
        pool.deliver_all()
        pool.feed(pool.agents["a"].report())
    assert pool.view(request_id).state == states.QUEUED
    return request_id


@pytest.mark.parametrize(
    ("how", "returns"), [("worker", True), ("moved", True), ("claim", False)]
)
def test_who_returns(single: world.Conductor, how: str, returns: bool) -> None:
    request_id = lose(single, how)
    reason = single.view(request_id).reason
    assert (reason != codes.YIELDED) is returns
    for _ in range(3):
        # New leaders know it from the row.
        assert bool(returning(single)) is returns
        assert single.view(request_id).reason == reason
        single.boot_conductor()


def test_who_waits_for_the_first_time_does_not(
    single: world.Conductor,
) -> None:
    steps.open_until_ready(single)
    single.open()
    single.boot_conductor()
    assert not returning(single)


def test_who_gets_a_slot_returns_no_longer(single: world.Conductor) -> None:
    lose(single, "worker")
    single.settle()
    steps.activate(single)
    single.end(states.CLOSED, codes.OK)
    assert not returning(single)


def test_clients_that_ask_too_often(pool: world.Conductor) -> None:
    """They could keep slots from sets for ever."""
    request_id = steps.open_until_ready(pool)
    (session,) = pool.memory.sessions.by_id.values()
    for count in range(sessions._MOST_RETURNS + 1):
        assert session.reopens == count
        pool.settle()
        pool.feed(world.reopening(pool.view(request_id), "a"))
    session.reason = codes.MOVED
    assert not session.returns
    session.reopens -= 1
    assert session.returns
