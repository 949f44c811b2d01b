#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Real servers for functional tests, started when the first test asks.

A test may stop, kill or pause a server: the next one that asks for a URL
finds it running.
"""

from collections.abc import Iterator

import pytest

from tests.functional.worker import harness as worker_harness
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service


@pytest.fixture(autouse=True)
def closed_channels() -> Iterator[None]:
    """Leave no connection to a worker open behind a test.

    What fixtures of a module connected before the test stays open.
    """
    with worker_harness.closed_channels():
        yield


@pytest.fixture(scope="session")
def service_workspace() -> Iterator[process.Workspace]:
    """Give the directory of the run's servers; ends them with the run."""
    with process.Workspace() as workspace:
        yield workspace


@pytest.fixture(scope="session")
def rabbitmq(
    service_workspace: process.Workspace,
) -> rabbitmq_service.RabbitMQ:
    """Give the run's own RabbitMQ broker, running."""
    service = rabbitmq_service.RabbitMQ(service_workspace)
    service.start()
    return service


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
def mariadb(service_workspace: process.Workspace) -> mariadb_service.MariaDB:
    """Give the run's own MariaDB server, running."""
    service = mariadb_service.MariaDB(service_workspace)
    service.start()
    return service


@pytest.fixture
def database_url(mariadb: mariadb_service.MariaDB) -> Iterator[str]:
    """Give the ``[database] connection`` of an empty database."""
    mariadb.ensure_running()
    name = mariadb.create_database()
    yield mariadb.database_url(name)
    mariadb.resume()
    if mariadb.running:
        mariadb.drop_database(name)
