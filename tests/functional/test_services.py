# SPDX-License-Identifier: Apache-2.0

"""The servers that other functional tests build on do what they promise."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import oslo_messaging
import pytest
import sqlalchemy
from oslo_config import cfg
from sqlalchemy import exc as sqlalchemy_exc

from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

TOPIC = "test-services"
REPLY_LIMIT_S = 30


@pytest.fixture(scope="session")
def rabbitmq(
    own_rabbitmq: rabbitmq_service.RabbitMQ,
) -> rabbitmq_service.RabbitMQ:
    """Give the broker that tests here harm."""
    return own_rabbitmq


@pytest.fixture(scope="session")
def mariadb(
    own_mariadb: mariadb_service.MariaDB,
) -> mariadb_service.MariaDB:
    """Give the database server that tests here harm."""
    return own_mariadb


class Echo:
    """An RPC endpoint that remembers casts and answers calls."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.heard_one = threading.Event()

    def note(self, _context: dict, text: str) -> None:
        """Remember a text."""
        self.heard.append(text)
        self.heard_one.set()

    def echo(self, _context: dict, text: str) -> str:
        """Return the text."""
        return text


@contextlib.contextmanager
def rpc_client(url: str) -> Iterator[oslo_messaging.RPCClient]:
    """Give a client of the topic."""
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
    try:
        yield oslo_messaging.get_rpc_client(
            transport,
            oslo_messaging.Target(topic=TOPIC),
            timeout=REPLY_LIMIT_S,
        )
    finally:
        transport.cleanup()


@contextlib.contextmanager
def rpc_server(url: str, endpoint: Echo) -> Iterator[None]:
    """Serve the endpoint on the topic."""
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
    server = oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic=TOPIC, server="one"),
        [endpoint],
    )
    server.start()
    try:
        yield
    finally:
        server.stop()
        server.wait()
        transport.cleanup()


def test_messages_reach_the_other_side(transport_url: str) -> None:
    endpoint = Echo()
    with (
        rpc_server(transport_url, endpoint),
        rpc_client(transport_url) as client,
    ):
        assert client.call({}, "echo", text="hello") == "hello"
        client.cast({}, "note", text="noted")
        assert endpoint.heard_one.wait(REPLY_LIMIT_S)
    assert endpoint.heard == ["noted"]


@pytest.mark.long
def test_virtual_hosts_do_not_share_messages(
    rabbitmq: rabbitmq_service.RabbitMQ, transport_url: str
) -> None:
    other_url = rabbitmq.transport_url(rabbitmq.create_vhost())
    here, there = Echo(), Echo()
    with (
        rpc_server(transport_url, here),
        rpc_server(other_url, there),
        rpc_client(other_url) as client,
    ):
        client.cast({}, "note", text="there")
        assert there.heard_one.wait(REPLY_LIMIT_S)
    assert here.heard == []


@pytest.mark.long
def test_broker_keeps_port_and_virtual_hosts_over_a_crash(
    rabbitmq: rabbitmq_service.RabbitMQ, transport_url: str
) -> None:
    port = rabbitmq.port
    rabbitmq.kill()
    assert process.port_is_free(port)
    rabbitmq.start()
    assert rabbitmq.port == port
    with rpc_server(transport_url, Echo()), rpc_client(transport_url) as peer:
        assert peer.call({}, "echo", text="again") == "again"


@contextlib.contextmanager
def database(url: str) -> Iterator[sqlalchemy.Engine]:
    """Give an engine that is disposed of in the end."""
    engine = sqlalchemy.create_engine(
        url, pool_pre_ping=True, connect_args={"read_timeout": 2}
    )
    try:
        yield engine
    finally:
        engine.dispose()


def write_value(engine: sqlalchemy.Engine, value: str) -> None:
    """Keep a value in a table of its own."""
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("CREATE TABLE kept (value VARCHAR(20))")
        )
        connection.execute(
            sqlalchemy.text("INSERT INTO kept VALUES (:value)"),
            {"value": value},
        )


def read_values(engine: sqlalchemy.Engine) -> list[str]:
    """Return the values that were kept."""
    with engine.connect() as connection:
        query = sqlalchemy.text("SELECT value FROM kept")
        return list(connection.execute(query).scalars())


def test_database_is_empty_and_keeps_what_is_written(
    database_url: str,
) -> None:
    with database(database_url) as engine:
        assert sqlalchemy.inspect(engine).get_table_names() == []
        write_value(engine, "größe ✓")
        assert read_values(engine) == ["größe ✓"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_database_keeps_port_and_data(
    mariadb: mariadb_service.MariaDB, database_url: str, how: str
) -> None:
    with database(database_url) as engine:
        write_value(engine, how)
        getattr(mariadb, how)()
        assert not mariadb.running
        with pytest.raises(sqlalchemy_exc.OperationalError):
            read_values(engine)
        mariadb.start()
        assert read_values(engine) == [how]


@pytest.mark.long
def test_paused_database_accepts_but_does_not_answer(
    mariadb: mariadb_service.MariaDB, database_url: str
) -> None:
    with database(database_url) as engine:
        write_value(engine, "kept")
        mariadb.pause()
        with pytest.raises(sqlalchemy_exc.OperationalError):
            read_values(engine)
        mariadb.resume()
        assert read_values(engine) == ["kept"]


def test_fresh_fixture_revives_the_server(
    mariadb: mariadb_service.MariaDB,
    request: pytest.FixtureRequest,
) -> None:
    mariadb.kill()
    with database(request.getfixturevalue("database_url")) as engine:
        assert sqlalchemy.inspect(engine).get_table_names() == []


def test_another_database_leaves_temporary_files_alone(
    mariadb: mariadb_service.MariaDB,
) -> None:
    with mariadb.cursor() as cursor:
        cursor.execute("SELECT @@tmpdir")
        (directory,) = map(pathlib.Path, cursor.fetchone())
    # As the server calls them; it deletes such files when it starts.
    before = directory / "#sql-temptable-of-one-that-crashed.MAD"
    before.touch()
    mariadb.kill()
    mariadb.start()
    assert not before.exists()
    # So nobody else may have its own there.
    assert directory.is_relative_to(mariadb.directory)


ORPHANING_RUN = """
import os, signal, sys
from tests.services import process

# Memory is given back before ports are, and it takes a while.
LISTEN = "memory = b'x' * 2**28; import socket, time;" \\
    " listener = socket.create_server(('127.0.0.1', {port}));" \\
    " time.sleep(3600)"

class Listener(process.Service):
    port = process.free_port()

    def command(self):
        return [sys.executable, "-c", LISTEN.format(port=self.port)]

    def ports(self):
        return (self.port,)

    def is_ready(self):
        return not process.port_is_free(self.port)

workspace = process.Workspace()
listener = Listener("listener", workspace)
listener.start()
print(listener.port, workspace.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_of_a_run_that_was_killed() -> None:
    root = pathlib.Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANING_RUN],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        port, directory = run.stdout.readline().split()
        # The guardian inherits the pipe: its end is this pipe's end.
        assert run.stdout.read() == ""
    assert process.port_is_free(int(port))
    assert not os.path.exists(directory)


def test_missing_program_is_named() -> None:
    with pytest.raises(process.ServiceError, match="package some-server"):
        process.find_program("no-such-server", "some-server")


def test_chosen_ports_are_free_and_differ() -> None:
    first, second = process.free_port(), process.free_port()
    assert first != second
    with socket.create_server((process.LOOPBACK, first)):
        assert not process.port_is_free(first)
    assert process.port_is_free(second)
