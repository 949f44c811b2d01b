# SPDX-License-Identifier: Apache-2.0

"""fpgapool-manage audit on a pool of real processes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import typing
import uuid
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from fpgapool.bitstreams import files
from fpgapool.db import api as db_api
from fpgapool.db import models
from tests.functional.db import factory
from tests.functional.worker import harness as wire
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import waiting

# Each runs several commands, on a machine that has much else to do.
# In the gate: tests/unit/conductor/test_audit.py and
# tests/unit/cmd/test_auditing.py.
pytestmark = pytest.mark.long

SLOTS = 2
PAUSE_S = 1.5
OLD_S = 10 * 86400
FOREIGN_ID = 1_000_000


@pytest.fixture(scope="module")
def cloud(
    make_cloud: Callable[..., clouds.Cloud],
    tmp_path_factory: pytest.TempPathFactory,
) -> clouds.Cloud:
    """Give a pool whose bitstreams have files here."""
    store = tmp_path_factory.mktemp("store")
    made = make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        clouds.HostPlan("other", slots=1, shape="small"),
        options={"bitstreams": {"store_dir": str(store)}},
    )
    made.store = store
    return made


class Report(typing.NamedTuple):
    """What an audit said."""

    status: int
    findings: list[dict[str, typing.Any]]
    log: str

    @property
    def kinds(self) -> dict[str, bool]:
        """Whether each kind was mended."""
        return {one["kind"]: one["mended"] for one in self.findings}


def audit(cloud: clouds.Cloud, *options: str) -> Report:
    """Run the command."""
    done = subprocess.run(
        [
            sys.executable,
            *("-W", "ignore", "-m", "fpgapool.cmd.manage"),
            *("--config-file", str(cloud.conductor.config_path)),
            *("audit", "-f", "json", "--pause-s", str(PAUSE_S), *options),
        ],
        env=cloud.conductor.environment(),
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        timeout=waiting.COMMAND_LIMIT_S,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    return Report(done.returncode, document["findings"], done.stderr)


def test_what_is_broken_is_found_and_mended(cloud) -> None:
    """Rows that are missing, wrong or of nobody, and files alike."""
    host = cloud.hosts["board"]
    with host.door() as door:
        held = [hold(cloud, door) for _ in range(SLOTS)]
        (first, second) = cloud.snapshot().assignments
        assert first.generation < second.generation
        foreign = factory.session(
            FOREIGN_ID,
            session_id="foreign",
            request_id="foreign",
            project_id=clouds.OTHER_PROJECT,
            accelerator="copy",
            state="QUEUED",
            host_id=None,
            slot_id=None,
            generation=0,
            arrival_s=1.0,
        )
        bitstream = db_api.BitstreamRecord(
            id=FOREIGN_ID,
            bitstream_id="gone",
            project_id=clouds.PROJECT,
            user_id="",
            name="gone",
            accelerator="gone",
            version="1.0",
            format="declaration",
            state="rejected",
            location="a" * 64 + ".gone",
            created_at=1.0,
            updated_at=1.0,
        )
        assignments, sessions = models.assignments, models.sessions
        (free,) = (
            slot.id
            for slot in cloud.snapshot().slots
            if slot.id not in (first.slot_id, second.slot_id)
        )
        with cloud.database.engine.begin() as connection:
            connection.execute(
                sa.insert(assignments).values(
                    dataclasses.asdict(first) | {"slot_id": free}
                )
            )
            connection.execute(
                sa.delete(assignments).where(
                    assignments.c.slot_id == first.slot_id
                )
            )
            connection.execute(
                sa.update(sessions)
                .where(sessions.c.id == second.holder_id)
                .values(state="READY")
            )
            for table, row in (
                (sessions, foreign),
                (models.bitstreams, bitstream),
            ):
                connection.execute(
                    sa.insert(table).values(dataclasses.asdict(row))
                )
        orphan = _orphan(cloud)
        found = audit(cloud)
        assert found.status == 3
        assert found.kinds == dict.fromkeys(
            (
                "file_without_row",
                "row_without_file",
                "session_differs",
                "session_unknown",
                "session_without_slot",
                "slot_without_session",
            ),
            False,
        )
        assert orphan.exists()
        assert "audit --repair" not in found.log
        mended = audit(cloud, "--repair")
        assert mended.status == 3
        assert mended.kinds == {
            kind: kind != "row_without_file" for kind in found.kinds
        }
        assert not orphan.exists()
        assert mended.log.count("fpgapool-manage audit --repair") == 6
        with cloud.database.engine.begin() as connection:
            connection.execute(
                sa.delete(models.bitstreams).where(
                    models.bitstreams.c.id == FOREIGN_ID
                )
            )
        assert audit(cloud)[:2] == (0, [])
        doors.let_go(held)
    # What only the database knew of is served as any other.
    waiting.wait_until(
        lambda: (
            cloud.session_record("foreign", clouds.OTHER_PROJECT).generation
        ),
        "the foreign session gets a slot",
    )
    with host.door(clouds.OTHER_PROJECT) as door:
        door.request("cancel", session_id="foreign")
    cloud.check_consistent()


def _orphan(cloud: clouds.Cloud) -> typing.Any:
    """Put a file into the store that belongs to nothing; return its path."""
    path = cloud.store / files.relative_path("b" * 64, str(uuid.UUID(int=5)))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"nobody's")
    old = path.stat().st_mtime - OLD_S
    os.utime(path, (old, old))
    return path


def hold(cloud: clouds.Cloud, door: doors.Door) -> wire.Client:
    """Become the client of a slot, and wait until everybody knows."""
    view = door.open_ready()
    held = door.attach(view)
    cloud.wait_session(view["session_id"], "ACTIVE")
    return held
