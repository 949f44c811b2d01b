# SPDX-License-Identifier: Apache-2.0

"""A second connection for the output, if it can be had."""

import socket

import pytest

from fpgapool import client
from fpgapool.client.sessions import opening
from fpgapool.common.channels import channel

TIMEOUT_S = 60
DATA = bytes(range(256))


@pytest.fixture
def dialed(monkeypatch):
    """The connections to workers; ``fault`` is what the second one has."""
    return Dialed(monkeypatch)


class Dialed:
    def __init__(self, monkeypatch):
        self.count = 0
        self.fault = ""
        self._connect = channel.connect_tcp
        monkeypatch.setattr(channel, "connect_tcp", self._dial)

    def _dial(self, *arguments):
        self.count += 1
        fault = self.fault if self.count == 2 else ""
        if fault == "refused":
            raise ConnectionRefusedError
        sock = self._connect(*arguments)
        if fault == "reset":
            sock.shutdown(socket.SHUT_RDWR)
        return sock


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
    assert dialed.count == connections


@pytest.mark.parametrize("door", ["tcp", "tls"], indirect=True)
@pytest.mark.parametrize("fault", ["refused", "reset"])
def test_one_does_as_well(door, dialed, fault):
    dialed.fault = fault
    assert copy(door, opening.RETURN_FROM_BYTES) == (DATA, 0)
    assert dialed.count == 2


@pytest.mark.parametrize("door", ["shm"], indirect=True)
def test_shared_memory_needs_none(door, dialed):
    assert copy(door, opening.RETURN_FROM_BYTES) == (DATA, 0)
    assert not dialed.count
