# SPDX-License-Identifier: Apache-2.0

"""What programs can rely on while the pool itself is well."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.harness import cloud as clouds
from tests.harness import programs

SLOTS = 4
CHUNK = clouds.CHUNK_BYTES


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        clouds.HostPlan("compute", slots=0),
        options={"conductor": {"resume_grace_s": 3}},
    )


@pytest.fixture
def board(cloud) -> Iterator[clouds.Host]:
    """The host with the board; afterwards nothing may be left over."""
    yield cloud.hosts["board"]
    cloud.check_consistent()


@pytest.fixture
def compute(cloud, board) -> clouds.Host:
    return cloud.hosts["compute"]


def test_ten_clients_at_once(
    cloud, board, compute, tmp_path, rng: random.Random
) -> None:
    """Ten programs get what they asked for, wherever their slots are."""

    def run(number: int, host: clouds.Host, aes: programs.Aes):
        source = tmp_path / f"in{number}"
        project = (clouds.PROJECT, clouds.OTHER_PROJECT)[number // 2 % 2]
        certificates = set()

        def on_state(view: client.SessionView) -> None:
            if view.state == "READY":
                certificates.add(view.certificate_sha256)

        report = client.run_file(
            "aes",
            source,
            tmp_path / f"out{number}",
            front_door=host.socket_path(project),
            params=aes.params,
            on_state=on_state,
        )
        return report, certificates

    keys = [programs.Aes(rng) for _ in range(10)]
    texts = [rng.randbytes(rng.randrange(1, 40 * CHUNK)) for _ in keys]
    runs = []
    for number, (aes, text) in enumerate(zip(keys, texts, strict=True)):
        pathlib.Path(tmp_path / f"in{number}").write_bytes(text)
        host = (board, compute)[number % 2]
        runs.append(
            programs.Background(lambda n=number, h=host, a=aes: run(n, h, a))
        )
    for number, one in enumerate(runs):
        report, certificates = one.result()
        output = (tmp_path / f"out{number}").read_bytes()
        assert output == keys[number].encrypt(texts[number])
        assert report.local == (number % 2 == 0)
        assert report.host == "board"
        # What crosses the network is encrypted by a pinned certificate.
        assert None not in certificates


@pytest.mark.parametrize("where", ["board", "compute"])
def test_worker_killed(cloud, board, where, rng) -> None:
    """Work that keeps no state goes on in another slot, if one dies."""
    text = rng.randbytes(20 * CHUNK)
    path = cloud.hosts[where].socket_path()
    victim, other = (programs.Transfer(path, text) for _ in range(2))
    for transfer in (victim, other):
        transfer.run_to(4 * CHUNK)
    view = cloud.wait_session(victim.session_id, "ACTIVE")
    board.worker(view["slot"]).kill()
    report = victim.finish()
    assert victim.output == text
    assert report.reopens == 1
    # Nobody else has noticed.
    report = other.finish()
    assert other.output == text
    assert (report.reconnects, report.reopens) == (0, 0)
