# SPDX-License-Identifier: Apache-2.0

import queue
import threading
import types

import pytest

from fpgapool.common import exception
from fpgapool.conductor import counts
from fpgapool.conductor.runtime import retention

WAIT_S = 10.0


class Database:
    """Has rows to delete, and fails on demand."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[tuple[str, float, int, int]] = (
            queue.SimpleQueue()
        )
        self.sessions = 0
        self.error: Exception | None = None

    def purge_sessions(self, before: float, limit: int, epoch: int) -> int:
        self.asked.put(("sessions", before, limit, epoch))
        if self.error is not None:
            raise self.error
        deleted = min(self.sessions, limit)
        self.sessions -= deleted
        return deleted

    def purge_instances(self, before: float, limit: int, epoch: int) -> int:
        self.asked.put(("instances", before, limit, epoch))
        return 0


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def keeper(database: Database) -> retention.Retention:
    """Give what keeps two days in it."""
    return retention.Retention(
        database,  # type: ignore[arg-type]
        7,
        2,
        now=lambda: 200_000.0,
        counts=counts.Counts(),
        on_failure=pytest.fail,
    )


def test_steps_are_far_apart_compared_to_what_they_take(
    database, keeper, monkeypatch
):
    clock = iter((0.0, 0.5, 10.0, 10.001, 20.0))
    its_time = types.SimpleNamespace(monotonic=clock.__next__)
    monkeypatch.setattr(retention, "time", its_time)
    database.sessions = 2 * retention.STEP_ROWS + 1
    assert keeper.step() == 0.5 * 9
    assert keeper.step() == retention._SHORTEST_PAUSE_S
    assert keeper.step() == retention._NOTHING_LEFT_S
    assert database.sessions == 0


def test_a_database_that_is_away_is_told_once(database, keeper, caplog):
    database.error = exception.DatabaseUnavailable(reason="gone")
    delays = {keeper.step() for _ in range(3)}
    assert delays == {retention._RETRY_S}
    assert caplog.text.count("Cannot purge old rows") == 1
    database.error, database.sessions = None, 1
    keeper.step()
    assert database.sessions == 0


def test_the_thread_asks_as_its_leader(database, keeper, monkeypatch):
    monkeypatch.setattr(retention, "_FIRST_S", 0.0)
    keeper.start()
    for table in ("sessions", "instances"):
        asked = database.asked.get(timeout=WAIT_S)
        before = 200_000.0 - 2 * 86_400
        assert asked == (table, before, retention.STEP_ROWS, 7)
    keeper.stop()


def test_the_thread_ends_with_the_epoch(database, keeper, monkeypatch):
    monkeypatch.setattr(retention, "_FIRST_S", 0.0)
    database.error = exception.NotLeader(reason="epoch 7 is over")
    keeper.start()
    keeper._thread.join(WAIT_S)
    assert keeper._thread not in threading.enumerate()
