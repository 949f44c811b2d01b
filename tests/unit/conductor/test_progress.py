# SPDX-License-Identifier: Apache-2.0

"""The core hears from reports how fast sessions are."""

import pytest

from fpgapool import strategies
from fpgapool.core import model
from fpgapool.vocabulary import states
from tests.harness import pool_invariants
from tests.unit.conductor import world


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> world.Conductor:
    """Host a with one slot, host b without a board; decided by era."""
    monkeypatch.setattr(world.strategies, "fifo", strategies.era)
    return world.Conductor(world.hosts(a=1, b=0))


def start_session(pool: world.Conductor) -> None:
    pool.open("b")
    pool.deliver_all()
    answer = pool.agents["a"].prepared(0)
    assert answer is not None
    pool.feed(answer)
    pool.deliver_all()
    report(pool, 0)


def report(
    pool: world.Conductor, sent_bytes: int, after_s: float = 0.0
) -> None:
    agent = pool.agents["a"]
    agent.slots[0].state = states.SLOT_ACTIVE
    agent.slots[0].input_bytes = sent_bytes
    pool.now += after_s
    pool.feed(agent.report())


def rate(pool: world.Conductor) -> float:
    loads = pool.state.view.loads
    assert loads is not None
    (flow,) = loads.flows.values()
    pool_invariants.check(pool.state)
    return flow.bytes_per_s


def test_an_estimate_counts_until_two_reports_came(
    pool: world.Conductor,
) -> None:
    start_session(pool)
    estimate = rate(pool)
    assert estimate > 0
    report(pool, 600, after_s=0.5)
    assert rate(pool) == estimate
    report(pool, 3000, after_s=1.5)
    assert rate(pool) == 1500.0


def test_a_rate_is_of_the_time_between_two_reports(
    pool: world.Conductor,
) -> None:
    start_session(pool)
    report(pool, 2000, after_s=2.0)
    report(pool, 9000, after_s=2.0)
    assert rate(pool) == 3500.0
    # Counted anew by another worker: nobody sends backwards.
    report(pool, 0, after_s=2.0)
    assert rate(pool) == 0.0


def test_nobody_counts_beside_a_session_that_ended(
    pool: world.Conductor,
) -> None:
    start_session(pool)
    report(pool, 2000, after_s=2.0)
    pool.end(states.CLOSED, "OK")
    loads = pool.state.view.loads
    assert loads is not None
    assert not loads.flows
    assert not loads.loads.any()
    start_session(pool)
    assert rate(pool) > 1000.0
    (assignment,) = pool.state.assignments().values()
    assert assignment.phase is model.Phase.ACTIVE


def test_strategies_that_do_not_ask_are_not_told() -> None:
    plain = world.Conductor(world.hosts(a=1))
    assert not plain.state.wants_rates
    assert plain.state.view.loads is None
