# SPDX-License-Identifier: Apache-2.0

"""Who waits how long for the file of a bitstream."""

from __future__ import annotations

import types
from collections.abc import Callable

import pytest

from fpgapool import objects
from fpgapool.agent.bitstreams import cache
from fpgapool.agent.bitstreams import fetching

TIMEOUT_S = 40.0


def reference(number: int = 1) -> objects.BitstreamRef:
    return objects.BitstreamRef(
        bitstream_id=f"7f000000-0000-4000-8000-{number:012d}",
        checksum_sha256=f"{number:064x}",
        size_bytes=100,
    )


class Caller:
    """Keeps calls; a test says when a thread takes one, or time is over."""

    def __init__(self) -> None:
        self.calls: list[types.SimpleNamespace] = []

    def submit(
        self,
        call: Callable[[], str],
        on_result: Callable[[str], None],
        on_error: Callable[[Exception], None],
        *,
        limit_s: float | None = None,
    ) -> None:
        self.calls.append(
            types.SimpleNamespace(
                call=call,
                on_result=on_result,
                on_error=on_error,
                limit_s=limit_s,
            )
        )

    def run(self) -> None:
        """A thread takes the oldest call."""
        taken = self.calls.pop(0)
        try:
            found = taken.call()
        except Exception as error:
            taken.on_error(error)
        else:
            taken.on_result(found)

    def expire(self) -> None:
        """The limit of the oldest call is over."""
        self.calls.pop(0).on_error(TimeoutError("no answer"))


class Cache:
    """Answers as told, and keeps what it was asked."""

    timeout_s = TIMEOUT_S

    def __init__(self) -> None:
        self.here: set[str] = set()
        self.error: Exception | None = None
        self.asked: list[tuple[str, bool, float]] = []

    def peek(self, bitstream: objects.BitstreamRef) -> str | None:
        checksum = bitstream.checksum_sha256
        return f"/cache/{checksum}" if checksum in self.here else None

    def get(
        self, bitstream: objects.BitstreamRef, again: bool, deadline_s: float
    ) -> str:
        self.asked.append((bitstream.checksum_sha256, again, deadline_s))
        if self.error is not None:
            raise self.error
        return f"/cache/{bitstream.checksum_sha256}"


class Scene:
    """A fetcher, its surroundings and what it has answered."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.caller = Caller()
        self.cache = Cache()
        self.fetcher = fetching.Fetcher(self.caller, self.cache)
        self.ready: list[str] = []
        self.failed: list[tuple[str, str]] = []

    def fetch(self, who: str, number: int = 1, again: bool = False) -> None:
        self.fetcher.fetch(
            reference(number),
            lambda path: self.ready.append(who),
            lambda message: self.failed.append((who, message)),
            again=again,
        )


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()
    monkeypatch.setattr(
        fetching,
        "time",
        types.SimpleNamespace(monotonic=lambda: made.now_s),
    )
    return made


def test_the_time_begins_when_a_file_is_asked_for(scene):
    scene.fetch("a")
    assert scene.caller.calls[0].limit_s == TIMEOUT_S
    scene.now_s += 30.0
    scene.caller.run()
    assert scene.cache.asked == [
        (reference().checksum_sha256, False, 1000.0 + TIMEOUT_S)
    ]
    assert scene.ready == ["a"]


def test_who_waits_for_a_thread_is_answered_in_time(scene):
    scene.fetch("a")
    scene.now_s += TIMEOUT_S
    scene.caller.expire()
    assert scene.failed == [("a", "the file was not fetched within 40 s")]
    assert scene.caller.calls == []
    # The next one starts afresh.
    scene.fetch("b")
    scene.caller.run()
    assert scene.ready == ["b"]


def test_what_is_here_waits_for_no_thread(scene):
    scene.fetch("a", 1)
    scene.cache.here.add(reference(2).checksum_sha256)
    scene.fetch("b", 2)
    assert scene.ready == ["b"]
    assert len(scene.caller.calls) == 1


def test_what_is_here_and_damaged_is_fetched(scene):
    scene.cache.here.add(reference().checksum_sha256)
    scene.fetch("a", again=True)
    # Nobody is given the damaged file meanwhile.
    scene.fetch("b")
    assert scene.ready == []
    scene.caller.run()
    assert scene.ready == ["a", "b"]
    assert [again for _, again, _ in scene.cache.asked] == [True]


def test_who_joins_has_its_own_time(scene):
    scene.fetch("a", again=True)
    scene.now_s += 10.0
    scene.fetch("b")
    scene.now_s += 30.0
    scene.caller.expire()
    assert [who for who, _ in scene.failed] == ["a"]
    assert scene.caller.calls[0].limit_s == 10.0
    scene.caller.run()
    assert scene.ready == ["b"]
    assert scene.cache.asked == [
        (reference().checksum_sha256, True, 1010.0 + TIMEOUT_S)
    ]


def test_who_joins_goes_on_when_the_first_gives_up(scene):
    scene.fetch("a")
    scene.now_s += 10.0
    scene.fetch("b")
    scene.cache.error = cache.Late("503")
    scene.caller.run()
    assert scene.failed == [("a", "503")]
    scene.caller.run()
    assert scene.failed == [("a", "503"), ("b", "503")]
    assert scene.caller.calls == []


def test_what_cannot_be_had_is_told_to_all(scene):
    scene.fetch("a")
    scene.now_s += 10.0
    scene.fetch("b")
    scene.cache.error = cache.Unavailable("404")
    scene.caller.run()
    assert scene.failed == [("a", "404"), ("b", "404")]
    assert scene.caller.calls == []
