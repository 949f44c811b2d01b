# SPDX-License-Identifier: Apache-2.0

import pytest
import sqlalchemy as sa

from fpgapool.common import exception
from fpgapool.db import api
from fpgapool.db import migration
from tests.functional.db import factory

pytestmark = pytest.mark.dialect


def test_every_version_can_be_reached_one_by_one(empty):
    assert migration.current_version(empty) is None
    for version in migration.versions():
        migration.sync(empty, version)
        assert migration.current_version(empty) == version
    assert migration.newest_version() == migration.versions()[-1]
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


def test_a_migration_that_is_repeated_keeps_the_rows(database, epoch):
    """MariaDB keeps the tables of a run that was killed before its COMMIT."""
    held = factory.session(1, state="ACTIVE", slot_id=1)
    rows = [*factory.hardware(), held, factory.assignment(1, holder_id=1)]
    database.commit(epoch, api.Changes.of(rows))
    before = database.load(), database.read_lease()
    with database.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
    migration.sync(database.engine)
    assert migration.differences(database.engine) == []
    assert (database.load(), database.read_lease()) == before


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
