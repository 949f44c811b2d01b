# SPDX-License-Identifier: Apache-2.0

"""A worker whose output goes over a link to peers that lie, or hang."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from fpgapool.agent.child import certificate as certificates
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames
from fpgapool.protocol import links
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from tests.functional.worker import harness
from tests.harness import waiting

pytestmark = pytest.mark.security

PIECE_BYTES = 40_000
DATA = random.Random(5).randbytes(3 * PIECE_BYTES)
#: Less than a worker waits after its first attempt, and after seven.
FIRST_PAUSE_S, PAUSES_S = 0.019, 0.02 * (2**6 - 1)
ORDERS = 50


class Stage:
    """A worker that sends to the next stage, its client and its agent."""

    def __init__(self, start: Callable[..., harness.WorkerProcess]) -> None:
        self.worker = start()
        self.agent = self.worker.connect()
        prepared = self.agent.prepare()
        self.client = harness.Client.remote(prepared)
        self.client.hello(prepared, features=[frames.LINK_FEATURE])
        self._orders = 0
        self.aim(None)
        self.ping()
        self.used = self.worker.use()

    def ping(self) -> None:
        """Check that the client is heard."""
        self.client.channel.send(frames.pack_header(frames.PING, 0, 0, 7, 7))
        while self.client.recv()[0].type != frames.PONG:
            pass

    def produce(self) -> None:
        """Have the worker compute all output; the client knows of it."""
        sent_bytes = 0
        while self.client.input_bytes < len(DATA):
            at = self.client.input_bytes
            self.client.send_input(DATA[at : at + PIECE_BYTES])
        while sent_bytes < len(DATA):
            header, _ = self.client.recv()
            if header.type == frames.OUTPUT:
                assert header.flags & frames.LINKED
                sent_bytes += header.payload_length_bytes

    def aim(self, target: links.Target | None) -> None:
        self.client.channel.send(links.Order(None, True, target).frame())

    def aim_anew(self, **members: Any) -> links.Target:
        """Order another target, for which nothing has been tried."""
        self._orders += 1
        target = links.Target(
            "next", self._orders, f"{self._orders:064x}", **members
        )
        self.aim(target)
        return target

    def wanted(self) -> dict:
        """Wait until the worker wants a connection."""
        while True:
            message = self.agent.next()
            assert message is not None
            if message.get("event") == "next_wanted":
                return message

    def give(self, target: links.Target | None, fds: list[int]) -> None:
        """Give the worker what it wants."""
        while True:
            message = self.wanted()
            if target is None or (
                message["next_generation"] == target.generation
            ):
                break
        answer = messages.request(
            0, "next", number=message["number"], connected=bool(fds)
        )
        self.agent._channel.send_with_fds(messages.encode(answer), fds)
        channels.close_fds(fds)

    def connect(self, target: links.Target, tcp: bool = False):
        """Give the worker a connection; return the other end."""
        if tcp:
            with socket.create_server(("127.0.0.1", 0)) as server:
                here = channels.connect_tcp(*server.getsockname())
                there, _ = server.accept()
        else:
            here, there = socket.socketpair()
        there.settimeout(waiting.LIMIT_S)
        self.give(target, [here.detach()])
        return there

    def peer(self) -> socket.socket:
        """Be the next stage's worker, which has received HELLO."""
        target = self.aim_anew()
        sock = self.connect(target)
        hello = receive(channels.PlainChannel(sock))
        assert hello["link_secret"] == target.secret
        return sock

    def check(self) -> None:
        """Check that an honest peer gets all bytes once and in order, and
        that nothing stays of those before.
        """
        with self.peer() as sock:
            sock.sendall(links.opened(0))
            assert sock.recv(len(DATA), socket.MSG_WAITALL) == DATA
            ack = frames.pack_header(frames.ACK, offset_bytes=len(DATA))
            self.client.channel.send(ack)
            self.client.close_session()
            self.end(codes.OK)

    def end(self, code: str) -> None:
        self.client.close()
        assert self.agent.wait_result()["code"] == code
        self.worker.wait_use(*self.used)
        assert "Traceback" not in self.worker.log()
        self.agent.close()


def receive(data: channels.Channel) -> dict:
    header = channels.recv_header(data, bytearray(frames.HEADER_BYTES))
    assert header.type == frames.HELLO
    return frames.decode_json(channels.recv_payload(data, header))


def head(kind: int, length_bytes: int) -> bytes:
    return frames.pack_header(kind, payload_length_bytes=length_bytes)


