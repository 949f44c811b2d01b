# SPDX-License-Identifier: Apache-2.0

import threading
from collections.abc import Callable

import pymysql
import pytest

from fpgapool.common import exception
from fpgapool.db import api
from fpgapool.db import connections
from fpgapool.db import engine as db_engine
from fpgapool.db import migration
from tests.functional.db import factory
from tests.harness import waiting

pytestmark = pytest.mark.dialect


@pytest.fixture(scope="session")
def mariadb(own_mariadb):
    """Give the server that tests here harm."""
    return own_mariadb


@pytest.fixture
def maria(mariadb, database_url):
    """Give a database whose server can be harmed."""
    subject = api.Database(database_url, read_timeout_s=2)
    migration.sync(subject.engine)
    yield subject
    subject.close()


def _changes() -> api.Changes:
    return api.Changes.of([factory.session(1)])


def _kill_connections(url: str) -> int:
    """End all other connections of the database; return their number."""
    parsed = db_engine.create(url).url
    administrator = pymysql.connect(
        host=parsed.host,
        port=parsed.port,
        user=parsed.username,
        password=parsed.password,
        autocommit=True,
    )
    with administrator, administrator.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM information_schema.processlist"
            " WHERE db = %s AND id <> CONNECTION_ID()",
            (parsed.database,),
        )
        ids = [row[0] for row in cursor.fetchall()]
        for id_ in ids:
            cursor.execute(f"KILL {int(id_)}")
    return len(ids)


def _die_in_a_transaction(database: api.Database, url: str) -> None:
    with database._transaction() as connection:
        connection.exec_driver_sql("UPDATE leader_lease SET epoch = 77")
        assert _kill_connections(url) >= 1
        connection.exec_driver_sql("UPDATE leader_lease SET epoch = 78")


def test_tables_that_are_missing(empty_url):
    database = api.Database(empty_url)
    with pytest.raises(exception.DatabaseSchemaMismatch, match="db sync"):
        database.read_lease()
    with pytest.raises(exception.DatabaseSchemaMismatch, match="db sync"):
        database.load()
    database.close()


def test_a_server_that_is_not_there_does_not_hinder_the_start():
    database = api.Database("mysql+pymysql://u:p@127.0.0.1:1/fpgapool")
    with pytest.raises(exception.DatabaseUnavailable) as error:
        database.read_lease()
    assert error.value.code == "DATABASE_UNAVAILABLE"
    assert "u:p" not in str(error.value)


def test_a_directory_that_is_not_there(tmp_path):
    database = api.Database(f"sqlite:///{tmp_path}/nothing/fpgapool.sqlite")
    with pytest.raises(exception.DatabaseUnavailable):
        database.read_lease()


def test_an_idle_connection_that_was_killed_is_replaced(maria, database_url):
    epoch = maria.take_lease("c1", None).epoch
    assert _kill_connections(database_url) >= 1
    maria.commit(epoch, _changes())
    assert len(maria.load().live_sessions) == 1


def test_connections_that_stay_are_replaced_when_killed(maria, database_url):
    epoch = maria.take_lease("c1", None).epoch
    for _ in range(2):
        maria.commit(epoch, _changes())
        assert _kill_connections(database_url) >= 1


def test_idle_connections_that_were_closed_are_no_event(
    maria, database_url, monkeypatch, caplog
):
    epoch = maria.take_lease("c1", None).epoch
    for fresh_s in (60.0, 0.0):
        monkeypatch.setattr(connections, "_FRESH_S", fresh_s)
        maria.commit(epoch, _changes())
        assert _kill_connections(database_url) >= 1
        maria.commit(epoch, _changes())
        assert _kill_connections(database_url) >= 1
    maria.close()
    assert not caplog.records


def test_a_connection_killed_in_a_transaction(maria, database_url):
    epoch = maria.take_lease("c1", None).epoch
    with pytest.raises(exception.DatabaseUnavailable):
        _die_in_a_transaction(maria, database_url)
    assert maria.read_lease().epoch == epoch
    maria.commit(epoch, _changes())
    assert len(maria.load().live_sessions) == 1


def test_a_server_that_was_killed_and_came_back(maria, mariadb):
    epoch = maria.take_lease("c1", None).epoch
    maria.commit(epoch, _changes())
    mariadb.kill()
    with pytest.raises(exception.DatabaseUnavailable):
        maria.renew_lease("c1", epoch)
    with pytest.raises(exception.DatabaseUnavailable):
        maria.commit(epoch, _changes())
    mariadb.start()
    maria.renew_lease("c1", epoch)
    maria.commit(epoch, _changes())
    assert len(maria.load().live_sessions) == 1


def test_a_server_that_does_not_answer_is_given_up(maria, mariadb):
    epoch = maria.take_lease("c1", None).epoch
    mariadb.pause()
    try:
        with pytest.raises(exception.DatabaseUnavailable):
            maria.commit(epoch, _changes())
    finally:
        mariadb.resume()
    maria.commit(epoch, _changes())
    assert len(maria.load().live_sessions) == 1


def test_a_lock_that_is_held_too_long(empty_url):
    holder = api.Database(empty_url)
    waiter = api.Database(empty_url, lock_wait_s=1)
    migration.sync(holder.engine)
    epoch = holder.take_lease("c1", None).epoch
    with holder.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE leader_lease SET epoch = 77")
        with pytest.raises(exception.DatabaseUnavailable):
            waiter.commit(epoch, _changes())
        connection.rollback()
    waiter.commit(epoch, _changes())
    holder.close()
    waiter.close()


def test_writers_take_turns(database, epoch):
    """Two conductors that write at once are fenced, never mixed up."""
    errors = []

    def write(first_id: int) -> None:
        try:
            for id_ in range(first_id, first_id + 20):
                database.commit(epoch, api.Changes.of([factory.session(id_)]))
                database.renew_lease("c1", epoch)
        except Exception as error:
            errors.append(error)

    threads = [
        threading.Thread(target=write, args=(first_id,))
        for first_id in (100, 200, 300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(database.load().live_sessions) == 60
    assert database.read_lease().renewals == 60


def test_a_frozen_server_is_noticed_before_it_times_out(
    mariadb, maria, database_url
):
    patient = api.Database(database_url, read_timeout_s=60)
    assert patient.find_session("p", "r") is None
    assert not patient.failing
    mariadb.pause()
    asked = threading.Thread(target=patient.find_session, args=("p", "r"))
    asked.start()
    waiting.wait_until(lambda: patient.failing, "it is noticed")
    assert asked.is_alive()
    mariadb.resume()
    asked.join()
    assert not patient.failing
    patient.close()


def test_a_process_frozen_in_a_transaction_does_not_keep_the_lease(
    maria, database_url
):
    """A leader that is frozen while it writes can be replaced."""
    lease = maria.take_lease("c1", None)
    frozen = api.Database(database_url, idle_limit_s=1)
    with pytest.raises(exception.DatabaseUnavailable):
        _write_slowly(
            frozen,
            lambda: waiting.wait_until(
                lambda: _takes_lease(maria, lease), "another one is elected"
            ),
        )
    frozen.close()
    assert maria.read_lease().holder == "c2"


def _write_slowly(
    database: api.Database, in_between: Callable[[], object]
) -> None:
    with database._transaction() as connection:
        connection.exec_driver_sql("UPDATE leader_lease SET renewals = 9")
        in_between()


def _takes_lease(database: api.Database, lease: api.Lease) -> bool:
    try:
        return database.take_lease("c2", lease).epoch > lease.epoch
    except exception.DatabaseUnavailable:
        return False
