# SPDX-License-Identifier: Apache-2.0
"""Slots that instances have reserved, from the input to the rows."""

import uuid

import pytest

from fpgapool import objects
from fpgapool.api.backends import inventory
from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

HOST = str(uuid.UUID(int=1))
DEVICE = identity.device_id(HOST, "board0")
VM = str(uuid.UUID(int=77))
OTHER_VM = str(uuid.UUID(int=78))


def make_pool(*agents: world.FakeAgent) -> world.Conductor:
    """Give a pool that knows an instance with a token."""
    made = world.Conductor(list(agents))
    made.feed(
        inputs.AdmitInstance(
            objects.InstanceEntry(
                instance_id=VM,
                project_id="p",
                token_nonce="n",
                token_hash="h",
            )
        )
    )
    return made


@pytest.fixture
def pool():
    """A host with three slots, and an instance with a token."""
    return make_pool(world.FakeAgent(HOST, 3))


def reserve(pool: world.Conductor, **counts: int) -> None:
    """Say all that is reserved: of ``vm`` and ``other``."""
    names = {"vm": VM, "other": OTHER_VM}
    pool.feed(
        inputs.Reservations(
            {DEVICE: {names[name]: count for name, count in counts.items()}}
        )
    )


def set_reservable(
    pool: world.Conductor, count: int, device: str = "board0"
) -> exception.FpgapoolException | None:
    """Say how many slots are reservable; return why that cannot be."""
    return pool.answer(
        inputs.SetReservable(host_uuid=HOST, device=device, slots=count)
    )


def open_by_vm(pool: world.Conductor) -> str:
    return pool.open(HOST, user_id=f"instance:{VM}")


def reserved_for(pool: world.Conductor) -> list[str | None]:
    """What the rows say of the slots, which is what the engine knows."""
    rows = sorted(pool.rows["slots"].values(), key=lambda row: row.number)
    known = pool.memory.registry.slots
    assert {row.id: row.reserved_for for row in rows} == {
        slot.id: slot.reserved_for for slot in known.values()
    }
    assert pool.state.view.slots.reserved == {
        row.id: row.reserved_for for row in rows if row.reserved_for
    }
    return [row.reserved_for for row in rows]


def device_of(pool: world.Conductor) -> dict:
    (host,) = pool.hardware().summary(pool.ask.now()["unusable_slots"])
    return host["devices"][0]


def free(pool: world.Conductor) -> list[int]:
    """How many slots can be used, and how many of them are free."""
    now = pool.ask.hosts_now(pool.agents)
    told = inventory.snapshot(pool.hardware(), {"copy": ()}, {}, now, 0.0)
    return list(told["hosts"][HOST]["accelerators"]["copy"].values())


def test_a_reserved_slot_serves_its_instance(pool: world.Conductor) -> None:
    reserve(pool, vm=1)
    assert reserved_for(pool) == [None, None, VM]
    assert free(pool) == [3, 2]
    names = [pool.open(HOST) for _ in range(3)]
    pool.settle()
    assert [pool.view(name).state for name in names] == [
        states.READY,
        states.READY,
        states.QUEUED,
    ]
    assert pool.view(names[2]).pending_reasons == (codes.SLOTS_RESERVED,)
    own = open_by_vm(pool)
    pool.settle()
    assert pool.view(own).state == states.READY
    assert pool.view(names[2]).pending_reasons == (codes.NO_IDLE_SLOT,)
    assert free(pool) == [3, 0]
    figures = pool.ask.figures(3, 3)
    assert figures.reservations == {"ready": 1, "pending": 0}


def test_a_restart_gives_no_reserved_slot_away(pool: world.Conductor) -> None:
    reserve(pool, vm=1, other=1)
    before = reserved_for(pool)
    # The other one keeps its place although it would now be another one.
    reserve(pool, vm=1)
    assert set_reservable(pool, 2) is None
    after = reserved_for(pool)
    assert after.count(VM) == 1
    assert before.index(VM) == after.index(VM)
    pool.boot_conductor()
    # Neither Nova nor the agent has said anything yet.
    names = [pool.open(HOST) for _ in range(4)]
    pool.settle()
    assert [pool.view(name).state for name in names].count(states.READY) == 2
    assert reserved_for(pool) == after
    assert pool.ask.reservable_slots(DEVICE) == 2
    reserve(pool, vm=1)
    assert reserved_for(pool) == after
    own = open_by_vm(pool)
    pool.settle()
    assert pool.view(own).state == states.READY
    reserve(pool)
    assert reserved_for(pool) == [None] * 3
    pool.boot_conductor()
    pool.settle()
    assert reserved_for(pool) == [None] * 3


