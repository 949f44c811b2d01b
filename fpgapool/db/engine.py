# SPDX-License-Identifier: Apache-2.0

"""Creates database engines, and translates their errors."""

import importlib.util
import sqlite3
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_exception
from oslo_db.sqlalchemy import engines
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import exc as sa_exc

from fpgapool.common import exception

# The timeout for a free connection of the pool, and for a new one.
_CONNECT_WAIT_S = 5

#: Execution options of connections whose transactions lock the SQLite file.
#: Without the lock, a transaction that reads before it writes fails
#: immediately if another one has written meanwhile.
WRITES = {"fpgapool_writes": True}

# Options of [database] that are passed on unchanged.
_PASSED_OPTIONS = (
    "connection_debug",
    "connection_parameters",
    "connection_recycle_time",
    "connection_trace",
    "max_overflow",
    "max_pool_size",
    "mysql_sql_mode",
    "mysql_wsrep_sync_wait",
)


def options_from_conf(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """Return the options of ``[database]`` as arguments for :func:`create`."""
    if not conf.database.connection:
        raise exception.ConfigurationError(
            reason="[database] connection is not set"
        )
    options = {name: conf.database[name] for name in _PASSED_OPTIONS}
    return {"url": conf.database.connection, **options}


def create(
    url: str,
    *,
    read_timeout_s: int | None = 10,
    lock_wait_s: int = 5,
    idle_limit_s: int = 15,
    **options: Any,
) -> sa.Engine:
    """Create an engine; it does not connect yet.

    :param read_timeout_s: time without an answer after which the server is
        considered unreachable; None waits forever, for changes of large
        tables.
    :param lock_wait_s: the time that a statement may wait for locks of other
        transactions.
    :param idle_limit_s: the time after which the server closes an idle
        connection, so that a process that is frozen inside a transaction does
        not keep its locks. The pool replaces closed connections when it needs
        them.
    :raises: ConfigurationError for an unusable URL.
    """
    options.setdefault("mysql_sql_mode", "TRADITIONAL")
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() in ("mysql", "mariadb"):
            if not parsed.database:
                raise sa_exc.ArgumentError("the URL lacks a database name")
            parsed = _with_mysql_defaults(
                parsed, read_timeout_s, lock_wait_s, idle_limit_s
            )
        if parsed.get_backend_name() == "postgresql":
            parsed = _with_postgresql_defaults(
                parsed, read_timeout_s, lock_wait_s, idle_limit_s
            )
        if _is_sqlite_file(parsed):
            return _create_for_file(parsed, lock_wait_s)
        if parsed.get_backend_name() != "sqlite":
            # SQLite in memory has one connection and no pool to wait for.
            options["pool_timeout"] = _CONNECT_WAIT_S
        return engines.create_engine(
            parsed,
            sqlite_fk=True,
            # No retries here, because the callers retry.
            max_retries=0,
            **options,
        )
    except (sa_exc.ArgumentError, ImportError) as error:
        raise exception.ConfigurationError(
            reason=f"[database] connection: {error}"
        ) from error


def _with_mysql_defaults(
    url: sa.URL,
    read_timeout_s: int | None,
    lock_wait_s: int,
    idle_limit_s: int,
) -> sa.URL:
    defaults = {
        "charset": "utf8mb4",
        "connect_timeout": str(_CONNECT_WAIT_S),
        "init_command": (
            f"SET innodb_lock_wait_timeout = {lock_wait_s},"
            f" wait_timeout = {idle_limit_s}"
        ),
    }
    if read_timeout_s is not None:
        defaults["read_timeout"] = str(read_timeout_s)
        defaults["write_timeout"] = str(read_timeout_s)
    # oslo.db translates errors only if the dialect is named "mysql".
    driver = url.drivername.replace("mariadb", "mysql", 1)
    return url.set(drivername=driver, query={**defaults, **url.query})


def _with_postgresql_defaults(
    url: sa.URL,
    read_timeout_s: int | None,
    lock_wait_s: int,
    idle_limit_s: int,
) -> sa.URL:
    if url.drivername == "postgresql":
        # SQLAlchemy's default driver depends on its version.
        old = _is_installed("psycopg2") and not _is_installed("psycopg")
        url = url.set(drivername=f"postgresql+psycopg{'2' if old else ''}")
    if url.get_driver_name() not in ("psycopg", "psycopg2"):
        # Only these drivers accept the parameters below, which are libpq's.
        return url
    settings = {
        "lock_timeout": lock_wait_s,
        "idle_in_transaction_session_timeout": idle_limit_s,
    }
    defaults = {"connect_timeout": str(_CONNECT_WAIT_S)}
    if read_timeout_s is not None:
        settings["statement_timeout"] = read_timeout_s
        defaults["tcp_user_timeout"] = str(read_timeout_s * 1000)
    options = " ".join(f"-c {k}={v * 1000}" for k, v in settings.items())
    query = {**defaults, **url.query}
    # If an option occurs twice, the last one applies.
    query["options"] = f"{options} {url.query.get('options', '')}".strip()
    return url.set(query=query)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _is_sqlite_file(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database not in (
        None,
        "",
        ":memory:",
    )


def _create_for_file(url: sa.URL, lock_wait_s: int) -> sa.Engine:
    """Create an engine that pools its connections, unlike oslo.db's.

    Opening the file and preparing the connection takes longer than most
    transactions.
    """
    engine = sa.create_engine(
        url,
        poolclass=sa.QueuePool,
        pool_timeout=_CONNECT_WAIT_S,
        connect_args={"check_same_thread": False},
    )
    # A committed transaction must survive a power failure, which requires FULL
    # with a write-ahead log.
    pragmas = (
        f"busy_timeout = {lock_wait_s * 1000}",
        "foreign_keys = ON",
        "journal_mode = WAL",
        "synchronous = FULL",
    )

    def prepare(dbapi_connection: Any, _record: Any) -> None:
        # Python's sqlite3 module would begin transactions late, and not for
        # SELECT.
        dbapi_connection.isolation_level = None
        for pragma in pragmas:
            dbapi_connection.execute(f"PRAGMA {pragma}").close()

    def begin(connection: sa.Connection) -> None:
        writes = WRITES.items() <= connection.get_execution_options().items()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", begin)
    exc_filters.register_engine(engine)
    return engine


# A missing table or column, in MariaDB and MySQL.
_MYSQL_SCHEMA_ERRORS = frozenset({1146, 1054})
# In PostgreSQL: undefined_table, undefined_column.
_POSTGRESQL_SCHEMA_ERRORS = frozenset({"42P01", "42703"})
_SQLITE_SCHEMA_ERRORS = ("no such column", "has no column named")

# Errors that are temporary, or that an operator can fix on the server, so that
# the same statement may succeed later.
_MYSQL_PASSING_ERRORS = frozenset(
    {
        # Memory or a disk is full, or has failed.
        *(1021, 1026, 1030, 1037, 1038, 1041, 1114, 1206),
        # The server refuses the connection, the user or the database.
        *(1040, 1042, 1043, 1044, 1045, 1049, 1129, 1130, 1203, 1226, 1698),
        # The server shuts down, the network has failed, a node is not ready,
        # or is read-only.
        *(1047, 1053, 1152, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 3168),
        *(1290, 1792, 1836, 1927, 3169, 4031),
        # Other transactions block it, or the statement took too long.
        *(1020, 1180, 1205, 1213, 1317, 1969, 3024, 3101),
    }
)
# Codes below the first number are errors of the server's files and memory, and
# codes in the range are errors of the connection.
_MYSQL_FIRST_OF_STATEMENTS = 1000
_MYSQL_OF_CONNECTIONS = range(2000, 3000)
# Classes of such errors in PostgreSQL, and single ones: connection exception,
# read-only transaction, invalid authorization, transaction rollback, invalid
# catalog name, insufficient resources, object not in prerequisite state
# (locks), operator intervention (timeouts, shutdown), system error.
_POSTGRESQL_PASSING_CLASSES = (
    *("08", "25006", "28", "40", "3D"),
    *("53", "55", "57", "58"),
)
_SQLITE_PASSING_ERRORS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


def translate(error: Exception) -> exception.DatabaseError:
    """Translate an error of SQLAlchemy or oslo.db into one of fpgapool."""
    original = _original(error)
    # Leave out the statement and its parameters, which SQLAlchemy appends.
    reason = str(original)
    if isinstance(
        error, oslo_exception.DBNonExistentTable
    ) or _is_schema_error(original):
        return exception.DatabaseSchemaMismatch(reason=reason)
    if isinstance(
        error,
        oslo_exception.DBConnectionError
        | oslo_exception.DBDeadlock
        | oslo_exception.DBNonExistentDatabase
        | sa_exc.TimeoutError,
    ) or _is_passing(error, original):
        return exception.DatabaseUnavailable(reason=reason)
    return exception.DatabaseError(reason=reason)


def is_locked_file(error: Exception) -> bool:
    """Return whether another process holds the lock of an SQLite file."""
    return _sqlite_code(_original(error)) == sqlite3.SQLITE_BUSY


def _original(error: Exception) -> BaseException:
    """Return the driver's error that caused a translated one."""
    inner = _of_sqlalchemy(error)
    return getattr(inner, "orig", None) or inner


def _of_sqlalchemy(error: Exception) -> BaseException:
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, BaseException) else error


def _is_schema_error(original: BaseException) -> bool:
    if isinstance(original, sqlite3.Error):
        return any(text in str(original) for text in _SQLITE_SCHEMA_ERRORS)
    number = _mysql_number(original)
    if number is not None:
        return number in _MYSQL_SCHEMA_ERRORS
    return _sqlstate(original) in _POSTGRESQL_SCHEMA_ERRORS


def _is_passing(error: Exception, original: BaseException) -> bool:
    if isinstance(original, sqlite3.Error):
        return _sqlite_code(original) in _SQLITE_PASSING_ERRORS
    number = _mysql_number(original)
    if number is not None:
        return (
            number in _MYSQL_PASSING_ERRORS
            or number < _MYSQL_FIRST_OF_STATEMENTS
            or number in _MYSQL_OF_CONNECTIONS
        )
    if state := _sqlstate(original):
        return state.startswith(_POSTGRESQL_PASSING_CLASSES)
    # If the server could not be reached, there is no code.
    return isinstance(_of_sqlalchemy(error), sa_exc.OperationalError)


def _sqlite_code(original: BaseException) -> int | None:
    code = getattr(original, "sqlite_errorcode", None)
    # The higher bits contain details.
    return None if code is None else code & 0xFF


def _mysql_number(original: BaseException) -> int | None:
    number = original.args[0] if original.args else None
    return number if isinstance(number, int) else None


def _sqlstate(original: BaseException) -> str:
    """Return PostgreSQL's code of an error; empty if it has none."""
    for name in ("sqlstate", "pgcode"):
        if code := getattr(original, name, None):
            return str(code)
    return ""
