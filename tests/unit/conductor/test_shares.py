# SPDX-License-Identifier: Apache-2.0

"""Fair shares, quotas and usage in the engine."""

import dataclasses
import datetime

import pytest

from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.views import shares
from fpgapool.core import events
from fpgapool.core.queues import sharing
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

MIB = 2**20
DAY_S = 86400.0
ONE_SESSION = admission.ProjectQuota(sessions=1)


def make_world(slots: int = 1, **settings: object) -> world.Conductor:
    return world.Conductor([world.FakeAgent("a", slots)], **settings)


def find(pool: world.Conductor, project: str, request_id: str):
    view = pool.view_or_none(request_id, project)
    assert view is not None
    return view


def finish(
    pool: world.Conductor, number: int = 0, sent_bytes: int | None = None
) -> None:
    """Let the session in a slot connect, and end."""
    pool.deliver_all()
    agent = pool.agents["a"]
    answer = agent.prepared(number)
    assert answer is not None
    slot = agent.slots[number]
    slot.state = states.SLOT_ACTIVE
    pool.feed(answer, agent.report())
    view = next(
        hold.session
        for hold in pool.memory.holds.values()
        if hold.slot.number == number
    )
    sent = view.claimed_bytes if sent_bytes is None else sent_bytes
    agent.end(number, states.CLOSED, codes.OK, pool.now)
    agent.slots[number].last_result = dataclasses.replace(
        agent.slots[number].last_result, input_bytes=sent, output_bytes=sent
    )
    pool.feed(agent.report())


def serve_all(
    pool: world.Conductor, count: int, **members: object
) -> list[str]:
    """Let sessions end, one after the other; say whose they were."""
    projects = []
    for _ in range(count):
        (hold,) = pool.memory.holds.values()
        projects.append(hold.session.project_id)
        finish(pool, **members)
    return projects


# -- shares -----------------------------------------------------------------


def test_projects_have_rounds():
    pool = make_world(fair=True)
    for _ in range(6):
        pool.open(project_id="a", claimed_bytes=sharing.DEFAULT_QUANTUM_BYTES)
    for _ in range(3):
        pool.open(project_id="b", claimed_bytes=sharing.DEFAULT_QUANTUM_BYTES)
    served = serve_all(pool, 6)
    assert served.count("b") == 3


def test_without_shares_it_is_first_come_first_served():
    pool = make_world()
    for _ in range(6):
        pool.open(project_id="a", claimed_bytes=100 * MIB)
    pool.open(project_id="b", claimed_bytes=100 * MIB)
    assert serve_all(pool, 7) == ["a"] * 6 + ["b"]


def test_who_claims_little_and_holds_slots_for_long_does_not_profit():
    pool = make_world(fair=True)
    for _ in range(30):
        pool.open(project_id="liar", claimed_bytes=1)
        pool.open(
            project_id="honest", claimed_bytes=sharing.DEFAULT_QUANTUM_BYTES
        )
    served: list[str] = []
    for _ in range(20):
        (hold,) = pool.memory.holds.values()
        served.append(hold.session.project_id)
        if served[-1] == "liar":
            # The board carries 2 GB/s.
            pool.tick(5.0)
        finish(pool)
    assert 6 <= served.count("liar") <= 12


def test_a_session_that_moves_does_not_pay_its_claim_again(monkeypatch):
    pool = make_world(slots=2, fair=True)
    submitted = []
    tell = pool.memory.link.tell
    monkeypatch.setattr(
        pool.memory.link,
        "tell",
        lambda *happened: submitted.extend(happened) or tell(*happened),
    )
    request_id = pool.open(claimed_bytes=1000)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.slots[0].state = states.SLOT_ACTIVE
    pool.feed(agent.report())
    view = pool.view(request_id)
    pool.feed(world.reopening(view, "a"))
    jobs = [e for e in submitted if isinstance(e, events.JobSubmitted)]
    assert [event.paid_bytes for event in jobs] == [None, 1000]


def test_who_waits_for_very_long_goes_first():
    pool = make_world(fair=True, max_wait_s=50.0)
    pool.open(project_id="a")
    for _ in range(3):
        pool.open(project_id="a", claimed_bytes=10**9)
    pool.tick(60.0)
    pool.open(project_id="b")
    assert serve_all(pool, 5) == ["a", "a", "a", "a", "b"]


