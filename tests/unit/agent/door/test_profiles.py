# SPDX-License-Identifier: Apache-2.0

"""What an agent knows of accelerators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import oslo_messaging as messaging
import pytest

from fpgapool import objects
from fpgapool.agent import loop
from fpgapool.agent.door import profiles
from tests.unit.conductor import world

KNOWN = world.PROFILE
LIMIT_S = 5.0


class FakeLoop:
    """Time that the test sets, and calls that it makes."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._timers: list[loop.Timer] = []

    def now(self) -> float:
        return self.now_s

    def call_later(
        self, delay_s: float, call: Callable[[], None]
    ) -> loop.Timer:
        self._timers.append(loop.Timer(self.now_s + delay_s, call))
        return self._timers[-1]

    def run_until(self, now_s: float) -> None:
        """Go on to a time, and make the calls that are due by then."""
        while due := [t for t in self._timers if t.due_s <= now_s]:
            timer = min(due, key=lambda timer: timer.due_s)
            self._timers.remove(timer)
            self.now_s = timer.due_s
            if timer.callback is not None:
                timer.callback()
        self.now_s = now_s


class FakeCaller:
    """Calls that the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable, Callable]] = []

    def submit(
        self,
        _call: object,
        on_result: Callable,
        on_error: Callable,
        *,
        limit_s: float,
    ) -> None:
        assert limit_s == LIMIT_S
        self.asked.append((on_result, on_error))

    def answer(self, *found: objects.AcceleratorProfile) -> None:
        on_result, _ = self.asked.pop()
        on_result(list(found))

    def fail(self) -> None:
        _, on_error = self.asked.pop()
        on_error(TimeoutError("no answer"))


class Cache:
    """A cache, and the names that it has answered with."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.caller = FakeCaller()
        self.answers: list[list[str] | None] = []
        self._cache = profiles.ProfileCache(
            self.loop, self.caller, list, limit_s=LIMIT_S
        )

    def ask(self, name: str | None) -> None:
        self._cache.ask("p", name, self._note)

    def _note(self, known: profiles.Profiles | None) -> None:
        self.answers.append(None if known is None else sorted(known))


@pytest.fixture
def cache() -> Cache:
    return Cache()


def test_a_known_one_is_answered_at_once(cache: Cache) -> None:
    cache.ask(KNOWN.name)
    assert cache.answers == []
    cache.caller.answer(KNOWN)
    cache.ask(KNOWN.name)
    assert cache.answers == [[KNOWN.name]] * 2
    assert cache.caller.asked == []


def test_a_missing_one_is_asked_for(cache: Cache) -> None:
    cache.ask(None)
    cache.caller.answer()
    cache.loop.now_s += profiles.MISS_REFRESH_AFTER_S
    cache.ask(KNOWN.name)
    cache.caller.answer(KNOWN)
    assert cache.answers == [[], [KNOWN.name]]


def test_nobody_is_told_that_there_is_none_by_old_knowledge(
    cache: Cache,
) -> None:
    cache.ask(None)
    cache.caller.answer()
    cache.loop.now_s += profiles.MISS_REFRESH_AFTER_S
    cache.ask(KNOWN.name)
    cache.caller.fail()
    cache.loop.run_until(cache.loop.now_s + LIMIT_S)
    assert cache.answers == [[], None]


def test_a_known_one_needs_no_conductor(cache: Cache) -> None:
    cache.ask(KNOWN.name)
    cache.caller.answer(KNOWN)
    cache.loop.now_s += profiles.REFRESH_AFTER_S + 1.0
    cache.ask(KNOWN.name)
    cache.caller.fail()
    assert cache.answers == [[KNOWN.name]] * 2


def test_whoever_can_wait_is_asked_for_again(cache: Cache) -> None:
    """The leader that was asked had died; the next one answers."""
    cache.ask(KNOWN.name)
    cache.loop.run_until(101.0)
    cache.caller.fail()
    cache.ask(KNOWN.name)
    assert cache.caller.asked == [], "not more often than every second"
    cache.loop.run_until(102.0)
    cache.caller.answer(KNOWN)
    assert cache.answers == [[KNOWN.name]] * 2
    cache.loop.run_until(200.0)
    assert len(cache.answers) == 2
    cache.ask("another")
    assert cache.caller.asked, "later questions are asked as before"


def test_each_waits_for_as_long_as_it_has(cache: Cache) -> None:
    """What is asked for again has all the time that a call may take."""
    cache.ask("early")
    cache.loop.run_until(103.0)
    cache.ask("late")
    cache.caller.fail()
    cache.loop.run_until(104.9)
    assert cache.answers == []
    cache.loop.run_until(105.0)
    assert cache.answers == [None]
    cache.caller.answer(KNOWN)
    assert cache.answers == [None, [KNOWN.name]]


def test_nobody_is_asked_when_nobody_waits_any_more(cache: Cache) -> None:
    cache.ask(KNOWN.name)
    cache.loop.run_until(105.0)
    assert cache.answers == [None]
    cache.caller.fail()
    cache.loop.run_until(200.0)
    assert cache.caller.asked == []


class FakeConductor:
    """Has three accelerators, two on a page.

    :ivar pinned: whether messages are pinned to those of release 1.0.0.
    """

    def __init__(self, pinned: bool) -> None:
        self.pinned = pinned
        self.profiles = [
            dataclasses.replace(KNOWN, name=name) for name in "abc"
        ]

    def _check(self) -> None:
        if self.pinned:
            raise messaging.RPCVersionCapError(version="1.1", version_cap="1")

    def accelerators_after(
        self, name: str
    ) -> list[objects.AcceleratorProfile]:
        self._check()
        return [one for one in self.profiles if one.name > name][:2]

    def list_accelerators(self) -> list[objects.AcceleratorProfile]:
        return self.profiles

    def pool_counts(self) -> dict[str, object]:
        self._check()
        return {"slots": {"small": {"idle": 1}}}

    def pool_summary(self) -> dict[str, object]:
        slots = [{"shape": "small", "state": "idle"}]
        device = {"healthy": True, "slots": slots}
        return {"hosts": [{"up": True, "devices": [device]}]}


@pytest.mark.parametrize("pinned", [False, True])
def test_older_conductors_are_asked_as_they_understand(pinned: bool) -> None:
    conductor = FakeConductor(pinned)
    found = profiles.fetched(conductor)
    assert [one.name for one in found] == [*"abc"]
    assert profiles.slots(conductor) == {"small": {"idle": 1}}
