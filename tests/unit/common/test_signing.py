# SPDX-License-Identifier: Apache-2.0

import contextlib
import json
import logging
import queue

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool import objects
from fpgapool.agent import manager as agent_manager
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.common.monitoring import ratelimit
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from tests.harness import waiting
from tests.unit.common import signers
from tests.unit.conductor import world

pytestmark = pytest.mark.security

HOSTS = ("a", "b")


@pytest.fixture
def transport():
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    rpc.init(url="fake://")
    # Messages are served in the order in which they came.
    rpc.handler_threads(cfg.CONF)
    cfg.CONF.set_override(rpc._THREADS_OPTION, 1)
    yield
    cfg.CONF.clear_override(rpc._THREADS_OPTION)
    rpc.cleanup()
    cfg.CONF.reset()


@pytest.fixture
def log(monkeypatch, caplog):
    """Give the log, with nothing left out for what tests said before."""
    monkeypatch.setattr(rpc, "_OFTEN", ratelimit.RateLimitedLog(rpc.__name__))
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.fixture
def serve(transport):
    """Give a function that serves an endpoint until the test ends."""
    servers = []

    def serve_(topic: str, name: str, endpoint: object, **options) -> None:
        server = rpc.get_server(topic, name, [endpoint], **options)
        server.start()
        servers.append(server)

    yield serve_
    for server in servers:
        server.stop()
        server.wait()


@pytest.fixture
def conductor(serve):
    """Give a function that serves a conductor; it returns its inputs."""

    def serve_(**options) -> signers.Inputs:
        pump = signers.Inputs()
        endpoint = conductor_rpc.ConductorManager(pump, None, 1)
        serve(conductor_api.TOPIC, "c", endpoint, **options)
        return pump

    return serve_


def _report(host: str) -> objects.AgentReport:
    return world.FakeAgent(host, 1).report()


def _prepared(host: str) -> objects.Prepared:
    return objects.Prepared(
        host_uuid=host,
        device="board0",
        slot=0,
        session_id="s",
        generation=7,
        secret="c0ffee",
        endpoints=(),
    )


def _says(api: conductor_api.ConductorAPI, host: str) -> None:
    """Say all that an agent may say of its own host only."""
    api.report(_report(host))
    api.prepared(_prepared(host))
    for ask in (
        lambda: api.submit_sessions([world.request(host_uuid=host)]),
        lambda: api.reopen_session(
            "p", session_id="s", generation=7, host_uuid=host
        ),
        lambda: api.changed_sessions({"s": 1}, host_uuid=host),
    ):
        with contextlib.suppress(exception.MessageRefused):
            ask()


def _last(api: conductor_api.ConductorAPI, pump: signers.Inputs) -> list:
    """Return what has come in, when all that was said before has."""
    api.cancel_session("p", session_id="last", reason="X")
    got = [pump.next()]
    while getattr(got[-1], "session_id", "") != "last":
        got.append(pump.next())
    return got[:-1]


@pytest.mark.parametrize("together", [False, True])
def test_a_host_speaks_for_itself_only(conductor, log, together):
    pump = conductor(keys=signers.POOL)
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))

    def say(host: str) -> None:
        if not together:
            _says(api, host)
            return
        with api.together():
            _says(api, host)

    say("b")
    assert _last(api, pump) == []
    refused = [line for line in log.messages if codes.MESSAGE_REFUSED in line]
    assert len(refused) == 5
    say("a")
    assert len(_last(api, pump)) == 4


def test_what_others_say_is_logged_at_a_limited_rate(conductor, log):
    pump = conductor(keys=signers.POOL)
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    for _ in range(3 * ratelimit.BURST):
        api.prepared(_prepared("b"))
    assert _last(api, pump) == []
    assert len(log.records) == ratelimit.BURST


def test_who_speaks_is_told_to_the_engine(conductor):
    pump = conductor(keys=signers.POOL)
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    api.cancel_session("p", session_id="s", reason="X")
    assert pump.next().sender == "a"
    own = conductor_api.ConductorAPI(keys=signers.POOL)
    own.cancel_session("p", session_id="s", reason="X")
    assert pump.next().sender is None


def test_a_host_opens_nothing_in_the_name_of_an_instance(conductor):
    pump = conductor(keys=signers.POOL)
    request = world.request(user_id="instance:i", host_uuid="a")
    with pytest.raises(
        exception.MessageRefused, match="behalf of an instance"
    ):
        conductor_api.ConductorAPI(keys=signers.keys_of("a")).submit_sessions(
            [request]
        )
    own = conductor_api.ConductorAPI(keys=signers.POOL)
    assert _last(own, pump) == []
    own.submit_sessions([request])
    assert len(_last(own, pump)) == 1


