# SPDX-License-Identifier: Apache-2.0

"""Budgets: charged, exhausted, refilled, taken over."""

import datetime

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.runtime import past_usage
from fpgapool.core import events
from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import group_steps
from tests.unit.conductor import past
from tests.unit.conductor import test_sets
from tests.unit.conductor import test_shares
from tests.unit.conductor import world

DAY_S = 86400.0


def make_pool(
    slots: int = 1, default: rules.Budget | None = None, **settings: object
) -> world.Conductor:
    pool = world.Conductor(
        [world.FakeAgent("a", slots)], default_budget=default, **settings
    )
    # A Monday, the third of a month.
    pool.tick(datetime.datetime(2030, 6, 3, 12).timestamp() - pool.now)
    pool.report("a")
    return pool


def budget_of(**members: object) -> rules.Budget:
    return rules.Budget.of(budget.checked({"period": "day"} | members))


def set_budget(
    pool: world.Conductor, project_id: str = "p", **members: object
) -> None:
    own = budget_of(**members) if members else None
    today = pool.memory.ledger.today(pool.now)
    pasts = past_usage.read(
        past.Usage(pool.rows["usage"].values()), today, project_id=project_id
    )
    found = pasts.get(project_id) or past_usage.book.Past(today)
    pool.feed(inputs.SetBudget(project_id, own, found))


def shown(pool: world.Conductor, project_id: str = "p") -> dict[str, object]:
    found = pool.ask.budgets.document(project_id)
    assert found is not None
    return found


def refused(pool: world.Conductor, **members: object) -> str:
    request_id = pool.open(**members)
    pool.deliver_all()
    return pool.agents["a"].views[request_id].reason


def use(pool: world.Conductor, seconds: float, **members: object) -> None:
    """Let one session hold a slot for some seconds."""
    pool.open(**members)
    pool.now += seconds
    test_shares.finish(pool)


def test_nothing_is_heard_without_budgets():
    pool = make_pool()
    assert pool.memory.ledger.heard is None
    assert pool.ask.budgets.document("p") is None
    set_budget(pool, slot_s=5)
    assert pool.memory.ledger.heard is not None
    set_budget(pool)
    assert pool.memory.ledger.heard is None
    assert pool.ask.budgets.document("p") is None


def test_the_same_budget_again_is_no_change():
    pool = make_pool()
    wanted = budget.checked({"slot_s": 5})

    def day(new: dict[str, object] | None) -> str | None:
        return pool.ask.budgets.day_of_change("p", new)

    assert day(None) is None
    assert day(wanted) == "2030-06-03"
    set_budget(pool, slot_s=5, period="month")
    assert day(wanted) is None
    assert day({**wanted, "slot_s": 6}) == "2030-06-03"
    assert day(None) == "2030-06-03"


def test_a_budget_is_the_sum_of_usage():
    pool = make_pool()
    use(pool, 4.0, claimed_bytes=100)
    set_budget(pool, slot_s=10, bytes=1000, energy_j=50)
    pool.open()
    pool.tick(2.0)
    assert shown(pool) == {
        "project_id": "p",
        "source": "project",
        "period": "day",
        "action": "refuse",
        "carry_over": False,
        "state": "within",
        "begins": "2030-06-03",
        "refills": "2030-06-04",
        "slot_s": {
            "limit": 10,
            "carried": 0.0,
            "used": 4.0,
            "open": 2.0,
            "left": 4.0,
        },
        "bytes": {
            "limit": 1000,
            "carried": 0.0,
            "used": 200.0,
            "open": 0.0,
            "left": 800.0,
        },
        "energy_j": {
            "limit": 50,
            "carried": 0.0,
            "used": 0.0,
            "open": 0.0,
            "left": 50.0,
        },
    }


def test_new_sessions_are_refused_and_waiting_ones_stay():
    pool = make_pool(2)
    set_budget(pool, slot_s=10)
    first, second = pool.open(), pool.open()
    waiting = pool.open()
    pool.tick(4.9)
    assert pool.view(first).state == states.PREPARING
    pool.now += 0.1
    assert refused(pool) == codes.BUDGET_EXHAUSTED
    test_shares.finish(pool)
    assert pool.view(second).state == states.PREPARING
    assert pool.view(waiting).pending_reasons == (codes.BUDGET_EXHAUSTED,)
    # Other projects are served.
    other = pool.open(project_id="q")
    assert test_shares.find(pool, "q", other).state == states.PREPARING
    # The next day. A session counts on the day on which it ends.
    test_shares.finish(pool, 1)
    pool.tick(DAY_S / 2)
    assert shown(pool)["state"] == budget.WITHIN


