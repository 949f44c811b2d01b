# SPDX-License-Identifier: Apache-2.0

"""What a way back cannot do, and what says so."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.harness import cloud as clouds
from tests.harness import releases
from tests.harness import waiting
from tests.services import process

# In the gate: tests/functional/db.
pytestmark = pytest.mark.long

NEWER = "999"
#: What release 1.0.0 says; it tries again and again.
REFUSED = "The database schema does not fit this version"


def set_revision(url: str, revision: str) -> None:
    """Write what later migrations leave behind."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :revision"),
            {"revision": revision},
        )
    engine.dispose()


@pytest.mark.parametrize("fixture", ["database_url", "postgresql_url"])
def test_an_old_conductor_does_not_lead_with_newer_tables(
    request: pytest.FixtureRequest,
    service_workspace: process.Workspace,
    transport_url: str,
    fixture: str,
) -> None:
    """It says so, and leads when the backup is restored."""
    url = request.getfixturevalue(fixture)
    cloud = clouds.Cloud(service_workspace, transport_url, url, [])
    conductor = cloud.conductor
    done = cloud.command("manage", "db", "sync")
    assert done.returncode == 0, done.stdout
    revision = cloud.command("manage", "db", "version").stdout.split()[-1]
    set_revision(url, NEWER)
    conductor.release = releases.installed()
    conductor.start()
    try:
        conductor.wait_for_log(REFUSED)
        (sentence, *_) = [
            line
            for line in conductor.present_log().splitlines()
            if REFUSED in line
        ]
        assert NEWER in sentence
        assert revision in sentence
        done = cloud.command("status", "upgrade", "check")
        assert done.returncode == 2, done.stdout
        set_revision(url, revision)
        waiting.wait_until(
            lambda: cloud.lease_holder() == conductor.name,
            lambda: f"the conductor leads: {conductor.log_tail()}",
        )
    finally:
        cloud.stop()
