# SPDX-License-Identifier: Apache-2.0

"""Rows with words that no release has written stop no conductor."""

import dataclasses
import logging

import pytest

from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Two hosts with one slot each."""
    return world.Conductor(world.hosts(a=1, b=1))


def _spoil(pool: world.Conductor, table: str, key: int, **words: str) -> None:
    rows = pool.rows[table]
    rows[key] = dataclasses.replace(rows[key], **words)


def _hold_both(pool: world.Conductor) -> list[str]:
    """Have each slot hold a session that its client is connected to."""
    requests = [pool.open("a"), pool.open("b")]
    pool.deliver_all()
    for agent in pool.agents.values():
        pool.feed(agent.prepared(0))
        agent.slots[0].state = states.SLOT_ACTIVE
        pool.feed(agent.report())
    return requests


def _row_of(pool: world.Conductor, request_id: str) -> db_api.SessionRecord:
    (row,) = (
        row
        for row in pool.rows["sessions"].values()
        if row.request_id == request_id
    )
    return row


def test_an_unknown_phase(pool, caplog):
    lost, kept = _hold_both(pool)
    slot_id = _row_of(pool, lost).slot_id
    _spoil(pool, "assignments", slot_id, phase="FROZEN")
    pool.boot_conductor()
    assert "phase 'FROZEN'" in caplog.text
    assert f"slot_id={slot_id}," in caplog.text
    pool.settle()
    # As if no row said which slot it had.
    assert _row_of(pool, lost).state == states.FAILED
    assert _row_of(pool, lost).reason == codes.WORKER_LOST
    assert pool.view(kept).state == states.ACTIVE
    assert pool.view(pool.open("a")).state == states.PREPARING


def test_an_unknown_phase_of_a_session_that_waits_for_its_client(pool, caplog):
    request_id = pool.open("a")
    pool.deliver_all()
    (slot_id,) = pool.rows["assignments"]
    _spoil(pool, "assignments", slot_id, phase="FROZEN")
    pool.boot_conductor()
    assert pool.view(request_id).state == states.QUEUED
    pool.settle()
    assert pool.view(request_id).state in states.ASSIGNED


def test_an_unknown_state(pool, caplog):
    spoilt, kept = _hold_both(pool)
    row = _row_of(pool, spoilt)
    _spoil(pool, "sessions", row.id, state="FROZEN")
    pool.boot_conductor()
    assert "state 'FROZEN'" in caplog.text
    assert row.session_id in caplog.text
    pool.settle()
    # What it means is not known, so that it stays as it is.
    assert _row_of(pool, spoilt).state == "FROZEN"
    assert pool.view(kept).state == states.ACTIVE
    assert pool.view(pool.open("a")).state == states.PREPARING


@pytest.mark.parametrize("table", ["hosts", "devices"])
def test_hardware_of_an_unknown_state_is_disabled(pool, caplog, table):
    _spoil(pool, table, 1, admin_state="frozen")
    pool.boot_conductor()
    assert "admin_state 'frozen'" in caplog.text
    pool.settle()
    device = pool.memory.registry.devices[1]
    disabled = device if table == "devices" else device.host
    assert disabled.admin.state is model.AdminState.DISABLED
    # The other host serves all.
    assert pool.view(pool.open("a")).slot_host_uuid == "b"


def test_hosts_of_which_nova_says_something_unknown(pool, caplog):
    _spoil(pool, "hosts", 1, compute_state="frozen")
    pool.boot_conductor()
    assert "compute_state 'frozen'" in caplog.text
    assert pool.memory.registry.computes == dict.fromkeys(
        "ab", db_api.ComputeState.NONE
    )


def test_a_fault_of_an_unknown_level(pool, caplog):
    pool.rows["faults"][7] = db_api.FaultRecord(
        id=7,
        level="rack",
        target_id=1,
        reason=codes.SLOT_FAULTY,
        since=0.0,
        next_test_at=0.0,
    )
    pool.boot_conductor()
    assert "level 'rack'" in caplog.text
    pool.settle()
    assert pool.view(pool.open("a")).state == states.PREPARING
    # Another fault gets another row.
    pool.agents["b"].slots[0].state = states.SLOT_FAULTY
    pool.report("b")
    assert sorted(pool.rows["faults"]) == [7, 8]
    assert pool.rows["faults"][7].level == "rack"


def test_known_words_are_not_logged(pool, caplog):
    _hold_both(pool)
    with caplog.at_level(logging.ERROR):
        pool.boot_conductor()
    assert caplog.text == ""
