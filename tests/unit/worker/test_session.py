# SPDX-License-Identifier: Apache-2.0

"""A session whose connections are replaced."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
from collections.abc import Iterator
from unittest import mock

import pytest

from fpgapool.accelerators import base
from fpgapool.accelerators import copy
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import memory
from fpgapool.agent.worker.data import processing
from fpgapool.agent.worker.data import receiving
from fpgapool.agent.worker.data import sending
from fpgapool.agent.worker.data import session
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from tests.harness import waiting
from tests.unit.worker import machine_steps

CHUNK_BYTES = 4096
LONG_BYTES = 2 * sending.LONG_BYTES
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
            settings.parse(json.dumps(machine_steps.SETTINGS)),
            chunk_bytes=CHUNK_BYTES,
            window_chunks=2,
            send_timeout_s=TIMEOUT_S,
        ),
        hello.Keyring(machine_steps.order()),
        lambda event: None,
        blocks.BlockCache(0).open("project", "session"),
        mock.Mock(),
    )
    log: list[str] = []
    here, there = socket.socketpair()
    first = LateChannel(here, log)
    made.attach(first, 0, 0, lambda *offsets: None)
    receiver = threading.Thread(target=receiving.serve, args=(made, first))
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


class GatedCore(copy.CopyCore):
    """Says when it begins a piece."""

    def __init__(self) -> None:
        super().__init__({})
        self.begun = threading.Semaphore(0)

    def process(self, chunk_in, chunk_out, offset_bytes) -> int:
        self.begun.release()
        return super().process(chunk_in, chunk_out, offset_bytes)


def _long_session(core, ends: list) -> session.DataSession:
    return session.DataSession(
        processing.Processor(core, base.load_profile("copy")),
        memory.InPlaceMemory(LONG_BYTES, 4 * LONG_BYTES),
        False,
        dataclasses.replace(
            settings.parse(json.dumps(machine_steps.SETTINGS)),
            chunk_bytes=LONG_BYTES,
            window_chunks=4,
            send_timeout_s=TIMEOUT_S,
        ),
        hello.Keyring(machine_steps.order()),
        ends.append,
        blocks.BlockCache(0).open("project", "session"),
        mock.Mock(),
    )


class Client:
    """Sends pieces; reads only when it is told."""

    def __init__(self, made: session.DataSession) -> None:
        here, self.sock = socket.socketpair()
        self.sock.settimeout(TIMEOUT_S)
        attached = channel.PlainChannel(here)
        made.attach(attached, 0, 0, lambda *offsets: None)
        self._server = threading.Thread(
            target=receiving.serve, args=(made, attached)
        )
        self._server.start()

    def send(self, number: int, flags: int = 0) -> None:
        header = frames.pack_header(
            frames.INPUT,
            flags,
            task_id=number + 1,
            offset_bytes=number * LONG_BYTES,
            payload_length_bytes=LONG_BYTES,
        )
        self.sock.sendall(header + bytes([number]) * LONG_BYTES)

    def receive(self, count: int) -> tuple[bytes, list[int]]:
        """Return that much output, and the input acknowledged by then."""
        output, acknowledged = b"", []
        for header, data in self.frames():
            if header.type == frames.OUTPUT:
                output += data
            elif header.type == frames.ACK:
                acknowledged.append(header.offset_bytes)
            if len(output) == count * LONG_BYTES and (
                acknowledged[-1:] == [len(output)]
            ):
                break
        return output, acknowledged

    def frames(self) -> Iterator[tuple[frames.FrameHeader, bytes]]:
        """Receive frames, for ever."""
        with self.sock.makefile("rb") as stream:
            while True:
                header = frames.FrameHeader.unpack_from(
                    stream.read(frames.HEADER_BYTES)
                )
                yield header, stream.read(header.payload_length_bytes)

    def close(self) -> None:
        self.sock.close()
        self._server.join(TIMEOUT_S)
        assert not self._server.is_alive()


def test_the_core_goes_on_while_long_output_is_sent():
    core = GatedCore()
    made = _long_session(core, [])
    client = Client(made)
    for number in range(3):
        client.send(number)
    # The client reads nothing: the first output is on its way for ever.
    for _ in range(3):
        assert core.begun.acquire(timeout=TIMEOUT_S)
    output, acknowledged = client.receive(3)
    assert output == b"".join(bytes([one]) * LONG_BYTES for one in range(3))
    assert acknowledged == sorted(acknowledged)
    client.close()
    made.stop("OK", "")


def test_a_connection_that_breaks_while_output_is_sent_is_replaced():
    core = GatedCore()
    ends: list = []
    made = _long_session(core, ends)
    first = Client(made)
    for number in range(2):
        first.send(number)
    for _ in range(2):
        assert core.begun.acquire(timeout=TIMEOUT_S)
    first.close()
    second = Client(made)
    # Nothing of it had arrived.
    output, _ = second.receive(2)
    assert output == b"\0" * LONG_BYTES + b"\1" * LONG_BYTES
    assert not core.begun.acquire(blocking=False)
    second.close()
    made.stop("OK", "")


def test_a_session_stops_while_its_client_reads_nothing(monkeypatch):
    monkeypatch.setattr(session.goodbye, "LINGER_S", 0.05)
    core = GatedCore()
    made = _long_session(core, [])
    client = Client(made)
    for number in range(2):
        client.send(number)
    for _ in range(2):
        assert core.begun.acquire(timeout=TIMEOUT_S)
    made.stop("CANCELLED_BY_CLIENT", "as planned")
    client.close()


@pytest.mark.parametrize("where", ["_take_input", "_next"])
def test_a_session_without_memory_ends_and_its_worker_does_not(
    monkeypatch, where
):
    """Where it receives, and where it computes."""
    owner = (
        receiving.Receiver if where == "_take_input" else (session.DataSession)
    )

    def fail(*_arguments):
        raise MemoryError

    ends: list = []
    made = _long_session(GatedCore(), ends)
    client = Client(made)
    monkeypatch.setattr(owner, where, fail)
    client.send(0)
    waiting.wait_until(lambda: made.ended, "the session's end")
    client.close()
    made.stop("OK", "")
    ended = [one for one in ends if isinstance(one, state.Ended)]
    assert [(one.outcome, one.code) for one in ended] == [
        ("FAILED", "OUT_OF_MEMORY")
    ]


def test_a_short_session_needs_no_thread_of_its_own(monkeypatch):
    started: list[str] = []
    monkeypatch.setattr(
        session.crew.CREW, "start", lambda name, *rest: started.append(name)
    )
    ends: list = []
    made = _long_session(GatedCore(), ends)
    client = Client(made)
    header = frames.pack_header(
        frames.INPUT, frames.END, task_id=1, payload_length_bytes=4
    )
    client.sock.sendall(header + b"data")
    client.sock.sendall(frames.pack_header(frames.CLOSE))
    received = []
    for header, _data in client.frames():
        received.append(header.type)
        if header.type == frames.CLOSED:
            break
    assert received == [frames.OUTPUT, frames.ACK, frames.CLOSED]
    client.sock.shutdown(socket.SHUT_WR)
    made.stop("OK", "")
    client.close()
    (ended,) = (one for one in ends if isinstance(one, state.Ended))
    assert (ended.outcome, ended.code) == ("CLOSED", "OK")
    assert "session" not in started


def test_who_closes_while_it_leaves_has_closed():
    core = GatedCore()
    ends: list = []
    made = _long_session(core, ends)
    client = Client(made)
    client.send(0, frames.END)
    client.sock.sendall(frames.pack_header(frames.CLOSE))
    waiting.wait_until(lambda: made.input.closed, "the client has closed")
    # The client reads nothing, so the session has not ended.
    leaving = threading.Thread(target=made.stop, args=("PREEMPTED", ""))
    leaving.start()
    waiting.wait_until(lambda: made.leaving, "the session leaves")
    received = []
    for header, _data in client.frames():
        received.append(header.type)
        if header.type in (frames.CLOSED, frames.ERROR):
            break
    assert received == [frames.OUTPUT, frames.ACK, frames.CLOSED]
    leaving.join(TIMEOUT_S)
    (ended,) = (one for one in ends if isinstance(one, state.Ended))
    assert (ended.outcome, ended.code) == ("CLOSED", "OK")
    client.close()


class RatioCore(copy.CopyCore):
    """Needs room for an output that it makes longer or shorter."""

    in_place = False

    def __init__(self, ratio: int, output_bytes: int) -> None:
        super().__init__({})
        self._ratio = ratio
        self._output_bytes = output_bytes

    def max_output_bytes(self, input_bytes: int) -> int:
        return self._ratio * input_bytes

    def process(self, chunk_in, chunk_out, offset_bytes) -> int:
        chunk_out[: self._output_bytes] = bytes(self._output_bytes)
        return self._output_bytes


def _ratio_session(core: RatioCore, ends: list) -> session.DataSession:
    return session.DataSession(
        processing.Processor(core, base.load_profile("copy")),
        memory.PrivateMemory(
            CHUNK_BYTES,
            4 * CHUNK_BYTES,
            core.max_output_bytes(CHUNK_BYTES),
        ),
        False,
        dataclasses.replace(
            settings.parse(json.dumps(machine_steps.SETTINGS)),
            chunk_bytes=CHUNK_BYTES,
            window_chunks=4,
            send_timeout_s=TIMEOUT_S,
        ),
        hello.Keyring(machine_steps.order()),
        ends.append,
        blocks.BlockCache(0).open("project", "session"),
        mock.Mock(),
    )


def _send(client: Client, number: int, length_bytes: int) -> None:
    header = frames.pack_header(
        frames.INPUT,
        task_id=number + 1,
        offset_bytes=number * length_bytes,
        payload_length_bytes=length_bytes,
    )
    client.sock.sendall(header + bytes(length_bytes))


def test_a_client_that_only_answers_pings_gets_all_its_output():
    made = _ratio_session(RatioCore(2, 1), [])
    client = Client(made)
    _send(client, 0, CHUNK_BYTES)
    output_bytes = sent = 0
    for header, _ in client.frames():
        if header.type == frames.OUTPUT:
            output_bytes += header.payload_length_bytes
        elif header.type == frames.PING:
            assert header.offset_bytes == output_bytes
            client.sock.sendall(header._replace(type=frames.PONG).pack())
        elif sent < 50:
            sent += 1
            _send(client, sent, CHUNK_BYTES)
        else:
            break
    assert output_bytes == 51
    client.close()
    made.stop("OK", "")


def test_a_pong_that_was_not_asked_for_acknowledges_nothing():
    made = _ratio_session(RatioCore(1, 1), [])
    client = Client(made)
    client.sock.sendall(frames.pack_header(frames.PONG, offset_bytes=10**6))
    _send(client, 0, 10)
    for header, _ in client.frames():
        if header.type == frames.ACK:
            break
    client.sock.sendall(frames.pack_header(frames.PONG, offset_bytes=1))
    client.sock.sendall(frames.pack_header(frames.PING))
    for header, _ in client.frames():
        if header.type == frames.PONG:
            break
    assert made._output.acknowledged_bytes == 0
    client.close()
    made.stop("OK", "")


def test_pieces_before_an_acknowledgement_are_bounded(monkeypatch):
    monkeypatch.setattr(session, "MAX_TASKS", 4)
    ends: list = []
    made = _ratio_session(RatioCore(CHUNK_BYTES, CHUNK_BYTES), ends)
    client = Client(made)
    # The window of output is four pieces; its acknowledgement would come
    # behind all of these.
    for number in range(30):
        _send(client, number, 1)
    ended = waiting.wait_until(
        lambda: next(
            (one for one in ends if isinstance(one, state.Ended)), None
        ),
        "the session fails",
    )
    assert (ended.outcome, ended.code) == ("FAILED", "CREDIT_EXCEEDED")
    assert "more than 4 pieces" in ended.message
    client.close()
    made.stop("CREDIT_EXCEEDED", "")


def test_a_session_says_what_it_waits_for():
    made = _ratio_session(RatioCore(2, 1), [])

    def says(text: str) -> None:
        waiting.wait_until(
            lambda: text in made.progress().wait,
            lambda: f"{text}, not {made.progress().wait}",
        )

    says("the client has sent no input for {}")
    client = Client(made)
    header = frames.pack_header(
        frames.INPUT, task_id=1, payload_length_bytes=CHUNK_BYTES
    )
    client.sock.sendall(header)
    says("the client has sent only part of a piece of input for {}")
    client.sock.sendall(bytes(CHUNK_BYTES))
    # Each output has a block, of which there are six.
    sent = 1
    for header, _ in client.frames():
        if header.type == frames.ACK:
            _send(client, sent, CHUNK_BYTES)
            sent += 1
        if sent == 7:
            break
    says(
        "the client has acknowledged too little output for {}: "
        "6 bytes in 6 pieces are unacknowledged"
    )
    client.close()
    made.stop("OK", "")


def test_a_session_says_that_its_client_takes_no_output():
    made = _ratio_session(RatioCore(1, CHUNK_BYTES), [])
    client = Client(made)
    for number in range(4):
        _send(client, number, CHUNK_BYTES)
    waiting.wait_until(
        lambda: made._output.sent_bytes == 4 * CHUNK_BYTES, "a window is out"
    )
    for header, _ in client.frames():
        if header.type == frames.ACK and header.task_id == 4:
            break
    _send(client, 4, CHUNK_BYTES)
    says = (
        f"the client has read no output for {{}}: {CHUNK_BYTES} bytes are "
        f"unsent, {4 * CHUNK_BYTES} bytes in 4 pieces are unacknowledged"
    )
    waiting.wait_until(
        lambda: made.progress().wait == says, lambda: made.progress().wait
    )
    client.close()
    made.stop("OK", "")