@pytest.mark.parametrize("fair", [False, True])
def test_users_of_a_project_take_turns(fair):
    pool = make_world(fair=fair)
    pool.feed(inputs.SetQuota("a", {"user_turns": 1}))
    opened = [
        pool.open(project_id="a", user_id=user, claimed_bytes=100 * MIB)
        for user in ("ann", "ann", "ann", "ann", "bob", "bob")
    ]
    waits = find(pool, "a", opened[1])
    found = shares.document(pool.memory, "fifo", "a", waits.session_id)
    assert found["session"]["users_before"] == 1
    assert found["session"]["user_slots"] == 1
    served = []
    for _ in opened:
        (hold,) = pool.memory.holds.values()
        served.append(hold.session.user_id)
        finish(pool)
    assert served == ["ann", "bob", "ann", "bob", "ann", "ann"]


# -- quotas -----------------------------------------------------------------


def test_a_project_at_its_limit_waits_and_others_pass_it():
    pool = make_world(slots=3, default_quota=ONE_SESSION)
    first = pool.open(project_id="a")
    second = pool.open(project_id="a")
    other = pool.open(project_id="b")
    assert find(pool, "a", first).state == states.PREPARING
    assert find(pool, "b", other).state == states.PREPARING
    waiting = find(pool, "a", second)
    assert waiting.state == states.QUEUED
    assert waiting.pending_reasons == (codes.PROJECT_SESSION_LIMIT,)
    finish(pool)
    assert find(pool, "a", second).state == states.PREPARING


@pytest.mark.parametrize("fair", [False, True])
def test_quotas_can_be_replaced(fair):
    pool = make_world(slots=3, default_quota=ONE_SESSION, fair=fair)
    requests = [pool.open(project_id="a") for _ in range(3)]
    quota = admission.ProjectQuota(sessions=2)
    pool.feed(inputs.NewQuotas(admission.Quotas(of_projects={"a": quota})))
    assert [find(pool, "a", one).state for one in requests] == [
        states.PREPARING,
        states.PREPARING,
        states.QUEUED,
    ]
    pool.feed(inputs.NewQuotas(admission.Quotas()))
    assert find(pool, "a", requests[2]).state == states.PREPARING


def test_limits_hold_after_a_restart():
    pool = make_world(slots=2, default_quota=ONE_SESSION)
    pool.open(project_id="a")
    second = pool.open(project_id="a")
    pool.boot_conductor()
    pool.report("a")
    assert find(pool, "a", second).state == states.QUEUED


def refusal_of(pool: world.Conductor, **members: object) -> tuple[str, str]:
    request_id = pool.open(**members)
    pool.deliver_all()
    view = pool.agents["a"].views[request_id]
    return view.reason, view.message


def test_queued_bytes_are_limited_and_given_back():
    pool = make_world(default_quota=admission.ProjectQuota(queued_bytes=1000))
    pool.open(project_id="a", claimed_bytes=1000)
    queued = pool.open(project_id="a", claimed_bytes=600)
    code, message = refusal_of(pool, project_id="a", claimed_bytes=500)
    assert code == codes.QUOTA_EXCEEDED
    assert message == (
        "project a may have 1000 bytes of waiting requests: it has 600, and"
        " 500 more would be too many"
    )
    exact = pool.open(project_id="a", claimed_bytes=400)
    assert find(pool, "a", exact).state == states.QUEUED
    pool.open(project_id="b", claimed_bytes=1000)
    pool.feed(inputs.Cancel("a", None, queued, codes.CANCELLED_BY_CLIENT))
    again = pool.open(project_id="a", claimed_bytes=600)
    assert find(pool, "a", again).state == states.QUEUED


# -- usage ------------------------------------------------------------------


def usage_of(
    pool: world.Conductor,
) -> dict[tuple[str, str], db_api.UsageRecord]:
    return {
        (row.project_id, str(row.day)): row
        for row in pool.rows["usage"].values()
    }


def test_usage_is_summed_by_project_and_day():
    pool = make_world(slots=2)
    pool.open(project_id="a")
    pool.open(project_id="b")
    pool.now += 5.0
    finish(pool, 0, 700)
    finish(pool, 1, 50)
    pool.open(project_id="a")
    pool.now += 2.0
    finish(pool, 0, 30)
    day = str(datetime.date(1970, 1, 1))
    found = usage_of(pool)
    row = found["a", day]
    assert (row.sessions, row.slot_s) == (2, 7.0)
    assert (row.input_bytes, row.output_bytes) == (730, 730)
    assert (found["b", day].sessions, found["b", day].slot_s) == (1, 5.0)
    pool.open(project_id="a")
    pool.now += DAY_S
    finish(pool, 0, 1)
    assert usage_of(pool)["a", "1970-01-02"].sessions == 1
    assert usage_of(pool)["a", day] == row


def test_usage_goes_on_after_a_restart():
    pool = make_world()
    pool.open(project_id="a")
    finish(pool, 0, 10)
    pool.boot_conductor()
    pool.report("a")
    pool.open(project_id="a")
    finish(pool, 0, 20)
    (row,) = pool.rows["usage"].values()
    assert (row.sessions, row.input_bytes) == (2, 30)


