# SPDX-License-Identifier: Apache-2.0

"""Servers for benchmarks: started once for a process, ended with it."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from tests.harness import cloud as clouds
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service


@functools.cache
def workspace() -> process.Workspace:
    """Return the directory of everything that is started."""
    made = process.Workspace()
    atexit.register(made.close)
    return made


@functools.cache
def rabbitmq() -> rabbitmq_service.RabbitMQ:
    """Return the process's broker, running."""
    service = rabbitmq_service.RabbitMQ(workspace())
    service.start()
    return service


@functools.cache
def mariadb() -> mariadb_service.MariaDB:
    """Return the process's database server, running.

    It flushes each transaction to the disk, as in production.
    """
    service = mariadb_service.MariaDB(workspace(), durable=True)
    service.start()
    return service


@contextlib.contextmanager
def transport_url() -> Iterator[str]:
    """Give an empty virtual host of the broker."""
    broker = rabbitmq()
    vhost = broker.create_vhost()
    yield broker.transport_url(vhost)
    broker.delete_vhost(vhost)


@contextlib.contextmanager
def database_url() -> Iterator[str]:
    """Give an empty database."""
    server = mariadb()
    name = server.create_database()
    yield server.database_url(name)
    server.drop_database(name)


@contextlib.contextmanager
def running_cloud(
    *hosts: clouds.HostPlan, database: str | None = None, **arguments: Any
) -> Iterator[clouds.Cloud]:
    """Give a pool of real processes, with the options that operators get.

    :param database: URL; None for an empty one of MariaDB.
    """
    with contextlib.ExitStack() as stack:
        if database is None:
            database = stack.enter_context(database_url())
        cloud = clouds.Cloud(
            workspace(),
            stack.enter_context(transport_url()),
            database,
            hosts,
            **{"hurried": False, **arguments},
        )
        yield stack.enter_context(cloud)