def test_the_last_second_is_not_given_twice():
    """Time alone uses a budget up, between two ticks."""
    pool = make_pool(3)
    set_budget(pool, slot_s=10)
    pool.open()
    pool.now += 10.0
    # The session of another project makes a batch.
    pool.open(project_id="q")
    assert refused(pool) == codes.BUDGET_EXHAUSTED


def test_waiting_sessions_end_if_they_are_to_finish():
    pool = make_pool(1)
    set_budget(pool, slot_s=10, action="finish")
    running, waiting = pool.open(), pool.open()
    pool.tick(10.0)
    view = pool.view(waiting)
    assert (view.state, view.reason) == (
        states.REJECTED,
        codes.BUDGET_EXHAUSTED,
    )
    assert "this day" in view.message
    assert pool.view(running).state == states.PREPARING
    assert refused(pool) == codes.BUDGET_EXHAUSTED


def test_waiting_sets_end_if_they_are_to_finish():
    """With one session of a set, the core rejects the others."""
    pool = make_pool(2)
    set_budget(pool, slot_s=10, action="finish")
    pool.open()
    waiting = test_sets.open_set(pool, 2)
    alone = pool.open(set_id="two", set_size=2)
    pool.tick(10.0)
    assert test_sets.of_all(pool, [*waiting, alone]) == {
        (states.REJECTED, codes.BUDGET_EXHAUSTED)
    }


def test_idle_slots_only():
    pool = make_pool(1)
    set_budget(pool, slot_s=10, action="idle_only")
    use(pool, 10.0)
    first = pool.open()
    assert pool.view(first).state == states.PREPARING
    own = pool.open()
    other = pool.open(project_id="q")
    test_shares.finish(pool)
    assert test_shares.find(pool, "q", other).state == states.PREPARING
    assert pool.view(own).state == states.QUEUED


def test_raised_and_lowered_within_the_period():
    pool = make_pool(1)
    set_budget(pool, slot_s=10)
    use(pool, 8.0)
    set_budget(pool, slot_s=8)
    assert refused(pool) == codes.BUDGET_EXHAUSTED
    set_budget(pool, slot_s=20)
    assert shown(pool)["slot_s"]["left"] == 12.0
    waiting = pool.open()
    assert pool.view(waiting).state == states.PREPARING


@pytest.mark.parametrize("period", budget.PERIODS)
def test_what_was_used_survives_takeovers(period):
    pool = make_pool(1)
    pool.tick(5 * DAY_S)
    pool.report("a")
    use(pool, 3.0)
    pool.tick(DAY_S)
    pool.report("a")
    use(pool, 4.0)
    set_budget(pool, slot_s=100, period=period)
    # The ninth is a Sunday.
    expected = {"day": 4.0, "week": 7.0, "month": 7.0}[period]
    assert shown(pool)["slot_s"]["used"] == expected
    use(pool, 2.0)
    pool.boot_conductor()
    pool.report("a")
    assert shown(pool)["slot_s"]["used"] == expected + 2.0
    # A leader of the next day, which has read only the day before.
    pool.boot_conductor(DAY_S)
    pool.report("a")
    later = {"day": 0.0, "week": 0.0, "month": expected + 2.0}[period]
    assert shown(pool)["slot_s"]["used"] == later
    use(pool, 1.0)
    pool.boot_conductor()
    pool.report("a")
    assert shown(pool)["slot_s"]["used"] == later + 1.0


def test_what_was_left_is_carried_over_once():
    pool = make_pool(1)
    set_budget(pool, slot_s=10, carry_over=True)
    use(pool, 4.0)
    # There was no budget yesterday.
    assert shown(pool)["slot_s"]["carried"] == 0.0
    pool.tick(DAY_S)
    pool.report("a")
    assert shown(pool)["slot_s"]["carried"] == 6.0
    pool.boot_conductor()
    pool.report("a")
    assert shown(pool)["slot_s"]["carried"] == 6.0
    # Other limits from now on do not change what was left of the old ones.
    set_budget(pool, slot_s=20, carry_over=True)
    assert shown(pool)["slot_s"] == {
        "limit": 20,
        "carried": 6.0,
        "used": 0.0,
        "open": 0.0,
        "left": 26.0,
    }
    pool.tick(DAY_S)
    pool.report("a")
    assert shown(pool)["slot_s"]["carried"] == 20.0
    pool.tick(5 * DAY_S)
    pool.report("a")
    assert shown(pool)["slot_s"]["left"] == 40.0


