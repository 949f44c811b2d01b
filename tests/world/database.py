# SPDX-License-Identifier: Apache-2.0

"""The product's SQL on SQLite in memory, with faults before and after."""

from __future__ import annotations

import contextlib
import operator
import sqlite3
import typing
from collections.abc import Callable

import sqlalchemy as sa
from oslo_db import exception as oslo_exception
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy.engine import result as sa_result

from fpgapool.db import api as db_api
from fpgapool.db import connections
from fpgapool.db import engine as db_engine
from fpgapool.db import migration
from tests.world import kernel as kernels

_R = typing.TypeVar("_R")


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


class _Prepared:
    """A statement as SQLite takes it, compiled once by SQLAlchemy.

    :param many: whether they are those of several rows.
    """

    def __init__(
        self,
        statement: typing.Any,
        dialect: sa.Dialect,
        names: list[str],
        many: bool,
    ) -> None:
        compiled = self._compiled = statement.compile(
            dialect=dialect, column_keys=names, for_executemany=many
        )
        self.text: str = compiled.string
        self._expands = bool(compiled.post_compile_params)
        self._constants = {
            name: value
            for name, value in compiled.params.items()
            if name not in names
        }
        order = compiled.positiontup or ()
        self._in_order = _getter(order)
        #: Places of parameters that SQLite gets in another form, and what
        #: makes it.
        self._changed: list[tuple[int, Callable[[object], object]]] = [
            (place, process)
            for place, name in enumerate(order)
            if (process := _processor(compiled.binds[name].type, dialect))
        ]
        #: Places of values in the result, and what SQLite's become there.
        self._results: list[tuple[int, Callable[[object], object]]] = []
        self.metadata: sa_result.SimpleResultMetaData | None = None
        if isinstance(statement, (sa.Select, sa.CompoundSelect)):
            columns = statement.selected_columns
            self.metadata = sa_result.SimpleResultMetaData(columns.keys())
            processors = (
                one.type.dialect_impl(dialect).result_processor(dialect, None)
                for one in columns
            )
            self._results = [
                (place, process)
                for place, process in enumerate(processors)
                if process is not None
            ]

    def values(self, given: dict[str, typing.Any]) -> typing.Sequence[object]:
        """Return the parameters of one row, as :attr:`text` has them."""
        found = self._in_order(given)
        if not self._changed:
            return found
        values = list(found)
        for place, process in self._changed:
            values[place] = process(values[place])
        return values

    def row(self, found: tuple[object, ...]) -> typing.Sequence[object]:
        """Return a row of the result."""
        if not self._results:
            return found
        values = list(found)
        for place, process in self._results:
            values[place] = process(values[place])
        return tuple(values)

    def expand(
        self, given: dict[str, typing.Any]
    ) -> tuple[str, typing.Sequence[object]]:
        """Return the statement for these parameters, and their values."""
        if not self._expands:
            if self._constants:
                given = self._constants | given
            return self.text, self.values(given)
        state = self._compiled.construct_expanded_state(given)
        values = (state.parameters[name] for name in state.positiontup)
        return state.statement, list(values)


def _getter(
    names: typing.Sequence[str],
) -> Callable[[dict[str, typing.Any]], tuple[object, ...]]:
    """Return what returns the members of these names."""
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda given: tuple(given[name] for name in names)


def _processor(
    kind: sa.types.TypeEngine[typing.Any], dialect: sa.Dialect
) -> Callable[[object], object] | None:
    return kind.dialect_impl(dialect).bind_processor(dialect)


class _Done:
    """The result of a statement that returns no rows."""

    def __init__(self, rowcount: int) -> None:
        self.rowcount = rowcount


