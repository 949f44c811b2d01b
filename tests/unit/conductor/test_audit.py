# SPDX-License-Identifier: Apache-2.0

"""What audits find, and how the conductor mends it."""

import concurrent.futures
import dataclasses

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.views import audit
from fpgapool.db import api as db_api
from fpgapool.objects import finding as findings
from fpgapool.vocabulary import states
from tests.unit.conductor import group_steps
from tests.unit.conductor import world as worlds

LEASE = db_api.Lease(holder="c1", epoch=1, renewals=3)


@pytest.fixture
def pool() -> worlds.Conductor:
    """Give a pool with an ACTIVE session, a PREPARING one and one QUEUED."""
    made = worlds.Conductor(worlds.hosts(a=2))
    for _ in range(3):
        made.open("a")
        made.deliver_all()
    agent = made.agents["a"]
    made.feed(agent.prepared(0))
    agent.slots[0].state = states.SLOT_ACTIVE
    made.feed(agent.report())
    return made


def look(
    pool: worlds.Conductor, *, reports: bool = True, **changes: object
) -> list[findings.Finding]:
    """Audit a pool.

    :param changes: of what the database holds.
    """
    live = [
        db_api.SessionState(
            id=row.id,
            session_id=row.session_id,
            state=row.state,
            slot_id=row.slot_id,
            generation=row.generation,
        )
        for row in pool.rows["sessions"].values()
        if row.state in states.LIVE
    ]
    found = db_api.Holdings(
        lease=LEASE,
        sessions=live,
        assignments=list(pool.rows["assignments"].values()),
    )
    told = {
        uuid: agent.report() for uuid, agent in pool.agents.items() if reports
    }
    memory = audit.remember(pool.ask, 1, told)
    held = dataclasses.replace(found, **changes)
    return list(audit.against_database(held, memory))


def kinds(found: list[findings.Finding]) -> list[str]:
    return [one.kind for one in found]


def test_a_pool_that_agrees(pool):
    assert len(pool.rows["sessions"]) == 3
    assert look(pool) == []


def test_another_leader(pool):
    other = dataclasses.replace(LEASE, epoch=2)
    (found,) = look(pool, lease=other)
    assert found.kind == findings.LEASE_OF_OTHER
    assert "epoch 2" in found.detail


def test_a_row_of_a_slot_is_lost_and_mended(pool):
    slot_id, row = pool.rows["assignments"].popitem()
    (found,) = look(pool)
    assert (found.kind, found.slot_id) == (
        findings.SESSION_WITHOUT_SLOT,
        slot_id,
    )
    pool.ask.record_again(found.session_id, found.slot_id)
    pool.feed()
    assert pool.rows["assignments"][slot_id] == row
    assert look(pool) == []


def test_a_slot_of_nobody_is_mended(pool):
    row = next(iter(pool.rows["assignments"].values()))
    stale = dataclasses.replace(row, slot_id=99)
    pool.rows["assignments"][99] = stale
    (found,) = look(pool)
    assert (found.kind, found.slot_id) == (findings.SLOT_WITHOUT_SESSION, 99)
    pool.ask.record_again(None, 99)
    pool.feed()
    assert look(pool) == []


def test_a_session_that_the_database_has_wrong_is_mended(pool):
    row = next(iter(pool.rows["sessions"].values()))
    pool.rows["sessions"][row.id] = dataclasses.replace(row, state="QUEUED")
    (found,) = look(pool)
    assert found.kind == findings.SESSION_DIFFERS
    pool.ask.record_again(found.session_id, found.slot_id)
    pool.feed()
    assert look(pool) == []


def test_a_session_that_is_not_recorded_is_mended(pool):
    row_id = max(pool.rows["sessions"])
    del pool.rows["sessions"][row_id]
    (found,) = look(pool)
    assert found.kind == findings.SESSION_NOT_RECORDED
    pool.ask.record_again(found.session_id, found.slot_id)
    pool.feed()
    assert look(pool) == []


@pytest.mark.parametrize(
    ("state", "becomes"), [("QUEUED", "QUEUED"), ("ACTIVE", "FAILED")]
)
def test_a_session_that_the_leader_does_not_know(pool, state, becomes):
    last = pool.rows["sessions"][max(pool.rows["sessions"])]
    lost = dataclasses.replace(
        last, id=77, session_id="lost", request_id="lost", state=state
    )
    pool.rows["sessions"][77] = lost
    (found,) = look(pool)
    assert found.kind == findings.SESSION_UNKNOWN
    pool.ask.adopt(lost)
    # A repeat changes nothing.
    pool.ask.adopt(lost)
    pool.tick()
    assert pool.rows["sessions"][77].state == becomes
    assert look(pool) == []


def test_a_session_can_be_asked_for_as_soon_as_it_is_adopted(pool):
    """A repair and who polls the session come in one batch."""
    last = pool.rows["sessions"][max(pool.rows["sessions"])]
    lost = dataclasses.replace(
        last, id=77, session_id="lost", request_id="lost"
    )
    pool.rows["sessions"][77] = lost
    adopted, asked = (concurrent.futures.Future() for _ in range(2))
    pool.feed(
        inputs.Query(lambda asked: asked.adopt(lost), future=adopted),
        inputs.Query(
            lambda asked: asked.changed({"lost": -1})[0], future=asked
        ),
    )
    answers = {
        one.future: one for one in pool.wire if isinstance(one, effects.Reply)
    }
    assert not answers[adopted].failed
    assert not answers[asked].failed
    (view,) = answers[asked].value
    assert (view.session_id, view.state) == ("lost", states.QUEUED)
    assert view.pending_reasons