def test_who_can_move_goes_on_elsewhere(pool: world.Conductor) -> None:
    names = [pool.open(HOST) for _ in range(3)]
    pool.settle()
    agent = pool.agents[HOST]
    for slot in agent.slots:
        slot.state = states.SLOT_ACTIVE
    pool.feed(agent.report())
    reserve(pool, vm=1)
    assert device_of(pool)["pending_reservations"] == 1
    assert pool.ask.figures(3, 3).reservations == {
        "ready": 0,
        "pending": 1,
    }
    pool.settle()
    assert device_of(pool)["pending_reservations"] == 0
    assert sorted(pool.view(name).state for name in names) == [
        states.ACTIVE,
        states.ACTIVE,
        states.QUEUED,
    ]
    own = open_by_vm(pool)
    pool.settle()
    assert pool.view(own).state == states.READY


def test_who_has_not_begun_gives_the_slot_back(pool: world.Conductor) -> None:
    names = [pool.open(HOST) for _ in range(3)]
    reserve(pool, vm=2)
    pool.settle()
    found = [pool.view(name).state for name in names]
    assert sorted(found) == [states.QUEUED, states.QUEUED, states.READY]
    assert [slot.state for slot in pool.agents[HOST].slots].count(
        states.SLOT_IDLE
    ) == 2


def test_an_instance_without_token_has_its_slot_too(
    pool: world.Conductor,
) -> None:
    reserve(pool, other=1)
    assert reserved_for(pool) == [None, None, OTHER_VM]
    names = [pool.open(HOST) for _ in range(3)]
    pool.settle()
    assert pool.view(names[2]).state == states.QUEUED


def test_how_many_can_be_reserved(pool: world.Conductor) -> None:
    assert pool.ask.reservable_slots(DEVICE) == 0
    assert pool.ask.reservable_slots("nobody") == 0
    assert set_reservable(pool, 2) is None
    assert pool.ask.reservable_slots(DEVICE) == 2
    (row,) = pool.rows["devices"].values()
    assert row.reservable_slots == 2
    device = device_of(pool)
    assert (device["reservable_slots"], device["reserved_slots"]) == (2, 0)
    refusal = set_reservable(pool, 4)
    assert isinstance(refusal, exception.InvalidRequest)
    assert str(refusal) == (
        f"device {HOST}/board0 has 3 slots, so 4 cannot be reserved"
    )
    assert isinstance(
        set_reservable(pool, 1, "board9"), exception.DeviceNotFound
    )
    reserve(pool, vm=2)
    refusal = set_reservable(pool, 1)
    assert isinstance(refusal, exception.FewerThanReserved)
    assert refusal.code == codes.FEWER_THAN_RESERVED
    assert pool.ask.reservable_slots(DEVICE) == 2
    # The reservation outlives news of the hardware.
    pool.feed(pool.agents[HOST].report())
    assert device_of(pool)["reserved_slots"] == 2


def test_nonsense_is_left_out(pool: world.Conductor) -> None:
    pool.feed(
        inputs.Reservations(
            {
                DEVICE: {VM: 0, OTHER_VM: -1, "x" * 37: 1},
                str(uuid.UUID(int=5)): {VM: 1},
            }
        )
    )
    assert pool.rows["reservations"] == {}
    assert reserved_for(pool) == [None] * 3


@pytest.mark.parametrize(
    "arguments",
    [(HOST, "board0", -1), (HOST, "board0", True), (HOST, None, 1)]
    + [(HOST, "board0", value) for value in (1.0, "1", None)]
    + [(None, "board0", 1)],
)
def test_what_makes_no_sense_is_refused(arguments: tuple) -> None:
    with pytest.raises(exception.InvalidRequest):
        limits.argument(
            reservations.REQUEST,
            dict(
                zip(("host_uuid", "device", "slots"), arguments, strict=True)
            ),
            "",
        )


