# SPDX-License-Identifier: Apache-2.0

"""Floor of small tasks: messages to another process and back.

``python -m tests.benchmarks.plain_pingpong`` is what the peer runs.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time


class PingPong:
    """A peer that sends back each message.

    :param unix: whether by a Unix socket, else by TCP.
    """

    def __init__(self, unix: bool, message_bytes: int) -> None:
        listener = _listen(unix)
        fd = listener.fileno()
        self._peer = subprocess.Popen(
            [sys.executable, "-m", __name__, str(fd), str(message_bytes)],
            pass_fds=[fd],
        )
        self._sock = socket.socket(listener.family)
        self._sock.connect(listener.getsockname())
        listener.close()
        _tune(self._sock)
        self._message = bytes(message_bytes)
        self._place = memoryview(bytearray(message_bytes))
        self.pid = self._peer.pid

    def one_at_a_time(self, count: int) -> list[float]:
        """Return how long each exchange took, in seconds."""
        taken_s = []
        for _ in range(count):
            started_s = time.perf_counter()
            self._sock.sendall(self._message)
            self._sock.recv_into(self._place, 0, socket.MSG_WAITALL)
            taken_s.append(time.perf_counter() - started_s)
        return taken_s

    def pipelined(self, count: int, window: int) -> list[float]:
        """Return how long each took, as part of all, in seconds.

        :param window: how many may be on their way.
        """
        room = threading.Semaphore(window)

        def send() -> None:
            for _ in range(count):
                room.acquire()
                self._sock.sendall(self._message)

        sender = threading.Thread(target=send)
        started_s = time.perf_counter()
        sender.start()
        for _ in range(count):
            self._sock.recv_into(self._place, 0, socket.MSG_WAITALL)
            room.release()
        taken_s = time.perf_counter() - started_s
        sender.join()
        return [taken_s / count]

    def close(self) -> None:
        """End the peer."""
        self._sock.close()
        self._peer.wait()


def _listen(unix: bool) -> socket.socket:
    if not unix:
        return socket.create_server(("127.0.0.1", 0))
    listener = socket.socket(socket.AF_UNIX)
    # The kernel makes up a name.
    listener.bind("")
    listener.listen()
    return listener


def _tune(sock: socket.socket) -> None:
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _serve(listener: socket.socket, message_bytes: int) -> None:
    sock, _ = listener.accept()
    _tune(sock)
    place = bytearray(message_bytes)
    while sock.recv_into(place, 0, socket.MSG_WAITALL):
        sock.sendall(place)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
