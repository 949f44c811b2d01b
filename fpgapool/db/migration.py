# SPDX-License-Identifier: Apache-2.0

"""Creates and upgrades the tables."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import autogenerate
from alembic import command
from alembic import config as alembic_config
from alembic import script as alembic_script
from alembic import util as alembic_util
from alembic.runtime import migration as alembic_migration
from oslo_db import exception as oslo_exception
from sqlalchemy import exc as sa_exc

from fpgapool.common import exception
from fpgapool.db import engine as db_engine
from fpgapool.db import models
from fpgapool.db import turns

_MIGRATIONS = pathlib.Path(__file__).with_name("migrations")


def sync(engine: sa.Engine, version: str = "head") -> None:
    """Create the tables, or upgrade them if they are older.

    It waits until the changes of other commands are complete.
    """
    with _translated(), turns.alone(engine) as connection:
        config = _config()
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, version)
        except alembic_util.CommandError as error:
            raise exception.ConfigurationError(reason=str(error)) from error


def current_version(engine: sa.Engine) -> str | None:
    """Return the last migration applied; None in an empty database."""
    with _connection(engine) as connection:
        context = alembic_migration.MigrationContext.configure(connection)
        return context.get_current_revision()


def newest_version() -> str:
    """Return the newest migration of this version of fpgapool."""
    head = alembic_script.ScriptDirectory.from_config(
        _config()
    ).get_current_head()
    if head is None:
        raise RuntimeError(f"no migrations found in {_MIGRATIONS}")
    return head


def versions() -> list[str]:
    """Return all migrations of this version of fpgapool, in order."""
    script = alembic_script.ScriptDirectory.from_config(_config())
    return [one.revision for one in script.walk_revisions()][::-1]


def require_newest(engine: sa.Engine) -> None:
    """Check that the tables match this version of fpgapool."""
    current = current_version(engine)
    newest = newest_version()
    if current != newest:
        raise exception.DatabaseSchemaMismatch(
            reason=f"the tables are at revision {current or 'none'};"
            f" revision {newest} is required"
        )


def differences(engine: sa.Engine) -> list[Any]:
    """Return Alembic's list of differences between tables and models."""
    with _connection(engine) as connection:
        context = alembic_migration.MigrationContext.configure(connection)
        return autogenerate.compare_metadata(context, models.metadata)


def _config() -> alembic_config.Config:
    config = alembic_config.Config()
    # Alembic interpolates percent signs.
    config.set_main_option(
        "script_location", str(_MIGRATIONS).replace("%", "%%")
    )
    config.set_main_option("path_separator", "os")
    return config


@contextlib.contextmanager
def _connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    with _translated(), engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (oslo_exception.DBError, sa_exc.SQLAlchemyError) as error:
        raise db_engine.translate(error) from error
