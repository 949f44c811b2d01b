# SPDX-License-Identifier: Apache-2.0
"""What is loaded once for many requests."""

import concurrent.futures
import threading

import pytest

from fpgapool.api.backends import caches as remembered
from tests.harness import waiting


class Source:
    """Counts how often it is asked, and can be held up."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def load(self) -> int:
        self.asked += 1
        number = self.asked
        assert self.gate.wait(waiting.LIMIT_S)
        if self.failure is not None:
            raise self.failure
        return number

    def remembered(self, max_age_s: float) -> remembered.Remembered[int]:
        return remembered.Remembered(
            self.load, max_age_s, clock=lambda: self.now_s
        )


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def executor():
    with concurrent.futures.ThreadPoolExecutor(8) as made:
        yield made


def test_it_is_loaded_again_when_it_is_too_old(source) -> None:
    known = source.remembered(1.0)
    assert [known.get() for _ in range(3)] == [1, 1, 1]
    source.now_s += 1.0
    assert known.get() == 1
    source.now_s += 0.1
    assert known.get() == 2


def test_switched_off(source) -> None:
    known = source.remembered(0)
    assert [known.get() for _ in range(3)] == [1, 2, 3]


def test_it_is_forgotten_after_a_change(source) -> None:
    known = source.remembered(60.0)
    assert known.get() == 1
    known.forget()
    assert known.get() == 2


def test_many_wait_for_one(source, executor) -> None:
    known = source.remembered(1.0)
    source.gate.clear()
    futures = [executor.submit(known.get) for _ in range(8)]
    waiting.wait_until(lambda: source.asked, "one loads")
    source.gate.set()
    assert {one.result(waiting.LIMIT_S) for one in futures} == {1}


def test_others_get_the_old_one(source, executor) -> None:
    known = source.remembered(1.0)
    known.get()
    source.now_s += 5.0
    source.gate.clear()
    slow = executor.submit(known.get)
    waiting.wait_until(lambda: source.asked == 2, "one loads")
    assert known.get() == 1
    source.gate.set()
    assert slow.result(waiting.LIMIT_S) == 2
    assert known.get() == 2


def test_what_is_loaded_during_a_change_is_not_kept(source, executor) -> None:
    known = source.remembered(60.0)
    known.get()
    source.now_s += 100.0
    source.gate.clear()
    early = executor.submit(known.get)
    waiting.wait_until(lambda: source.asked == 2, "one loads")
    known.forget()
    late = executor.submit(known.get)
    waiting.wait_until(lambda: source.asked == 3, "another one loads")
    source.gate.set()
    assert early.result(waiting.LIMIT_S) == 2
    assert late.result(waiting.LIMIT_S) == 3
    assert known.get() == 3


def test_its_age_counts_from_the_question(source, executor) -> None:
    known = source.remembered(1.0)
    source.gate.clear()
    slow = executor.submit(known.get)
    waiting.wait_until(lambda: source.asked == 1, "it loads")
    source.now_s += 5.0
    source.gate.set()
    assert slow.result(waiting.LIMIT_S) == 1
    assert known.get() == 2


def test_an_error_is_for_who_causes_it(source, executor) -> None:
    known = source.remembered(1.0)
    source.failure = ValueError("gone")
    source.gate.clear()
    futures = [executor.submit(known.get) for _ in range(3)]
    waiting.wait_until(lambda: source.asked == 1, "one loads")
    source.gate.set()
    for one in futures:
        assert isinstance(one.exception(waiting.LIMIT_S), ValueError)
    source.failure = None
    assert known.get() == source.asked


class TestEnded:
    """Values that have ended are kept for a while, others are not."""

    @pytest.fixture
    def ended(self, source) -> remembered.Ended[int]:
        return remembered.Ended(
            lambda _key: source.load(),
            lambda value: value % 2 == 0,
            1.0,
            clock=lambda: source.now_s,
        )

    def test_only_what_has_ended_is_kept(self, source, ended) -> None:
        assert [ended.get("a") for _ in range(4)] == [1, 2, 2, 2]
        assert ended.get("b") == 3
        source.now_s += 1.1
        assert ended.get("a") == 4

    def test_there_are_not_too_many(
        self, ended, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remembered, "_MOST_VALUES", 2)
        values = [ended.get(key) for key in "aabbcc"]
        assert values == [1, 2, 3, 4, 5, 6]
        assert [ended.get("c"), ended.get("a")] == [6, 7]

    def test_failures_are_not_kept(self, source, ended) -> None:
        source.asked, source.failure = 1, OSError("away")
        with pytest.raises(OSError, match="away"):
            ended.get("a")
        source.failure = None
        assert ended.get("a") == 3
