# SPDX-License-Identifier: Apache-2.0

"""What an agent says to the conductor, and what it asks for."""

from __future__ import annotations

import contextlib
import queue
import threading

import pytest

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender

LIMIT_S = 30.0


class Wire:
    """Where casts go; closed at first.

    :ivar sent: what has gone, in its order.
    """

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.entered = threading.Event()
        self.opened = threading.Event()

    def cast(self, name: str):
        def go() -> None:
            self.entered.set()
            assert self.opened.wait(LIMIT_S)
            self.sent.append(name)

        return go


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def blocked(wire: Wire):
    """A sender that is busy with a first cast until the wire is opened."""
    made = sender.Sender("test", contextlib.nullcontext, lambda key: None)
    made.start()
    made.put("busy", wire.cast("busy"))
    assert wire.entered.wait(LIMIT_S)
    yield made
    wire.opened.set()
    made.stop(LIMIT_S)


def test_a_project_does_not_wait_behind_another_ones_flood(
    blocked, wire
) -> None:
    for number in range(500):
        blocked.put(("f", number), wire.cast("flood"), lane="flood")
    for number in range(5):
        blocked.put(("o", number), wire.cast(f"own{number}"), lane="own")
    wire.opened.set()
    blocked.stop(LIMIT_S)
    assert len(wire.sent) == 506
    places = [wire.sent.index(f"own{number}") for number in range(5)]
    # Every second one, until it has all that it wants.
    assert places == [2, 4, 6, 8, 10]


def test_the_agents_own_casts_come_first(blocked, wire) -> None:
    for number in range(200):
        blocked.put(("f", number), wire.cast("flood"), lane="flood")
    blocked.put_first("report", wire.cast("report"))
    wire.opened.set()
    blocked.stop(LIMIT_S)
    assert wire.sent[:2] == ["busy", "report"]


def test_a_flood_drops_its_own_casts(blocked, wire, monkeypatch) -> None:
    blocked.put("o", wire.cast("own"), lane="own")
    too_many = 10
    for number in range(sender.MAX_WAITING_CASTS + too_many):
        blocked.put(("f", number), wire.cast("flood"), lane="flood")
    assert blocked.dropped == too_many + 1
    wire.opened.set()
    blocked.stop(LIMIT_S)
    assert wire.sent.count("own") == 1


def test_questions_of_a_flood_are_left_out(wire) -> None:
    """The others' are answered, and the flood hears of it."""
    loop = agent_loop.Loop("test")
    caller = sender.Caller(loop, "test")
    answered: queue.SimpleQueue[object] = queue.SimpleQueue()

    def ask(name: str, lane: str) -> None:
        caller.submit(
            wire.cast(name),
            lambda _: answered.put(name),
            answered.put,
            lane=lane,
        )

    loop.start()
    caller.start()
    try:
        for _ in range(2 * sender.MAX_WAITING_CALLS + sender.CALL_THREADS):
            ask("flood", "flood")
        for _ in range(5):
            ask("own", "own")
        wire.opened.set()
        total = 2 * sender.MAX_WAITING_CALLS + sender.CALL_THREADS + 5
        found = [answered.get(timeout=LIMIT_S) for _ in range(total)]
    finally:
        wire.opened.set()
        caller.stop(LIMIT_S)
        loop.stop(LIMIT_S)
    assert found.count("own") == 5
    left_out = [one for one in found if isinstance(one, queue.Full)]
    assert len(left_out) >= sender.MAX_WAITING_CALLS
