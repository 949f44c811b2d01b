# SPDX-License-Identifier: Apache-2.0

"""RabbitMQ and the database by TLS, as the documentation says to set it up."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import urllib.parse
from collections.abc import Iterator

import pymysql
import pytest

from fpgapool import client
from tests.harness import cases
from tests.harness import cloud as clouds
from tests.harness import secured
from tests.harness import waiting
from tests.services import certificates
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

pytestmark = pytest.mark.security

_VHOST = "secured"
_REFUSED = "CERTIFICATE_VERIFY_FAILED"


class Site(secured.Site):
    """A broker and a database that nobody reaches without TLS."""

    def __init__(self, workspace: process.Workspace) -> None:
        super().__init__(workspace)
        self.issue_client("first")
        self.rabbitmq = rabbitmq_service.RabbitMQ(
            workspace, tls=self.authority.issue("rabbitmq")
        )
        self.mariadb = mariadb_service.MariaDB(
            workspace, tls=self.authority.issue("mariadb")
        )
        self.rabbitmq.start()
        self.mariadb.start()
        self.rabbitmq.create_vhost(_VHOST)
        self.database_name = self.mariadb.create_database()

    def issue_client(self, name: str) -> certificates.Pair:
        """Replace the certificate that services show to the broker."""
        return self.authority.issue(name, file="client")

    def database_url(self, ca_path: pathlib.Path) -> str:
        """Return ``[database] connection``, with an authority's file."""
        ca_file = urllib.parse.quote(str(ca_path))
        url = self.mariadb.database_url(self.database_name)
        return f"{url}&ssl_ca={ca_file}"

    def rabbit_options(self, ca_path: pathlib.Path) -> dict[str, object]:
        """Return ``[oslo_messaging_rabbit]``, with an authority's file."""
        return {
            "ssl": True,
            "ssl_ca_file": ca_path,
            "ssl_cert_file": self.directory / "client.crt",
            "ssl_key_file": self.directory / "client.key",
        }


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with process.Workspace() as workspace:
        yield Site(workspace)


@pytest.fixture(scope="module")
def cloud(site: Site) -> Iterator[clouds.Cloud]:
    ca_path = site.authority.path
    with clouds.Cloud(
        site.workspace,
        site.rabbitmq.transport_url(_VHOST),
        site.database_url(ca_path),
        [clouds.HostPlan("board", slots=1), clouds.HostPlan("other", 0)],
        options={"oslo_messaging_rabbit": site.rabbit_options(ca_path)},
    ) as cloud:
        yield cloud


def _runs(cloud: clouds.Cloud, host: str) -> None:
    door = cloud.hosts[host].socket_path()
    text = b"what goes by TLS" * 1000
    output, _report = client.run_buffer("copy", text, front_door=door)
    assert output == text


def test_sessions_run_by_tls(cloud) -> None:
    """Agent, conductor, broker, database and data: all of it encrypted."""
    for host in cloud.hosts:
        _runs(cloud, host)


def test_nobody_is_served_without(site, cloud) -> None:
    """The other tests would see it if a service did not use TLS."""
    with pytest.raises(pymysql.err.MySQLError):
        pymysql.connect(
            host=process.LOOPBACK,
            port=site.mariadb.port,
            user=site.mariadb.user,
            password=site.mariadb.password,
            ssl_disabled=True,
        )
    with socket.create_connection(
        (process.LOOPBACK, site.rabbitmq.port), waiting.LIMIT_S
    ) as sock:
        sock.sendall(b"AMQP\x00\x00\x09\x01")
        # An alert of TLS, not a frame of AMQP.
        assert sock.recv(1) in (b"", b"\x15")


@pytest.mark.parametrize("kind", cases.first("agent", "conductor"))
def test_a_broker_of_another_authority_is_refused(site, cloud, kind) -> None:
    """The service says why, and goes on trying."""
    host = cloud.hosts["other"]
    daemon = cloud.conductor if kind == "conductor" else host.agent
    misled = site.misled(
        daemon,
        f"misled-{kind}",
        {("oslo_messaging_rabbit", "ssl_ca_file"): site.stranger.path},
    )
    if kind == "conductor":
        # It has no reason to look for the broker before it leads.
        cloud.conductor.stop()
    else:
        host.agent.stop()
    try:
        misled.start()
        misled.wait_for_log(_REFUSED)
        assert misled.running
    finally:
        misled.kill()
        daemon.start()
    cloud.wait_ready()
    _runs(cloud, "other")


def test_a_database_of_another_authority_is_refused(site, cloud) -> None:
    """The command says why, and so does a conductor, which goes on trying."""
    url = site.database_url(site.stranger.path)
    misled = site.misled(
        cloud.conductor, "misled-database", {("database", "connection"): url}
    )
    secured.check_sync_is_refused(misled, _REFUSED)
    try:
        misled.start()
        misled.wait_for_log(_REFUSED)
    finally:
        misled.kill()


@pytest.mark.long
def test_a_database_is_checked_by_the_files_as_they_are_now(site) -> None:
    """A pool of connections that is running takes a changed file."""
    site.check_files_are_read_anew(site.database_url, _REFUSED)


@pytest.mark.long
def test_a_database_server_takes_a_new_certificate(site, cloud) -> None:
    """``FLUSH SSL`` is all that it needs; who is connected stays so."""
    site.authority.issue("renewed", file="mariadb")
    with site.mariadb.cursor() as cursor:
        cursor.execute("FLUSH SSL")
        cursor.execute("SELECT 1")
    with site.mariadb.cursor() as cursor:
        cursor.execute("SELECT 1")
    _runs(cloud, "other")


@pytest.mark.long
def test_new_connections_to_the_broker_take_new_files(site, cloud) -> None:
    """The broker sees the renewed certificate of services still running."""

    def subjects() -> set[str]:
        return {
            one["peer_cert_subject"]
            for one in site.rabbitmq.connections(_VHOST)
            if one.get("peer_cert_subject")
        }

    waiting.wait_until(
        lambda: subjects() == {"CN=first"}, "all have the first certificate"
    )
    site.issue_client("second")

    def renewed() -> bool:
        # The broker tells of a new connection some seconds later.
        for one in site.rabbitmq.connections(_VHOST):
            if one.get("peer_cert_subject") == "CN=first":
                # It may have gone meanwhile.
                with contextlib.suppress(process.ServiceError):
                    site.rabbitmq.close_connection(one["name"])
        return subjects() == {"CN=second"}

    waiting.wait_until(renewed, "all have the second certificate")
    for host in cloud.hosts:
        _runs(cloud, host)
