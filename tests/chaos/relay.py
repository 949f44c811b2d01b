# SPDX-License-Identifier: Apache-2.0

"""The way from a daemon to a service, which can stall and break."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.services import process

_PIECE_BYTES = 65536


class Relay:
    """Passes TCP connections on, as long as it is let.

    :param address: where it listens, on a port of its own.
    :param target_port: of the service, on the loopback device.
    """

    def __init__(self, address: str, target_port: int) -> None:
        self._target = (process.LOOPBACK, target_port)
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server = socket.create_server((address, 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Pass nothing on, as a network that is cut; nothing gets lost."""
        self._flows.clear()

    def resume(self) -> None:
        """Pass on what has come meanwhile, and what comes."""
        self._flows.set()

    def drop(self) -> None:
        """Break all connections; new ones can be made at once."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Break all connections and listen no more."""
        with contextlib.suppress(OSError):
            # Else the thread would stay in accept().
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.resume()
        self.drop()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(
                    target=self._serve, args=(near,), daemon=True
                ).start()

    def _serve(self, near: socket.socket) -> None:
        self._flows.wait()
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        pair = {near, far}
        for sock in pair:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= pair
        back = threading.Thread(
            target=self._pass_on, args=(far, near), daemon=True
        )
        back.start()
        self._pass_on(near, far)
        back.join()
        with self._lock:
            self._open -= pair
        for sock in pair:
            sock.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(_PIECE_BYTES):
                self._flows.wait()
                sink.sendall(data)
            # The other direction may have more to pass on.
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for sock in (source, sink):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
