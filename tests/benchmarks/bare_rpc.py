# SPDX-License-Identifier: Apache-2.0

"""A bare server and client of oslo.messaging: a floor of the control path.

Run as ``python -m tests.benchmarks.bare_rpc URL`` it is a server whose one
method returns what it gets. Nothing of fpgapool is in it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import oslo_messaging as messaging
from oslo_config import cfg

TOPIC = "bare"
LIMIT_S = 30


class Endpoint:
    """The other side."""

    def echo(self, _context: object, text: str) -> str:
        """Return what came."""
        return text


def serve(url: str) -> None:
    """Answer until standard input ends."""
    server = messaging.get_rpc_server(
        messaging.get_rpc_transport(cfg.CONF, url),
        messaging.Target(topic=TOPIC, server="only"),
        [Endpoint()],
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
    server.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()
    server.wait()


class Client:
    """This side."""

    def __init__(self, transport: messaging.Transport) -> None:
        self._client = messaging.get_rpc_client(
            transport,
            messaging.Target(topic=TOPIC, server="only"),
            timeout=LIMIT_S,
        )

    def call(self) -> None:
        """Call once and wait for the answer."""
        text = "x" * 100
        if self._client.call({}, "echo", text=text) != text:
            raise AssertionError("another text came back")


@contextlib.contextmanager
def running(url: str) -> Iterator[Client]:
    """Give a client whose server runs in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    transport = messaging.get_rpc_transport(cfg.CONF, url)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != "serving\n":
            raise RuntimeError("the bare server did not start")
        client = Client(transport)
        client.call()
        yield client
    finally:
        transport.cleanup()
        server.communicate(timeout=LIMIT_S)


def calls_in_threads(client: Client, threads: int, count: int) -> None:
    """Call ``count`` times from each of some threads at once."""

    def work() -> None:
        for _ in range(count):
            client.call()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    serve(sys.argv[1])
