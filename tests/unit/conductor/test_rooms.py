# SPDX-License-Identifier: Apache-2.0

"""The engine's rooms: who handles what, and what moves a session."""

import ast
import dataclasses
import pathlib
import typing

import pytest

import fpgapool
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

ROOT = pathlib.Path(fpgapool.__file__).parent


def test_each_input_and_instruction_is_handled_by_one_room(single):
    kinds = [kind for room in single.engine.rooms for kind in room.handlers]
    assert len(kinds) == len(set(kinds))
    assert {*kinds, inputs.Query, instructions.WakeAt} == {
        *typing.get_args(inputs.Input),
        *typing.get_args(instructions.Instruction),
    }


def test_a_room_gets_the_parts_that_its_fields_name(single):
    memory = single.memory
    for room in single.engine.rooms:
        for field in dataclasses.fields(room):
            part = getattr(memory, field.name.removeprefix("_"), None)
            if field.init and part is not None:
                assert getattr(room, field.name) is part


def _writes(name: str) -> set[str]:
    """Return the modules that assign to a member of this name."""
    return {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == name
    }


def test_the_phase_of_an_assignment_is_written_in_the_core_alone():
    core = {path for path in _writes("phase") if not path.startswith("sim/")}
    assert core
    assert all(path.startswith("core/") for path in core)


def test_a_session_ends_in_one_place():
    found = {path for path in _writes("end") if "conductor" in path}
    assert found == {"conductor/decisions/requests/sessions.py"}


@pytest.mark.parametrize("phase", model.Phase)
@pytest.mark.parametrize(
    "event",
    [events.SlotReady, events.HolderAttached, events.HolderDetached],
)
def test_the_life_of_an_assignment_and_of_its_session_agree(phase, event):
    word = {
        events.SlotReady: "prepare",
        events.HolderAttached: "attach",
        events.HolderDetached: "detach",
    }[event]
    after = events.PHASE_MOVES[event].get(phase)
    assert states.SESSION_MOVES[phase.value].get(word, set()) == (
        {after.value} if after else set()
    )


def test_states_of_the_life_cycle_are_those_of_sessions():
    moves = states.SESSION_MOVES.values()
    entered = {state for one in moves for to in one.values() for state in to}
    assert entered | set(states.SESSION_MOVES) == states.ALL


def test_a_wrong_move_stops_its_session_and_no_other(single, monkeypatch):
    """The session stays as it was; the rest of the batch counts."""
    first, second = single.open(), single.open()
    single.settle()
    session = single.memory.sessions.by_request["p", second]
    assert session.state == states.QUEUED
    check = sessions.Session.check_move

    def fail(one, event, *to):
        if one is session:
            raise parts.WrongMove("broken")
        check(one, event, *to)

    monkeypatch.setattr(sessions.Session, "check_move", fail)
    single.engine.process(
        (
            inputs.Cancel("p", None, second, codes.CANCELLED_BY_CLIENT),
            inputs.Cancel("p", None, first, codes.CANCELLED_BY_CLIENT),
        ),
        single.now,
    )
    assert session.state == states.QUEUED
    assert [job.id for job in single.state.waiting()] == [session.job_id]
    assert single.view(first).state == states.CANCELLED
    assert single.counts.reconciled["wrong_move"] == 1


def test_a_session_that_must_not_wait_again_is_not_revived(single):
    """Whatever its worker calls its end, it stays among the ended ones."""
    request_id = single.open()
    single.settle()
    single.agents["a"].end(0, states.CLOSED, codes.RESUME_TIMEOUT, single.now)
    single.report("a")
    view = single.view(request_id)
    assert view.state == states.CLOSED
    single.engine.process(
        (world.reopening(view, "a"),),
        single.now,
    )
    session = single.memory.sessions.by_id[view.session_id]
    assert session.state == states.CLOSED
    assert session.row_id in single.memory.sessions._ended


def test_an_ended_session_cannot_end_again(single):
    request_id = single.open()
    single.cancel(request_id)
    session = single.memory.sessions.by_request["p", request_id]
    with pytest.raises(parts.WrongMove, match=r"CANCELLED, .* EXPIRED"):
        session.finish(states.EXPIRED, codes.WAIT_TIMEOUT, "", 1.0, 1.0)
    assert session.state == states.CANCELLED


def test_an_end_that_is_not_known_is_a_failure(single):
    request_id = single.open()
    single.settle()
    agent = single.agents["a"]
    agent.end(0, "EVICTED", "EVICTED", single.now)
    single.feed(agent.report())
    view = single.view(request_id)
    assert (view.state, view.reason) == (states.FAILED, "EVICTED")
