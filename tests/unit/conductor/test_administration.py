# SPDX-License-Identifier: Apache-2.0
"""The engine and what operators say of devices and hosts."""

import dataclasses
import json
import uuid
from typing import Any

import pytest

from fpgapool.api.backends import inventory
from fpgapool.common import exception
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.db import inventory as db_inventory
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import administering
from tests.unit.conductor import world

ENABLED = model.AdminState.ENABLED
DRAINING = model.AdminState.DRAINING
DISABLED = model.AdminState.DISABLED


@pytest.fixture
def pool():
    """Hosts a and b with a slot each, and c without a board."""
    return world.Conductor(world.hosts(a=1, b=1, c=0))


def row(pool: world.Conductor, table: str = "devices") -> tuple:
    """What the database has of host a or its board."""
    (found,) = [
        one
        for one in pool.rows[table].values()
        if getattr(one, "uuid", "") == "a" or getattr(one, "host_id", 0) == 1
    ]
    return found.admin_state, found.admin_reason, found.drain_deadline_at


def run_on(pool: world.Conductor, host: str) -> str:
    """Start a session whose client is connected."""
    request_id = pool.open(host)
    pool.deliver_all()
    agent = pool.agents[host]
    pool.feed(agent.prepared(0))
    pool.deliver_all()
    agent.slots[0].state = states.SLOT_ACTIVE
    pool.feed(agent.report())
    assert pool.view(request_id).state == states.ACTIVE
    return request_id


def end(pool: world.Conductor, host: str, **changes: object) -> None:
    """Carry the order to release a slot; its agent reports."""
    pool.deliver_all()
    slot = pool.agents[host].slots[0]
    assert slot.last_result is not None
    slot.last_result = dataclasses.replace(slot.last_result, **changes)
    pool.feed(pool.agents[host].report())


def test_what_is_disabled_is_given_to_nobody(pool) -> None:
    assert administering.administer(pool, DISABLED, reason="fan")
    assert row(pool) == ("disabled", "fan", None)
    opened = [pool.open("a") for _ in range(2)]
    assert pool.view(opened[0]).slot_host_name == "b"
    assert pool.view(opened[1]).state == states.QUEUED
    assert administering.administer(pool, ENABLED)
    assert row(pool) == ("enabled", "", None)
    assert pool.view(opened[1]).slot_host_name == "a"


@pytest.mark.parametrize("device", [None, "board0"])
def test_a_reason_stays_until_the_hardware_is_enabled(pool, device) -> None:
    run_on(pool, "a")
    table = "devices" if device else "hosts"
    for state, within_s, reason, wanted in [
        (DRAINING, None, "kernel", ("draining", "kernel", False)),
        (DRAINING, 20.0, "", ("draining", "kernel", True)),
        (DRAINING, None, "fan", ("draining", "fan", False)),
        (DISABLED, None, "", ("disabled", "fan", False)),
        (DRAINING, 20.0, "", ("draining", "fan", True)),
        (ENABLED, None, "", ("enabled", "", False)),
        (ENABLED, None, "new", ("enabled", "new", False)),
        (ENABLED, None, "", ("enabled", "new", False)),
        (DISABLED, None, "", ("disabled", "", False)),
    ]:
        assert administering.administer(
            pool, state, within_s, device=device, reason=reason
        )
        *shown, deadline_at = row(pool, table)
        assert (*shown, deadline_at is not None) == wanted


def test_who_is_there_stays(pool) -> None:
    request_id = run_on(pool, "a")
    administering.administer(pool, DISABLED)
    pool.settle()
    pool.agents["a"].slots[0].state = states.SLOT_ACTIVE
    pool.report("a")
    assert pool.view(request_id).state == states.ACTIVE
    assert row(pool)[0] == "disabled"


def test_a_drain_is_done_when_the_last_has_gone(pool) -> None:
    run_on(pool, "a")
    administering.administer(pool, DRAINING, reason="fan")
    assert row(pool) == ("draining", "fan", None)
    pool.end(states.CLOSED, codes.OK)
    assert row(pool) == ("disabled", "fan", None)
    assert administering.administer(pool, DRAINING)
    assert row(pool)[0] == "disabled", "nobody is there"


