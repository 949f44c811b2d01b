#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


"""What an agent knows of accelerators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fpgapool import objects
from fpgapool.agent import profiles
from tests.unit.conductor import world

KNOWN = world.PROFILE


class FakeLoop:
    """Time that the test sets, and calls that are never due."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now(self) -> float:
        return self.now_s

    def call_later(self, _delay_s: float, _call: Callable[[], None]) -> None:
        raise AssertionError("nothing here has to wait")


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
        assert limit_s == 5.0
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
            self.loop, self.caller, list, limit_s=5.0
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
    assert cache.answers == [[], None]


def test_a_known_one_needs_no_conductor(cache: Cache) -> None:
    cache.ask(KNOWN.name)
    cache.caller.answer(KNOWN)
    cache.loop.now_s += profiles.REFRESH_AFTER_S + 1.0
    cache.ask(KNOWN.name)
    cache.caller.fail()
    assert cache.answers == [[KNOWN.name]] * 2
