# SPDX-License-Identifier: Apache-2.0

"""Outages of the message broker and of the database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.harness import cases
from tests.harness import cloud as clouds
from tests.harness import programs

CHUNK = clouds.CHUNK_BYTES


@pytest.fixture(scope="session")
def rabbitmq(own_rabbitmq):
    """Give the broker that tests here harm."""
    return own_rabbitmq


@pytest.fixture(scope="session")
def mariadb(own_mariadb):
    """Give the server that tests here harm."""
    return own_mariadb


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=2),
        clouds.HostPlan("compute", slots=0),
        options={"agent": {"open_timeout_s": 3}},
    )


@pytest.fixture
def transfers(cloud, rng) -> Iterator[list[programs.Transfer]]:
    """A local and a remote transfer under way."""
    text = rng.randbytes(20 * CHUNK)
    started = [
        programs.Transfer(host.socket_path(), text)
        for host in cloud.hosts.values()
    ]
    for transfer in started:
        transfer.run_to(4 * CHUNK)
        cloud.wait_session(transfer.session_id, "ACTIVE")
    yield started
    for transfer in started:
        transfer.finish()
        assert transfer.output == text
        assert cloud.wait_session(transfer.session_id, "CLOSED")
    for host in cloud.hosts.values():
        output, _report = client.run_buffer(
            "copy", text, front_door=host.socket_path()
        )
        assert output == text
    cloud.check_consistent()


def test_broker_restarted(cloud, transfers, rabbitmq) -> None:
    """Data flows on without the broker, and it is not missed for long."""
    rabbitmq.stop()
    for transfer in transfers:
        transfer.run_to(8 * CHUNK)
    board = cloud.hosts["board"]
    with pytest.raises(client.RequestRejected) as error:
        client.acc_open(
            "copy", 1, front_door=board.socket_path(), verify=False
        )
    assert error.value.code == "CONDUCTOR_UNAVAILABLE"
    transfers[0].finish()
    rabbitmq.start()
    for transfer in transfers[1:]:
        transfer.run_to(12 * CHUNK)


@pytest.mark.parametrize("how", cases.first("kill", "stop"))
def test_database_restarted(cloud, transfers, mariadb, how: str) -> None:
    """Data flows on without the database; requests get a clear answer."""
    getattr(mariadb, how)()
    for transfer in transfers:
        transfer.run_to(8 * CHUNK)
    board = cloud.hosts["board"]
    with pytest.raises(client.RequestRejected) as error:
        client.acc_open("copy", 1, front_door=board.socket_path())
    assert error.value.code == "DATABASE_UNAVAILABLE"
    # The end of a session is remembered until it can be recorded.
    transfers[0].finish()
    mariadb.start()
    for transfer in transfers[1:]:
        transfer.run_to(12 * CHUNK)