@pytest.mark.parametrize("restart", [False, True])
def test_at_its_deadline_a_stateless_session_moves(pool, restart) -> None:
    request_id = run_on(pool, "a")
    before = pool.view(request_id)
    administering.administer(pool, DRAINING, 60.0)
    assert row(pool) == ("draining", "", pool.now + 60)
    pool.now += 59.0
    if restart:
        pool.boot_conductor()
        pool.report()
    else:
        pool.report()
    assert pool.view(request_id).state == states.ACTIVE
    pool.now += 1.0
    pool.feed()
    assert pool.memory.holds[1].revoked == codes.DRAINED
    end(pool, "a", input_bytes=500, started_at=pool.now)
    view = pool.view(request_id)
    assert (view.state, view.slot_host_name) == (states.PREPARING, "b")
    assert view.generation > before.generation
    assert view.queued_at == before.queued_at
    assert row(pool) == ("disabled", "", None)


def test_a_deadline_moves_with_a_clock_that_was_set(pool) -> None:
    run_on(pool, "a")
    administering.administer(pool, DRAINING, 60.0)
    pool.now += 50.0
    for jump_s in (7200.0, -3600.0):
        pool.boot_conductor(jump_s)
        pool.report()
    assert row(pool) == ("draining", "", pool.now + 10)
    pool.now += 9.9
    pool.feed()
    assert not pool.memory.holds[1].revoked
    pool.now += 0.2
    pool.feed()
    assert pool.memory.holds[1].revoked == codes.DRAINED


def test_a_deadline_that_passed_while_nobody_led(pool) -> None:
    request_id = run_on(pool, "a")
    administering.administer(pool, DRAINING, 60.0)
    pool.now += 100.0
    pool.boot_conductor()
    assert row(pool)[0] == "draining"
    assert not pool.memory.holds[1].revoked, "its host may be gone"
    pool.report()
    assert pool.memory.holds[1].revoked == codes.DRAINED
    end(pool, "a")
    assert pool.view(request_id).slot_host_name == "b"
    assert row(pool)[0] == "disabled"
    pool.boot_conductor()
    pool.report()
    assert pool.view(pool.open("a")).state == states.QUEUED


def make_stateful(pool: world.Conductor) -> None:
    profile = world.PROFILE.to_primitive()["data"] | {"stateless": False}
    record = db_api.AcceleratorRecord(name="copy", profile=profile)
    pool.feed(inputs.Library((record,)))


def test_a_stateful_session_ends_with_the_offset(pool) -> None:
    make_stateful(pool)
    request_id = run_on(pool, "a")
    administering.administer(pool, DRAINING, 0.0)
    end(pool, "a", input_bytes=4096, started_at=pool.now)
    view = pool.view(request_id)
    assert (view.state, view.reason) == (states.FAILED, codes.DRAINED)
    assert "4096" in view.message
    assert row(pool)[0] == "disabled"


def test_a_stateful_session_that_has_not_begun_moves(pool) -> None:
    make_stateful(pool)
    first = pool.open("a")
    second = pool.open("b")
    third = pool.open("b")
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    assert pool.view(first).state == states.READY
    administering.administer(pool, DRAINING, 0.0)
    view = pool.view(first)
    assert (view.state, view.queue_position) == (states.QUEUED, 0)
    assert row(pool)[0] == "disabled"
    pool.deliver_all()
    # Its worker knows, so that a client that connects now is refused.
    last = pool.agents["a"].slots[0].last_result
    assert (last.code, last.generation) == (codes.DRAINED, 4294967296)
    pool.report("a")
    pool.cancel(second)
    pool.deliver_all()
    pool.report("b")
    assert pool.view(first).slot_host_name == "b"
    assert pool.view(third).state == states.QUEUED


def test_a_session_that_was_closed_at_that_time_is_closed(pool) -> None:
    request_id = run_on(pool, "a")
    administering.administer(pool, DRAINING, 0.0)
    pool.end(states.CLOSED, codes.OK)
    assert pool.view(request_id).state == states.CLOSED
    assert row(pool)[0] == "disabled"


