# SPDX-License-Identifier: Apache-2.0

"""Many that wait, one question."""

import concurrent.futures
import threading

import pytest

from fpgapool.api.backends import waiters
from tests.harness import threads
from tests.unit.api import fakes

LIMIT_S = 30


class Database:
    """Answers questions, and lets the test see them."""

    def __init__(self) -> None:
        self.views = {}
        self.questions = []
        self.failure = None
        self.asked = threading.Condition()

    def __call__(self, session_ids):
        with self.asked:
            self.questions.append(list(session_ids))
            self.asked.notify_all()
            if self.failure is not None:
                raise self.failure
            return {
                name: self.views[name].revision
                for name in session_ids
                if name in self.views
            }

    def put(self, view) -> None:
        with self.asked:
            self.views[view.session_id] = view

    def wait_asked_for(self, count: int) -> None:
        with self.asked:
            assert self.asked.wait_for(
                lambda: self.questions and len(self.questions[-1]) == count,
                LIMIT_S,
            )


@pytest.fixture
def database():
    return Database()


@pytest.fixture
def made(database):
    waiting = waiters.Waiters(database, max_waiters=50, interval_s=0.001)
    yield waiting
    waiting.close()


def test_all_are_asked_for_at_once_by_one_thread(database, made):
    begun = threads.NewThreads()
    views = [fakes.queued(number) for number in range(50)]
    for view in views:
        database.put(view)
    with concurrent.futures.ThreadPoolExecutor(50) as executor:
        waiting = [
            executor.submit(made.wait, view.session_id, 1, LIMIT_S)
            for view in views
        ]
        database.wait_asked_for(50)
        assert begun.count() == 50 + 1
        with pytest.raises(waiters.TooManyWaiters):
            made.wait("one more", 1, LIMIT_S)
        for number in range(50):
            database.put(fakes.view(number, revision=2))
        told = [future.result(LIMIT_S) for future in waiting]
    assert all(told)


def test_who_is_far_back_gives_way(database):
    made = waiters.Waiters(database, max_waiters=2, interval_s=0.001)
    for number in range(4):
        database.put(fakes.queued(number))
    names = [fakes.queued(number).session_id for number in range(4)]
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        far, near = (
            executor.submit(made.wait, names[n], 1, LIMIT_S, place=place)
            for n, place in ((0, 9), (1, 5))
        )
        database.wait_asked_for(2)
        with pytest.raises(waiters.TooManyWaiters):
            made.wait(names[2], 1, LIMIT_S, place=9)
        first = executor.submit(made.wait, names[3], 1, LIMIT_S, place=0)
        assert far.result(LIMIT_S) is None
        assert not near.done()
        for number in (1, 3):
            database.put(fakes.queued(number, revision=2))
        assert near.result(LIMIT_S)
        assert first.result(LIMIT_S)
    made.close()


def test_who_knows_more_waits_on(database, made):
    database.put(fakes.queued(1, revision=2))
    name = fakes.queued(1).session_id
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        later = executor.submit(made.wait, name, 2, LIMIT_S)
        database.wait_asked_for(1)
        assert made.wait(name, 1, LIMIT_S)
        assert not later.done()
        database.put(fakes.queued(1, revision=3))
        assert later.result(LIMIT_S)


def test_what_is_gone_is_not_waited_for(made):
    assert made.wait("gone", 1, LIMIT_S) is None


def test_a_failure_reaches_all_that_wait(database, made):
    database.failure = RuntimeError("broken")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            made.wait("any", 1, LIMIT_S)


def test_the_thread_ends_with_the_last_one(database, made):
    database.put(fakes.queued(1))
    assert made.wait(fakes.queued(1).session_id, 1, 0.01) is None
    thread = made._thread
    if thread is not None:
        thread.join(LIMIT_S)
    assert made._thread is None
    database.put(fakes.queued(1, revision=2))
    assert made.wait(fakes.queued(1).session_id, 1, LIMIT_S)


def test_closing_lets_all_go(database, made):
    database.put(fakes.queued(1))
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(
            made.wait, fakes.queued(1).session_id, 1, LIMIT_S
        )
        database.wait_asked_for(1)
        made.close()
        assert waiting.result(LIMIT_S) is None
    with pytest.raises(waiters.TooManyWaiters):
        made.wait("any", 1, LIMIT_S)


def test_a_project_that_has_most_makes_room_for_others(database):
    """However far in front its own are, and never beyond its share."""
    made = waiters.Waiters(database, max_waiters=4, interval_s=0.001)
    for number in range(10):
        database.put(fakes.queued(number))

    def wait(number: int, project_id: str, place: int = 0):
        return executor.submit(
            made.wait,
            fakes.queued(number).session_id,
            1,
            LIMIT_S,
            place=place,
            project_id=project_id,
        )

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        crowd = [wait(number, "crowd") for number in range(4)]
        database.wait_asked_for(4)
        others = [wait(number, "other", 7) for number in (4, 5)]
        leaving = concurrent.futures.as_completed(crowd, LIMIT_S)
        assert [next(leaving).result() for _ in range(2)] == [None, None]
        # Both have two now, so that none gives way, wherever it stands.
        for project_id in ("other", "crowd"):
            with pytest.raises(waiters.TooManyWaiters):
                wait(6, project_id, 8).result(LIMIT_S)
        with pytest.raises(waiters.TooManyWaiters):
            wait(7, "crowd").result(LIMIT_S)
        assert not any(one.done() for one in others)
        for number in range(6):
            database.put(fakes.queued(number, revision=2))
        assert all(one.result(LIMIT_S) for one in others)
    made.close()