class _Executor:
    """A connection that takes statements to SQLite without detours.

    What SQLAlchemy does for each of them takes several times as long as what
    SQLite does. It has those that occur once, and what SQLite refuses: its
    errors are the product's.
    """

    def __init__(
        self, connection: sa.Connection, raw: sqlite3.Connection
    ) -> None:
        self._connection = connection
        self._raw = raw
        self.dialect = connection.dialect
        #: Statements that have come; None: once.
        self._known: dict[typing.Any, _Prepared | None] = {}

    def execute(
        self,
        statement: typing.Any,
        parameters: typing.Any = None,
        **options: typing.Any,
    ) -> typing.Any:
        prepared = self._prepared(statement, parameters)
        if prepared is not None:
            try:
                return self._run(prepared, parameters)
            except sqlite3.Error:
                pass
        return self._connection.execute(statement, parameters, **options)

    def _prepared(
        self, statement: typing.Any, parameters: typing.Any
    ) -> _Prepared | None:
        """Return one for a statement that the product keeps; or None."""
        found = self._known.get(statement)
        if found is None and statement in self._known:
            many = isinstance(parameters, list)
            names = list((parameters[0] if many else parameters) or ())
            found = _Prepared(statement, self.dialect, names, many)
        self._known[statement] = found
        return found

    def _run(self, prepared: _Prepared, parameters: typing.Any) -> typing.Any:
        if isinstance(parameters, list):
            values = map(prepared.values, parameters)
            cursor = self._raw.executemany(prepared.text, values)
            return _Done(cursor.rowcount)
        cursor = self._raw.execute(*prepared.expand(parameters or {}))
        if prepared.metadata is None:
            return _Done(cursor.rowcount)
        rows = map(prepared.row, cursor.fetchall())
        return sa_result.IteratorResult(prepared.metadata, rows)

    def scalar(self, statement: typing.Any) -> typing.Any:
        return self.execute(statement).scalar()

    def scalars(self, statement: typing.Any) -> typing.Any:
        return self.execute(statement).scalars()

    def exec_driver_sql(self, text: str) -> typing.Any:
        return self._connection.exec_driver_sql(text)


class Server:
    """The database of a world.

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
        connection = self.engine.connect()
        self._raw = typing.cast(
            sqlite3.Connection, connection.connection.dbapi_connection
        )
        self._raw.deserialize(content)
        self._cursor = self._raw.cursor()
        self.connection = _Executor(connection, self._raw)
        self.away = False
        self.clock_s = 0.0
        self.cut: set[int] = set()
        self.fails_before = 0.0
        self.fails_after = 0.0
        #: Called when what a transaction has changed is durable, before its
        #: process knows.
        self.on_commit: Callable[[int], None] = lambda _epoch: None

    def transaction(self) -> _Transaction:
        """Return a transaction, with what may go wrong before and after it.

        It raises DBConnectionError if it cannot begin, or it is not known
        what has become of it.
        """
        return _Transaction(self)

    def begin(self) -> int:
        """Begin a transaction.

        :returns: how many rows were ever changed.
        :raises DBConnectionError: if it cannot.
        """
        self._before()
        # SQLAlchemy's own transaction would take as long as a statement.
        self._cursor.execute("BEGIN")
        return self._raw.total_changes

    def roll_back(self) -> None:
        """End the transaction; it has changed nothing."""
        self._cursor.execute("ROLLBACK")

    def commit(self, before: int) -> None:
        """Make what the transaction has changed durable.

        :raises DBConnectionError: if it is not known whether it is.
        """
        cursor = self._cursor
        cursor.execute("COMMIT")
        if self._raw.total_changes != before:
            query = "SELECT epoch FROM leader_lease"
            row = cursor.execute(query).fetchone()
            # Nothing may be left to read in the next transaction.
            cursor.fetchall()
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


class _Transaction:
    """See :meth:`Server.transaction`."""

    __slots__ = ("_before", "_server")

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = 0

    def __enter__(self) -> _Executor:
        self._before = self._server.begin()
        return self._server.connection

    def __exit__(self, kind: object, *_exc: object) -> None:
        if kind is None:
            self._server.commit(self._before)
        else:
            self._server.roll_back()


class _Engine:
    """What :class:`db_api.Database` needs of an engine."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.dialect = server.engine.dialect

    def begin(self) -> _Transaction:
        return self._server.transaction()

    def connect(self) -> typing.Any:
        return _Connection(self._server)

    def dispose(self) -> None:
        """Nothing: the database belongs to all."""


class _Connection:
    """A connection that stays, as a :class:`connections.KeptConnection`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.execute = server.connection.execute
        self.dialect = server.engine.dialect

    def begin(self) -> _Transaction:
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
        self._writer = connections.KeptConnection(self._engine)

    @property
    def engine(self) -> sa.Engine:
        return self._server.engine

    def now(self) -> float:
        # One for all, as that of MariaDB.
        server = self._server
        with self._transaction():
            return kernels.BEGINS_AT + server.kernel.now_s + server.clock_s

    def _change_alone(self, work: Callable[[sa.Connection], _R]) -> _R:
        # There is no other operator.
        with self._transaction() as connection:
            return work(connection)


def look(database: db_api.Database, server: Server) -> None:
    """Make a database that is looked at from outside: no time passes."""
    database._engine = server.engine
    database._turn = contextlib.nullcontext()