def test_a_host_that_dies_while_it_is_drained(pool) -> None:
    pool.settings = dataclasses.replace(
        pool.settings, lost_session_timeout_s=100.0
    )
    pool.boot_conductor()
    pool.report()
    request_id = run_on(pool, "a")
    administering.administer(pool, DRAINING, 0.0)
    for _ in range(80):
        pool.now += 4.0
        pool.feed(*(pool.agents[name].report() for name in "bc"))
        pool.tick()
    assert pool.view(request_id).state == states.LOST
    pool.tick(1.0)
    assert row(pool)[0] == "disabled"


def two_slots() -> tuple[world.Conductor, str, str]:
    """Host a, which is to be drained: a session is PREPARING, one READY."""
    pool = world.Conductor(world.hosts(a=2, b=0))
    first, second = pool.open("a"), pool.open("a")
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(1))
    assert pool.view(first).state == states.PREPARING
    assert pool.view(second).state == states.READY
    return pool, first, second


@pytest.mark.parametrize("failover", [False, True])
def test_a_report_of_slots_of_which_one_takes_another(failover) -> None:
    pool, first, second = two_slots()
    administering.administer(pool, DRAINING, 5.0)
    pool.now += 6.0
    if failover:
        pool.boot_conductor()
    agent = pool.agents["a"]
    agent.end(0, states.PREPARE_FAILED, codes.PROGRAM_FAILED, pool.now)
    agent.end(1, states.CLOSED, codes.OK, pool.now)
    # What is done about the first lets the core drain the second.
    pool.feed(agent.report())
    assert pool.view(first).state == states.QUEUED
    assert pool.view(second).state == states.CLOSED
    assert not pool.memory.holds
    assert row(pool)[0] == "disabled"


def test_preparations_that_hang_at_the_deadline_of_a_drain() -> None:
    pool = world.Conductor(world.hosts(a=2))
    opened = [pool.open("a") for _ in range(2)]
    pool.deliver_all()
    pool.now += pool.settings.prepare_timeout_s + 1.0
    administering.administer(pool, DRAINING, 1.0)
    pool.report("a")
    pool.wire.clear()
    pool.now += 1.0
    pool._take(pool.engine.tick(pool.now))
    pool.check()
    released = [m.slot for m in pool.sent(effects.ReleaseSlot)]
    assert sorted(released) == [0, 1]
    for request_id in opened:
        assert pool.view(request_id).state == states.QUEUED


def test_a_host_and_its_boards(pool) -> None:
    run_on(pool, "a")
    assert administering.administer(
        pool, DRAINING, device=None, reason="kernel"
    )
    assert row(pool, "hosts") == ("draining", "kernel", None)
    assert row(pool)[0] == "enabled"
    pool.end(states.CLOSED, codes.OK)
    assert row(pool, "hosts") == ("disabled", "kernel", None)
    administering.administer(pool, DISABLED, device=None, host="b")
    request_id = pool.open("a")
    assert pool.view(request_id).pending_reasons == (codes.NO_ENABLED_SLOT,)
    administering.administer(pool, ENABLED)
    assert pool.view(request_id).state == states.QUEUED, "the host is not"
    administering.administer(pool, ENABLED, device=None)
    assert pool.view(request_id).slot_host_name == "a"


def test_boards_that_come_to_a_disabled_host_are_disabled(pool) -> None:
    assert administering.administer(pool, DRAINING, device=None, host="c")
    pool.agents["c"].slots = [world.Slot()]
    administering.administer(pool, DISABLED, device=None, host="b")
    administering.administer(pool, DISABLED, device=None)
    pool.report("c")
    request_id = pool.open("c")
    assert pool.view(request_id).state == states.QUEUED
    administering.administer(pool, ENABLED, device=None, host="c")
    assert pool.view(request_id).slot_host_name == "c"


def test_what_is_not_there(pool) -> None:
    before = {name: dict(rows) for name, rows in pool.rows.items()}
    assert not administering.administer(pool, DISABLED, host="z")
    assert not administering.administer(pool, DISABLED, host="z", device=None)
    assert not administering.administer(pool, DISABLED, device="board9")
    assert pool.rows == before