def test_usage_is_written_with_the_end_of_the_session():
    pool = make_world()
    pool.open(project_id="a")
    pool.deliver_all()
    agent = pool.agents["a"]
    pool.feed(agent.prepared(0))
    agent.end(0, states.CLOSED, codes.OK, pool.now)
    changes = pool.engine.process((agent.report(),), pool.now).changes
    (session,) = changes.rows(db_api.SessionRecord)
    assert session.state == states.CLOSED
    assert changes.rows(db_api.UsageRecord)[0].sessions == 1


def test_who_never_had_a_slot_has_used_nothing():
    pool = make_world()
    pool.open(project_id="a")
    waiting = pool.open(project_id="b")
    pool.feed(inputs.Cancel("b", None, waiting, codes.CANCELLED_BY_CLIENT))
    assert not pool.rows["usage"]


def test_a_clock_that_is_behind_does_not_begin_a_day_anew():
    day = datetime.date(2030, 5, 2)
    row = db_api.UsageRecord(
        id=7, project_id="a", accelerator="copy", day=day, sessions=3
    )
    ledger = usage.Ledger([row], 9)
    before = datetime.datetime(2030, 5, 1, 23, tzinfo=datetime.UTC)
    ledger.add("a", "copy", before.timestamp(), sessions=1)
    ledger.add("a", "aes", before.timestamp(), sessions=1)
    rows = {r.accelerator: r for r in ledger.take()}
    assert (rows["copy"].id, rows["copy"].day) == (7, day)
    assert rows["copy"].sessions == 4
    assert rows["aes"].id == 10
    assert ledger.take() == []


def test_what_agents_say_never_is_more_than_a_row_takes() -> None:
    now = datetime.datetime(2030, 5, 1, tzinfo=datetime.UTC).timestamp()
    ledger = usage.Ledger([], 0)
    for _ in range(2):
        ledger.add("a", "copy", now, input_bytes=2**63 - 1, output_bytes=2**62)
    (row,) = ledger.take()
    assert (row.input_bytes, row.output_bytes) == (2**63 - 1, 2**63 - 1)


def report_energy(pool: world.Conductor, energy_j: float | None) -> None:
    """Let the agent's board say what the holder of its slot has drawn."""
    pool.agents["a"].slots[0].energy_j = energy_j
    pool.report("a")


def test_energy_is_recorded_where_it_is_measured():
    pool = make_world()
    for energy_j in (None, 5.0, None, 2.5):
        pool.open(project_id="a")
        pool.agents["a"].slots[0].energy_j = energy_j
        finish(pool)
    pool.open(project_id="b")
    pool.agents["a"].slots[0].energy_j = None
    finish(pool)
    day = str(datetime.date(1970, 1, 1))
    found = usage_of(pool)
    assert found["a", day].energy_j == 7.5
    assert found["b", day].energy_j is None


def test_a_board_that_measures_nothing_is_charged_by_its_platform():
    pool = make_world()
    (slot,) = pool.memory.registry.slots.values()
    platforms = {slot.shape: {"peak_bytes_per_s": 1e9, "active_w": 40.0}}
    pool.memory.catalogue.profiles["copy"] = world.PROFILE.changed(
        platforms=platforms
    )
    for project_id, energy_j in (("a", None), ("b", 5.0)):
        pool.open(project_id=project_id)
        pool.agents["a"].slots[0].energy_j = energy_j
        pool.now += 2.0
        finish(pool)
    day = str(datetime.date(1970, 1, 1))
    found = usage_of(pool)
    assert found["a", day].slot_s > 0
    assert found["a", day].energy_j == pytest.approx(
        40.0 * found["a", day].slot_s
    )
    assert found["b", day].energy_j == 5.0


def test_energy_is_not_lost_with_the_agent():
    pool = make_world()
    pool.open(project_id="a")
    pool.deliver_all()
    report_energy(pool, 3.0)
    report_energy(pool, 4.0)
    pool.agents["a"].restart()
    report_energy(pool, 1.0)
    finish(pool)
    (row,) = pool.rows["usage"].values()
    assert row.energy_j == 5.0


def test_energy_of_another_holder_is_not_taken():
    pool = make_world()
    pool.open(project_id="a")
    # What the agent says is of the holder before: it knows of no other yet.
    report_energy(pool, 100.0)
    pool.deliver_all()
    pool.agents["a"].slots[0].energy_j = 1.0
    finish(pool)
    (row,) = pool.rows["usage"].values()
    assert row.energy_j == 1.0
