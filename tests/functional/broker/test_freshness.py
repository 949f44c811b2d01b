# SPDX-License-Identifier: Apache-2.0

"""What somebody who reads and writes all of RabbitMQ cannot do with keys."""

from __future__ import annotations

import contextlib
import json
import queue
import random
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import amqp
import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from tests.functional.broker import test_users
from tests.unit.common import signers

pytestmark = pytest.mark.security

WAIT_S = 30.0
HOST = "a"
LEADER = conductor_api.server_name(1)


class Leader(rpc.Endpoint):
    """Notes the quotas that it is told to set, and the reports."""

    CASTS = frozenset({"report"})
    target = messaging.Target(version=conductor_api.VERSION)

    def __init__(self) -> None:
        self.heard: queue.Queue[object] = queue.Queue()

    def set_quota(self, ctxt: object, limit: int) -> None:
        self.heard.put(limit)

    def report(self, ctxt: object, report: int) -> None:
        self.heard.put((rpc.host_of(ctxt), report))

    def all(self, count: int) -> set[object]:
        """Return what has been heard; nothing is left."""
        found = {self.heard.get(timeout=WAIT_S) for _ in range(count)}
        assert self.heard.empty()
        return found


class Eavesdropper:
    """Reads all that goes through the pool's exchange."""

    def __init__(self, connection: amqp.Connection) -> None:
        self._channel = connection.channel()
        self._queue = self._channel.queue_declare(exclusive=True).queue
        self._channel.queue_bind(self._queue, rpc.EXCHANGE, "#")

    def read(self) -> list[dict[str, str]]:
        """Return the arguments of the signed messages since the last time."""
        found = []
        while message := self._channel.basic_get(self._queue, no_ack=True):
            document = json.loads(json.loads(message.body)["oslo.message"])
            if document["method"] == rpc.SIGNED:
                found.append(document["args"])
        return found


Serve = Callable[..., Callable[[], None]]


@pytest.fixture
def serve(transport_url: str) -> Iterator[Serve]:
    """Give a function that serves a leader, and returns what ends that."""
    cfg.CONF([], default_config_files=[])
    with contextlib.ExitStack() as stack:
        stack.callback(cfg.CONF.reset)
        stack.enter_context(test_users._process(transport_url))

        def serve_(endpoint: Leader) -> Callable[[], None]:
            server = rpc.get_server(
                conductor_api.TOPIC, LEADER, [endpoint], keys=signers.POOL
            )
            server.start()
            own = stack.enter_context(contextlib.ExitStack())
            own.callback(server.wait)
            own.callback(server.stop)
            return own.close

        yield serve_


@pytest.fixture
def spy(transport_url: str, serve: Serve) -> Iterator[Eavesdropper]:
    """Give what reads all messages from now on."""
    serve(Leader())()
    with test_users.connected(transport_url) as connection:
        yield Eavesdropper(connection)


def client(keys: signing.Keys | None, module: Any = conductor_api) -> Any:
    """Return what sends to the leader, or to the host's agent."""
    return rpc.Client(
        messaging.Target(
            topic=module.TOPIC,
            version=module.VERSION,
            server=LEADER if module is conductor_api else HOST,
        ),
        keys=keys,
        timeout_s=WAIT_S,
    )


def repeat(messages: list[dict[str, str]]) -> None:
    """Send all again, in another order; none has an effect."""
    messages = list(messages)
    random.Random(7).shuffle(messages)
    attacker = client(None)
    for message in messages:
        with pytest.raises(exception.MessageRefused):
            attacker.call(rpc.SIGNED, **message)


def test_a_repeated_message_has_no_effect(serve, spy) -> None:
    leader = Leader()
    serve(leader)
    pool, host = client(signers.POOL), client(signers.keys_of(HOST))
    for number in range(5):
        pool.call("set_quota", limit=number)
        host.cast("report", report=number)
    assert leader.all(10) == {
        *range(5),
        *((HOST, number) for number in range(5)),
    }
    messages = spy.read()
    # The first call was repeated by its sender, for this leader.
    assert len(messages) == 11
    repeat(messages)
    assert leader.heard.empty()


def test_another_leader_takes_no_earlier_call(serve, spy) -> None:
    first, second = Leader(), Leader()
    stop = serve(first)
    pool = client(signers.POOL)
    for limit in range(5):
        pool.call("set_quota", limit=limit)
    stop()
    serve(second)
    repeat(spy.read())
    assert second.heard.empty()
    # The sender itself goes on.
    for limit in range(5, 10):
        pool.call("set_quota", limit=limit)
    assert second.all(5) == set(range(5, 10))
    repeat(spy.read())
    assert second.heard.empty()
    assert first.all(5) == set(range(5))


def test_a_call_that_nobody_awaits_any_more_has_no_effect(serve, spy) -> None:
    leader = Leader()
    stop = serve(leader)
    pool = client(signers.POOL)
    pool.call("set_quota", limit=1)
    stop()
    with pytest.raises(messaging.MessagingTimeout):
        pool.call("set_quota", limit=2, timeout_s=0.5)
    serve(leader)
    pool.call("set_quota", limit=3)
    assert leader.all(2) == {1, 3}


def test_an_order_to_an_agent_is_no_message_to_a_leader(serve, spy) -> None:
    leader = Leader()
    serve(leader)
    agents = rpc.Client(
        messaging.Target(topic=agent_api.TOPIC, version=agent_api.VERSION),
        keys=signers.POOL,
        by_server=True,
    )
    agents.cast("report", server=HOST, report=1)
    (order,) = spy.read()
    repeat([order])
    assert leader.heard.empty()


def test_an_unstamped_message_has_no_effect(serve, spy) -> None:
    leader = Leader()
    serve(leader)
    body = json.dumps(["set_quota", {"limit": 1}])
    party = signing.CONTROL
    signature = signers.POOL.sign(party, conductor_api.TOPIC, body)
    repeat([{"party": party, "body": body, "signature": signature}])
    assert leader.heard.empty()
