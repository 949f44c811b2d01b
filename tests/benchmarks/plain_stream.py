# SPDX-License-Identifier: Apache-2.0

"""Floor of sessions over a network: bytes to another process and back.

Sockets, and two threads on either side; the peer is what
``python -m tests.benchmarks.plain_stream`` runs. Each direction has a
connection of its own, since two threads must not use one TLS object at once.
"""

from __future__ import annotations

import queue
import socket
import ssl
import subprocess
import sys
import threading

from fpgapool.accelerators import aes
from fpgapool.agent.child import certificate
from tests.benchmarks import measure
from tests.benchmarks import usage

WINDOW_CHUNKS = 8
AES_PARAMS = {"key": "00" * 32, "iv": "00" * 16}


class Stream:
    """A peer that sends back what it gets.

    :param core: ``aes`` if the peer encrypts, ``copy`` if it does nothing.
    :param tls: whether the connections are encrypted.
    """

    def __init__(self, core: str, tls: bool, chunk_bytes: int) -> None:
        arguments = [core, "tls" if tls else "tcp", str(chunk_bytes)]
        self._peer = subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            stdout=subprocess.PIPE,
        )
        assert self._peer.stdout is not None
        port = int(self._peer.stdout.readline())
        self._out = _connect(port, tls)
        self._back = _connect(port, tls)

    def run(
        self, pieces: list[memoryview], places: list[memoryview]
    ) -> measure.Sample:
        """Send pieces, and take each back into its place.

        :returns: megabytes per second of one direction.
        """
        window = threading.Semaphore(WINDOW_CHUNKS)

        def send() -> None:
            for piece in pieces:
                window.acquire()
                self._out.sendall(piece)

        sender = threading.Thread(target=send)
        meter = usage.Meter(self._peer.pid)
        sender.start()
        for place in places:
            _fill(self._back, place)
            window.release()
        sample = meter.rate(sum(len(piece) for piece in pieces) / 1e6)
        sender.join()
        return sample

    def close(self) -> None:
        """End the peer."""
        self._out.close()
        self._back.close()
        self._peer.communicate()


def _connect(port: int, tls: bool) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    if not tls:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(sock)


def _fill(sock: socket.socket, place: memoryview) -> bool:
    """Receive until a place is full; return whether anything came."""
    flags = 0 if isinstance(sock, ssl.SSLSocket) else socket.MSG_WAITALL
    while place:
        received_bytes = sock.recv_into(place, 0, flags)
        if not received_bytes:
            return False
        place = place[received_bytes:]
    return True


def _accept(listener: socket.socket, transport: str) -> socket.socket:
    sock, _ = listener.accept()
    if transport == "tcp":
        return sock
    context = certificate.Certificate().context()
    return context.wrap_socket(sock, server_side=True)


def _serve(core: str, transport: str, chunk_bytes: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    receiving, sending = (_accept(listener, transport) for _ in range(2))
    free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
    full: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
    for _ in range(WINDOW_CHUNKS):
        free.put(memoryview(bytearray(chunk_bytes)))

    def send() -> None:
        encrypt = aes.AesCore(AES_PARAMS).process
        result = memoryview(bytearray(chunk_bytes))
        offset_bytes = 0
        while (piece := full.get()) is not None:
            if core == "aes":
                encrypt(piece, result, offset_bytes)
                offset_bytes += chunk_bytes
                sending.sendall(result)
            else:
                sending.sendall(piece)
            free.put(piece)

    sender = threading.Thread(target=send)
    sender.start()
    while _fill(receiving, piece := free.get()):
        full.put(piece)
    full.put(None)
    sender.join()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
