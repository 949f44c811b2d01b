# SPDX-License-Identifier: Apache-2.0

"""What programs do not notice: daemons that die and come back."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from tests.harness import cases
from tests.harness import cloud as clouds
from tests.harness import programs

CHUNK = clouds.CHUNK_BYTES


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=2), clouds.HostPlan("compute", slots=0)
    )


@pytest.fixture
def board(cloud) -> Iterator[clouds.Host]:
    """The host with the board; afterwards nothing may be left over."""
    yield cloud.hosts["board"]
    cloud.check_consistent()


@pytest.fixture
def start_transfers(
    cloud, board, rng: random.Random
) -> Callable[[], list[programs.Transfer]]:
    """Give a function that starts a local and a remote transfer."""

    def start() -> list[programs.Transfer]:
        aes = programs.Aes(rng)
        text = rng.randbytes(20 * CHUNK)
        started = []
        for host in cloud.hosts.values():
            transfer = programs.Transfer(
                host.socket_path(), text, "aes", params=aes.params
            )
            transfer.expected = aes.encrypt(text)
            transfer.run_to(4 * CHUNK)
            cloud.wait_session(transfer.session_id, "ACTIVE")
            started.append(transfer)
        return started

    return start


def finish(transfer: programs.Transfer) -> None:
    """Let a transfer end; it must not have noticed anything."""
    report = transfer.finish()
    assert transfer.output == transfer.expected
    assert report.reconnects == 0


def test_agents_killed_while_sessions_run(
    cloud, board, start_transfers
) -> None:
    """Sessions go on without their agents, and end in order without them."""
    local, remote = start_transfers()
    workers = board.workers()
    for host in cloud.hosts.values():
        host.agent.kill()
    for transfer in (local, remote):
        transfer.run_to(8 * CHUNK)
    finish(local)
    for host in cloud.hosts.values():
        host.agent.start()
    cloud.wait_ready()
    assert board.workers() == workers
    cloud.check_consistent(live=1)
    finish(remote)
    for transfer in (local, remote):
        view = cloud.wait_session(transfer.session_id, "CLOSED")
        assert (view["reason"], view["input_bytes"]) == ("OK", 20 * CHUNK)


@pytest.mark.parametrize("how", cases.first("stop", "kill"))
def test_conductor_restarted_while_sessions_run(
    cloud, board, start_transfers, how: str
) -> None:
    """Sessions go on, and end in order, while there is no conductor."""
    local, remote = start_transfers()
    getattr(cloud.conductor, how)()
    for transfer in (local, remote):
        transfer.run_to(8 * CHUNK)
    finish(remote)
    cloud.conductor.start()
    cloud.wait_ready()
    cloud.check_consistent(live=1)
    finish(local)
    for transfer in (local, remote):
        assert cloud.wait_session(transfer.session_id, "CLOSED")["reason"] == (
            "OK"
        )
