# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
import typing
from collections.abc import Iterator
from concurrent import futures

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool.common import memory
from tests.harness import waiting


class _Endpoint:
    """Answers, refuses, remembers."""

    target = messaging.Target(version="1.0")

    def __init__(self) -> None:
        self.heard: list[typing.Any] = []
        self.event = threading.Event()

    def echo(self, ctxt: object, value: typing.Any) -> typing.Any:
        self.heard.append(value)
        self.event.set()
        return value

    def refuse(self, ctxt: object) -> None:
        raise ValueError("refused on purpose")

    def hang(self, ctxt: object) -> None:
        self.event.wait(10)


class _Bus:
    """A transport, its clients and the servers that were started on it."""

    def __init__(self) -> None:
        # Handling calls needs an option that only a parsed CONF has.
        cfg.CONF([], project="fpgapool", default_config_files=[])
        self.transport = messaging.get_rpc_transport(
            cfg.CONF, url=f"{memory.SCHEME}://"
        )
        self.servers: list[messaging.MessageHandlingServer] = []
        self.topic = ""

    def serve(self, name: str) -> _Endpoint:
        endpoint = _Endpoint()
        server = messaging.get_rpc_server(
            self.transport,
            messaging.Target(topic=self.topic, server=name),
            [endpoint],
            access_policy=messaging.DefaultRPCAccessPolicy,
        )
        server.start()
        self.servers.append(server)
        return endpoint

    def client(self, timeout_s: float = 10, **where: object) -> typing.Any:
        client = messaging.get_rpc_client(
            self.transport,
            messaging.Target(topic=self.topic),
            timeout=timeout_s,
        )
        return client.prepare(**where)


def _stop(server: messaging.MessageHandlingServer) -> None:
    server.stop()
    server.wait()


@pytest.fixture(scope="module")
def transport_bus() -> Iterator[_Bus]:
    """Stop all servers at once in the end: each takes a second."""
    subject = _Bus()
    yield subject
    with futures.ThreadPoolExecutor(len(subject.servers)) as executor:
        list(executor.map(_stop, subject.servers))
    subject.transport.cleanup()
    cfg.CONF.reset()


@pytest.fixture
def bus(transport_bus, request) -> _Bus:
    """Give the bus, with a topic of the test's own."""
    transport_bus.topic = request.node.name
    return transport_bus


def test_a_call_is_answered(bus) -> None:
    bus.serve("a")
    assert bus.client().call({}, "echo", value=[1, "x"]) == [1, "x"]


def test_a_call_raises_what_its_handler_raised(bus) -> None:
    bus.serve("a")
    with pytest.raises(ValueError, match="refused on purpose"):
        bus.client().call({}, "refuse")


def test_a_call_that_nobody_answers_times_out(bus) -> None:
    endpoint = bus.serve("a")
    with pytest.raises(messaging.MessagingTimeout):
        bus.client(timeout_s=0.05).call({}, "hang")
    endpoint.event.set()


def test_what_was_sent_before_the_server_came_is_kept(bus) -> None:
    for number in range(3):
        bus.client(server="a").cast({}, "echo", value=number)
    endpoint = bus.serve("a")
    waiting.wait_until(
        lambda: sorted(endpoint.heard) == [0, 1, 2], "all were heard"
    )


def test_a_named_server_gets_its_messages_and_no_other(bus) -> None:
    first, second = bus.serve("a"), bus.serve("b")
    bus.client(server="b").call({}, "echo", value=1)
    assert (first.heard, second.heard) == ([], [1])


def test_servers_of_a_topic_share_its_messages(bus) -> None:
    endpoints = [bus.serve("a"), bus.serve("b")]
    for number in range(20):
        bus.client().call({}, "echo", value=number)
    heard = [value for each in endpoints for value in each.heard]
    assert sorted(heard) == list(range(20))


def test_a_fanout_reaches_every_server(bus) -> None:
    endpoints = [bus.serve("a"), bus.serve("b")]
    bus.client(fanout=True).cast({}, "echo", value=1)
    waiting.wait_until(
        lambda: [e.heard for e in endpoints] == [[1], [1]], "both heard it"
    )


def test_the_two_sides_share_no_objects(bus) -> None:
    endpoint = bus.serve("a")
    value = ["before"]
    answer = bus.client().call({}, "echo", value=value)
    value.append("after")
    answer.append("also after")
    assert endpoint.heard == [["before"]]


def test_what_a_stopped_server_does_not_get_waits_for_the_next(bus) -> None:
    first = bus.serve("a")
    _stop(bus.servers.pop())
    bus.client(server="a").cast({}, "echo", value=1)
    second = bus.serve("a")
    assert second.event.wait(10)
    assert (first.heard, second.heard) == ([], [1])
