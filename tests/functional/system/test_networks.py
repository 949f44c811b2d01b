# SPDX-License-Identifier: Apache-2.0

"""Hosts whose network is cut in the middle of streams.

A cable that is pulled tells nobody: no connection is closed. Each host has a
network of its own here, which only root can give it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.chaos import faulty
from tests.chaos import pool as pools
from tests.chaos import sandbox as sandboxes
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import programs
from tests.harness import waiting
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

# A connection counts as lost after twenty seconds of silence.
pytestmark = pytest.mark.security

CHUNK = clouds.CHUNK_BYTES
SLOTS = 2
REPORT_TIMEOUT_S = 3
#: Within which a client must have noticed, and be elsewhere.
LOST_S = 90.0


class Cloud(clouds.Cloud):
    """A pool whose boards are in hosts with networks of their own.

    :param rabbitmq: is reached through the cable, as is data.
    """

    def __init__(
        self,
        workspace: process.Workspace,
        rabbitmq: rabbitmq_service.RabbitMQ,
        mariadb: mariadb_service.MariaDB,
        **options: clouds.Options,
    ) -> None:
        self._workspace = workspace
        self._services = rabbitmq, mariadb
        self.sandboxes: dict[str, sandboxes.Sandbox] = {}
        self.lines: list[pools.Line] = []
        super().__init__(
            workspace,
            rabbitmq.transport_url(rabbitmq.create_vhost()),
            mariadb.database_url(mariadb.create_database()),
            [
                # The first one is asked how things stand.
                clouds.HostPlan("compute", slots=0),
                clouds.HostPlan("alpha", slots=SLOTS),
                clouds.HostPlan("beta", slots=SLOTS),
            ],
            options=options,
        )

    def options_of(self, daemon: processes.Daemon) -> clouds.Options:
        """Put a host with a board where its cable can be pulled."""
        daemon.wrappers = [faulty.__name__]
        daemon.variables[faulty.VARIABLE] = str(faults_path(daemon))
        for host in self.hosts.values():
            if host.agent is daemon and host.plan.slots:
                return self._cabled(host)
        return {}

    def _cabled(self, host: clouds.Host) -> clouds.Options:
        sandbox = sandboxes.Sandbox(host.agent.name, self._workspace)
        self.sandboxes[host.name] = sandbox
        host.agent.prefix = sandbox.prefix
        rabbitmq, _mariadb = self._services
        line = pools.Line(sandbox.outside, *self._services)
        self.lines.append(line)
        return {
            "DEFAULT": {
                "transport_url": line.through(
                    self.transport_url, line.broker, rabbitmq.port
                )
            },
            "agent": {"data_address": sandbox.inside},
        }

    def stop(self) -> None:
        """End everything, the networks as well."""
        super().stop()
        for line in self.lines:
            line.close()
        for sandbox in self.sandboxes.values():
            sandbox.close()


def faults_path(daemon: processes.Daemon) -> pathlib.Path:
    """Return where a service reads what is wrong in its world."""
    return daemon.directory / "faults.json"


@pytest.fixture(scope="module")
def cloud(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[Cloud]:
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    with Cloud(
        service_workspace,
        rabbitmq,
        mariadb,
        conductor={"report_timeout_s": REPORT_TIMEOUT_S},
        oslo_messaging_rabbit={"heartbeat_timeout_threshold": 4},
    ) as cloud:
        yield cloud


@pytest.fixture
def cables(cloud: Cloud) -> Iterator[dict[str, sandboxes.Sandbox]]:
    """All cables; afterwards nothing may be left over."""
    yield cloud.sandboxes
    for sandbox in cloud.sandboxes.values():
        sandbox.plug_in()
    waiting.wait_until(
        lambda: all(cloud.host_states().values()), "all hosts are back"
    )
    cloud.check_consistent()


def test_a_stateless_stream_moves(cloud, cables, rng) -> None:
    """It goes on at another host's board, and not a byte differs."""
    aes = programs.Aes(rng)
    text = rng.randbytes(16 * CHUNK)
    with cloud.hosts["compute"].door() as door:
        views = [door.open_ready() for _ in range(2 * SLOTS)]
        held = {view["session_id"]: door.attach(view) for view in views}
        on_alpha = [v for v in views if v["slot_host_name"] == "alpha"]
        doors.let_go([held.pop(on_alpha[0]["session_id"])])
        running = programs.Transfer(
            cloud.hosts["compute"].socket_path(),
            text,
            "aes",
            params=aes.params,
        )
        running.run_to(4 * CHUNK)
        doors.let_go(held.values())
    cables["alpha"].unplug()
    report = running.finish(LOST_S)
    assert running.output == aes.encrypt(text)
    assert (report.host, report.reopens) == ("beta", 1)
