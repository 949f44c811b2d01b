# SPDX-License-Identifier: Apache-2.0

"""A second connection for the output, if it can be had."""

import pytest

from fpgapool import client
from fpgapool.client import opening
from fpgapool.common import channel

TIMEOUT_S = 60
DATA = bytes(range(256))


@pytest.fixture
def dialed(monkeypatch):
    """The results of connections to workers; the test adds what fails."""
    connect, results = channel.connect_tcp, []

    def dial(*arguments):
        results.append("")
        if len(results) in dial.failing:
            raise ConnectionRefusedError
        return connect(*arguments)

    dial.failing, dial.results = set(), results
    monkeypatch.setattr(channel, "connect_tcp", dial)
    return dial


def copy(door, size_bytes):
    with client.acc_open(
        "copy", size_bytes, front_door=door.path, timeout_s=TIMEOUT_S
    ) as session:
        session.pin[: len(DATA)] = DATA
        return session.run(len(DATA), timeout_s=TIMEOUT_S), session.reconnects


@pytest.mark.parametrize("door", ["tcp", "tls"], indirect=True)
@pytest.mark.parametrize(("below", "connections"), [(0, 2), (1, 1)])
def test_large_sessions_have_two(door, dialed, below, connections):
    size_bytes = opening.RETURN_FROM_BYTES - below
    assert copy(door, size_bytes) == (DATA, 0)
    assert len(dialed.results) == connections


@pytest.mark.parametrize("door", ["tcp"], indirect=True)
def test_one_does_as_well(door, dialed):
    dialed.failing.add(2)
    assert copy(door, opening.RETURN_FROM_BYTES) == (DATA, 0)
    assert len(dialed.results) == 2


@pytest.mark.parametrize("door", ["shm"], indirect=True)
def test_shared_memory_needs_none(door, dialed):
    assert copy(door, opening.RETURN_FROM_BYTES) == (DATA, 0)
    assert not dialed.results
