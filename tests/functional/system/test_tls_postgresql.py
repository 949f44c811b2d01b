# SPDX-License-Identifier: Apache-2.0

"""PostgreSQL by TLS, as the documentation says to set it up."""

from __future__ import annotations

import pathlib
import urllib.parse
from collections.abc import Iterator

import psycopg
import pytest

from fpgapool import client
from fpgapool.common import exception
from fpgapool.db import api as db_api
from tests.harness import cloud as clouds
from tests.harness import secured
from tests.harness import waiting
from tests.services import postgresql as postgresql_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

pytestmark = pytest.mark.security

_REFUSED = "certificate verify failed"
_ELSEWHERE = "127.0.0.9"


class Site(secured.Site):
    """A database that nobody reaches without TLS."""

    def __init__(self, workspace: process.Workspace) -> None:
        super().__init__(workspace)
        self.pair = self.authority.issue("postgresql")
        self.postgresql = postgresql_service.PostgreSQL(
            workspace, tls=self.pair
        )
        self.postgresql.start()
        self._database_name = self.postgresql.create_database()

    def database_url(
        self, ca_path: pathlib.Path, mode: str = "verify-full"
    ) -> str:
        """Return ``[database] connection``, with an authority's file."""
        url = self.postgresql.database_url(self._database_name)
        ca_file = urllib.parse.quote(str(ca_path))
        return f"{url}?sslmode={mode}&sslrootcert={ca_file}"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with process.Workspace() as workspace:
        yield Site(workspace)


@pytest.fixture(scope="module")
def cloud(
    site: Site, rabbitmq: rabbitmq_service.RabbitMQ
) -> Iterator[clouds.Cloud]:
    rabbitmq.ensure_running()
    with clouds.Cloud(
        site.workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        site.database_url(site.authority.path),
        [clouds.HostPlan("board", slots=1)],
    ) as cloud:
        yield cloud


def _runs(cloud: clouds.Cloud) -> None:
    door = cloud.hosts["board"].socket_path()
    text = b"what is recorded by TLS" * 1000
    output, _report = client.run_buffer("copy", text, front_door=door)
    assert output == text


def _told(url: str) -> str:
    """Ask the database for something; return why it is not answered."""
    database = db_api.Database(url)
    try:
        with pytest.raises(exception.DatabaseUnavailable) as caught:
            database.accelerators()
    finally:
        database.close()
    return str(caught.value)


def test_sessions_run(site, cloud) -> None:
    """Each connection is encrypted, and that is what the server sees."""
    _runs(cloud)
    database = db_api.Database(site.database_url(site.authority.path))
    try:
        with database.engine.connect() as connection:
            unencrypted = connection.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity"
                " USING (pid) WHERE client_addr IS NOT NULL AND NOT ssl"
            ).scalar()
    finally:
        database.close()
    assert unencrypted == 0


def test_nobody_is_served_without(site) -> None:
    """The other tests would see it if a service did not use TLS."""
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        psycopg.connect(
            host=process.LOOPBACK,
            port=site.postgresql.port,
            user=site.postgresql.user,
            dbname="postgres",
            sslmode="disable",
        )


def test_another_authority_is_refused(site, cloud) -> None:
    """The command says why, and so does a conductor, which goes on trying."""
    url = site.database_url(site.stranger.path)
    misled = site.misled(
        cloud.conductor, "misled-conductor", {("database", "connection"): url}
    )
    secured.check_sync_is_refused(misled, _REFUSED)
    try:
        misled.start()
        misled.wait_for_log(_REFUSED)
        assert misled.running
    finally:
        misled.kill()


def test_another_servers_certificate_is_refused(site, cloud) -> None:
    """The authority is the right one, but that is not who was asked."""
    ca_path = site.authority.path
    site.postgresql.show(site.authority.issue("elsewhere", address=_ELSEWHERE))
    try:
        waiting.wait_until(
            lambda: (
                _is_served(site.database_url(ca_path, "verify-ca"))
                and not _is_served(site.database_url(ca_path))
            ),
            "the server shows the other certificate",
        )
        assert "does not match host name" in _told(site.database_url(ca_path))
    finally:
        site.postgresql.show(site.pair)
    waiting.wait_until(
        lambda: _is_served(site.database_url(ca_path)),
        "the server shows its own certificate",
    )
    _runs(cloud)


def _is_served(url: str) -> bool:
    database = db_api.Database(url)
    try:
        return database.accelerators() is not None
    except exception.DatabaseUnavailable:
        return False
    finally:
        database.close()


@pytest.mark.long
def test_the_files_are_taken_as_they_are_now(site) -> None:
    """A pool of connections that is running takes a changed file."""
    site.check_files_are_read_anew(site.database_url, _REFUSED)


@pytest.mark.long
def test_the_server_takes_a_new_certificate(site, cloud) -> None:
    """Reloading is all that it needs; its services trust the authority."""
    renewed = site.authority.issue("renewed")
    assert site.postgresql.certificate_sha256() == site.pair.sha256
    site.postgresql.show(renewed)
    waiting.wait_until(
        lambda: site.postgresql.certificate_sha256() == renewed.sha256,
        "the server shows the new certificate",
    )
    _runs(cloud)
