# SPDX-License-Identifier: Apache-2.0

"""A session whose connections are replaced."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading

from fpgapool.accelerators import base
from fpgapool.accelerators import copy
from fpgapool.agent.worker import blocks
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import memory
from fpgapool.agent.worker import processing
from fpgapool.agent.worker import session
from fpgapool.agent.worker import settings
from fpgapool.common import channel
from fpgapool.protocol import frames
from tests.unit.worker import test_parts
from tests.unit.worker import test_state

CHUNK_BYTES = 4096
# Long enough for a thread that does not wait to be first.
LATE_S = 0.1
TIMEOUT_S = 30.0


class LateChannel(channel.PlainChannel):
    """Receives the last bytes after it was shut down, as sockets may."""

    def __init__(self, sock, log: list[str]) -> None:
        super().__init__(sock)
        self._log = log
        self.receiving = threading.Event()
        self._shut = threading.Event()

    def recv_exact_into(self, buffer, deadline_s=None) -> None:
        self.receiving.set()
        self._shut.wait(TIMEOUT_S)
        threading.Event().wait(LATE_S)
        self._log.append("received")
        raise channel.ChannelClosed("shut down")

    def shutdown(self) -> None:
        self._shut.set()
        super().shutdown()


def test_memory_is_reused_only_when_nobody_receives_into_it():
    made = session.DataSession(
        processing.Processor(copy.CopyCore({}), base.load_profile("copy")),
        memory.InPlaceMemory(CHUNK_BYTES, 2 * CHUNK_BYTES),
        False,
        dataclasses.replace(
            settings.parse(json.dumps(test_parts.SETTINGS)),
            chunk_bytes=CHUNK_BYTES,
            window_chunks=2,
            send_timeout_s=TIMEOUT_S,
        ),
        hello.Keyring(test_state.order()),
        lambda event: None,
        blocks.Cache(0).open("project", "session"),
    )
    log: list[str] = []
    here, there = socket.socketpair()
    first = LateChannel(here, log)
    made.attach(first, 0, 0, lambda *offsets: None)
    receiver = threading.Thread(target=made.serve, args=(first,))
    receiver.start()
    there.sendall(
        frames.pack_header(
            frames.INPUT, task_id=1, payload_length_bytes=CHUNK_BYTES
        )
    )
    assert first.receiving.wait(TIMEOUT_S)
    again, client = socket.socketpair()
    made.attach(
        channel.PlainChannel(again),
        0,
        0,
        lambda *offsets: log.append("goes on"),
    )
    assert log == ["received", "goes on"]
    receiver.join(TIMEOUT_S)
    made.stop("OK", "")
    for sock in (there, again, client):
        sock.close()
