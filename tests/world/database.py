# SPDX-License-Identifier: Apache-2.0

"""The product's SQL on SQLite in memory, with faults before and after."""

from __future__ import annotations

import contextlib
import sqlite3
import typing
from collections.abc import Callable
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_db import exception as oslo_exception
from oslo_db.sqlalchemy import exc_filters

from fpgapool.db import api as db_api
from fpgapool.db import engine as db_engine
from fpgapool.db import migration
from fpgapool.db import standing
from tests.world import kernel as kernels


def empty() -> bytes:
    """Return a database with the newest schema and nothing in it."""
    engine = db_engine.create("sqlite://")
    migration.sync(engine)
    with engine.connect() as connection:
        raw = typing.cast(
            sqlite3.Connection, connection.connection.dbapi_connection
        )
        raw.commit()
        content = raw.serialize()
    engine.dispose()
    return content


def _engine() -> sa.Engine:
    """Return an engine without what oslo.db does beside its work.

    It is the product's own for files, on memory. Who writes begins the
    transaction; without that each statement sees what is durable.
    """
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)

    def prepare(dbapi_connection: sqlite3.Connection, _record: object) -> None:
        dbapi_connection.isolation_level = None
        dbapi_connection.execute("PRAGMA foreign_keys = ON").close()

    sa.event.listen(engine, "connect", prepare)
    exc_filters.register_engine(engine)
    return engine


class Server:
    """The database of a world.

    :param kernel: of the world.
    :param content: from :func:`empty`.
    :ivar away: nothing can be asked.
    :ivar cut: processes, by number, that do not reach it.
    :ivar clock_s: by how much its clock is ahead of the right time.
    :ivar fails_before: share of transactions that fail and change nothing.
    :ivar fails_after: share that fail though they are durable.
    """

    def __init__(self, kernel: kernels.Kernel, content: bytes) -> None:
        self.kernel = kernel
        self.engine = _engine()
        # One for all: to take it from the pool and to give it back costs as
        # much as a statement.
        self.connection = self.engine.connect()
        self._raw = typing.cast(
            sqlite3.Connection, self.connection.connection.dbapi_connection
        )
        self._raw.deserialize(content)
        self.away = False
        self.clock_s = 0.0
        self.cut: set[int] = set()
        self.fails_before = 0.0
        self.fails_after = 0.0
        #: Called when a transaction is durable, before its process knows.
        self.on_commit: Callable[[int], None] = lambda _epoch: None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Have a transaction, with what may go wrong before and after it.

        :raises DBConnectionError: if it cannot begin, or it is not known
            what has become of it.
        """
        self._before()
        with self.connection.begin():
            # A listener, as the product has one, would do it with detours.
            self._raw.execute("BEGIN")
            yield self.connection
        row = self._raw.execute("SELECT epoch FROM leader_lease").fetchone()
        self.on_commit(row[0] if row else 0)
        self._after()

    def _before(self) -> None:
        """A transaction is about to begin.

        :raises DBConnectionError: if it cannot.
        """
        kernel = self.kernel
        kernel.point()
        # A round trip.
        kernel.sleep(kernel.random.uniform(0.0002, 0.003))
        if self._is_away():
            kernel.sleep(kernel.random.uniform(0.0, 1.0))
            if self._is_away():
                raise oslo_exception.DBConnectionError("away")
        if kernel.random.random() < self.fails_before:
            raise oslo_exception.DBConnectionError("lost before")

    def _after(self) -> None:
        """A transaction has been committed.

        :raises DBConnectionError: if that is not known.
        """
        self.kernel.point()
        if self.kernel.random.random() < self.fails_after:
            raise oslo_exception.DBConnectionError("lost after")

    def _is_away(self) -> bool:
        task = self.kernel.current
        return self.away or (task is not None and task.process.pid in self.cut)


class _Engine:
    """What :class:`db_api.Database` needs of an engine."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.dialect = server.engine.dialect

    def begin(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return self._server.transaction()

    def connect(self) -> typing.Any:
        return _Connection(self._server)

    def dispose(self) -> None:
        """Nothing: the database belongs to all."""


class _Connection:
    """A connection that stays, as :class:`standing.Standing` has one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.execute = server.connection.execute
        self.dialect = server.engine.dialect

    def begin(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return self._server.transaction()

    def invalidate(self) -> None:
        """Nothing: there is no connection between two transactions."""

    def close(self) -> None:
        """Nothing: as above."""


class Database(db_api.Database):
    """The database as one process sees it."""

    def __init__(self, server: Server) -> None:
        db_engine.create = lambda _url, **_options: server.engine
        super().__init__("sqlite://")
        self._server = server
        self._engine = typing.cast(sa.Engine, _Engine(server))
        self._turn = contextlib.nullcontext()
        self._writer = standing.Standing(self._engine)

    @property
    def engine(self) -> sa.Engine:
        return self._server.engine

    def now(self) -> float:
        # One for all, as that of MariaDB.
        server = self._server
        with self._transaction():
            return kernels.BEGINS_AT + server.kernel.now_s + server.clock_s


def look(database: db_api.Database, server: Server) -> None:
    """Make a database that is looked at from outside: no time passes."""
    database._engine = server.engine
    database._turn = contextlib.nullcontext()
