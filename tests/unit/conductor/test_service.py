# SPDX-License-Identifier: Apache-2.0
"""What a conductor does when it takes over."""

import contextlib
import queue
import threading
import uuid
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.common.messaging import rpc
from fpgapool.conductor import counts
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.runtime import election
from fpgapool.conductor.runtime import retention
from fpgapool.conductor.runtime import term as terms
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.objects import identity
from tests.harness import waiting
from tests.unit.conductor import fake_leases
from tests.unit.conductor import world

HOST = str(uuid.UUID(int=1))
DEVICE = identity.device_id(HOST, "board0")
VM = str(uuid.UUID(int=77))
PLACEMENT = """[placement]
auth_type = none
endpoint_override = http://127.0.0.1:9
"""


class Database(fake_leases.FakeDatabase, fake_leases.FakeLeases):
    """Has what the engine of a pool has written."""

    engine = None

    def __init__(
        self, pool: world.Conductor, lease: db_api.Lease | None = None
    ) -> None:
        fake_leases.FakeDatabase.__init__(self)
        fake_leases.FakeLeases.__init__(self, lease)
        self.begun_s: tuple[float, float] | None = None
        self.agents = list(pool.agents.values())
        self._snapshot = pool._snapshot()
        self.purged: queue.SimpleQueue[tuple[float, int, int]] = (
            queue.SimpleQueue()
        )

    def purge_sessions(self, before: float, limit: int, epoch: int) -> int:
        self.purged.put((before, limit, epoch))
        return 0

    purge_instances = purge_sessions

    def load(self) -> db_api.Snapshot:
        return self._snapshot

    def begin_term(
        self, epoch: int, pool_time_s: float, ahead_s: float
    ) -> float:
        self.begun_s = pool_time_s, ahead_s
        return 0.0


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[world.Conductor]:
    """Give a pool with a reserved slot, and a bus within the process."""
    monkeypatch.setattr(migration, "require_newest", lambda engine: None)
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    rpc.init(url="fake://")
    made = world.Conductor([world.FakeAgent(HOST, 3)])
    made.feed(inputs.Reservations({DEVICE: {VM: 1}}))
    yield made
    rpc.cleanup()
    cfg.CONF.reset()


def take_over(database: Database, tmp_path, lines: str) -> set[str | None]:
    """Let a conductor take over; return for whom slots are reserved then."""
    with leading(database, tmp_path, lines) as term:
        # Slots of a host that is not heard stay as they are.
        for agent in database.agents:
            term.pump.put(agent.report())
        found: set[str | None] = term.pump.ask(
            lambda asked: {
                slot.reserved_for
                for slot in asked.pool.registry.slots.values()
            },
            waiting.LIMIT_S,
            durable=False,
        )
    return found


@contextlib.contextmanager
def leading(database: Database, tmp_path, lines: str) -> Iterator[terms.Term]:
    """Let a conductor that has just been started lead for a while."""
    path = tmp_path / "fpgapool.conf"
    path.write_text(lines)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    failures: list[str] = []
    elected = election.Election(
        database,  # type: ignore[arg-type]
        "me",
        0.3,
    )
    epoch = elected.win(threading.Event())
    assert epoch is not None
    term = terms.Term(
        conf,
        database,  # type: ignore[arg-type]
        elected,
        epoch,
        threading.Event(),
        failures.append,
        counts.Counts(),
        None,
    )
    term.start()
    yield term
    term.stop()
    assert not failures


def written(database: Database) -> list[dict[str, int]]:
    return [
        dict(row.instances)
        for changes in database.committed
        for row in changes.rows(db_api.ReservationRecord)
    ]


@pytest.mark.parametrize(
    ("quota", "warns"), [(-1, True), (3, True), (2, False)]
)
def test_a_default_quota_of_all_slots_is_warned_of(
    pool, tmp_path, caplog, quota, warns
):
    conf = f"[conductor]\nfair_share = true\n[quota]\nsessions = {quota}\n"
    take_over(Database(pool), tmp_path, conf)
    assert ("The pool has 3 slots" in caplog.text) is warns


def test_without_placement_nothing_stays_reserved(pool, tmp_path):
    database = Database(pool)
    assert take_over(database, tmp_path, "") == {None}
    assert written(database) == [{}]


def test_with_placement_what_is_reserved_stays_until_it_tells(pool, tmp_path):
    database = Database(pool)
    assert take_over(database, tmp_path, PLACEMENT) == {None, VM}
    assert written(database) == []


def test_without_reservations_nothing_is_written(pool, tmp_path, caplog):
    caplog.set_level("INFO")
    pool.feed(inputs.Reservations({}))
    database = Database(pool)
    caplog.clear()
    assert take_over(database, tmp_path, "") == {None}
    assert written(database) == []
    assert "is up" in caplog.text
    assert "reserved" not in caplog.text


@pytest.mark.parametrize("jump_s", [-7200.0, 0.0, 7200.0])
def test_a_clock_that_was_set_while_no_conductor_ran(pool, tmp_path, jump_s):
    """What has waited 10 seconds by then has waited 10 seconds."""
    for _ in range(3):
        request_id = pool.open(HOST, wait_timeout_s=60.0)
    lease = db_api.Lease(
        holder="", epoch=7, renewals=9, pool_time_s=pool.now + 10
    )
    database = Database(pool, lease)
    database.time_s = pool.now + 10 + jump_s
    with leading(database, tmp_path, "") as term:
        view = term.pump.ask(
            lambda brain: world.find(brain, "p", request_id),
            waiting.LIMIT_S,
            durable=False,
        )
        pool_time_s = term.pool_time_s()
        now = term.pump.now()
        ((at_s, ahead_s),) = [database.begun_s]
    assert (view.state, view.queued_at) == ("QUEUED", pool.now)
    assert (
        pool.now + 10 <= at_s <= pool_time_s < pool.now + 10 + waiting.LIMIT_S
    )
    # No time of anything is before that of what came earlier.
    assert now >= max(pool.now, database.time_s)
    assert now - pool_time_s == pytest.approx(ahead_s, abs=waiting.LIMIT_S)


def test_the_first_leader_of_all_begins_pool_time(pool, tmp_path):
    database = Database(pool)
    with leading(database, tmp_path, ""):
        ((at_s, ahead_s),) = [database.begun_s]
    assert (at_s, ahead_s) == (pytest.approx(1e9, abs=waiting.LIMIT_S), 0.0)


def test_what_came_after_pool_time_was_told_is_not_from_the_future(
    pool, tmp_path
):
    """A leader tells it at intervals, and may die between two."""
    lease = db_api.Lease(
        holder="", epoch=7, renewals=9, pool_time_s=pool.now - 5
    )
    pool.open(HOST)
    database = Database(pool, lease)
    with leading(database, tmp_path, ""):
        ((at_s, _),) = [database.begun_s]
    assert at_s >= pool.now


def test_a_leader_deletes_only_if_it_is_told_to(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "_FIRST_S", 0.0)
    database = Database(pool)
    with leading(database, tmp_path, "") as term:
        assert term._retention is None
    conf = "[database]\nretention_days = 30\n"
    with leading(database, tmp_path, conf) as term:
        before, _, epoch = database.purged.get(timeout=waiting.LIMIT_S)
        now = term.pump.now()
    assert epoch == database.lease.epoch
    assert before == pytest.approx(now - 30 * 86_400, abs=waiting.LIMIT_S)