def test_agents_that_disagree(pool):
    working, preparing = pool.agents["a"].slots
    working.generation += 1
    preparing.state, preparing.generation = states.SLOT_IDLE, None
    assert kinds(look(pool)) == [
        findings.WORKER_WITHOUT_SESSION,
        findings.SESSION_WITHOUT_WORKER,
    ]
    # Of an agent that has not answered, nothing is said.
    assert look(pool, reports=False) == []


def test_silent_hosts():
    pool = worlds.Conductor([worlds.FakeAgent(name, 1) for name in "abcd"])
    pool.open("a")
    pool.deliver_all()
    hosts = pool.memory.registry.hosts
    hosts["a"].up = hosts["b"].up = False
    found = look(pool)
    assert kinds(found) == [
        findings.WORKER_WITHOUT_AGENT,
        findings.DEVICES_OF_SILENT_HOST,
    ]
    assert found[1].host_uuid == "b"


def test_reservations_of_instances_that_are_gone(pool):
    device = next(iter(pool.memory.registry.devices.values()))
    device.reservations = {"vm-1": 1, "vm-2": 1}
    assert look(pool) == []
    (found,) = look(pool, gone_instances=frozenset({"vm-2"}))
    assert found.kind == findings.RESERVATION_WITHOUT_INSTANCE
    assert "vm-2" in found.detail


def test_a_database_without_a_leader(pool):
    def held(**changes: object) -> list[str]:
        sessions = list(audit.remember(pool.ask, 1, {}).sessions.values())
        found = db_api.Holdings(
            lease=LEASE,
            sessions=sessions,
            assignments=list(pool.rows["assignments"].values()),
        )
        changed = dataclasses.replace(found, **changes)
        return kinds(list(audit.in_database(changed)))

    assert held() == []
    assert held(assignments=[]) == [findings.SESSION_WITHOUT_SLOT] * 2
    assert held(sessions=[]) == [findings.SLOT_WITHOUT_SESSION] * 2


def test_slots_of_groups():
    pool = worlds.Conductor(worlds.hosts(a=2))
    assert not group_steps.change(pool, group_steps.new(group_id="g", size=1))
    pool.settle()
    assert look(pool) == []
    (row,) = pool.rows["assignments"].values()
    # The row of a session of the same number is another one.
    other = dataclasses.replace(row, holder_kind=states.HELD_BY_SESSION)
    (found,) = look(pool, assignments=[other])
    assert found.kind == findings.SESSION_WITHOUT_SLOT
    assert "group row 1" in found.detail
    held = db_api.Holdings(
        lease=LEASE, sessions=[], assignments=[row], groups=frozenset({1})
    )
    assert list(audit.in_database(held)) == []
    gone = dataclasses.replace(held, groups=frozenset())
    (found,) = audit.in_database(gone)
    assert found.kind == findings.SLOT_WITHOUT_SESSION
    # The agent has lost its member.
    agent = pool.agents["a"]
    agent.slots[0].state = states.SLOT_IDLE
    agent.slots[0].generation = None
    (found,) = look(pool)
    assert found.kind == findings.SESSION_WITHOUT_WORKER
    assert "group g" in found.detail


@pytest.mark.parametrize(("slot", "becomes"), [(0, "FAILED"), (1, "QUEUED")])
def test_a_new_leader_goes_on_where_rows_are_missing(pool, slot, becomes):
    """It would have to give up office otherwise, as would the next one."""
    row = list(pool.rows["assignments"].values())[slot]
    del pool.rows["assignments"][row.slot_id]
    pool.boot_conductor()
    assert pool.rows["sessions"][row.holder_id].state == becomes
    assert pool.counts.reconciled["session_without_slot"] == 1
    pool.report("a")
    # The slot is taken from whoever works there.
    assert pool.counts.reconciled["stray"] == 1


def test_findings_travel():
    found = findings.Finding(kind="k", subject="s", detail="d", slot_id=4)
    assert objects.base.Payload in type(found).__mro__
    assert findings.Finding.from_primitive(found.to_primitive()) == found


def test_an_end_that_the_former_leader_has_not_recorded(pool):
    """It gave the slot on, and died before it wrote why it could."""
    recorded = {name: dict(rows) for name, rows in pool.rows.items()}
    first = min(pool.rows["sessions"])
    agent = pool.agents["a"]
    pool.end(states.CLOSED, "OK")
    pool.deliver_all()
    assert agent.slots[0].state == states.SLOT_PREPARING
    assert pool.rows["sessions"][first].state == states.CLOSED
    pool.rows = recorded
    pool.boot_conductor()
    pool.feed(agent.report())
    assert pool.rows["sessions"][first].state == states.CLOSED
    assert pool.counts.reconciled["end_not_recorded"] == 1
    # Who had the slot by then gets one again.
    pool.settle()
    assert look(pool) == []
    assert len(pool.rows["assignments"]) == 2
