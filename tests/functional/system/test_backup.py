# SPDX-License-Identifier: Apache-2.0

"""A backup, and a pool that goes on with it: doc/source/install/backup.rst."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys

import pytest
import sqlalchemy as sa

from tests.harness import cloud as clouds
from tests.harness import programs
from tests.services import mariadb as mariadb_service
from tests.services import process

# In the gate: db/test_manage.py, and tests/world.
pytestmark = pytest.mark.long

CHUNK = clouds.CHUNK_BYTES
_LIMIT_S = 60


class _Tool:
    """MariaDB's own programs, on one database."""

    def __init__(self, url: str) -> None:
        parsed = sa.make_url(url)
        assert parsed.database is not None
        self.database = parsed.database
        self._access = [
            f"--host={parsed.host}",
            f"--port={parsed.port}",
            f"--user={parsed.username}",
            f"--password={parsed.password}",
            "--default-character-set=utf8mb4",
        ]

    def dump(self, path: pathlib.Path) -> None:
        program = process.find_program("mariadb-dump", "mariadb-client")
        with path.open("wb") as file:
            subprocess.run(
                [
                    program,
                    *self._access,
                    "--single-transaction",
                    self.database,
                ],
                stdout=file,
                timeout=_LIMIT_S,
                check=True,
            )

    def restore(self, path: pathlib.Path) -> None:
        program = process.find_program("mariadb", "mariadb-client")
        with path.open("rb") as file:
            subprocess.run(
                [program, *self._access, self.database],
                stdin=file,
                timeout=_LIMIT_S,
                check=True,
            )


def _restart(cloud: clouds.Cloud) -> None:
    cloud.conductor.stop()
    cloud.conductor.start()
    cloud.wait_ready()


def _tell_restored(cloud: clouds.Cloud) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "fpgapool.cmd.manage"),
            *("--config-file", str(cloud.conductor.config_path)),
            *("db", "restored"),
        ],
        env=cloud.conductor.environment(),
        stdout=subprocess.DEVNULL,
        timeout=_LIMIT_S,
        check=True,
    )


def test_the_pool_goes_on_after_a_restore(
    make_cloud,
    mariadb: mariadb_service.MariaDB,
    rng: random.Random,
    tmp_path: pathlib.Path,
) -> None:
    """Who ran runs on, who waited is served, and nobody notices more."""
    cloud = make_cloud(clouds.HostPlan("board", slots=1))
    path = cloud.hosts["board"].socket_path()
    running = programs.Transfer(path, rng.randbytes(12 * CHUNK))
    running.run_to(2 * CHUNK)
    cloud.wait_session(running.session_id, "ACTIVE")
    waiting = programs.Transfer(path, rng.randbytes(2 * CHUNK))
    waiting.wait_state("QUEUED")

    tool = _Tool(cloud.database_url)
    tool.dump(tmp_path / "backup.sql")
    # Agents see leaders that the backup knows nothing of.
    for _ in range(2):
        _restart(cloud)
    running.run_to(6 * CHUNK)

    cloud.conductor.stop()
    mariadb.drop_database(tool.database)
    mariadb.create_database(tool.database)
    tool.restore(tmp_path / "backup.sql")
    _tell_restored(cloud)
    cloud.conductor.start()
    cloud.wait_ready()

    for transfer in (running, waiting):
        transfer.finish()
        assert transfer.output == transfer.expected
        cloud.wait_session(transfer.session_id, "CLOSED")
    later = programs.Transfer(path, rng.randbytes(CHUNK))
    later.finish()
    assert later.output == later.expected
    cloud.check_consistent()
