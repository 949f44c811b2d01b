# SPDX-License-Identifier: Apache-2.0

"""Connections that a worker gets from its agent."""

from __future__ import annotations

import os
from concurrent import futures

import pytest

from fpgapool.agent.worker import reach

LIMIT_S = 30.0


class Site:
    """A worker that waits for a connection, and what it has asked for."""

    def __init__(self) -> None:
        self.asked: futures.Future[None] = futures.Future()
        self.made = reach.Reach(lambda: self.asked.set_result(None))
        self._threads = futures.ThreadPoolExecutor(1)

    def dial(self) -> futures.Future[int | None]:
        dialed = self._threads.submit(self.made.dial, "next", 9, 0)
        self.asked.result(LIMIT_S)
        return dialed


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_answer_is_the_connection(site) -> None:
    dialed = site.dial()
    assert site.made.wanted == {
        "number": 1,
        "session_id": "next",
        "next_generation": 9,
    }
    site.made.take(1, 42)
    assert dialed.result(LIMIT_S) == 42
    assert site.made.wanted is None


@pytest.mark.parametrize("number", [0, 2, None, "1"])
def test_the_answer_to_another_question_is_closed(site, number) -> None:
    dialed = site.dial()
    reader, writer = os.pipe()
    site.made.take(number, writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert not dialed.done()
    site.made.take(1, None)
    assert dialed.result(LIMIT_S) is None


def test_nobody_waits_for_a_target_that_is_gone(site) -> None:
    dialed = site.dial()
    site.made.abandon()
    assert dialed.result(LIMIT_S) is None


def test_what_is_abandoned_before_it_asks_asks_nobody(site) -> None:
    begun = site.made.begin()
    site.made.abandon()
    assert site.made.dial("next", 9, begun) is None
    assert not site.asked.done()


def test_what_begins_after_it_was_abandoned_is_answered(site) -> None:
    site.made.abandon()
    begun = site.made.begin()
    site.made._ask = lambda: site.made.take(1, 42)
    assert site.made.dial("next", 9, begun) == 42


def test_an_agent_that_does_not_answer(monkeypatch) -> None:
    monkeypatch.setattr(reach, "ANSWER_S", 0.0)
    made = reach.Reach(lambda: None)
    assert made.dial("next", 9, made.begin()) is None
    assert made.wanted is None