def test_to_enable_repairs_what_was_taken_out() -> None:
    pool = world.Conductor(world.hosts(a=1), fault_limit=1)
    request_id = pool.open("a")
    pool.deliver_all()
    pool.agents["a"].end(
        0, states.PREPARE_FAILED, codes.PROGRAM_FAILED, pool.now
    )
    pool.report("a")
    assert pool.rows["slots"][1].faulty
    assert pool.view(request_id).state == states.QUEUED
    administering.administer(pool, ENABLED)
    slot = pool.rows["slots"][1]
    assert (slot.faulty, slot.fault_reason) == (False, "")
    assert pool.view(request_id).state == states.PREPARING
    # Counted anew: it would be out at the first failure, as before.
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    assert pool.view(request_id).state == states.READY


def test_to_enable_does_not_repair_what_its_agent_calls_faulty() -> None:
    pool = world.Conductor(world.hosts(a=1))
    pool.agents["a"].slots[0].state = states.SLOT_FAULTY
    pool.report("a")
    administering.administer(pool, ENABLED)
    request_id = pool.open("a")
    assert pool.view(request_id).state == states.QUEUED
    pool.agents["a"].slots[0].state = states.SLOT_IDLE
    pool.report("a")
    assert pool.view(request_id).state == states.PREPARING


def test_figures_of_devices_and_slots(pool) -> None:
    administering.administer(pool, DISABLED)
    run_on(pool, "b")
    administering.administer(pool, DRAINING, host="b", device=None)
    figures = pool.ask.figures(5, 5)
    assert figures.devices == {"enabled": 0, "draining": 1, "disabled": 1}
    assert figures.slots == {"disabled": 1, "active": 1}


@pytest.mark.parametrize(
    "wish",
    [
        (7, None, "enabled", "", None),
        ("a", 7, "enabled", "", None),
        ("a", None, None, "", None),
        ("a", None, "gone", "", None),
        ("a", None, "enabled", None, None),
        ("a", None, "enabled", "r" * 256, None),
        ("a", None, "enabled", "a\0b", None),
        ("a", None, "enabled", "\ud800", None),
        ("a", None, "enabled", "", 1),
        ("a", None, "draining", "", -1),
        ("a", None, "draining", "", True),
        ("a", None, "draining", "", "1"),
        ("a", None, "draining", "", float("nan")),
        ("a", None, "draining", "", float("inf")),
    ],
)
def test_what_makes_no_sense_is_refused(wish) -> None:
    with pytest.raises(exception.InvalidRequest):
        administration.checked(
            **dict(
                zip(
                    ("host_uuid", "device", "state", "reason"),
                    wish,
                    strict=False,
                )
            ),
            drain_within_s=wish[-1],
        )


# -- what Nova is told -------------------------------------------------


def snapshot(pool: world.Conductor) -> dict[str, Any]:
    """Return the snapshot, with its hosts by name."""
    now = json.loads(json.dumps(pool.ask.hosts_now(pool.agents)))
    hosts = {world.uuid_of(name): one for name, one in now.items()}
    queued = pool.ask.counts()["queued"]
    told = inventory.snapshot(
        pool.hardware(), {"copy": ()}, queued, hosts, 5.0
    )
    by_name = {one["name"]: one for one in told["hosts"].values()}
    assert set(told["hosts"]) == {world.uuid_of(name) for name in by_name}
    return {**told, "hosts": by_name}


def copies(told: dict[str, Any], host: str) -> dict[str, int] | None:
    found: dict[str, int] | None = told["hosts"][host]["accelerators"].get(
        "copy"
    )
    return found


def test_a_snapshot_of_a_pool_at_rest(pool) -> None:
    found = snapshot(pool)
    host = {
        "name": "a",
        "up": True,
        "nic_bytes_per_s": 1e9,
        "nic_load": 0.0,
        "queued": 0,
        "slots": {"total": 1, "usable": 1, "free": 1},
        "accelerators": {"copy": {"usable": 1, "free": 1}},
    }
    nothing = {
        "slots": dict.fromkeys(("total", "usable", "free"), 0),
        "accelerators": {},
    }
    assert found == {
        "generated_at": "1970-01-01T00:00:05.000000Z",
        "generation": found["generation"],
        "hosts": {
            "a": host,
            "b": host | {"name": "b"},
            "c": host | {"name": "c"} | nothing,
        },
        "queued": {},
    }


