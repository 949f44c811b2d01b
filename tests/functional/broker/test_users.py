# SPDX-License-Identifier: Apache-2.0

"""Users of a real RabbitMQ that hosts have, one for each."""

import contextlib
import queue
import urllib.parse
from collections.abc import Iterator

import amqp
import pytest
from oslo_config import cfg

from fpgapool import objects
from fpgapool.agent import manager as agent_manager
from fpgapool.common.messaging import rpc
from fpgapool.conductor import rpc as manager
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.rpcapi import permissions
from tests.services import rabbitmq as rabbitmq_service
from tests.unit.common import signers
from tests.unit.conductor import world

pytestmark = pytest.mark.security

OWN = "7f000000-0000-4000-8000-00000000000a"
OTHER = "7f000000-0000-4000-8000-00000000000b"
PASSWORD = "for-tests"
WAIT_S = 30.0
ORDERS = f"{agent_api.TOPIC}.{OTHER}"
LEADER = conductor_api.server_name(1)
REPORTS = f"{conductor_api.TOPIC}.{LEADER}"


class Orders(agent_manager.AgentManager):
    """Takes orders."""

    def __init__(self) -> None:
        self.taken: queue.Queue[int] = queue.Queue()
        super().__init__(lambda *_: None, lambda _: None)

    def report_now(self, ctxt: object, leader_epoch: int) -> None:
        self.taken.put(leader_epoch)


def connected(url: str) -> amqp.Connection:
    """Connect to the broker without oslo.messaging."""
    parts = urllib.parse.urlsplit(url)
    return amqp.Connection(
        host=f"{parts.hostname}:{parts.port}",
        userid=parts.username,
        password=parts.password,
        virtual_host=parts.path[1:],
    )


@contextlib.contextmanager
def _process(url: str) -> Iterator[None]:
    """Have what is made meanwhile speak to the broker as one user."""
    outer, rpc._transport = rpc._transport, None
    rpc.init(url=url)
    own = rpc._transport
    try:
        yield
    finally:
        rpc._transport = outer
        own.cleanup()


@pytest.fixture
def urls(
    rabbitmq: rabbitmq_service.RabbitMQ, transport_url: str
) -> Iterator[dict[str, str]]:
    """Give the URLs of two hosts, whose users may do what they must."""
    cfg.CONF([], default_config_files=[])
    vhost = urllib.parse.urlsplit(transport_url).path[1:]
    found = {}
    for host in (OWN, OTHER):
        user = f"{vhost}-{host}"
        rabbitmq.create_user(user, PASSWORD)
        for command in permissions.commands(host, user, vhost):
            rabbitmq.permit(command)
        found[host] = rabbitmq.transport_url(vhost, user, PASSWORD)
    yield found
    cfg.CONF.reset()
    for host in found:
        rabbitmq.delete_user(f"{vhost}-{host}")


@pytest.fixture
def pool(
    transport_url: str, urls: dict[str, str]
) -> Iterator[tuple[signers.Inputs, agent_api.AgentAPI, Orders]]:
    """Give a conductor's inputs and orders, and the agent of a host."""
    pump, orders = signers.Inputs(), Orders()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_process(transport_url))
        endpoint = manager.ConductorManager(pump, None, 1)
        servers = [
            rpc.get_server(
                conductor_api.TOPIC,
                LEADER,
                [endpoint],
                keys=signers.POOL,
            )
        ]
        agents = agent_api.AgentAPI(keys=signers.POOL)
        stack.enter_context(_process(urls[OTHER]))
        servers.append(
            rpc.get_server(
                agent_api.TOPIC,
                OTHER,
                [orders],
                keys=signers.keys_of(OTHER),
            )
        )
        for server in servers:
            server.start()
            stack.callback(server.wait)
            stack.callback(server.stop)
        yield pump, agents, orders


def _report(host: str) -> objects.AgentReport:
    return world.FakeAgent(host, 1).report()


def test_an_agent_may_do_what_it_must(pool, urls):
    pump, agents, orders = pool
    with _process(urls[OTHER]):
        api = conductor_api.ConductorAPI(keys=signers.keys_of(OTHER))
        for leads in (False, True):
            if leads:
                api.address_leader(1)
            api.report(_report(OTHER))
            assert pump.next().host_uuid == OTHER
            assert api.changed_sessions({"s": 1}) == ([], [])
    agents.report_now(OTHER, 7)
    assert orders.taken.get(timeout=WAIT_S) == 7


def test_a_captured_host_speaks_for_itself_only(pool, urls):
    pump, _, _ = pool
    with _process(urls[OWN]):
        api = conductor_api.ConductorAPI(keys=signers.keys_of(OWN))
        api.report(_report(OTHER))
        api.report(_report(OWN))
        assert pump.next().host_uuid == OWN
    assert pump.queue.empty()


def _publish(exchange: str, key: str):
    def attack(channel: amqp.Channel) -> None:
        channel.confirm_select()
        channel.basic_publish_confirm(amqp.Message("{}"), exchange, key)

    return attack


def _bind(key: str):
    def attack(channel: amqp.Channel) -> None:
        channel.queue_declare("reply_0", auto_delete=True)
        channel.queue_bind("reply_0", rpc.EXCHANGE, key)

    return attack


ATTACKS = {
    "order": _publish(rpc.EXCHANGE, ORDERS),
    "order to any": _publish(rpc.EXCHANGE, agent_api.TOPIC),
    "order to all": _publish(f"{agent_api.TOPIC}_fanout", ""),
    "order past the exchange": _publish("", ORDERS),
    "answer": _publish("", "reply_1"),
    "hear orders": _bind(ORDERS),
    "hear all orders": _bind(f"{agent_api.TOPIC}.*"),
    "hear reports": _bind(conductor_api.TOPIC),
    "hear all": _bind("#"),
    "take orders": lambda channel: channel.basic_get(ORDERS),
    "take reports": lambda channel: channel.basic_get(REPORTS),
    "drop reports": lambda channel: channel.queue_purge(REPORTS),
    "end reports": lambda channel: channel.queue_delete(REPORTS),
    "end orders": lambda channel: channel.queue_delete(ORDERS),
    "new exchange": lambda channel: channel.exchange_declare("x", "topic"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_captured_host_neither_orders_nor_listens(pool, urls, attack):
    _, agents, orders = pool
    with connected(urls[OWN]) as connection:
        with pytest.raises(amqp.AccessRefused):
            attack(connection.channel())
    agents.report_now(OTHER, 7)
    assert orders.taken.get(timeout=WAIT_S) == 7