def test_a_host_asks_for_dry_runs_of_its_own_clients_only(conductor):
    conductor(keys=signers.POOL)
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    for changes in ({"host_uuid": "b"}, {"user_id": "instance:i"}):
        request = world.request(**{"host_uuid": "a", **changes})
        with pytest.raises(exception.MessageRefused):
            api.dry_run(request)


def test_a_host_attaches_nothing_in_the_name_of_an_instance(conductor):
    pump = conductor(keys=signers.POOL)
    wanted = objects.AttachClient(
        client_id="c",
        group_id="g",
        project_id="p",
        user_id="instance:i",
        secret_hash="0" * 64,
    )
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    with pytest.raises(
        exception.MessageRefused, match="behalf of an instance"
    ):
        api.attach_client(wanted)
    assert _last(conductor_api.ConductorAPI(keys=signers.POOL), pump) == []


def test_a_host_asks_for_no_new_secrets(conductor, log):
    """It gets them with the news of its own sessions; also not by a trick."""
    pump = conductor(keys=signers.POOL)
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    api.renew_secret("s")
    with api.together():
        api.renew_secret("s")
        api.renew_secret("s")
    assert _last(api, pump) == []


def test_what_only_services_may_ask_for(conductor):
    """Also what is added later."""
    conductor(keys=signers.POOL)
    client = conductor_api.ConductorAPI(keys=signers.keys_of("a"))._client
    methods = [
        name
        for name in dir(conductor_rpc.ConductorManager)
        if not name.startswith("_")
        and callable(getattr(conductor_rpc.ConductorManager, name))
        and name not in conductor_rpc.ConductorManager.OF_HOSTS
    ]
    assert "administer" in methods
    for method in methods:
        with pytest.raises(exception.MessageRefused, match="hosts may not"):
            client.call(method, timeout_s=waiting.LIMIT_S)


def test_a_host_asks_where_the_next_stage_of_a_chain_is(conductor):
    """And not on behalf of another host."""
    conductor(keys=signers.POOL)
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    assert api.stage_endpoints("a", "p", "session", 1) == {"asked": True}
    with pytest.raises(exception.MessageRefused, match="another host"):
        api.stage_endpoints("b", "p", "session", 1)


def test_services_and_hosts_ask_for_what_they_may(conductor):
    conductor(keys=signers.POOL)
    for keys in (signers.POOL, signers.keys_of("a")):
        api = conductor_api.ConductorAPI(keys=keys)
        assert api.changed_sessions({"s": 1}) == ([], [])


def test_what_is_not_signed_is_refused(conductor, log):
    pump = conductor(keys=signers.POOL)
    plain = conductor_api.ConductorAPI()
    with pytest.raises(exception.MessageRefused, match="not signed"):
        plain.pool_summary()
    plain.prepared(_prepared("a"))
    assert _last(conductor_api.ConductorAPI(keys=signers.POOL), pump) == []
    assert all(codes.MESSAGE_REFUSED in line for line in log.messages)


def test_for_a_while_what_is_not_signed_may_pass(conductor):
    pump = conductor(keys=signers.POOL, accept_unsigned=True)
    plain = conductor_api.ConductorAPI()
    assert plain.changed_sessions({"s": 1}) == ([], [])
    plain.report(_report("a"))
    assert pump.next().host_uuid == "a"
    # Who signs is held to it.
    signer = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    signer.report(_report("b"))
    assert _last(signer, pump) == []


def test_without_keys_what_is_signed_is_taken_all_the_same(conductor):
    pump = conductor()
    api = conductor_api.ConductorAPI(keys=signers.keys_of("a"))
    api.report(_report("a"))
    assert pump.next().host_uuid == "a"
    assert api.changed_sessions({"s": 1}) == ([], [])


def _sealed(host: str, **changes: object) -> dict:
    report = _report(host).to_primitive()
    body = signers.stamped(["report", {"report": report}])
    return {
        "party": host,
        "body": body,
        "signature": signers.keys_of(host).sign(
            host, conductor_api.TOPIC, body
        ),
    } | changes


CHANGES = [
    {"party": "b"},
    {"party": signing.CONTROL},
    {"party": "a" * 1000},
    {"party": None},
    {"body": json.dumps(["report", {"report": None}])},
    {"signature": "0" * 64},
    {"signature": "\ud800"},
    {"signature": None},
    # As the conductor would sign what it says to this host.
    {
        "signature": signers.POOL.sign(
            "a", agent_api.TOPIC, _sealed("a")["body"]
        )
    },
]


