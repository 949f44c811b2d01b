# SPDX-License-Identifier: Apache-2.0

import sqlite3
import threading

import pymysql
import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_exception
from sqlalchemy import exc as sa_exc

from fpgapool import conf as fpgapool_conf
from fpgapool.common import exception
from fpgapool.db import api
from fpgapool.db import engine
from fpgapool.db import migration


def _operational_error(original: Exception) -> sa_exc.OperationalError:
    return sa_exc.OperationalError("SELECT secret", {"a": "b"}, original)


def _mysql_error(number: int) -> sa_exc.OperationalError:
    # PyMySQL takes all numbers from 1000 on that it does not know for these.
    return _operational_error(pymysql.err.OperationalError(number, "text"))


def _sqlite_error(code: int, text: str) -> sa_exc.OperationalError:
    original = sqlite3.OperationalError(text)
    original.sqlite_errorcode = code
    return _operational_error(original)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            oslo_exception.DBConnectionError(
                _operational_error(pymysql.err.OperationalError(2013, "gone"))
            ),
            exception.DatabaseUnavailable,
        ),
        (
            oslo_exception.DBConnectionError("away"),
            exception.DatabaseUnavailable,
        ),
        (oslo_exception.DBDeadlock(), exception.DatabaseUnavailable),
        (
            _sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT, "database is locked"),
            exception.DatabaseUnavailable,
        ),
        (
            _sqlite_error(sqlite3.SQLITE_ERROR, "table hosts already exists"),
            exception.DatabaseError,
        ),
        # Disk full; access denied; a statement took too long; read-only.
        (_mysql_error(3), exception.DatabaseUnavailable),
        (_mysql_error(1045), exception.DatabaseUnavailable),
        (_mysql_error(1290), exception.DatabaseUnavailable),
        (_mysql_error(1969), exception.DatabaseUnavailable),
        (_mysql_error(2026), exception.DatabaseUnavailable),
        # There is such a table, key or column; no right to change tables.
        (_mysql_error(1050), exception.DatabaseError),
        (_mysql_error(1061), exception.DatabaseError),
        (_mysql_error(1142), exception.DatabaseError),
        (_mysql_error(1684), exception.DatabaseError),
        (_mysql_error(1054), exception.DatabaseSchemaMismatch),
        (sa_exc.TimeoutError("pool"), exception.DatabaseUnavailable),
        (
            oslo_exception.DBNonExistentTable("hosts"),
            exception.DatabaseSchemaMismatch,
        ),
        (
            sa_exc.ProgrammingError(
                "SELECT", {}, pymysql.err.ProgrammingError(1146, "no table")
            ),
            exception.DatabaseSchemaMismatch,
        ),
        (
            _operational_error(
                sqlite3.OperationalError("no such column: hosts.up")
            ),
            exception.DatabaseSchemaMismatch,
        ),
        (
            oslo_exception.DBDuplicateEntry(["uuid"]),
            exception.DatabaseError,
        ),
        (oslo_exception.DBDataError(), exception.DatabaseError),
    ],
)
def test_errors_are_told_apart(error, expected):
    assert type(engine.translate(error)) is expected


def test_statements_are_not_shown():
    error = _operational_error(sqlite3.OperationalError("disk I/O error"))
    translated = engine.translate(error)
    assert "disk I/O error" in str(translated)
    assert "SELECT secret" not in str(translated)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "foo://host/db",
        "sqlite+nodriver://",
        "mysql+pymysql://u:p@h/?charset=utf8mb4",
        "mariadb+pymysql://u:p@h",
    ],
)
def test_bad_urls_are_refused(url):
    with pytest.raises(exception.ConfigurationError, match="connection"):
        engine.create(url)


def test_a_url_must_be_set():
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("connection", "", group="database")
    with pytest.raises(exception.ConfigurationError, match="not set"):
        api.Database.from_conf(conf)


def test_mysql_gets_safe_defaults():
    subject = engine.create("mariadb+pymysql://u:p@h/d")
    assert subject.dialect.name == "mysql"
    assert subject.url.query["charset"] == "utf8mb4"
    assert subject.url.query["read_timeout"] == "10"