def test_more_than_was_left_is_not_carried():
    pool = make_pool(1)
    set_budget(pool, slot_s=10, carry_over=True)
    pool.tick(DAY_S)
    pool.report("a")
    use(pool, 15.0)
    pool.tick(DAY_S)
    pool.report("a")
    assert shown(pool)["slot_s"]["carried"] == 0.0


def test_the_default_holds_for_everybody():
    default = budget_of(slot_s=10)
    pool = make_pool(1, default)
    use(pool, 10.0)
    assert refused(pool) == codes.BUDGET_EXHAUSTED
    assert shown(pool)["source"] == "default"
    use(pool, 3.0, project_id="q")
    pool.boot_conductor()
    pool.report("a")
    assert refused(pool) == codes.BUDGET_EXHAUSTED
    assert shown(pool, "q")["slot_s"]["used"] == 3.0
    set_budget(pool, slot_s=30)
    assert shown(pool)["slot_s"]["left"] == 20.0
    set_budget(pool)
    assert refused(pool) == codes.BUDGET_EXHAUSTED
    assert [
        one["project_id"] for one in pool.ask.budgets.documents_after("", 9)
    ] == ["p", "q"]


def test_a_waiting_session_gets_its_slot_when_there_is_no_budget_any_more():
    pool = make_pool(2)
    set_budget(pool, slot_s=1)
    pool.open()
    pool.tick(1.0)
    pool.open(project_id="q")
    pool.boot_conductor()
    pool.report("a")
    assert refused(pool) == codes.BUDGET_EXHAUSTED
    set_budget(pool)
    assert pool.view(pool.open()).state == states.QUEUED
    test_shares.finish(pool)


def test_groups_are_refused_and_give_their_slots_back():
    pool = make_pool(2)
    set_budget(pool, slot_s=10)
    pool.tick(1.0)
    turned = pool.memory.core.view.accounts.turns
    assert not turned
    use(pool, 10.0)
    pool.tick(0.5)
    assert "p" in turned
    group = objects.CreateGroup(
        group_id="g" * 36,
        project_id="p",
        name="g",
        accelerator="copy",
        size=1,
    )
    assert group_steps.change(pool, group) == codes.BUDGET_EXHAUSTED


def test_bytes_of_tasks_are_those_of_their_clients_project():
    pool = make_pool(2)
    group = group_steps.new(size=1, shared=True)
    assert group_steps.change(pool, group) == ""
    client = group_steps.client(group.group_id, project_id="q")
    assert group_steps.change(pool, client) == ""
    pool.settle()
    desk = pool.agents["a"].desks[group.group_id]
    set_budget(pool, bytes=1000)
    set_budget(pool, "q", bytes=100)

    def run(input_bytes: int, output_bytes: int) -> str:
        """Let a task end; return the state of its budget."""
        desk.count(
            client.client_id,
            ended=1,
            arrived=1,
            waiting=0,
            running=0,
            input_bytes=input_bytes,
            output_bytes=output_bytes,
        )
        pool.report("a")
        pool.tick(0.5)
        found = shown(pool, "q")["state"]
        assert isinstance(found, str)
        return found

    assert run(40, 39) == budget.WITHIN
    # No task ends while the next leader begins.
    pool.boot_conductor()
    pool.report("a")
    assert shown(pool, "q")["bytes"]["used"] == 79.0
    assert run(1, 0) == budget.NEAR
    assert refused(pool, project_id="q") == ""
    assert run(0, 20) == budget.EXHAUSTED
    assert refused(pool, project_id="q") == codes.BUDGET_EXHAUSTED
    assert shown(pool, "q")["bytes"]["used"] == 100.0
    assert shown(pool)["bytes"]["used"] == 0.0


def test_operators_hear_once_of_each_state():
    pool = make_pool(1)
    set_budget(pool, slot_s=10)

    def state() -> int | None:
        return next(
            (
                row.hard_limit
                for row in pool.rows["quotas"].values()
                if row.resource == "budget.state"
            ),
            None,
        )

    use(pool, 7.9)
    assert state() is None
    use(pool, 0.1)
    pool.tick(0.5)
    assert state() == 1
    pool.boot_conductor()
    pool.report("a")
    use(pool, 2.0)
    pool.tick(0.5)
    assert state() == 2
    assert pool.ask.budgets.counts() == {
        "within": 0,
        "near": 0,
        "exhausted": 1,
    }
    pool.tick(DAY_S)
    assert state() is None


def test_events_say_the_turn_of_a_new_leader():
    pool = make_pool(1)
    set_budget(pool, slot_s=10)
    use(pool, 10.0)
    pool.boot_conductor()
    assert pool.memory.core.view.accounts.turns == {
        "p": events.model.Turn.NEVER
    }