def test_a_changed_message_is_refused(conductor):
    pump = conductor(keys=signers.POOL)
    client = conductor_api.ConductorAPI()._client
    client._since = {}
    client.cast(rpc.SIGNED, **_sealed("a"))
    assert pump.next().host_uuid == "a"
    for changes in CHANGES:
        message = _sealed("a", **changes)
        with pytest.raises(
            exception.MessageRefused, match="invalid signature"
        ):
            client.call(rpc.SIGNED, timeout_s=waiting.LIMIT_S, **message)
    assert pump.queue.empty()


NONSENSE = [
    "nonsense",
    "[" * 100_000,
    "7",
    '["report"]',
    "[7, {}]",
    '["report", []]',
]


def test_a_signed_message_that_makes_no_sense_is_refused(conductor):
    conductor(keys=signers.POOL)
    client = conductor_api.ConductorAPI()._client
    for message in NONSENSE:
        signature = signers.keys_of("a").sign(
            "a", conductor_api.TOPIC, message
        )
        with pytest.raises(exception.MessageRefused):
            client.call(
                rpc.SIGNED,
                timeout_s=waiting.LIMIT_S,
                party="a",
                body=message,
                signature=signature,
            )


@pytest.mark.parametrize("method", ["_ask", "target", "signed", "CASTS", "no"])
def test_a_signature_opens_nothing_that_is_not_public(method):
    endpoint = conductor_rpc.ConductorManager(None, None, 1)
    guard = rpc._Guard(endpoint, conductor_api.TOPIC, signers.POOL, False)
    body = signers.stamped([method, {}])
    signature = signers.POOL.sign(signing.CONTROL, conductor_api.TOPIC, body)
    with pytest.raises(messaging.NoSuchMethod):
        guard.signed(None, signing.CONTROL, body, signature)


class Orders(agent_manager.AgentManager):
    """Takes orders."""

    def __init__(self) -> None:
        self.taken: queue.Queue = queue.Queue()
        super().__init__(lambda *_: None, lambda _: None)

    def report_now(self, ctxt, leader_epoch) -> None:
        self.taken.put(leader_epoch)


def test_an_agent_takes_orders_of_the_pool_only(serve, log):
    agents = {host: Orders() for host in HOSTS}
    for host, endpoint in agents.items():
        serve(agent_api.TOPIC, host, endpoint, keys=signers.keys_of(host))
    # As the captured host b would give orders to a.
    agent_api.AgentAPI().report_now("a", 1)
    body = signers.stamped(["report_now", {"leader_epoch": 2}])
    for party in HOSTS:
        signature = signers.keys_of("b").sign("b", agent_api.TOPIC, body)
        agent_api.AgentAPI()._client.cast(
            rpc.SIGNED,
            server="a",
            party=party,
            body=body,
            signature=signature,
        )
    api = agent_api.AgentAPI(keys=signers.POOL)
    with api.together():
        api.report_now("a", 3)
        api.report_now("b", 3)
    assert [
        one.taken.get(timeout=waiting.LIMIT_S) for one in agents.values()
    ] == [3, 3]
    assert all(one.taken.empty() for one in agents.values())
    assert len(log.records) == 3


def test_keys_are_replaced_one_after_the_other(conductor):
    old, new = b"o" * 32, b"n" * 32
    pump = conductor(keys=signing.Keys(signing.CONTROL, (old, new)))
    for secrets in ((old,), (new,), (new, old)):
        keys = signers.keys_of("a", signing.Keys(signing.CONTROL, secrets))
        conductor_api.ConductorAPI(keys=keys).report(_report("a"))
        assert pump.next().host_uuid == "a"


def test_a_host_has_no_key_but_its_own(transport):
    with pytest.raises(ValueError, match="no key for 'b'"):
        signers.keys_of("a").sign("b", "topic", "body")
    assert "70" * 32 not in repr(signers.POOL)
    assert signers.POOL.host_key("a") != signers.POOL.host_key("b")
    with pytest.raises(ValueError, match="cannot sign"):
        agent_api.AgentAPI(keys=signers.POOL)._client.cast("report_now")


def test_a_file_has_a_key_in_each_line(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{'ab' * 32}\n\n{'CD' * 40}\n")
    keys = signing.read(str(path), "a", "option")
    assert keys == signing.Keys("a", (b"\xab" * 32, b"\xcd" * 40))
    assert signing.read(None, "a", "option") is None


@pytest.mark.parametrize("text", ["", "ab" * 31, "a" * 65, "xy" * 32, "\xff"])
def test_what_is_no_key(tmp_path, text):
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(
        exception.ConfigurationError, match=r"option: /.*digits"
    ):
        signing.read(str(path), "a", "option")
    with pytest.raises(exception.ConfigurationError, match="No such file"):
        signing.read(str(tmp_path / "none"), "a", "option")