def test_the_operator_knows_better():
    subject = engine.create(
        "mysql+pymysql://u:p@h/d?read_timeout=99&charset=latin1"
    )
    assert subject.url.query["read_timeout"] == "99"
    assert subject.url.query["charset"] == "latin1"


def test_migrations_may_take_their_time():
    subject = engine.create("mysql+pymysql://u:p@h/d", read_timeout_s=None)
    assert "read_timeout" not in subject.url.query


def test_a_database_in_memory_serves_one_thread_at_a_time():
    database = api.Database("sqlite://")
    migration.sync(database.engine)
    lease = database.take_lease("c1", None)
    errors = []

    def renew():
        try:
            for _ in range(50):
                database.renew_lease("c1", lease.epoch)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=renew) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert database.read_lease().renewals == 200
    database.close()


def test_sqlite_is_durable(tmp_path):
    database = api.Database(f"sqlite:///{tmp_path}/fpgapool.sqlite")
    with database.engine.connect() as connection:
        pragmas = {
            name: connection.execute(sa.text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    database.close()
    full = 2
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": full,
        "foreign_keys": 1,
    }


def test_postgresql_gets_safe_defaults():
    subject = engine.create("postgresql+psycopg://u:p@h/d")
    query = subject.url.query
    assert query["connect_timeout"] == "5"
    assert query["tcp_user_timeout"] == "10000"
    assert query["options"].split(" -c ") == [
        "-c lock_timeout=5000",
        "idle_in_transaction_session_timeout=15000",
        "statement_timeout=10000",
    ]


def test_postgresql_options_of_the_operator_win():
    subject = engine.create(
        "postgresql+psycopg://u:p@h/d"
        "?connect_timeout=99&options=-c%20lock_timeout%3D1"
    )
    query = subject.url.query
    assert query["connect_timeout"] == "99"
    # The last one counts.
    assert query["options"].endswith(" -c lock_timeout=1")


def test_postgresql_migrations_may_take_their_time():
    subject = engine.create(
        "postgresql+psycopg://u:p@h/d", read_timeout_s=None
    )
    assert "tcp_user_timeout" not in subject.url.query
    assert "statement_timeout" not in subject.url.query["options"]


@pytest.mark.parametrize(
    ("installed", "driver"),
    [
        ({"psycopg", "psycopg2"}, "psycopg"),
        ({"psycopg"}, "psycopg"),
        ({"psycopg2"}, "psycopg2"),
        (set(), "psycopg"),
    ],
)
def test_postgresql_takes_the_driver_that_is_there(
    monkeypatch, installed, driver
):
    monkeypatch.setattr(engine, "_is_installed", installed.__contains__)
    url = engine._with_postgresql_defaults(
        sa.make_url("postgresql://u:p@h/d"), 1, 1, 1
    )
    assert url.drivername == f"postgresql+{driver}"


class _PostgresqlError(Exception):
    def __init__(self, sqlstate):
        super().__init__("it happened")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [
        ("42P01", exception.DatabaseSchemaMismatch),
        ("42703", exception.DatabaseSchemaMismatch),
        ("55P03", exception.DatabaseUnavailable),
        ("57P01", exception.DatabaseUnavailable),
        ("40001", exception.DatabaseUnavailable),
        ("25006", exception.DatabaseUnavailable),
        ("22001", exception.DatabaseError),
        ("42P07", exception.DatabaseError),
        ("54011", exception.DatabaseError),
        (None, exception.DatabaseError),
    ],
)
def test_postgresql_errors(sqlstate, expected):
    original = _PostgresqlError(sqlstate)
    error = sa_exc.DBAPIError("SELECT", {}, original)
    wrapped = oslo_exception.DBError(error)
    for one in (error, wrapped):
        found = engine.translate(one)
        assert type(found) is expected
        assert "it happened" in str(found)
    if sqlstate is None:
        # It did not come from a server.
        expected = exception.DatabaseUnavailable
    found = engine.translate(_operational_error(original))
    assert type(found) is expected
