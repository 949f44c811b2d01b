# SPDX-License-Identifier: Apache-2.0

"""News of sessions that conductors send."""

import queue
import threading

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.api.backends import news
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.rpcapi import api as api_rpcapi
from tests.harness import waiting
from tests.unit.api import fakes
from tests.unit.common import signers

KEYS = signing.Keys(signing.CONTROL, (b"k" * signing.KEY_BYTES,))
HOST_KEYS = signing.Keys("host", (b"h" * signing.KEY_BYTES,))


@pytest.fixture
def conf():
    made = cfg.ConfigOpts()
    fpgapool_conf.messages.OPTIONS.register(made)
    made([], project="fpgapool", default_config_files=[])
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    rpc.init(url="fake://")
    yield made
    rpc.cleanup()
    cfg.CONF.reset()


def listening(conf, keys=None):
    """Return a listener that hears news, and where it puts them."""
    heard = queue.SimpleQueue()
    listener = news.Listener(conf, keys)
    for _ in range(2):
        listener.start(heard.put)
    assert listener._ready.wait(waiting.LIMIT_S)
    return listener, heard


@pytest.mark.parametrize("keys", [None, KEYS])
def test_all_processes_hear_the_news(conf, keys):
    listener, heard = listening(conf, keys)
    api_rpcapi.ApiAPI(keys=keys).sessions_changed([fakes.view()])
    assert heard.get(timeout=waiting.LIMIT_S) == [fakes.view()]
    assert heard.empty()
    listener.stop()


def test_who_cannot_listen_tries_again_with_the_next_wait(conf, monkeypatch):
    get_server, ends = rpc.get_server, queue.SimpleQueue()

    def broken(*arguments, **options):
        server = get_server(*arguments, **options)

        def start():
            ends.put(threading.current_thread())
            raise messaging.MessageDeliveryFailure("no broker")

        server.start = start
        return server

    monkeypatch.setattr(rpc, "get_server", broken)
    listener = news.Listener(conf, None)
    listener.start(lambda views: None)
    ends.get(timeout=waiting.LIMIT_S).join(waiting.LIMIT_S)
    monkeypatch.setattr(rpc, "get_server", get_server)
    listener.start(lambda views: None)
    assert listener._ready.wait(waiting.LIMIT_S)
    listener.stop()


@pytest.mark.security
def test_only_conductors_send_news(conf):
    endpoint = rpc._Guard(
        news.Endpoint(lambda views: None), api_rpcapi.TOPIC, KEYS, False
    )
    body = signers.stamped(["sessions_changed", {"views": []}])
    signed = KEYS.sign
    for party, sign in (
        ("host", signed("host", api_rpcapi.TOPIC, body)),
        (signing.CONTROL, HOST_KEYS.sign("host", api_rpcapi.TOPIC, body)),
    ):
        with pytest.raises(Exception) as raised:
            endpoint.signed(None, party, body, sign)
        (_, error, _) = raised.value.exc_info
        assert isinstance(error, exception.MessageRefused)


@pytest.mark.parametrize(
    "views",
    [
        *(None, {}, [None], ["s"], [{"session_id": "s", "revision": 1}]),
        [fakes.view(revision="1").to_primitive()],
        [fakes.view().to_primitive()] * (api_rpcapi.MAX_CHANGES + 1),
    ],
)
def test_malformed_news_is_dropped(views, caplog):
    heard = []
    news.Endpoint(heard.append).sessions_changed(None, views)
    assert heard == []
    assert "Malformed sessions_changed" in caplog.text


def test_a_process_that_never_listened_stops(conf):
    news.Listener(conf, None).stop()