#: What peers answer to HELLO before they hang up.
LIES = {
    "nothing": b"",
    "noise": random.Random(3).randbytes(4096),
    "half a header": links.opened(0)[:9],
    "half a payload": links.opened(0)[:-1],
    "no offset": head(frames.OPENED, 2) + b"{}",
    "an offset below 0": head(frames.OPENED, 13) + b'{"offset":-1}',
    "a long offset": head(frames.OPENED, 60_000) + b"9" * 60_000,
    "2^32-1": head(frames.OPENED, 2**32 - 1),
    "data": head(frames.OUTPUT, 5) + b"12345",
    "too much": links.opened(0) + bytes(100_000),
    "not there yet": links.opened(2**63),
    "the last offset": links.opened(2**64 - 1),
    "HELLO": links.hello(links.Target("s", 1, "x")),
    "a failure of others": frames.error_frame(codes.TLS_REQUIRED, "no TLS"),
    "no code": head(frames.ERROR, 11) + b'{"code":[]}',
    "a lot of text": frames.encode_frame(
        frames.FrameHeader(frames.ERROR),
        {"code": "X", "message": "A\n" * 15_000},
    ),
}


def test_peers_that_lie_change_nothing(start) -> None:
    """The session goes on, whatever they say, and repeats none of it."""
    stage = Stage(start)
    stage.produce()
    for name, lie in LIES.items():
        with stage.peer() as sock:
            sock.sendall(lie)
        stage.ping()
        assert stage.worker.process.poll() is None, name
    stage.check()
    assert "A\nA" not in stage.worker.log()
    assert "no TLS" not in stage.worker.log()


def test_answers_of_the_agent_without_a_connection(start) -> None:
    stage = Stage(start)
    stage.produce()
    for _ in range(3):
        stage.give(stage.aim_anew(), [])
    stage.check()


@pytest.mark.parametrize(
    "said", [b"", links.opened(0)[:9], links.opened(0)], ids=len
)
def test_a_peer_that_hangs_keeps_no_slot(start, said) -> None:
    """Half-open, or it reads one byte and no more: the session ends."""
    stage = Stage(start)
    stage.produce()
    with stage.peer() as sock:
        sock.sendall(said)
        if said == links.opened(0):
            assert sock.recv(1) == DATA[:1]
        stage.ping()
        reply = stage.agent.request("release", generation=1, reason="TEST")
        assert reply["ok"]
        stage.end("TEST")


def test_one_byte_at_a_time_is_read_in_order(start) -> None:
    stage = Stage(start)
    stage.produce()
    with stage.peer() as sock:
        sock.sendall(links.opened(len(DATA) - 300))
        found = b"".join(sock.recv(1) for _ in range(300))
        assert found == DATA[-300:]
    stage.check()


def test_who_ends_each_link_at_once_is_reached_less_and_less(start) -> None:
    """Else two senders with one secret would keep their agents busy."""
    stage = Stage(start)
    stage.produce()
    target = stage.aim_anew()
    began_s = time.monotonic()
    for _ in range(7):
        with stage.connect(target) as sock:
            receive(channels.PlainChannel(sock))
            sock.sendall(links.opened(0))
    assert time.monotonic() - began_s > PAUSES_S
    stage.check()


def test_one_target_after_the_other_is_no_crowd_of_questions(start) -> None:
    stage = Stage(start)
    stage.produce()
    began_s = time.monotonic()
    for _ in range(ORDERS):
        target = stage.aim_anew()
        while stage.wanted()["next_generation"] != target.generation:
            pass
    assert time.monotonic() - began_s > (ORDERS - 1) * FIRST_PAUSE_S
    stage.check()


def test_another_certificate_is_not_the_peer(start) -> None:
    """It gets no HELLO, and so no secret."""
    stage = Stage(start)
    stage.produce()
    right, wrong = certificates.Certificate(), certificates.Certificate()
    target = stage.aim_anew(certificate_sha256=right.sha256())
    deadline_s = channels.deadline_after(waiting.LIMIT_S)
    with stage.connect(target, tcp=True) as sock:
        # Plain bytes are no TLS.
        assert sock.recv(1) == b"\x16"
        sock.sendall(links.opened(0))
    with stage.connect(target, tcp=True) as sock:
        other = tls_channel.TlsChannel.accept(
            sock, wrong.context(), deadline_s
        )
        with pytest.raises(channels.ChannelClosed):
            other.recv_some_into(memoryview(bytearray(1)), deadline_s)
    with stage.connect(target, tcp=True) as sock:
        peer = tls_channel.TlsChannel.accept(sock, right.context(), deadline_s)
        assert receive(peer)["link_secret"] == target.secret
        peer.send(links.opened(0))
        found = bytearray(len(DATA))
        peer.recv_exact_into(memoryview(found), deadline_s)
        assert found == DATA
    stage.check()


def test_without_a_certificate_nothing_crosses_a_network_if_it_must_not(
    start,
) -> None:
    stage = Stage(start)
    stage.produce()
    target = stage.aim_anew(require_tls=True)
    with stage.connect(target, tcp=True) as sock:
        assert sock.recv(1) == b""
    with pytest.raises(harness.ErrorFrame) as caught:
        stage.client.recv_to_the_end()
    assert caught.value.code == codes.TLS_REQUIRED
    stage.end(codes.TLS_REQUIRED)
