# SPDX-License-Identifier: Apache-2.0

"""Serializes the changes that operators' commands make to the database.

The database server holds the lock, and releases it when the connection ends
for any reason.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_log import log as logging
from sqlalchemy import exc as sa_exc

from fpgapool.db import engine as db_engine

LOG = logging.getLogger(__name__)

# SQLite has no such locks; its transactions lock the file.
_TRY_LOCK = {
    # A lock held by the connection, because MariaDB commits before each change
    # of a table. Its name is global to the server and has at most 64
    # characters.
    "mysql": "SELECT GET_LOCK(CONCAT('fpgapool ', SHA1(DATABASE())), 0)",
    # A lock held by the transaction. The key is "fpgapool" in ASCII, and is
    # local to this database.
    "postgresql": f"SELECT pg_try_advisory_xact_lock({0x66706761706F6F6C})",
}

_LOOK_INTERVAL_S = 0.1
_LONG_WAIT_S = 1.0


@contextlib.contextmanager
def alone(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Begin a transaction when no other one of this kind is open.

    It waits without a limit, because changing large tables may take a long
    time.
    """
    with engine.connect() as connection:
        _wait_for_lock(connection)
        try:
            yield connection
            connection.commit()
        finally:
            if connection.dialect.name == "mysql":
                # A connection that returned to the pool would keep the lock.
                connection.invalidate()


def _wait_for_lock(connection: sa.Connection) -> None:
    says_at_s = time.monotonic() + _LONG_WAIT_S
    while not _try_lock(connection):
        if time.monotonic() > says_at_s:
            LOG.warning(
                "Another command is changing the database; waiting for it"
            )
            says_at_s = float("inf")
        time.sleep(_LOOK_INTERVAL_S)


def _try_lock(connection: sa.Connection) -> bool:
    """Begin a transaction with the lock; return whether it was free."""
    connection.execution_options(**db_engine.WRITES)
    try:
        connection.begin()
    except sa_exc.OperationalError as error:
        if db_engine.is_locked_file(error):
            return False
        raise
    query = _TRY_LOCK.get(connection.dialect.name)
    if query is None or connection.exec_driver_sql(query).scalar():
        return True
    connection.rollback()
    return False
