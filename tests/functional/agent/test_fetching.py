# SPDX-License-Identifier: Apache-2.0

"""Fetching with real threads, all of which are held up."""

from __future__ import annotations

import hashlib
import pathlib
import queue
import threading
from collections.abc import Generator
from collections.abc import Iterator

import pytest

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.agent.bitstreams import cache
from fpgapool.agent.bitstreams import fetching

TIMEOUT_S = 30.0
#: Of fetches that are to fail before a thread has them …
SHORT_S = 0.3
#: … and while one has them.
LONGER_S = 2.0


def reference(number: int) -> objects.BitstreamRef:
    data = bytes([number])
    return objects.BitstreamRef(
        bitstream_id=f"7f000000-0000-4000-8000-{number:012d}",
        checksum_sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )


class Source:
    """Has every file; says who has come and can be shut."""

    def __init__(self) -> None:
        self.come: queue.Queue[int] = queue.Queue()
        self.open = threading.Event()

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        number = int(bitstream.bitstream_id[-12:])
        self.come.put(number)
        assert self.open.wait(TIMEOUT_S)
        yield bytes([number])


class Scene:
    """A fetcher whose answers come in a queue."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.source = Source()
        self.loop = agent_loop.Loop("test-loop")
        self.caller = sender.Caller(self.loop, "test-caller")
        self.cache = cache.BitstreamCache(
            directory,
            self.source,
            max_bytes=1000,
            timeout_s=TIMEOUT_S,
        )
        self.fetcher = fetching.Fetcher(self.caller, self.cache)
        self.answers: queue.Queue[tuple[int, str]] = queue.Queue()

    def fetch(self, number: int) -> None:
        self.loop.run_and_wait(
            lambda: self.fetcher.fetch(
                reference(number),
                lambda path: self.answers.put((number, "ready")),
                lambda message: self.answers.put((number, message)),
            ),
            TIMEOUT_S,
        )

    def answer(self) -> tuple[int, str]:
        return self.answers.get(timeout=TIMEOUT_S)


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "cache")
    made.cache.load()
    made.loop.start()
    made.caller.start()
    yield made
    made.source.open.set()
    made.cache.stop()
    made.caller.stop(TIMEOUT_S)
    made.loop.stop(TIMEOUT_S)


def hold_up(scene: Scene) -> list[int]:
    """Have every thread hang in a download."""
    numbers = list(range(1, sender.CALL_THREADS + 1))
    for number in numbers:
        scene.fetch(number)
    assert {scene.source.come.get(timeout=TIMEOUT_S) for _ in numbers} == set(
        numbers
    )
    return numbers


def test_everyone_is_answered_while_all_threads_hang(scene):
    held_up = hold_up(scene)
    scene.cache.timeout_s = SHORT_S
    late = f"not fetched within {SHORT_S:g} s"
    scene.fetch(8)
    scene.fetch(9)
    assert [scene.answer() for _ in range(2)] == [(8, late), (9, late)]
    scene.cache.timeout_s = TIMEOUT_S
    scene.fetch(7)
    scene.source.open.set()
    assert {scene.answer() for _ in (*held_up, 7)} == {
        (number, "ready") for number in (*held_up, 7)
    }
    # Those that are overdue when there is a thread for them are not begun.
    assert scene.source.come.get_nowait() == 7
    assert scene.source.come.empty()


def test_a_file_that_is_here_does_not_wait_for_others(scene):
    scene.source.open.set()
    scene.fetch(5)
    assert scene.answer() == (5, "ready")
    assert scene.source.come.get(timeout=TIMEOUT_S) == 5
    scene.source.open.clear()
    hold_up(scene)
    scene.fetch(5)
    assert scene.answers.get_nowait() == (5, "ready")
    assert scene.source.come.empty()
    assert scene.cache.counts.hits == 1


def test_a_second_try_waits_for_the_download_that_hung(scene):
    scene.cache.timeout_s = LONGER_S
    scene.fetch(1)
    assert scene.source.come.get(timeout=TIMEOUT_S) == 1
    assert scene.answer() == (1, f"not fetched within {LONGER_S:g} s")
    scene.cache.timeout_s = TIMEOUT_S
    scene.fetch(1)
    assert scene.source.come.empty()
    scene.source.open.set()
    assert scene.answer() == (1, "ready")
    # The first try ended too late for what it had to be thrown away.
    assert scene.source.come.get_nowait() == 1
