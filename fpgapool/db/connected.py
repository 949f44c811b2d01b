# SPDX-License-Identifier: Apache-2.0

"""Connections to the database, and transactions."""

import contextlib
import math
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import Self
from typing import TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_exception
from sqlalchemy import exc as sa_exc
from sqlalchemy import pool as sa_pool

from fpgapool.common import exception
from fpgapool.db import connections
from fpgapool.db import engine as db_engine
from fpgapool.db import leadership
from fpgapool.db import rows
from fpgapool.db import turns

_R = TypeVar("_R")

#: A query of one row takes milliseconds, even during large commits.
SLOW_ANSWER_S = 2.0

# Maximum number of attempts at an operator's transaction.
_TRIES = 5

# In UTC: local times repeat when daylight saving time ends.
_NOW = {
    "mysql": "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01',"
    " UTC_TIMESTAMP(6)) / 1e6",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}


class Connected:
    """Manages the connections to a database.

    It connects at the first call, so it can be created while the server is
    unavailable.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._engine = db_engine.create(url, **options)
        # An in-memory database has one connection, so without this lock all
        # threads would share a transaction.
        self._turn: contextlib.AbstractContextManager[Any] = (
            threading.RLock()
            if isinstance(self._engine.pool, sa_pool.StaticPool)
            else contextlib.nullcontext()
        )
        # For commit(), which one thread calls repeatedly.
        self._writer = connections.KeptConnection(self._engine)
        # SQLite has no round trips to save.
        self._readers = (
            None
            if self._engine.dialect.name == "sqlite"
            else connections.Readers(self._engine)
        )
        self._unavailable = False
        self._answer_due_s: dict[object, float] = {}
        self._asked_lock = threading.Lock()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, **options: Any) -> Self:
        """Return the database that ``[database]`` configures.

        :param options: see :func:`fpgapool.db.engine.create`.
        """
        return cls(**db_engine.options_from_conf(conf), **options)

    @property
    def engine(self) -> sa.Engine:
        return self._engine

    @property
    def failing(self) -> bool:
        """Whether the server seems to be unavailable; this sends no query.

        True if the last transaction failed to reach it, or if a query has been
        waiting for too long, because a frozen server does not refuse
        connections.
        """
        with self._asked_lock:
            due_s = min(self._answer_due_s.values(), default=math.inf)
        return self._unavailable or time.monotonic() > due_s

    def close(self) -> None:
        """Close all connections that are not in use."""
        self._writer.close()
        if self._readers is not None:
            self._readers.close()
        self._engine.dispose()

    def now(self) -> float:
        """Return the server's wall-clock time, which all services share.

        :returns: seconds since the epoch; with SQLite, by this host's clock.
        """
        with self._transaction() as connection:
            query = _NOW.get(connection.dialect.name)
            if query is None:
                return time.time()
            return float(connection.exec_driver_sql(query).scalar_one())

    # Transactions.

    def _read(
        self, record_class: type[_R], *conditions: sa.ColumnElement[bool]
    ) -> list[_R]:
        with self._transaction() as connection:
            return rows.read(connection, record_class, *conditions)

    def _read_one(self, record_class: type[_R], **equal: Any) -> _R | None:
        def query(connection: sa.Connection) -> _R | None:
            return rows.read_one(connection, record_class, equal)

        if self._readers is None:
            with self._question(), self._transaction() as connection:
                return query(connection)
        with self._question(), self._translated():
            return self._readers.run(query)

    def _purge(
        self, table: sa.Table, query: sa.Select[Any], epoch: int | None
    ) -> int:

        def delete(connection: sa.Connection) -> int:
            ids = connection.scalars(query).all()
            rows.delete(connection, table.c.id, ids)
            return len(ids)

        if epoch is None:
            return self._change(delete)
        with self._transaction() as connection:
            leadership.lock_epoch(connection, epoch)
            return delete(connection)

    def _fetch(
        self, query: sa.Select[Any], record_class: Callable[..., _R]
    ) -> list[_R]:
        with self._transaction() as connection:
            return rows.fetch(connection, query, record_class)

    @contextlib.contextmanager
    def _question(self, allowed_s: float = SLOW_ANSWER_S) -> Iterator[None]:
        question = object()
        with self._asked_lock:
            self._answer_due_s[question] = time.monotonic() + allowed_s
        try:
            yield
        finally:
            with self._asked_lock:
                del self._answer_due_s[question]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self._translated(), self._engine.begin() as connection:
            yield connection

    def _change(self, work: Callable[[sa.Connection], _R]) -> _R:
        """Run a function in a transaction, for an operator.

        :param work: called again if a transaction of the conductor makes the
            server abort this one.
        """
        with self._translated():
            for _ in range(_TRIES - 1):
                with contextlib.suppress(oslo_exception.DBDeadlock):
                    return self._change_alone(work)
            return self._change_alone(work)

    def _change_alone(self, work: Callable[[sa.Connection], _R]) -> _R:
        with turns.alone(self._engine) as connection:
            return work(connection)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with self._turn:
                yield
        except (
            oslo_exception.DBError,
            sa_exc.SQLAlchemyError,
        ) as error:
            translated = db_engine.translate(error)
            self._unavailable = isinstance(
                translated, exception.DatabaseUnavailable
            )
            raise translated from error
        self._unavailable = False
