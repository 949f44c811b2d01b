# SPDX-License-Identifier: Apache-2.0

"""Questions of many threads in one call."""

import concurrent.futures
import queue

import oslo_messaging as messaging
import pytest

from fpgapool.api.backends import gathering
from fpgapool.common import exception
from tests.harness import waiting

MINE, OTHER = "a" * 32, "b" * 32


class Answers:
    """Answers a call when the test lets it."""

    def __init__(self) -> None:
        self.calls = queue.SimpleQueue()
        self.go = queue.SimpleQueue()
        self.made = gathering.Gathered(self, waiting.LIMIT_S)

    def __call__(self, questions):
        self.calls.put(questions)
        return self.go.get(timeout=waiting.LIMIT_S)(questions)

    def next(self):
        return self.calls.get(timeout=waiting.LIMIT_S)


def double(questions):
    return [2 * one for one in questions]


def fail(questions):
    raise exception.DatabaseUnavailable(reason="away")


@pytest.fixture
def executor():
    with concurrent.futures.ThreadPoolExecutor(150) as made:
        yield made


def begin(executor, answers, count):
    """Ask 0, and the others while its call is under way."""
    first = executor.submit(answers.made.ask, MINE, 0)
    assert answers.next() == [0]
    others = [
        executor.submit(answers.made.ask, MINE, number)
        for number in range(1, count + 1)
    ]
    waiting.wait_until(
        lambda: len(answers.made._waiting[MINE]) == count, "they ask"
    )
    return [first, *others]


def results(futures):
    return [one.result(waiting.LIMIT_S) for one in futures]


def test_who_asks_during_a_call_shares_the_next_one(executor):
    answers = Answers()
    futures = begin(executor, answers, 20)
    answers.go.put(double)
    assert sorted(answers.next()) == list(range(1, 21))
    answers.go.put(double)
    assert results(futures) == [2 * number for number in range(21)]
    # Nobody waits for others who do not come.
    answers.go.put(double)
    assert answers.made.ask(MINE, 30) == 60


def test_a_call_has_a_bound(executor):
    answers = Answers()
    futures = begin(executor, answers, gathering._MOST + 1)
    for count in (gathering._MOST, 1):
        answers.go.put(double)
        assert len(answers.next()) == count
    answers.go.put(double)
    assert results(futures) == [2 * n for n in range(len(futures))]


def test_all_of_a_call_hear_that_it_failed_and_others_do_not(executor):
    answers = Answers()
    first, *others = begin(executor, answers, 3)
    answers.go.put(double)
    answers.next()
    answers.go.put(fail)
    assert first.result(waiting.LIMIT_S) == 0
    for one in others:
        with pytest.raises(exception.DatabaseUnavailable):
            one.result(waiting.LIMIT_S)
    answers.go.put(double)
    assert answers.made.ask(MINE, 7) == 14


def test_an_invalid_question_spoils_no_others(executor):
    answers = Answers()
    futures = begin(executor, answers, 3)

    def check(questions):
        if 2 in questions:
            raise exception.InvalidRequest(reason="two")
        return double(questions)

    for _ in range(5):
        answers.go.put(check)
    one = futures.pop(2)
    with pytest.raises(exception.InvalidRequest):
        one.result(waiting.LIMIT_S)
    assert results(futures) == [0, 2, 6]


def test_who_waits_too_long_for_a_call_is_not_asked_for(executor):
    answers = Answers()
    answers.made._limit_s = 0.001
    first = executor.submit(answers.made.ask, MINE, 0)
    assert answers.next() == [0]
    with pytest.raises(messaging.MessagingTimeout):
        answers.made.ask(MINE, 1)
    answers.go.put(double)
    assert first.result(waiting.LIMIT_S) == 0
    assert answers.calls.empty()


def test_projects_do_not_wait_for_calls_of_others(executor):
    answers = Answers()
    mine = begin(executor, answers, 1)
    other = executor.submit(answers.made.ask, OTHER, 5)
    assert answers.next() == [5]
    for _ in range(3):
        answers.go.put(double)
    assert results([*mine, other]) == [0, 2, 10]
    assert not answers.made._waiting
