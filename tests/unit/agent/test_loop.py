# SPDX-License-Identifier: Apache-2.0

"""The loop of an agent."""

from __future__ import annotations

import pytest

from fpgapool.agent import loop as agent_loop


@pytest.fixture
def loop(monkeypatch):
    """Return a loop, not started, whose clock stands at 0."""
    monkeypatch.setattr(agent_loop.Loop, "now", staticmethod(lambda: 0.0))
    made = agent_loop.Loop("test")
    yield made
    made.call(made._request_stop)
    made.start()
    made._thread.join()


def test_a_cancelled_timer_does_not_wake_the_loop(loop):
    first = loop.call_later(1.0, lambda: None)
    loop.call_later(60.0, lambda: None)
    first.cancel()
    assert loop._wait_s() == 60.0


def test_a_loop_without_timers_waits_for_ever(loop):
    loop.call_later(1.0, lambda: None).cancel()
    assert loop._wait_s() is None