def test_the_end_of_an_instance_leaves_its_slot_to_all(
    pool: world.Conductor,
) -> None:
    reserve(pool, vm=1)
    own = open_by_vm(pool)
    pool.settle()
    pool.feed(inputs.InstanceDeleted(VM))
    reserve(pool)
    pool.settle()
    assert pool.view(own).state == states.CANCELLED
    names = [pool.open(HOST) for _ in range(3)]
    pool.settle()
    assert {pool.view(name).state for name in names} == {states.READY}


def test_a_silent_host_keeps_whom_a_reservation_evicts() -> None:
    """It may not have heard that its session has to leave."""
    agents = [
        world.FakeAgent(str(uuid.UUID(int=number)), 1)
        for number in (1, 2, 3, 4)
    ]
    pool = make_pool(*agents)
    evicting, *others = agents
    names = [pool.open(HOST) for _ in agents]
    pool.settle()
    for agent in agents:
        agent.slots[0].state = states.SLOT_ACTIVE
        pool.feed(agent.report())
    (evicted,) = (
        name for name in names if pool.view(name).slot_host_uuid == HOST
    )
    served = pool.view(evicted)
    reserve(pool, vm=1)
    own = open_by_vm(pool)
    for _ in range(8):
        pool.feed(*(agent.report() for agent in others))
        pool.tick(5.0)
    assert not pool.memory.registry.hosts[HOST].up
    assert pool.view(evicted).state == states.ACTIVE
    # Nothing reached it.
    pool.wire = [
        one for one in pool.wire if getattr(one, "host_uuid", "") != HOST
    ]
    pool.feed(evicting.report())
    (hold,) = (
        hold
        for hold in pool.memory.holds.values()
        if hold.session.session_id == served.session_id
    )
    assert hold.generation == served.generation
    assert pool.view(own).state == states.QUEUED
    pool.settle()
    assert pool.view(evicted).state == states.QUEUED
    assert pool.view(own).state == states.READY
    # A client that is late with its wish takes the slot from nobody.
    pool.feed(world.reopening(served, HOST))
    pool.settle()
    assert pool.view(own).state == states.READY
    evicting.end(0, states.CLOSED, codes.OK, pool.now)
    pool.feed(evicting.report())
    assert pool.view(own).state == states.CLOSED


def test_one_reservation_evicts_one_session(pool: world.Conductor) -> None:
    names = [pool.open(HOST) for _ in range(3)]
    pool.deliver_all()
    agent = pool.agents[HOST]
    reserve(pool, vm=1)
    # The worker programs on, so its release takes a while.
    for _ in range(5):
        pool.now += 1.0
        pool.feed(agent.report())
        found = [pool.view(name).state for name in names]
        assert found.count(states.QUEUED) == 1
    pool.settle()
    found = [pool.view(name).state for name in names]
    assert sorted(found) == [states.QUEUED, states.READY, states.READY]


def test_a_worker_that_starts_anew_evicts_nobody(
    pool: world.Conductor,
) -> None:
    reserve(pool, vm=1)
    before = reserved_for(pool)
    names = [pool.open(HOST) for _ in range(2)]
    pool.settle()
    agent = pool.agents[HOST]
    for number in (0, 1):
        agent.slots[number].state = states.SLOT_ACTIVE
    agent.slots[2].state = states.SLOT_STARTING
    for _ in range(2):
        pool.feed(agent.report())
    assert not any(hold.revoked for hold in pool.memory.holds.values())
    assert reserved_for(pool) == before
    agent.slots[2].state = states.SLOT_IDLE
    pool.settle()
    assert {pool.view(name).state for name in names} == {states.ACTIVE}
    assert reserved_for(pool) == before


def test_a_failed_preparation_does_not_cost_the_reserved_slot() -> None:
    pool = make_pool(world.FakeAgent(HOST, 1))
    reserve(pool, vm=1)
    own = open_by_vm(pool)
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, codes.PREPARE_FAILED, host=HOST)
    pool.settle()
    assert pool.view(own).state == states.READY