def test_a_snapshot_counts_what_can_be_used(pool) -> None:
    run_on(pool, "a")
    administering.administer(pool, DISABLED, host="b")
    pool.open("b")
    pool.open("c")
    pool.open("c")
    found = snapshot(pool)
    assert found["queued"] == {"copy": 3}
    hosts = found["hosts"]
    assert [hosts[n]["queued"] for n in "abc"] == [0, 1, 2]
    assert copies(found, "a") == {"usable": 1, "free": 0}
    assert copies(found, "b") is None
    administering.administer(pool, ENABLED, host="b")
    pool.agents["b"].slots[0].state = states.SLOT_FAULTY
    pool.report("b")
    assert copies(snapshot(pool), "b") is None


def test_a_snapshot_tells_how_network_cards_are_used(pool) -> None:
    """Half of c's card sends; a's gets that, and local sessions nothing."""
    run_on(pool, "a")
    request_id = pool.open("c")
    pool.deliver_all()
    agent = pool.agents["b"]
    pool.feed(agent.prepared(0))
    agent.slots[0].state = states.SLOT_ACTIVE
    for passed_s in (0, 4):
        pool.now += passed_s
        agent.slots[0].input_bytes += passed_s * 500_000_000
        pool.agents["a"].slots[0].input_bytes += passed_s * 100_000_000
        pool.feed(agent.report(), pool.agents["a"].report())
    hosts = snapshot(pool)["hosts"]
    assert [hosts[n]["nic_load"] for n in "abc"] == [0.0, 0.5, 0.5]
    assert pool.view(request_id).slot_host_name == "b"
    pool.end(states.CLOSED, codes.OK, host="b")
    hosts = snapshot(pool)["hosts"]
    assert [hosts[n]["nic_load"] for n in "abc"] == [0.0, 0.0, 0.0]


def test_a_snapshot_for_nova() -> None:
    uuids = [str(uuid.UUID(int=number)) for number in (1, 2)]
    shapes = ("small", "small", "small", "large", "large")
    pool = db_inventory.Inventory(
        db_api.Inventory(
            hosts=[
                db_api.HostRecord(
                    id=number,
                    uuid=one,
                    name=name,
                    nic_bytes_per_s=1e9,
                    up=name == "a",
                )
                for number, one, name in zip((1, 2), uuids, "ab", strict=True)
            ],
            devices=[
                db_api.DeviceRecord(
                    id=host_id,
                    host_id=host_id,
                    name="board0",
                    model="test",
                    dma_bytes_per_s=2e9,
                )
                for host_id in (1, 2)
            ],
            slots=[
                db_api.SlotRecord(
                    id=10 * device_id + number,
                    device_id=device_id,
                    number=number,
                    shape=shape,
                    faulty=number == 2,
                    reserved_for="i" if number == 1 else None,
                )
                for device_id in (1, 2)
                for number, shape in enumerate(shapes)
            ],
            holders=[],
        )
    )
    now = {
        uuids[0]: {"nic_load": 0.25, "queued": 3, "unusable_slots": [14]},
    }
    library = {"aes": [], "fft": ["large"], "sha": ["huge"]}
    told = inventory.snapshot(pool, library, {"aes": 4}, now, 0.5)
    assert told["generated_at"] == "1970-01-01T00:00:00.500000Z"
    assert told["queued"] == {"aes": 4}
    first, second = (told["hosts"][one] for one in uuids)
    assert (first["nic_load"], first["queued"]) == (0.25, 3)
    assert first["slots"] == {"total": 5, "usable": 3, "free": 2}
    assert first["accelerators"] == {
        "aes": {"usable": 3, "free": 2},
        "fft": {"usable": 1, "free": 1},
    }
    assert (second["nic_load"], second["queued"]) == (0.0, 0)
    assert second["accelerators"] == {}
    later = inventory.snapshot(pool, library, {"aes": 4}, now, 9.0)
    assert later["generation"] == told["generation"]
    other = inventory.snapshot(pool, library, {}, now, 0.5)
    assert other["generation"] != told["generation"]
