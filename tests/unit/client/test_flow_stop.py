# SPDX-License-Identifier: Apache-2.0

"""A flow that is stopped while it is being repaired."""

from __future__ import annotations

import socket
import threading
from concurrent import futures

import pytest

from fpgapool.client import cancel
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import flow as flows
from fpgapool.common.channels import channel

TIMEOUT_S = 30.0
CHUNK_BYTES = 4096
OPENED = {
    "resume_secret": "secret",
    "chunk_bytes": CHUNK_BYTES,
    "window_bytes": CHUNK_BYTES,
    "input_offset": 0,
    "output_offset": 0,
}


class Door:
    """A front door that is not asked."""

    def shutdown(self) -> None:
        pass


class Dialer:
    """Connects again while another thread stops the flow."""

    features: frozenset[str] = frozenset()
    view = views.SessionView("s", "READY")

    def __init__(self, fresh: connections.Connection) -> None:
        self._fresh = fresh
        self.flow: flows.Flow | None = None

    def hang_up(self, data: channel.Channel) -> None:
        data.close()

    def resume(self, *_arguments: object) -> connections.Connection:
        assert self.flow is not None
        self.flow.stop()
        return self._fresh


def connected(sock: socket.socket) -> connections.Connection:
    opened = connections.Opened.from_document(OPENED)
    return connections.Connection(channel.PlainChannel(sock), opened, None)


@pytest.mark.parametrize("breaks", [True, False])
def test_a_stopped_flow_does_not_wait_on_its_new_connection(breaks) -> None:
    first, worker = socket.socketpair()
    second, other_worker = socket.socketpair()
    token = cancel.CancelToken()
    dialer = Dialer(connected(second))
    seeker = waiting.SlotSeeker(Door(), {}, token, None)
    flow = flows.Flow(dialer, connected(first), seeker)
    dialer.flow = flow
    outcome: futures.Future[BaseException] = futures.Future()

    def receive() -> None:
        try:
            flow.receive(memoryview(bytearray(CHUNK_BYTES)), None)
        except waiting.Stopped as error:
            outcome.set_result(error)

    threading.Thread(target=receive, daemon=True).start()
    # The one that it had, which it notices.
    worker.close()
    if breaks:
        other_worker.close()
    try:
        assert outcome.result(TIMEOUT_S)
    finally:
        for sock in (first, worker, second, other_worker):
            sock.close()
