# SPDX-License-Identifier: Apache-2.0

"""The loop of an agent."""

from __future__ import annotations

import socket

import pytest

from fpgapool.agent import loop as agent_loop


@pytest.fixture
def loop():
    """Return a loop, not started, whose clock stands at 0."""
    made = agent_loop.Loop("test")
    made.now = lambda: 0.0
    yield made
    made.stop(0.0)


def test_a_cancelled_timer_does_not_wake_the_loop(loop):
    first = loop.call_later(1.0, lambda: None)
    loop.call_later(60.0, lambda: None)
    first.cancel()
    assert loop._wait_s() == 60.0


def test_a_loop_without_timers_waits_for_ever(loop):
    loop.call_later(1.0, lambda: None).cancel()
    assert loop._wait_s() is None


def test_a_socket_is_watched_as_was_last_asked(loop, monkeypatch):
    selector = loop._selector
    changes = []
    monkeypatch.setattr(
        selector, "modify", lambda *args: changes.append(args[1])
    )
    heard = []
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        loop.watch(one, agent_loop.READ, lambda _events: heard.append(1))
        loop.watch(one, agent_loop.READ, lambda _events: heard.append(2))
        loop.call_later(0.0, lambda: None)
        loop._turn()
        assert (heard, changes) == ([2], [])
        loop.watch(one, agent_loop.READ | agent_loop.WRITE, heard.append)
        assert changes == [agent_loop.READ | agent_loop.WRITE]
        loop.unwatch(one)
        loop.unwatch(one)
        loop.call_later(0.0, lambda: None)
        loop._turn()
        assert heard == [2]


def test_a_socket_that_is_left_in_a_turn_is_heard_no_more_in_it(loop):
    heard = []
    pairs = [socket.socketpair() for _ in range(2)]

    def ready(_events: int) -> None:
        heard.append(1)
        for one, _ in pairs:
            loop.unwatch(one)

    for one, other in pairs:
        other.send(b"x")
        loop.watch(one, agent_loop.READ, ready)
    loop._turn()
    assert heard == [1]
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_loop_that_never_ran_leaves_nothing_open():
    made = agent_loop.Loop("test")
    ends = made._wake_read, made._wake_write
    made.stop(0.0)
    made.stop(0.0)
    assert [end.fileno() for end in ends] == [-1, -1]
