# SPDX-License-Identifier: Apache-2.0
"""What a conductor does when it takes over."""

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.common import rpc
from fpgapool.conductor import counts
from fpgapool.conductor import service
from fpgapool.conductor.decisions import inputs
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.objects import identity
from tests.unit.conductor import test_threads
from tests.unit.conductor import world

HOST = str(uuid.UUID(int=1))
DEVICE = identity.device_id(HOST, "board0")
VM = str(uuid.UUID(int=77))
PATIENCE_S = 10.0
PLACEMENT = """[placement]
auth_type = none
endpoint_override = http://127.0.0.1:9
"""


class Database(test_threads.FakeDatabase):
    """Has what the engine of a pool has written."""

    engine = None

    def __init__(self, pool: world.World) -> None:
        super().__init__()
        self.agents = list(pool.agents.values())
        self._snapshot = pool._snapshot()

    def load(self) -> db_api.Snapshot:
        return self._snapshot


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[world.World]:
    """Give a pool with a reserved slot, and a bus within the process."""
    monkeypatch.setattr(migration, "require_newest", lambda engine: None)
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    rpc.init(url="fake://")
    made = world.World([world.FakeAgent(HOST, 3)])
    made.feed(inputs.Reservations({DEVICE: {VM: 1}}))
    yield made
    rpc.cleanup()
    cfg.CONF.reset()


def take_over(database: Database, tmp_path, lines: str) -> set[str | None]:
    """Let a conductor take over; return for whom slots are reserved then."""
    path = tmp_path / "fpgapool.conf"
    path.write_text(lines)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    failures: list[str] = []
    term = service._Term(
        conf,
        database,  # type: ignore[arg-type]
        time.time,
        7,
        threading.Event(),
        failures.append,
        counts.Counts(),
        None,
    )
    term.start()
    # Slots of a host that is not heard stay as they are.
    for agent in database.agents:
        term._pump.put(agent.report())
    found = term.look(
        lambda engine: {
            slot.reserved_for for slot in engine.registry.slots.values()
        },
        PATIENCE_S,
    )
    term.stop()
    assert not failures
    return found


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