# News.

SOON_S = 10 * LIMIT_S


class Source:
    """News that a test makes."""

    def __init__(self) -> None:
        self.starts = 0
        self.stops = 0

    def start(self, changed) -> None:
        self.starts += 1
        self.changed = changed

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def told(database, source):
    """Give waiters that are woken by news or not in the time of a test."""
    waiting = waiters.Waiters(
        database, max_waiters=2, interval_s=SOON_S, news=source
    )
    yield waiting
    waiting.close()
    assert source.stops == 1


def test_news_wakes_all_that_wait_for_a_session_and_no_others(
    database, source, told
):
    for number in range(2):
        database.put(fakes.queued(number))
    names = [fakes.queued(number).session_id for number in range(2)]
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        changed, other = (
            executor.submit(told.wait, name, 1, LIMIT_S) for name in names
        )
        third = executor.submit(told.wait, names[0], 1, LIMIT_S, place=None)
        while told.count < 3:
            assert not third.done()
        told.changed([fakes.queued(0)])
        news = fakes.queued(0, revision=2)
        told.changed([news, fakes.queued(7)])
        assert changed.result(LIMIT_S).view is news
        assert third.result(LIMIT_S).view is news
        assert not other.done()
        told.changed([fakes.queued(1, revision=2)])
        assert other.result(LIMIT_S)


def test_news_that_came_just_before_the_wait_is_not_missed(
    database, source, told
):
    database.put(fakes.queued(1))
    name = fakes.queued(1).session_id
    news = fakes.queued(1, revision=2)
    told.changed([news])
    assert told.wait(name, 1, LIMIT_S) == waiters.Change(news)
    assert told.wait(name, 2, 0.0) is None


def test_news_that_comes_late_does_not_replace_newer_news(database):
    """The threads that receive messages may overtake each other."""
    made = waiters.Waiters(database, max_waiters=5, interval_s=LIMIT_S)
    for revision in (3, 2):
        made.changed([fakes.view(revision=revision)])
    (session_id,) = made._news
    told = made.wait(session_id, 1, LIMIT_S)
    made.close()
    assert told.view.revision == 3


def test_old_news_is_forgotten(database, monkeypatch):
    """A session that is shown without its secret has an older revision."""
    waiting = waiters.Waiters(database, max_waiters=2, interval_s=5.0)
    now_s = 100.0
    monkeypatch.setattr(waiters.time, "monotonic", lambda: now_s)
    database.put(fakes.queued(1))
    name = fakes.queued(1).session_id
    waiting.changed([fakes.queued(1, revision=2)])
    now_s += 5.0
    assert waiting.wait(name, 1, 0.0) is None
    other = fakes.queued(2)
    waiting.changed([other])
    assert set(waiting._news) == {other.session_id}
    waiting.close()


def test_lost_news_delays_a_wait_and_does_not_break_it(database, source):
    waiting = waiters.Waiters(
        database, max_waiters=2, interval_s=0.001, news=source
    )
    database.put(fakes.queued(1))
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        woken = executor.submit(
            waiting.wait, fakes.queued(1).session_id, 1, LIMIT_S
        )
        database.wait_asked_for(1)
        database.put(fakes.queued(1, revision=2))
        assert woken.result(LIMIT_S) == waiters.Change(None)
    waiting.close()


def test_nobody_listens_before_the_first_wait(source, told):
    assert source.starts == 0
    told.wait("gone", 1, LIMIT_S)
    assert source.starts == 1


def test_who_waits_in_any_case_takes_no_place(database, source, told):
    """A request that ends soon, such as one that closes a session."""
    for number in range(3):
        database.put(fakes.queued(number))
    names = [fakes.queued(number).session_id for number in range(3)]
    with concurrent.futures.ThreadPoolExecutor(5) as executor:
        urgent = [
            executor.submit(told.wait, names[0], 1, LIMIT_S, place=None)
            for _ in range(3)
        ]
        while told.count < 3:
            assert not any(one.done() for one in urgent)
        patient = [
            executor.submit(told.wait, name, 1, LIMIT_S) for name in names[1:]
        ]
        while told.count < 5:
            assert not any(one.done() for one in patient)
        with pytest.raises(waiters.TooManyWaiters):
            told.wait(names[0], 1, LIMIT_S)
        told.changed(fakes.queued(n, revision=2) for n in range(3))
        assert all(one.result(LIMIT_S) for one in (*urgent, *patient))
