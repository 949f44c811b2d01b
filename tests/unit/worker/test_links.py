# SPDX-License-Identifier: Apache-2.0

"""Links between the stages of a chain, whose peers do not go on."""

from __future__ import annotations

import socket
import threading
import typing
from concurrent import futures
from unittest import mock

import pytest

from fpgapool.agent.worker.data import feeding
from fpgapool.agent.worker.data import links
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.protocol import links as orders

# Less than the time for one attempt.
LIMIT_S = 8.0

TARGET = orders.Target("next", 9, "secret")


class Session:
    """What links use of a session that has no data."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self.stopping = self.ended = self.filling = False
        self.channel = mock.sentinel.client
        self.input = mock.Mock(received_bytes=7)
        self.outgoing = mock.Mock()
        self.outgoing.output.sent_bytes = 0
        self.links = mock.Mock(incoming=links.Incoming())

    def wait_for_run(self, predicate: typing.Callable[[], bool]) -> bool:
        return self.condition.wait_for(predicate)


def receive(sock: socket.socket) -> tuple[int, dict[str, typing.Any]]:
    channel = channels.PlainChannel(sock)
    header = channels.recv_header(channel, bytearray(frames.HEADER_BYTES))
    payload = channels.recv_payload(channel, header)
    return header.type, frames.decode_json(payload)


@pytest.fixture
def threads() -> typing.Iterator[futures.ThreadPoolExecutor]:
    with futures.ThreadPoolExecutor(4) as made:
        yield made


def test_the_session_ends_while_the_next_stage_does_not_answer(
    threads: futures.ThreadPoolExecutor,
) -> None:
    session: typing.Any = Session()
    here, there = socket.socketpair()
    reach = mock.Mock()
    reach.dial.side_effect = [here.detach()]
    outward = links.Outward(session, reach)
    with session.lock:
        outward.aim(TARGET)
    assert receive(there)[0] == frames.HELLO
    with session.lock:
        session.stopping = True
        outward.stop()
        session.condition.notify_all()
    threads.submit(outward.wait).result(LIMIT_S)
    with there:
        assert there.recv(1) == b""


def test_another_target_is_reached_while_one_does_not_answer() -> None:
    session: typing.Any = Session()
    pairs = [socket.socketpair() for _ in range(2)]
    reach = mock.Mock()
    reach.dial.side_effect = [here.detach() for here, _ in pairs]
    outward = links.Outward(session, reach)
    for generation, (_, there) in enumerate(pairs):
        there.settimeout(LIMIT_S)
        with session.lock:
            outward.aim(TARGET._replace(generation=generation))
        kind, hello = receive(there)
        assert (kind, hello["generation"]) == (frames.HELLO, generation)
    with session.lock:
        session.stopping = True
        outward.stop()
        session.condition.notify_all()
    outward.wait()
    for _, there in pairs:
        there.close()


def test_a_link_that_is_replaced_ends_though_nothing_is_announced(
    threads: futures.ThreadPoolExecutor,
) -> None:
    """Else each would keep one of the few connections to the worker."""
    session: typing.Any = Session()
    served, ends = [], []
    for _ in range(3):
        here, there = socket.socketpair()
        channel = channels.PlainChannel(here)
        served.append(threads.submit(feeding.serve, session, channel))
        ends.append(there)
        assert receive(there) == (frames.OPENED, {"offset": 7})
    try:
        for one in served[:-1]:
            one.result(LIMIT_S)
    finally:
        with session.lock:
            session.links.incoming.drop()
            session.condition.notify_all()
    served[-1].result(LIMIT_S)
    for one in ends:
        one.close()


def test_a_link_that_waits_ends_whichever_fills_meanwhile(
    threads: futures.ThreadPoolExecutor,
) -> None:
    """Two may have waited for the same end; nobody sends over the other."""
    session: typing.Any = Session()
    session.filling = True
    here, there = socket.socketpair()
    filling, silent = socket.socketpair()
    channel = channels.PlainChannel(here)
    served = threads.submit(feeding.serve, session, channel)
    with session.lock:
        session.links.incoming.channel = channels.PlainChannel(filling)
        session.condition.notify_all()
    with there, silent, filling:
        silent.settimeout(LIMIT_S)
        assert silent.recv(1) == b""
        with session.lock:
            session.filling = False
            session.condition.notify_all()
        assert receive(there) == (frames.OPENED, {"offset": 7})
        with session.lock:
            session.links.incoming.drop()
            session.condition.notify_all()
        served.result(LIMIT_S)
