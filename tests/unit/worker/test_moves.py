# SPDX-License-Identifier: Apache-2.0

"""The table of a slot's life, and the one place that follows it."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

import fpgapool
from fpgapool.agent.worker import state
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

AGENT = pathlib.Path(fpgapool.__file__).parent / "agent"
ORDER = state.Order("s1", 1, "p", "copy", "builtin:copy", 30.0, 10.0)


def writes(tree: ast.AST) -> Iterator[str]:
    """Yield the functions that set a slot's state."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store | ast.Del)
                and node.attr in ("_state", "state")
            ):
                yield function.name


def test_nothing_else_writes_the_state():
    # The rest of an agent shows what workers say, and keeps no state of its
    # own; its link's is not a slot's.
    found = {
        (path.name, name)
        for path in AGENT.rglob("*.py")
        if path.name != "shaping.py"
        for name in writes(ast.parse(path.read_text()))
    }
    assert found == {("state.py", "__init__"), ("state.py", "_move")}


@pytest.mark.parametrize(
    "planted",
    [
        "slot.state = 1",
        "self._state = 1",
        "self._state: int = 1",
        "a, slot.state = 1, 2",
        "del self._state",
    ],
)
def test_a_planted_write_is_found(planted: str):
    assert list(writes(ast.parse(f"def sneak():\n    {planted}"))) == ["sneak"]


def test_all_states_are_reached_from_idle_and_lead_back():
    def reached(start: str) -> set[str]:
        found, pending = set(), [start]
        while pending:
            new = set(states.SLOT_MOVES[pending.pop()].values()) - found
            found |= new
            pending += new
        return found

    known = states.SLOT_STATES - {states.SLOT_STARTING}
    assert set(states.SLOT_MOVES) == known
    for one in known:
        assert reached(one) == known


@pytest.mark.parametrize(
    ("before", "impossible", "told"),
    [
        ([], state.Attached(1, 0.0), "preparing"),
        ([state.Programmed(1, "copy")], state.Programmed(1, "aes"), "ready"),
        (
            [state.Programmed(1, "copy"), state.Attached(1, 0.0)],
            state.ProgramFailed(1, "late"),
            "active",
        ),
    ],
)
def test_an_impossible_event_ends_the_session_and_frees_the_slot(
    before, impossible, told
):
    machine = state.Machine(0.0, orphan_s=600.0)
    machine.handle(state.AgentConnected(), 0.0)
    machine.handle(state.Assign(ORDER), 1.0)
    for event in before:
        machine.handle(event, 2.0)
    effects = machine.handle(impossible, 3.0)
    # Programming cannot be interrupted.
    effects += machine.handle(state.Programmed(1, "copy"), 4.0)
    (effect,) = effects
    assert isinstance(effect, state.Clear)
    assert effect.code == codes.INTERNAL_ERROR
    assert told in effect.message
    machine.handle(state.Scrubbed(1, 0, 0, 5.0), 5.0)
    assert machine.state == states.SLOT_IDLE
    result = machine.last_result
    assert (result.session_id, result.state) == ("s1", states.FAILED)
