# SPDX-License-Identifier: Apache-2.0

"""Settings for every kind of test, and real servers for those that ask.

All processes of the gate share one server of each kind, which the gate has
started. Elsewhere a process starts its own when the first test asks. A test
may stop, kill or pause its process's own servers, ``own_...``: the next one
that asks for a URL finds them running.
"""

import gc
import os
import pathlib
import secrets
import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import loadscope

from fpgapool.common import interrupts
from tests.services import mariadb as mariadb_service
from tests.services import postgresql as postgresql_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import shared

# No deadlines: how long an example takes says something about the machine,
# not about the code.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("full", deadline=None, derandomize=True)
# Half of them: each run of the gate plays the same ones.
hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50
)
# Twenty times as many; for the tests that are named test_fuzz_….
hypothesis.settings.register_profile(
    "long", deadline=None, print_blob=True, max_examples=2000
)


def _profile_name() -> str:
    default = "ci" if os.environ.get("CI") else "dev"
    return os.environ.get("HYPOTHESIS_PROFILE", default)


#: How many new objects make the garbage collector look. A run keeps a million
#: of them; as often as usual it would take a quarter of the time.
_OBJECTS_TO_COLLECT = 50_000


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the profile, and choose a seed that can be named afterwards."""
    hypothesis.settings.load_profile(_profile_name())
    gc.set_threshold(_OBJECTS_TO_COLLECT)
    # The accelerators of the person who runs the tests are not ours.
    os.environ.pop("FPGAPOOL_ACCELERATORS_DIR", None)
    # A job in the background of a script, or of nohup, ignores some of them,
    # and so would all programs that tests start and interrupt.
    for number in interrupts.SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random = not hypothesis.settings().derandomize
    if random and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Any
) -> loadscope.LoadScopeScheduling:
    """Share the files of tests out to the processes that run them."""
    return _Files(config, log)


class _Files(loadscope.LoadScopeScheduling):
    """A file is run by one process, as fixtures of modules want it.

    All integration tests are, so that there is one Keystone, not two.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/integration/"):
            return "tests/integration"
        return nodeid.partition("::")[0]


def pytest_collection_finish() -> None:
    """Take what lasts as long as the run out of the collector's sight.

    Collections then take milliseconds.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Name what is needed to repeat this run's random examples."""
    if config.option.hypothesis_seed is None:
        return f"hypothesis: profile {_profile_name()}, always the same"
    seed = config.option.hypothesis_seed
    return f"hypothesis: repeat with --hypothesis-seed={seed}"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of the person who runs the tests out of them."""
    monkeypatch.delenv("FPGAPOOL_SOCKET", raising=False)


@pytest.fixture(scope="session")
def service_workspace() -> Iterator[process.Workspace]:
    """Give the directory of the run's servers; ends them with the run."""
    with process.Workspace() as workspace:
        yield workspace


@pytest.fixture(scope="session")
def shared_servers() -> shared.Borrower | None:
    """Give what finds the servers that processes share; None without."""
    file = os.environ.get(shared.VARIABLE)
    return None if file is None else shared.Borrower(pathlib.Path(file))


@pytest.fixture(scope="session")
def own_rabbitmq(
    service_workspace: process.Workspace,
) -> rabbitmq_service.RabbitMQ:
    """Give this process's own RabbitMQ broker, running; it may be harmed."""
    service = rabbitmq_service.RabbitMQ(service_workspace)
    service.start()
    return service


@pytest.fixture(scope="session")
def rabbitmq(
    request: pytest.FixtureRequest, shared_servers: shared.Borrower | None
) -> rabbitmq_service.RabbitMQ:
    """Give a RabbitMQ broker, running; modules that harm it replace this."""
    if shared_servers is not None:
        return rabbitmq_service.RabbitMQ(shared_servers)
    own: rabbitmq_service.RabbitMQ = request.getfixturevalue("own_rabbitmq")
    return own


@pytest.fixture
def transport_url(rabbitmq: rabbitmq_service.RabbitMQ) -> Iterator[str]:
    """Give the ``transport_url`` of an empty virtual host."""
    rabbitmq.ensure_running()
    vhost = rabbitmq.create_vhost()
    yield rabbitmq.transport_url(vhost)
    rabbitmq.resume()
    if rabbitmq.running:
        rabbitmq.delete_vhost(vhost)


@pytest.fixture(scope="session")
def own_mariadb(
    service_workspace: process.Workspace,
) -> mariadb_service.MariaDB:
    """Give this process's own MariaDB server, running; it may be harmed."""
    service = mariadb_service.MariaDB(service_workspace)
    service.start()
    return service


@pytest.fixture(scope="session")
def mariadb(
    request: pytest.FixtureRequest, shared_servers: shared.Borrower | None
) -> mariadb_service.MariaDB:
    """Give a MariaDB server, running; modules that harm it replace this."""
    if shared_servers is not None:
        return mariadb_service.MariaDB(shared_servers)
    own: mariadb_service.MariaDB = request.getfixturevalue("own_mariadb")
    return own


@pytest.fixture
def database_url(mariadb: mariadb_service.MariaDB) -> Iterator[str]:
    """Give the ``[database] connection`` of an empty database."""
    mariadb.ensure_running()
    name = mariadb.create_database()
    yield mariadb.database_url(name)
    mariadb.resume()
    if mariadb.running:
        mariadb.drop_database(name)


@pytest.fixture(scope="session")
def own_postgresql(
    service_workspace: process.Workspace,
) -> postgresql_service.PostgreSQL:
    """Give this process's own PostgreSQL server, running; it may be harmed."""
    service = postgresql_service.PostgreSQL(service_workspace)
    service.start()
    return service


@pytest.fixture(scope="session")
def postgresql(
    request: pytest.FixtureRequest, shared_servers: shared.Borrower | None
) -> postgresql_service.PostgreSQL:
    """Give a PostgreSQL server, running; modules that harm it replace this."""
    if shared_servers is not None:
        return postgresql_service.PostgreSQL(shared_servers)
    own: postgresql_service.PostgreSQL = request.getfixturevalue(
        "own_postgresql"
    )
    return own


@pytest.fixture
def postgresql_url(
    postgresql: postgresql_service.PostgreSQL,
) -> Iterator[str]:
    """Give the ``[database] connection`` of an empty database."""
    postgresql.ensure_running()
    name = postgresql.create_database()
    yield postgresql.database_url(name)
    postgresql.resume()
    if postgresql.running:
        postgresql.drop_database(name)
