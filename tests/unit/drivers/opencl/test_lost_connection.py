# SPDX-License-Identifier: Apache-2.0

"""A connection that is lost while a device has two pieces of its session."""

import dataclasses
import json
import mmap
import socket
import threading
from unittest import mock

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import memory
from fpgapool.agent.worker.data import outgoing
from fpgapool.agent.worker.data import processing
from fpgapool.agent.worker.data import receiving
from fpgapool.agent.worker.data import session as data_sessions
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from tests.harness import waiting
from tests.unit.accelerators import runs
from tests.unit.drivers.opencl import gating
from tests.unit.worker import machine_steps

#: So long that the connection's own thread does not process it.
SIZE = 2 * outgoing.INLINE_BYTES
PIECES = 4


class Client:
    """A client on the session's host."""

    def __init__(self, made):
        self.made = made
        self.output = b""
        self._buffers = [
            memoryview(mmap.mmap(fd, SIZE * PIECES)) for fd in made.memory.fds
        ]

    def connect(self, received_bytes=0, on_opened=lambda *offsets: None):
        """Attach a connection, and serve it."""
        here, self.sock = socket.socketpair()
        plain = channel.PlainChannel(here)
        self.made.attach(plain, 0, received_bytes, on_opened)
        self._thread = threading.Thread(
            target=receiving.serve, args=(self.made, plain)
        )
        self._thread.start()

    def fill(self, data):
        """Put all input into the shared buffers."""
        self._buffers[0][:] = data

    def send(self, number):
        """Send a piece."""
        self.sock.sendall(
            frames.pack_header(
                frames.INPUT,
                frames.SHM | (frames.END if number == PIECES - 1 else 0),
                task_id=number + 1,
                offset_bytes=number * SIZE,
                payload_length_bytes=SIZE,
                aux=number,
            )
        )

    def receive(self):
        """Receive frames until all input is acknowledged."""
        there = channel.PlainChannel(self.sock)
        scratch = bytearray(frames.HEADER_BYTES)
        while True:
            header = channel.recv_header(
                there, scratch, deadline_s=channel.deadline_after(30)
            )
            if header.type == frames.ACK:
                if header.offset_bytes == SIZE * PIECES:
                    return
                continue
            assert header.type == frames.OUTPUT
            assert header.offset_bytes == len(self.output)
            place = header.aux * SIZE
            length_bytes = header.payload_length_bytes
            self.output += self._buffers[1][place : place + length_bytes]

    def disconnect(self):
        self.sock.close()
        self._thread.join(30)


def open_session(core, post):
    return data_sessions.DataSession(
        processing.Processor(core, accelerators.load_profile("aes")),
        memory.SharedMemory(SIZE, PIECES),
        True,
        dataclasses.replace(
            settings.parse(json.dumps(machine_steps.SETTINGS)),
            chunk_bytes=SIZE,
            window_chunks=PIECES,
        ),
        hello.Keyring(machine_steps.order()),
        post,
        blocks.BlockCache(0).open("project", "session"),
        mock.Mock(),
    )


@pytest.mark.usefixtures("own_memory")
def test_both_end_before_the_next_connection_goes_on(
    start, runner, monkeypatch
):
    session = gating.session_of("aes")
    expected_core = runs.load("aes", **session.params)
    data = session.input(1, PIECES * SIZE)
    core, posted, order = start("aes", session.params, SIZE), [], []
    gates = gating.Gates(runner, monkeypatch)
    collects = threading.Event()
    collect = processing.Processor.collect

    def noted(processor):
        collects.set()
        return collect(processor)

    monkeypatch.setattr(processing.Processor, "collect", noted)
    made = open_session(core, posted.append)
    client = Client(made)
    client.connect()
    client.fill(data)
    client.send(0)
    # Until it waits for this piece, the session would start the next one too.
    assert collects.wait(30)
    waiting.wait_until(lambda: gates.are(1, 0, 0), "a piece on the device")
    for number in range(1, PIECES):
        client.send(number)
    waiting.wait_until(lambda: len(made.tasks) == 3, "three more pieces")
    gates.open(0)
    waiting.wait_until(
        lambda: gates.are(3, 1, 1) and len(gates.launched) == 3,
        "two pieces on the device",
    )
    client.sock.close()
    waiting.wait_until(
        lambda: any(isinstance(each, state.Detached) for each in posted),
        "the connection is lost",
    )

    def goes_on(*offsets):
        order.append((offsets, gates.are(3, 3, 3), len(core._begun)))

    connects = threading.Thread(target=client.connect, args=(0, goes_on))
    connects.start()
    waiting.wait_until(
        lambda: made.run_waiters == 2, "the next connection waits"
    )
    gates.open(1)
    waiting.wait_until(lambda: gates.are(3, 2, 2), "the first one has ended")
    assert not order
    gates.open(2)
    connects.join(30)
    # Both are computed, the client has no output yet, and the last piece has
    # to be sent again.
    assert order == [((3 * SIZE, 0), True, 0)]
    client.send(3)
    waiting.wait_until(lambda: len(gates.gates) == 4, "the last piece")
    gates.open(3)
    client.receive()
    assert client.output == runs.run(expected_core, data)
    client.disconnect()
    made.stop("OK", "")
    core.runner.clear()
    assert not core.runner._owned
    monkeypatch.undo()
    again = start("aes", session.params, SIZE)
    room = bytearray(len(data))
    again.process(memoryview(data), memoryview(room), 0)
    assert room == client.output
