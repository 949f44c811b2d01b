# SPDX-License-Identifier: Apache-2.0

import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from fpgapool.common import exception
from fpgapool.db import api
from fpgapool.db import migration
from fpgapool.db import turns
from tests.functional.db import factory
from tests.harness import processes

pytestmark = pytest.mark.dialect

_ENDED = 5
_BATCH_ROWS = 2

# Another command, in the middle of its changes.
_HOLDER = """
import sys
from fpgapool.db import engine, turns

with turns.alone(engine.create(sys.argv[1])):
    print("alone", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(empty_url: str) -> Iterator[subprocess.Popen[str]]:
    """Give a process that changes the database until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, empty_url],
        cwd=processes.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "alone\n"
        yield process
        process.kill()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Give what is released when a command says that it waits."""
    monkeypatch.setattr(turns, "_LONG_WAIT_S", 0.0)
    waits = threading.Semaphore(0)
    monkeypatch.setattr(turns.LOG, "warning", lambda _text: waits.release())
    return waits


def _sync(url: str) -> str | None:
    # SQLite waits for so long before it looks again.
    database = api.Database(url, lock_wait_s=1)
    try:
        migration.sync(database.engine)
        return migration.current_version(database.engine)
    finally:
        database.close()


def test_syncs_wait_for_one_that_is_killed(empty_url, holder, said):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        syncs = [pool.submit(_sync, empty_url) for _ in range(3)]
        for _ in syncs:
            assert said.acquire(timeout=30)
        assert not any(sync.done() for sync in syncs)
        holder.kill()
        versions = [sync.result(30) for sync in syncs]
    assert versions == [migration.newest_version()] * 3


def test_purges_share_the_rows(empty_url, database, epoch):
    database.commit(
        epoch,
        api.Changes.of([factory.ended(i, 50.0) for i in range(1, _ENDED + 1)]),
    )
    start = threading.Barrier(3)

    def purge(_: int) -> int:
        one = api.Database(empty_url)
        start.wait()
        counts = iter(lambda: one.purge_sessions(100.0, _BATCH_ROWS), 0)
        total = sum(counts)
        one.close()
        return total

    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert sum(pool.map(purge, range(3))) == _ENDED


def test_a_change_that_fails_ends_its_turn(empty_url, database):
    for _ in range(2):
        with pytest.raises(exception.ConfigurationError):
            migration.sync(database.engine, "nowhere")
    assert _sync(empty_url) == migration.newest_version()


@pytest.mark.parametrize("empty_url", ["mariadb", "postgresql"], indirect=True)
def test_the_conductor_takes_no_turns(database, epoch, holder):
    database.commit(epoch, api.Changes.of([factory.ended(1, 50.0)]))
    assert database.purge_sessions(100.0, _BATCH_ROWS, epoch) == 1
