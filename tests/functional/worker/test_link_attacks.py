# SPDX-License-Identifier: Apache-2.0

"""Attacks on a worker that receives over a link, or orders of its client."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from fpgapool.agent.child import port
from fpgapool.agent.worker import desk
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames
from fpgapool.protocol import links
from fpgapool.vocabulary import codes
from tests.functional.worker import harness
from tests.harness import waiting

pytestmark = pytest.mark.security

SECRET = "5e" * 32
DATA = random.Random(7).randbytes(3 * 4096 + 5)
#: More than all that a worker lets in.
CROWD = 4 * (port.MAX_STRANGERS + desk.MAX_CONNECTIONS)


def linked(client: harness.Client, size_bytes: int, end: bool = False) -> None:
    """Announce input that comes over the link."""
    client._task_id += 1
    client.channel.send(
        frames.pack_header(
            frames.INPUT,
            frames.LINKED | (frames.END if end else 0),
            task_id=client._task_id,
            offset_bytes=client.input_bytes,
            payload_length_bytes=size_bytes,
        )
    )
    client.input_bytes += size_bytes


class Stage:
    """A worker whose input comes over a link, and its honest client."""

    def __init__(self, start, **settings: object) -> None:
        self.worker = start(**settings)
        self.agent = self.worker.connect()
        self.prepared = self.agent.prepare()
        self.client = harness.Client.remote(self.prepared)
        self.client.hello(self.prepared, features=[frames.LINK_FEATURE])
        digest = hashlib.sha256(SECRET.encode()).hexdigest()
        self.client.channel.send(
            links.Order(digest).frame(), frames.pack_header(frames.PING)
        )
        # The order is in force.
        assert self.client.recv()[0].type == frames.PONG
        self.used = self.worker.use()

    def dial(self) -> socket.socket:
        sock = channels.connect_tcp("127.0.0.1", self.prepared["data_port"])
        sock.settimeout(waiting.LIMIT_S)
        return sock

    def hello(self, **changes: object) -> bytes:
        target = links.Target(
            self.prepared["session_id"], self.prepared["generation"], SECRET
        )
        return links.hello(target._replace(**changes))

    def link(self) -> tuple[channels.Channel, int]:
        """Give the link of who may come, and where it begins."""
        sock = self.dial()
        pin = self.prepared["certificate_sha256"]
        made: channels.Channel = (
            tls_channel.TlsChannel.connect(sock, pin)
            if pin
            else channels.PlainChannel(sock)
        )
        made.send(self.hello())
        header = channels.recv_header(made, bytearray(frames.HEADER_BYTES))
        payload = channels.recv_payload(made, header)
        assert header.type == frames.OPENED, payload
        return made, links.start_bytes(frames.decode_json(payload))

    def check(self) -> None:
        """Check that all bytes arrive once and in order, and that nothing
        stays of those who came before.
        """
        client = self.client
        if client.input_bytes == 0:
            linked(client, len(DATA), end=True)
        made, start = self.link()
        made.send(DATA[start:])
        while not (client.finished and client.acked_input_bytes == len(DATA)):
            client.take()
            client.send_ack()
        assert client.output == DATA
        client.close_session()
        made.close()
        client.close()
        assert self.agent.wait_result()["code"] == codes.OK
        self.worker.wait_use(*self.used)
        log = self.worker.log()
        assert "Traceback" not in log
        assert SECRET not in log


@contextlib.contextmanager
def staying(*socks: socket.socket) -> Iterator[None]:
    """Close connections only after what is within."""
    with contextlib.ExitStack() as stack:
        for one in socks:
            stack.enter_context(one)
        yield


def head(kind: int, length_bytes: int, **members: int) -> bytes:
    return frames.pack_header(
        kind, payload_length_bytes=length_bytes, **members
    )


#: What is no handshake, and what the worker answers.
NONSENSE = {
    "zeros": (bytes(100), codes.PROTOCOL_ERROR),
    "noise": (random.Random(3).randbytes(4096), codes.PROTOCOL_ERROR),
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9, codes.PROTOCOL_ERROR),
    "tls": (b"\x16\x03\x01" + bytes(200), codes.PROTOCOL_ERROR),
    "no bytes": (head(frames.HELLO, 0), codes.PROTOCOL_ERROR),
    "2^32-1": (head(frames.HELLO, 2**32 - 1), codes.FRAME_TOO_LARGE),
    "2^16+1": (head(frames.HELLO, 2**16 + 1), codes.FRAME_TOO_LARGE),
    "data": (head(frames.INPUT, 5) + b"12345", codes.PROTOCOL_ERROR),
    "optional": (head(200, 65536) + bytes(65536), codes.PROTOCOL_ERROR),
    "stream": (head(frames.HELLO, 2, stream_id=1) + b"{}", codes.STREAM_LIMIT),
    "no JSON": (head(frames.HELLO, 5) + b"[1,2]", codes.PROTOCOL_ERROR),
    "deep": (
        head(frames.HELLO, 60_000) + b"[" * 60_000,
        codes.PROTOCOL_ERROR,
    ),
}


def told(sock: socket.socket) -> dict:
    """Receive an ERROR."""
    data = channels.PlainChannel(sock)
    header = channels.recv_header(data, bytearray(frames.HEADER_BYTES))
    assert header.type == frames.ERROR
    return frames.decode_json(channels.recv_payload(data, header))


def test_what_is_no_handshake_is_refused(start) -> None:
    stage = Stage(start)
    found = {}
    for name, (data, _) in NONSENSE.items():
        with stage.dial() as sock:
            sock.sendall(data)
            found[name] = told(sock)["code"]
    assert found == {name: code for name, (_, code) in NONSENSE.items()}
    stage.check()


def test_who_knows_too_little_is_refused_in_the_same_way(start) -> None:
    stage = Stage(start)
    for changes in (
        {"secret": "07" * 32},
        {"generation": 2},
        {"generation": 2**63 - 1},
        {"session_id": "session-2"},
        {"session_id": "x" * 60_000},
    ):
        with stage.dial() as sock:
            sock.sendall(stage.hello(**changes))
            assert told(sock)["code"] == codes.UNAUTHORIZED
    stage.check()


@pytest.mark.parametrize("tls", [False, True])
def test_a_crowd_that_says_little_keeps_nobody_out(start, tls) -> None:
    """Thousands more would not change what the worker has."""
    stage = Stage(start, tls=tls, hello_timeout_s=300.0)
    crowd = []
    for number in range(CROWD):
        crowd.append(stage.dial())
        with contextlib.suppress(OSError):
            crowd[-1].sendall(stage.hello()[: number % 50])
    with staying(*crowd):
        descriptors, threads = stage.worker.use()
        most = port.MAX_STRANGERS + desk.MAX_CONNECTIONS
        assert descriptors <= stage.used[0] + most
        assert threads <= stage.used[1] + most
        linked(stage.client, len(DATA), end=True)
        made, start_bytes = stage.link()
        assert start_bytes == 0
        made.close()
    stage.check()


def test_a_crowd_that_comes_too_early_keeps_nobody_out(start) -> None:
    """Each may wait for its order, but not beside all the others."""
    stage = Stage(start)
    hello = frames.encode_frame(
        frames.FrameHeader(frames.HELLO),
        {"session_id": "later", "generation": 2**62, "secret": SECRET},
    )
    most, crowd = 0, []
    for _ in range(CROWD):
        crowd.append(stage.dial())
        crowd[-1].sendall(hello)
        most = max(most, stage.worker.use()[1])
    with staying(*crowd):
        # Those that are let go need a moment; the others wait.
        bound = 2 * port.MAX_STRANGERS + desk.MAX_CONNECTIONS
        assert most <= stage.used[1] + bound
        made, _ = stage.link()
        made.close()
    stage.check()


def test_plain_bytes_at_a_port_with_tls(start) -> None:
    stage = Stage(start, tls=True)
    with stage.dial() as sock:
        sock.sendall(stage.hello())
        rest = b"".join(iter(lambda: sock.recv(4096), b""))
        # TLS's own alert at most, and no OPENED.
        assert rest[:1] in (b"", b"\x15")
    stage.check()


@pytest.mark.parametrize("tls", [False, True])
def test_senders_that_stop_within_a_piece(start, tls) -> None:
    """Half-open: each says nothing more, and some stay. The next goes on."""
    stage = Stage(start, tls=tls)
    linked(stage.client, len(DATA), end=True)
    with contextlib.ExitStack() as stack:
        for sent_bytes in (0, 1, 4097, len(DATA) - 1):
            for how in ("closed", "reset", "silent"):
                made, start_bytes = stage.link()
                stack.callback(made.close)
                assert start_bytes == 0
                # These bytes must not count.
                made.send(bytes(sent_bytes))
                if how == "reset":
                    linger = socket.SO_LINGER, struct.pack("ii", 1, 0)
                    made.sock.setsockopt(socket.SOL_SOCKET, *linger)
                    made.sock.close()
                elif how == "closed":
                    made.close()
        stage.check()


def test_one_byte_at_a_time_arrives_in_order(start) -> None:
    stage = Stage(start)
    linked(stage.client, 300, end=True)
    made, _ = stage.link()
    for byte in DATA[:300]:
        made.send(bytes([byte]))
    while not stage.client.finished:
        stage.client.take()
    assert stage.client.output == DATA[:300]
    stage.client.close()
    made.close()
    stage.agent.close()


def test_a_slow_sender_keeps_no_slot(start) -> None:
    """Its session is idle: single bytes are no piece."""
    stage = Stage(start)
    linked(stage.client, len(DATA))
    made, _ = stage.link()
    made.send(b"1")
    reply = stage.agent.request("release", generation=1, reason="YIELDED")
    assert reply["ok"]
    # It may have hung up already.
    with contextlib.suppress(channels.ChannelClosed):
        made.send(b"2")
    assert stage.agent.wait_result()["code"] == codes.YIELDED
    with pytest.raises(channels.ChannelClosed):
        made.recv_some_into(memoryview(bytearray(1)))
    made.close()
    stage.client.close()
    stage.agent.close()


def test_orders_that_the_agent_could_not_read(start) -> None:
    """The agent would end the worker, or get no more word from it."""
    worker = start()
    agent = worker.connect()
    target = {"session_id": "next", "generation": 9, "secret": SECRET}
    for generation, changes in enumerate(
        (
            {"generation": 2**63},
            {"generation": 2**64 - 1},
            {"session_id": "é" * 20_000},
            {"session_id": "x" * 65},
            {"session_id": "../x"},
            {"session_id": ""},
            {"session_id": "\ud800"},
            {"secret": "é" * 20_000},
        ),
        start=1,
    ):
        prepared = agent.prepare(generation)
        client = harness.Client.remote(prepared)
        client.hello(prepared, features=[frames.LINK_FEATURE])
        document = {"to": {**target, **changes}}
        payload = json.dumps(document).encode()
        if len(payload) > frames.MAX_JSON_BYTES:
            payload = json.dumps(document, ensure_ascii=False).encode()
        client.channel.send(head(frames.LINK, len(payload)), payload)
        with pytest.raises(harness.ErrorFrame) as caught:
            client.recv_to_the_end()
        assert caught.value.code == codes.PROTOCOL_ERROR
        result = agent.wait_result(generation)
        assert result["code"] == codes.PROTOCOL_ERROR
        client.close()
    assert agent.status()["state"] == "idle"
    agent.close()
