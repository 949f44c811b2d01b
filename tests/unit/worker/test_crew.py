# SPDX-License-Identifier: Apache-2.0

"""Threads that are used again."""

import threading
import weakref

import pytest

from fpgapool.agent.child import crew as crews
from tests.harness import threads
from tests.harness import waiting


@pytest.fixture
def crew() -> crews.Crew:
    return crews.Crew(spare=1)


def _name(crew: crews.Crew, name: str) -> tuple[int, str]:
    """The thread that a task got, and its name meanwhile."""
    seen: list[tuple[int, str]] = []

    def look() -> None:
        thread = threading.current_thread()
        seen.append((id(thread), thread.name))

    assert crew.start(name, look).wait(waiting.LIMIT_S)
    return seen[0]


def _wait_until_idle(crew: crews.Crew) -> None:
    waiting.wait_until(lambda: crew.idle_count == 1, "the thread waits")


def test_a_thread_is_used_again(crew):
    first, name = _name(crew, "one")
    assert name == "one"
    _wait_until_idle(crew)
    assert _name(crew, "two") == (first, "two")


def test_what_hangs_holds_up_nobody(crew):
    gate = threading.Event()
    hanging = [crew.start("hangs", gate.wait) for _ in range(5)]
    assert _name(crew, "goes on")[1] == "goes on"
    assert not any(done.is_set() for done in hanging)
    gate.set()
    assert all(done.wait(waiting.LIMIT_S) for done in hanging)


def test_only_spare_threads_stay(crew):
    begun = threads.NewThreads()
    gate = threading.Event()
    tasks = [crew.start("t", gate.wait) for _ in range(5)]
    assert begun.count() == 5
    gate.set()
    assert all(done.wait(waiting.LIMIT_S) for done in tasks)
    waiting.wait_until(lambda: begun.count() == 1, "the others end")


def test_a_thread_that_nobody_needs_ends():
    crew = crews.Crew(idle_s=0.01)
    begun = threads.NewThreads()
    for number in range(50):
        # Some of them come just when a thread has waited for long enough.
        assert crew.start("t", threading.Event().wait, number / 2500).wait(
            waiting.LIMIT_S
        )
        threading.Event().wait(0.01)
    waiting.wait_until(lambda: begun.count() == 0, "the thread ends")
    assert crew.idle_count == 0
    assert crew.start("t", int).wait(waiting.LIMIT_S)


def test_a_failure_is_logged_and_the_thread_stays(crew, caplog):
    def fail() -> None:
        raise ValueError("on purpose")

    assert crew.start("poor", fail).wait(waiting.LIMIT_S)
    assert "the thread poor failed" in caplog.text
    _wait_until_idle(crew)
    _name(crew, "next")


def test_a_waiting_thread_holds_nothing(crew):
    class Subject:
        def work(self) -> None:
            """Nothing."""

    subject = Subject()
    alive = weakref.ref(subject)
    assert crew.start("t", subject.work).wait(waiting.LIMIT_S)
    del subject
    _wait_until_idle(crew)
    assert alive() is None


def test_later_calls_come_in_their_order():
    later = crews.Later(0.05, "later")
    called: list[int] = []
    done = threading.Event()
    for number in range(3):
        later.call(lambda number=number: called.append(number))
    later.call(done.set)
    assert done.wait(waiting.LIMIT_S)
    assert called == [0, 1, 2]
    done.clear()
    later.call(done.set)
    assert done.wait(waiting.LIMIT_S)
