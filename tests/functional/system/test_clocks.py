# SPDX-License-Identifier: Apache-2.0

"""Clocks that are an hour wrong, on one host or another."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.chaos import faulty
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import programs
from tests.harness import waiting
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

# In the gate: tests/unit/common/test_clock.py, and tests/world.
pytestmark = pytest.mark.long

CHUNK = clouds.CHUNK_BYTES
HOUR_S = 3600.0
AGREES = "The clock of host {} agrees"
WRONG = "The clock of host {} is 3"


class Cloud(clouds.Cloud):
    """A pool each of whose services can have another clock."""

    def options_of(self, daemon: processes.Daemon) -> clouds.Options:
        """Have it run where its clock can be wrong."""
        daemon.wrappers = [faulty.__name__]
        daemon.variables[faulty.VARIABLE] = str(_path(daemon))
        return {}


def _path(daemon: processes.Daemon) -> pathlib.Path:
    return daemon.directory / "faults.json"


@pytest.fixture(scope="module")
def cloud(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[clouds.Cloud]:
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    with Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        [clouds.HostPlan("board", slots=2), clouds.HostPlan("compute", 0)],
        # After their clocks were set back, it takes some reports.
        options={"agent": {"report_interval_s": 0.2}},
    ) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def api(
    cloud: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[harness.Server]:
    server = harness.Server("api-clocks", cloud, service_workspace)
    server.start()
    yield server
    server.kill()


@contextlib.contextmanager
def wrong(daemon: processes.Daemon, ahead_s: float) -> Iterator[None]:
    """Have a service's wall clock be wrong for a while."""
    faulty.Faults(clock_s=ahead_s).write(_path(daemon))
    try:
        yield
    finally:
        _path(daemon).unlink()


def _wait_for_news(conductor: processes.Daemon, text: str, seen: int) -> None:
    waiting.wait_until(
        lambda: text in conductor.log()[seen:], f"the leader logs {text!r}"
    )


def _runs(host: clouds.Host) -> None:
    text = b"what time is it" * 1000
    output, _report = client.run_buffer(
        "copy", text, front_door=host.socket_path()
    )
    assert output == text


def _check_times(cloud: clouds.Cloud, view: dict) -> None:
    """All is within the session's life, by whichever clock it was told.

    What an agent tells is as exact as a message is fast, so that a session
    may seem to have started a little before it was ready.
    """
    record = cloud.session_record(view["request_id"])
    for time_s in (record.ready_at, record.started_at):
        assert record.queued_at <= time_s <= record.finished_at


@pytest.mark.parametrize("ahead_s", [-HOUR_S, HOUR_S])
@pytest.mark.parametrize("name", ["compute", "board"])
def test_a_host(cloud, api, rng, name: str, ahead_s: float) -> None:
    """Its programs are served, and whoever runs or waits notices nothing."""
    text = rng.randbytes(8 * CHUNK)
    hosts = cloud.hosts
    seen = len(cloud.conductor.log())
    running = programs.Transfer(hosts["compute"].socket_path(), text)
    running.run_to(2 * CHUNK)
    with hosts["compute"].door() as door:
        (held,) = doors.hold_slots(door, 1)
        waiter = door.open()
        door.wait_state(waiter, "QUEUED")
        with wrong(hosts[name].agent, ahead_s):
            _wait_for_news(cloud.conductor, WRONG.format(name), seen)
            later = door.open()
            door.wait_state(later, "QUEUED")
            doors.let_go([held])
            for request in (waiter, later):
                view = door.wait_state(request, "READY")
                doors.let_go([door.attach(view)])
                door.wait_state(request, "CLOSED")
                _check_times(cloud, view)
            for host in hosts.values():
                _runs(host)
            session = api.open_until_ready()
            assert api.close(session["id"]) in (202, 204)
            running.run_to(4 * CHUNK)
            seen = len(cloud.conductor.log())
        _wait_for_news(cloud.conductor, AGREES.format(name), seen)
        _runs(hosts[name])
    report = running.finish()
    assert (running.output, report.reconnects) == (text, 0)
    cloud.check_consistent()


@pytest.mark.parametrize("ahead_s", [-HOUR_S, HOUR_S])
def test_a_conductor(cloud, api, rng, ahead_s: float) -> None:
    """The next leader's clock makes nobody's request too old, or late."""
    text = rng.randbytes(8 * CHUNK)
    running = programs.Transfer(cloud.hosts["compute"].socket_path(), text)
    running.run_to(2 * CHUNK)
    with cloud.hosts["compute"].door() as door:
        (held,) = doors.hold_slots(door, 1)
        requests = [door.open(wait_timeout_s=HOUR_S / 2)]
        door.wait_state(requests[0], "QUEUED")
        with wrong(cloud.conductor, ahead_s):
            _restart(cloud)
            requests.append(door.open(wait_timeout_s=HOUR_S / 2))
            door.wait_state(requests[1], "QUEUED")
            waits = api.open(wait_timeout_s=HOUR_S / 2).session
            assert waits["state"] == "QUEUED"
            running.run_to(4 * CHUNK)
        _restart(cloud)
        assert api.show(waits["id"]).session["state"] == "QUEUED"
        doors.let_go([held])
        for request in requests:
            view = door.wait_state(request, "READY")
            doors.let_go([door.attach(view)])
            door.wait_state(request, "CLOSED")
            _check_times(cloud, view)
        api.wait(waits, "READY")
        assert api.close(waits["id"]) in (202, 204)
    report = running.finish()
    assert (running.output, report.reconnects) == (text, 0)
    cloud.check_consistent()


def _restart(cloud: clouds.Cloud) -> None:
    cloud.conductor.stop()
    cloud.conductor.start()
    cloud.wait_ready()
