# SPDX-License-Identifier: Apache-2.0

"""Boards that come back from maintenance with other slots."""

from __future__ import annotations

import dataclasses

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.core import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import administering
from tests.unit.conductor import probation
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """A board with two slots."""
    return world.Conductor(world.hosts(a=2))


def with_slots(
    report: objects.AgentReport, *slots: objects.SlotReport
) -> objects.AgentReport:
    """Return a report of other slots."""
    (device,) = report.devices
    return dataclasses.replace(
        report, devices=(dataclasses.replace(device, slots=slots),)
    )


def shrink(pool: world.Conductor) -> world.Slot:
    """The board comes back without its second slot; :returns: that slot."""
    agent = pool.agents["a"]
    lost = agent.slots.pop()
    agent.boots += 1
    pool.feed(agent.report())
    return lost


def row(pool: world.Conductor) -> tuple[bool, str]:
    found = pool.rows["slots"][2]
    return found.faulty, found.fault_reason


OUT = (True, registry.NOT_REPORTED)
IN_USE = (False, "")


def test_no_session_gets_a_slot_that_a_board_has_no_longer(pool) -> None:
    lost = shrink(pool)
    assert row(pool) == OUT
    assert set(pool.state.view.slots.slots) == {1}
    opened = [pool.open() for _ in range(2)]
    assert pool.view(opened[0]).state == states.PREPARING
    assert pool.view(opened[1]).state == states.QUEUED
    # The board has its slot again.
    pool.agents["a"].slots.append(lost)
    pool.report("a")
    assert row(pool) == IN_USE
    assert pool.view(opened[1]).state == states.PREPARING


@pytest.mark.parametrize("returns", [False, True])
def test_a_new_leader_knows_of_it(pool, returns) -> None:
    lost = shrink(pool)
    pool.boot_conductor()
    assert row(pool) == OUT
    if returns:
        pool.agents["a"].slots.append(lost)
    pool.report("a")
    assert row(pool) == (IN_USE if returns else OUT)
    opened = [pool.open() for _ in range(2)]
    assert pool.view(opened[1]).state == (
        states.PREPARING if returns else states.QUEUED
    )


def test_its_shape_is_gone_with_it(pool) -> None:
    report = pool.agents["a"].report()
    (device,) = report.devices
    first, second = device.slots
    other = dataclasses.replace(second, shape="other")
    pool.feed(with_slots(report, first, other))
    library = [dataclasses.replace(world.PROFILE, shapes=("other",))]
    probation.load(pool, *library)
    waits = [pool.open() for _ in range(2)]
    assert pool.view(waits[0]).state == states.PREPARING
    pool.cancel(waits[0])
    pool.feed(with_slots(pool.agents["a"].report(), first))
    assert pool.view(waits[1]).pending_reasons == (codes.NO_COMPATIBLE_SLOT,)
    refused = pool.open()
    pool.deliver_all()
    assert pool.agents["a"].views[refused].reason == codes.NO_COMPATIBLE_SLOT


def test_enabling_the_device_does_not_bring_it_back(pool) -> None:
    shrink(pool)
    administering.administer(pool, model.AdminState.ENABLED)
    assert row(pool) == OUT


def test_it_is_not_tested(pool) -> None:
    shrink(pool)
    refusal = probation.ask(pool, slot=1)
    assert probation.code_of(refusal) == codes.SLOT_NOT_TESTABLE
    pool.tick(1000.0)
    assert not probation.orders(pool)


def test_a_fault_that_it_had_is_known_when_it_is_back() -> None:
    pool = probation.make_world(2)
    pool.open()
    pool.open()
    probation.fail(pool, 1)
    assert row(pool) == (True, codes.PROGRAM_FAILED)
    lost = shrink(pool)
    assert row(pool) == OUT
    pool.agents["a"].slots.append(lost)
    pool.report("a")
    assert row(pool) == (True, codes.PROGRAM_FAILED)


def test_a_session_that_waits_there_for_its_client_gets_another_slot(
    pool,
) -> None:
    opened = [pool.open() for _ in range(2)]
    pool.deliver_all()
    shrink(pool)
    assert pool.view(opened[1]).state == states.QUEUED
    pool.cancel(opened[0])
    pool.settle()
    assert pool.view(opened[1]).state == states.READY


def test_a_session_that_runs_there_ends(pool) -> None:
    opened = [pool.open() for _ in range(2)]
    pool.deliver_all()
    agent = pool.agents["a"]
    for number in range(2):
        pool.feed(agent.prepared(number))
        agent.slots[number].state = states.SLOT_ACTIVE
    pool.feed(agent.report())
    assert pool.view(opened[1]).state == states.ACTIVE
    shrink(pool)
    ended = pool.rows["sessions"][2]
    assert (ended.state, ended.reason) == (states.FAILED, codes.WORKER_LOST)
    assert set(pool.memory.holds) == {1}
    assert pool.view(opened[0]).state == states.ACTIVE
