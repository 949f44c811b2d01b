# SPDX-License-Identifier: Apache-2.0

"""Connections that are reused between transactions and queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as oslo_exception

# A connection that has been idle for longer than this is not reused. The
# server's own idle limit is longer; see idle_limit_s in
# fpgapool.db.engine.create.
_FRESH_S = 5.0

# Work is retried only if it fails within this time: a quick failure means that
# the server has closed the connection, not that it is frozen.
_PROMPT_S = 1.0

#: Maximum number of idle connections to keep for queries.
_MOST_IDLE = 8

_R = TypeVar("_R")


class KeptConnection:
    """Runs transactions one after the other on the same connection.

    Taking a connection from the pool and returning it costs as many round
    trips to the server as a short transaction.

    :param autocommit: whether each statement is its own transaction, which
        saves the round trip of a commit.
    """

    def __init__(self, engine: sa.Engine, *, autocommit: bool = False) -> None:
        self._engine = engine
        self._autocommit = autocommit
        self._connection: sa.Connection | None = None
        self._used_at_s = 0.0
        self._lock = threading.Lock()

    def run(self, work: Callable[[sa.Connection], _R]) -> _R:
        """Run a function in its own transaction.

        :param work: called again if the server closed the connection since the
            last transaction.
        """
        with self._lock:
            started_s = time.monotonic()
            if not self._is_fresh():
                self._drop()
            may_be_stale = self._connection is not None
            try:
                return self._run(work)
            except oslo_exception.DBConnectionError:
                if (
                    not may_be_stale
                    or time.monotonic() - started_s > _PROMPT_S
                ):
                    raise
            return self._run(work)

    def close(self) -> None:
        """Return the connection to the pool."""
        with self._lock:
            self._drop()

    def _run(self, work: Callable[[sa.Connection], _R]) -> _R:
        if self._connection is None:
            self._connection = self._engine.connect()
            if self._autocommit:
                self._connection.execution_options(
                    isolation_level="AUTOCOMMIT"
                )
        try:
            if self._autocommit:
                result = work(self._connection)
            else:
                with self._connection.begin():
                    result = work(self._connection)
        except BaseException:
            self._drop()
            raise
        self._used_at_s = time.monotonic()
        return result

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._used_at_s <= _FRESH_S

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not self._is_fresh():
            # Do not send a rollback, because the server may be unreachable.
            connection.invalidate()
        connection.close()


class Readers:
    """Runs single queries, also in parallel, on connections that it reuses."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._idle: list[KeptConnection] = []

    def run(self, query: Callable[[sa.Connection], _R]) -> _R:
        """Run a function that executes one query.

        :param query: called again if the server closed the connection.
        """
        try:
            # Use the most recent one, so that the others expire.
            reader = self._idle.pop()
        except IndexError:
            reader = KeptConnection(self._engine, autocommit=True)
        try:
            return reader.run(query)
        finally:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(reader)
            else:
                reader.close()

    def close(self) -> None:
        """Return the connections to the pool."""
        while self._idle:
            self._idle.pop().close()
