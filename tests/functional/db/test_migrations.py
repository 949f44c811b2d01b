#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import pytest
import sqlalchemy as sa
from alembic import script as alembic_script

from fpgapool.common import exception
from fpgapool.db import api
from fpgapool.db import migration

pytestmark = pytest.mark.dialect


@pytest.fixture
def empty(empty_url):
    """Give an engine of a database without tables."""
    database = api.Database(empty_url)
    yield database.engine
    database.close()


def _versions() -> list[str]:
    script = alembic_script.ScriptDirectory.from_config(migration._config())
    return [one.revision for one in script.walk_revisions()][::-1]


def test_every_version_can_be_reached_one_by_one(empty):
    assert migration.current_version(empty) is None
    for version in _versions():
        migration.sync(empty, version)
        assert migration.current_version(empty) == version
    assert migration.newest_version() == _versions()[-1]
    migration.require_newest(empty)


def test_migrations_lead_to_the_models(empty):
    migration.sync(empty)
    assert migration.differences(empty) == []


def test_differences_are_found(empty):
    migration.sync(empty)
    with empty.begin() as connection:
        connection.execute(sa.text("DROP TABLE leader_lease"))
    ((kind, table),) = migration.differences(empty)
    assert (kind, table.name) == ("add_table", "leader_lease")


def test_syncing_again_changes_nothing(empty):
    migration.sync(empty)
    migration.sync(empty)
    assert migration.current_version(empty) == migration.newest_version()


def test_an_unknown_version_is_refused(empty):
    with pytest.raises(exception.ConfigurationError, match="nowhere"):
        migration.sync(empty, "nowhere")
    assert migration.current_version(empty) is None


def test_old_tables_are_not_used(empty):
    with pytest.raises(exception.DatabaseSchemaMismatch, match="db sync"):
        migration.require_newest(empty)


def test_tables_of_a_later_release_are_not_used(empty):
    migration.sync(empty)
    with empty.begin() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = '999'")
        )
    with pytest.raises(exception.DatabaseSchemaMismatch, match="999"):
        migration.require_newest(empty)
    with pytest.raises(exception.ConfigurationError, match="999"):
        migration.sync(empty)


def test_devices_that_were_disabled_stay_so(empty):
    migration.sync(empty, "002")
    host = "INSERT INTO hosts (id, uuid, name, nic_bytes_per_s, up)"
    device = (
        "INSERT INTO devices (id, host_id, name, model, dma_bytes_per_s,"
        " healthy, enabled, fault_reason)"
    )
    with empty.begin() as connection:
        connection.execute(sa.text(f"{host} VALUES (1, 'u', 'h', 1, true)"))
        for number, enabled in ((1, "true"), (2, "false")):
            connection.execute(
                sa.text(
                    f"{device} VALUES ({number}, 1, 'b{number}', 'm', 1,"
                    f" true, {enabled}, '')"
                )
            )
        connection.execute(
            sa.text(
                "INSERT INTO slots (id, device_id, number, shape,"
                " programming_time_s, faulty, fault_reason)"
                " VALUES (1, 2, 0, 's', 0, false, '')"
            )
        )
    migration.sync(empty)
    with empty.begin() as connection:
        (host_row,) = connection.execute(
            sa.text("SELECT admin_state, admin_reason FROM hosts")
        ).all()
        states = connection.execute(
            sa.text("SELECT admin_state FROM devices ORDER BY id")
        ).scalars()
        assert tuple(host_row) == ("enabled", "")
        assert list(states) == ["enabled", "disabled"]
