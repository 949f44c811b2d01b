# SPDX-License-Identifier: Apache-2.0

"""A way between processes that stalls and breaks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos import relay as relays
from tests.harness import waiting
from tests.services import process


class Echo:
    """A service that returns what it gets."""

    def __init__(self) -> None:
        self.server = socket.create_server((process.LOOPBACK, 0))
        self.port: int = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                sock, _ = self.server.accept()
                threading.Thread(
                    target=self._serve, args=(sock,), daemon=True
                ).start()
        except OSError:
            return

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            while data := sock.recv(65536):
                sock.sendall(data)

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    service = Echo()
    yield service
    service.close()


@pytest.fixture
def relay(echo: Echo) -> Iterator[relays.Relay]:
    one = relays.Relay(process.LOOPBACK, echo.port)
    yield one
    one.close()


@pytest.fixture
def sock(relay: relays.Relay) -> Iterator[socket.socket]:
    with connect(relay) as connected:
        yield connected


def connect(relay: relays.Relay) -> socket.socket:
    return socket.create_connection(
        (process.LOOPBACK, relay.port), waiting.LIMIT_S
    )


def receive(sock: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        piece = sock.recv(size_bytes - len(data))
        assert piece
        data += piece
    return data


def test_everything_is_passed_on(sock: socket.socket) -> None:
    data = bytes(range(256)) * 4096
    sender = threading.Thread(target=sock.sendall, args=(data,))
    sender.start()
    assert receive(sock, len(data)) == data
    sender.join()


def test_the_end_is_passed_on(sock: socket.socket) -> None:
    sock.sendall(b"last")
    sock.shutdown(socket.SHUT_WR)
    assert receive(sock, 4) == b"last"
    assert sock.recv(1) == b""


def test_a_stall_loses_nothing(
    relay: relays.Relay, sock: socket.socket
) -> None:
    sock.sendall(b"before")
    assert receive(sock, 6) == b"before"
    relay.stall()
    sock.sendall(b"meanwhile")
    sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.settimeout(waiting.LIMIT_S)
    relay.resume()
    assert receive(sock, 9) == b"meanwhile"


def test_connections_are_dropped_and_can_be_made_again(
    relay: relays.Relay, sock: socket.socket
) -> None:
    sock.sendall(b"before")
    assert receive(sock, 6) == b"before"
    relay.drop()
    assert sock.recv(1) == b""
    with connect(relay) as again:
        again.sendall(b"after")
        assert receive(again, 5) == b"after"


def test_a_service_that_is_away_hangs_up() -> None:
    relay = relays.Relay(process.LOOPBACK, process.free_port())
    with connect(relay) as sock:
        assert sock.recv(1) == b""
    relay.close()
