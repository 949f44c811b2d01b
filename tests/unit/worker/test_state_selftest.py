# SPDX-License-Identifier: Apache-2.0

"""The state machine of a worker whose slot is tested."""

import dataclasses

import pytest

from fpgapool.agent.worker import state
from fpgapool.vocabulary import codes
from tests.unit.worker import machine_steps

kinds = machine_steps.kinds
finish = machine_steps.finish


def start(machine, generation=1):
    order = dataclasses.replace(
        machine_steps.order(generation), self_test=True
    )
    return machine.handle(state.Assign(order), 1.0)


def test_a_slot_that_passes_is_scrubbed_and_idle(machine):
    assert kinds(start(machine)) == ["Changed", "Program"]
    effects = machine.handle(state.Programmed(1, "copy"), 2.0)
    # No client is told anything: there is none.
    assert kinds(effects) == ["Clear"]
    assert machine.state == "preparing"
    finish(machine)
    assert (machine.state, machine.programmed) == ("idle", "copy")
    result = machine.last_result
    assert (result.state, result.code) == ("CLOSED", codes.OK)


def test_a_slot_that_fails_says_why(machine):
    start(machine)
    failed = state.ProgramFailed(1, "wrong", codes.SELF_TEST_FAILED)
    assert kinds(machine.handle(failed, 2.0)) == ["Clear"]
    finish(machine)
    result = machine.last_result
    assert (result.state, result.code, result.message) == (
        "PREPARE_FAILED",
        codes.SELF_TEST_FAILED,
        "wrong",
    )


@pytest.mark.parametrize(
    ("fault", "after"), [(None, "idle"), ("acid", "faulty")]
)
def test_a_slot_that_could_not_be_scrubbed_is_scrubbed_again(
    machine, fault, after
):
    machine_steps.ready(machine)
    machine.handle(state.Release(1, "CLIENT_GONE"), 3.0)
    finish(machine, fault="acid")
    assert machine.state == "faulty"
    (refusal,) = machine.handle(state.Assign(machine_steps.order(2)), 4.0)
    assert refusal.code == codes.SLOT_FAULTY
    assert kinds(start(machine, 2)) == ["Changed", "Program"]
    machine.handle(state.Programmed(2, "copy"), 5.0)
    finish(machine, 2, fault)
    assert (machine.state, machine.fault) == (after, fault)


def test_a_test_can_be_called_off(machine):
    start(machine)
    assert machine.handle(state.Release(1, "PREPARE_TIMEOUT"), 2.0) == []
    assert kinds(machine.handle(state.Programmed(1, "copy"), 3.0)) == ["Clear"]
    finish(machine)
    assert machine.last_result.code == codes.PREPARE_TIMEOUT


def test_a_test_of_another_time_changes_nothing(machine):
    assert machine.handle(state.Programmed(1, "copy"), 1.0) == []
    machine_steps.ready(machine)
    assert machine.handle(state.Programmed(2, "copy"), 3.0) == []
    assert machine.state == "ready"
