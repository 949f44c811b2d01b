# SPDX-License-Identifier: Apache-2.0

"""The state machine of a worker."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.vocabulary import states
from tests.harness import machines
from tests.unit.worker import machine_steps

ORPHAN_S = 600.0


def test_the_agent_is_told_of_borders(machine):
    machine_steps.ready(machine)
    machine.handle(state.Attached(1, 77.0), 3.0)
    for quanta in (1, 2):
        assert machine_steps.kinds(
            machine.handle(state.QuantumDone(1), 4.0)
        ) == ["Changed"]
        assert machine.quanta == quanta
    assert machine.handle(state.QuantumDone(2), 4.0) == []
    machine.handle(state.Ended(1, "CLOSED", "OK", ""), 5.0)
    assert machine.handle(state.QuantumDone(1), 5.0) == []
    machine_steps.finish(machine)
    assert machine.quanta == 0


def test_states_that_soon_pass_need_not_be_told_at_once(machine):
    later, at_once = state.Changed(soon=True), state.Changed()
    assert machine.handle(state.Assign(machine_steps.order()), 1.0)[0] == later
    assert machine.handle(state.Programmed(1, "copy"), 2.0)[0] == at_once
    for detached_s in (3.0, 4.0):
        assert machine.handle(state.Attached(1, 77.0), 2.0) == [later]
        lost = machine.handle(state.Detached(1), detached_s)
        assert lost == [at_once]
    machine.handle(state.Attached(1, 78.0), 5.0)
    assert machine.handle(state.QuantumDone(1), 6.0) == [at_once]


def test_a_client_that_closes_while_it_is_to_leave_has_closed(machine):
    machine_steps.ready(machine)
    machine.handle(state.Attached(1, 77.0), 3.0)
    machine.handle(state.Release(1, "PREEMPTED"), 4.0)
    machine.handle(state.Ended(1, "FAILED", "CORE_FAILED", ""), 5.0)
    machine.handle(state.Ended(1, "CLOSED", "OK", ""), 5.0)
    machine_steps.finish(machine)
    result = machine.last_result
    assert (result.state, result.code) == ("CLOSED", "OK")


def test_life_of_a_session(machine):
    effects = machine.handle(state.Assign(machine_steps.order()), 1.0)
    assert machine_steps.kinds(effects) == ["Changed", "Program"]
    assert machine.state == "preparing"
    effects = machine.handle(state.Programmed(1, "copy"), 2.0)
    assert machine_steps.kinds(effects) == ["Changed", "Announce"]
    assert machine.deadline_s == 32.0
    machine.handle(state.Attached(1, 77.0), 3.0)
    assert (machine.state, machine.deadline_s) == ("active", 3.25)
    machine.handle(state.Detached(1), 4.0)
    assert (machine.state, machine.deadline_s) == ("detached", 14.0)
    machine.handle(state.Attached(1, 78.0), 5.0)
    ended = state.Ended(1, "CLOSED", "OK", "")
    assert machine_steps.kinds(machine.handle(ended, 6.0)) == ["Clear"]
    assert machine.state == "active"
    assert machine_steps.kinds(machine_steps.finish(machine)) == ["Changed"]
    assert machine.state == "idle"
    assert machine.last_result == state.Result(
        "s1", 1, "CLOSED", "OK", "", 10, 20, 77.0, 99.0
    )


@pytest.mark.parametrize(
    ("prepare", "now", "code"),
    [
        ([], 32.0, "CONNECT_TIMEOUT"),
        (
            [state.Attached(1, 0.0), state.Detached(1)],
            20.0,
            "RESUME_TIMEOUT",
        ),
    ],
)
def test_timeouts(machine, prepare, now, code):
    machine_steps.ready(machine)
    for event in prepare:
        machine.handle(event, 10.0)
    assert machine.deadline_s == now
    assert machine.handle(state.Tick(), now - 0.001) == []
    (effect,) = machine.handle(state.Tick(), now)
    assert (type(effect), effect.code) == (state.Clear, code)
    machine_steps.finish(machine)
    assert machine.last_result.state == "EXPIRED"


def test_a_worker_that_was_frozen_hears_its_client_first(machine):
    limits = watch.Limits(idle_timeout_s=5.0)
    idle = dataclasses.replace(machine_steps.order(), limits=limits)
    machine.handle(state.Assign(idle), 1.0)
    machine.handle(state.Programmed(1, "copy"), 2.0)
    machine.handle(state.Attached(1, 77.0), 3.0)
    assert machine.handle(state.Tick(), 13.0) == []
    # What came meanwhile counts; from now on, silence does.
    assert (
        machine.handle(state.Tick(watch.Progress(100)), machine.deadline_s)
        == []
    )
    now = 13.0
    while now < 13.25 + 5.0:
        now = machine.deadline_s
        effects = machine.handle(state.Tick(watch.Progress(100)), now)
    (effect,) = effects
    assert (type(effect), effect.code) == (state.Clear, "IDLE_TIMEOUT")
    machine_steps.finish(machine)


def test_release_while_preparing_waits_for_the_slot(machine):
    machine.handle(state.Assign(machine_steps.order()), 1.0)
    assert machine.handle(state.Release(1, "X"), 2.0) == []
    effects = machine.handle(state.Programmed(1, "copy"), 3.0)
    assert machine_steps.kinds(effects) == ["Clear"]
    machine_steps.finish(machine)
    assert machine.last_result.state == "CANCELLED"
    assert machine.programmed == "copy"


def test_release_that_is_repeated(machine):
    machine_steps.ready(machine)
    assert machine_steps.kinds(machine.handle(state.Release(1, "X"), 3.0)) == [
        "Clear"
    ]
    assert machine_steps.kinds(machine.handle(state.Release(1, "Y"), 4.0)) == [
        "Changed"
    ]
    machine_steps.finish(machine)
    assert machine_steps.kinds(machine.handle(state.Release(1, "Z"), 5.0)) == [
        "Changed"
    ]
    assert machine.last_result.code == "X"


def test_first_end_counts(machine):
    machine_steps.ready(machine)
    machine.handle(state.Release(1, "X"), 3.0)
    late = state.Ended(1, "FAILED", "LATE", "")
    assert machine.handle(late, 3.0) == []
    assert machine.handle(state.Attached(1, 0.0), 3.0) == []
    machine_steps.finish(machine)
    assert machine.last_result.code == "X"


def test_failed_programming(machine):
    machine.handle(state.Assign(machine_steps.order()), 1.0)
    effects = machine.handle(state.ProgramFailed(1, "no power"), 2.0)
    assert machine_steps.kinds(effects) == ["Clear"]
    machine_steps.finish(machine)
    result = machine.last_result
    assert (result.state, result.code) == ("PREPARE_FAILED", "PROGRAM_FAILED")
    assert machine.programmed is None


def test_slot_that_cannot_be_scrubbed(machine):
    machine_steps.ready(machine)
    machine.handle(state.Release(1, "X"), 3.0)
    machine_steps.finish(machine, fault="acid")
    assert (machine.state, machine.fault) == ("faulty", "acid")
    (effect,) = machine.handle(state.Assign(machine_steps.order(2)), 4.0)
    assert effect.code == "SLOT_FAULTY"


def test_another_project(machine):
    machine_steps.ready(machine)
    machine.handle(state.Release(1, "X"), 3.0)
    machine_steps.finish(machine)
    effects = machine.handle(state.Assign(machine_steps.order(2, "q")), 4.0)
    assert machine_steps.kinds(effects) == ["Refuse", "Changed", "Quit"]
    assert effects[0].code == "RECYCLE"
    # It is about to end.
    effects = machine.handle(state.Assign(machine_steps.order(3, "q")), 5.0)
    assert machine_steps.kinds(effects) == ["Refuse"]


def test_secret_waits_for_an_agent(machine):
    machine.handle(state.AgentLost(), 0.5)
    assert machine_steps.kinds(machine_steps.ready(machine)) == ["Changed"]
    effects = machine.handle(state.AgentConnected(), 3.0)
    assert machine_steps.kinds(effects) == ["Changed", "Announce"]
    assert machine_steps.kinds(
        machine.handle(state.AgentConnected(), 4.0)
    ) == ["Changed"]


def test_orphan_waits_for_its_session():
    machine = state.Machine(0.0, orphan_s=ORPHAN_S)
    assert machine.deadline_s == ORPHAN_S
    machine.handle(state.AgentConnected(), 1.0)
    assert machine.deadline_s is None
    machine_steps.ready(machine)
    machine.handle(state.Attached(1, 0.0), 3.0)
    machine.handle(state.AgentLost(), 3.1)
    # The next look at the session; the process lives on with it.
    assert machine.deadline_s == 3.25
    machine.handle(state.Release(1, "X"), 5.0)
    machine_steps.finish(machine)
    assert machine.deadline_s == 50.0 + ORPHAN_S
    effects = machine.handle(state.Tick(), 50.0 + ORPHAN_S)
    assert machine_steps.kinds(effects) == ["Changed", "Quit"]


def test_exit_with_the_agent():
    machine = state.Machine(0.0, orphan_s=ORPHAN_S, exit_with_agent=True)
    assert machine.deadline_s == state.FIRST_AGENT_S
    machine.handle(state.AgentConnected(), 1.0)
    assert "Quit" in machine_steps.kinds(
        machine.handle(state.AgentLost(), 2.0)
    )


GENERATIONS = st.integers(1, 4)
EVENTS = st.one_of(
    st.just(state.AgentConnected()),
    st.just(state.AgentLost()),
    st.just(state.Tick()),
    st.builds(
        state.Assign,
        st.builds(
            machine_steps.order,
            GENERATIONS,
            st.sampled_from(["p", "p", "p", "q"]),
        ),
    ),
    st.builds(state.Release, GENERATIONS, st.just("X")),
    st.builds(state.ReissueSecret, GENERATIONS),
    st.builds(state.Programmed, GENERATIONS, st.just("copy")),
    st.builds(state.ProgramFailed, GENERATIONS, st.just("no")),
    st.builds(state.Attached, GENERATIONS, st.just(1.0)),
    st.builds(state.Detached, GENERATIONS),
    st.builds(
        state.Ended,
        GENERATIONS,
        st.sampled_from(sorted(states.RESULTS)),
        st.just("C"),
        st.just(""),
    ),
    st.builds(
        state.Scrubbed,
        GENERATIONS,
        st.just(1),
        st.just(2),
        st.just(3.0),
        st.sampled_from([None, None, "fault"]),
    ),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 40)), max_size=60))
def test_any_events_in_any_order(steps):
    machine = state.Machine(0.0, orphan_s=ORPHAN_S)
    now = 0.0
    cleared = []
    programmed = []
    for event, pause_s in steps:
        now += pause_s
        seen = machine.seen_generation
        effects = machine.handle(event, now)
        machines.check(machine)
        assert machine.seen_generation >= seen
        cleared += [
            effect.order.generation
            for effect in effects
            if isinstance(effect, state.Clear)
        ]
        programmed += [
            effect.order.generation
            for effect in effects
            if isinstance(effect, state.Program)
        ]
    # Each assignment is programmed once and cleared once at most.
    assert programmed == sorted(set(programmed))
    assert cleared == sorted(set(cleared))
    assert set(cleared) <= set(programmed)


def test_only_the_end_of_the_process_cleans_the_slot(machine):
    machine.handle(state.Assign(machine_steps.order()), 1.0)
    machine.handle(state.Programmed(1, "copy"), 2.0)
    machine.handle(state.Attached(1, 77.0), 3.0)
    ended = state.Ended(1, "FAILED", "KERNEL_HUNG", "it hangs")
    machine.handle(ended, 4.0)
    event = state.Scrubbed(1, 10, 20, 99.0, spent="the device hangs")
    effects = machine.handle(event, 50.0)
    # The agent learns of the result, and of a slot that is no longer held.
    assert effects == [state.Changed(), state.Quit("the device hangs")]
    assert (machine.state, machine.fault) == ("idle", None)
    assert machine.last_result.code == "KERNEL_HUNG"
    # No other session may come before the next process.
    (refused,) = machine.handle(
        state.Assign(machine_steps.order(generation=2)), 51.0
    )
    assert refused.code == "RECYCLE"
