# SPDX-License-Identifier: Apache-2.0

"""What a client that insists on TLS does not do."""

from __future__ import annotations

import pytest

from fpgapool import client
from fpgapool.client import cancel
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import instance
from fpgapool.client.doors import poolapi
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.cmd import run
from fpgapool.common.channels import channel

pytestmark = pytest.mark.security


class Door:
    """The front door of this host, which is away."""

    connections = 1

    def request_connection(self, *_: object) -> None:
        raise doors.ConnectionLost("away")

    def reconnect(self, *_: object) -> None:
        raise errors.FrontDoorUnavailable("away")


def _view(local: bool) -> views.SessionView:
    endpoints = [
        {"network": "local"},
        {"network": "data", "address": "192.0.2.1", "port": 1},
    ]
    return views.SessionView.from_message(
        {
            "session_id": "s",
            "state": "READY",
            "local": local,
            "endpoints": endpoints,
        }
    )


@pytest.mark.parametrize(
    ("local", "kind"),
    [(True, channel.ChannelClosed), (False, connections.WorkerError)],
)
def test_no_plain_connection_is_made(monkeypatch, local, kind) -> None:
    """A local slot is waited for, if its front door is away."""
    monkeypatch.setattr(
        channel, "connect_tcp", lambda *_: pytest.fail("connected")
    )
    dialer = connections.Dialer(
        _view(local), Door(), cancel.CancelToken(), require_tls=True
    )
    with pytest.raises(kind) as caught:
        dialer.open({}, None)
    if not local:
        assert caught.value.code == "TLS_REQUIRED"


class Adapter:
    """Knows where an API is, and must not be asked more."""

    def __init__(self, url: str | None) -> None:
        self.url = url

    def get_endpoint(self) -> str | None:
        return self.url

    def request(self, *_: object, **__: object) -> None:
        raise doors.ConnectionLost("asked")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://api.example.org/v1", "TLS_REQUIRED"),
        (None, "TLS_REQUIRED"),
        ("https://api.example.org/v1", "FRONT_DOOR_UNAVAILABLE"),
    ],
)
def test_a_plain_api_gets_no_token(url, code) -> None:
    api = poolapi.PoolApi(Adapter(url))
    with pytest.raises(client.FpgapoolError) as caught:
        client.acc_open("copy", 1, front_door=api, require_tls=True)
    assert caught.value.code == code


def test_a_plain_api_gets_no_token_of_an_instance(monkeypatch) -> None:
    monkeypatch.setattr(instance, "_exchange", lambda *_: pytest.fail("asked"))
    found = instance.Credentials("http://api.example.org", "token")
    api = poolapi.PoolApi.of_instance(found)
    with pytest.raises(client.InvalidRequest) as caught:
        client.acc_open("copy", 1, front_door=api, require_tls=True)
    assert caught.value.code == "TLS_REQUIRED"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", False),
        ("0", False),
        ("False", False),
        ("1", True),
        ("true", True),
        ("YES", True),
    ],
)
def test_the_environment(monkeypatch, text, value) -> None:
    monkeypatch.setenv("FPGAPOOL_REQUIRE_TLS", text)
    assert checks.require_tls(None) is value
    assert checks.require_tls(not value) is not value


@pytest.mark.parametrize(("argument", "text"), [("yes", ""), (None, "tls")])
def test_what_is_neither_yes_nor_no(monkeypatch, argument, text) -> None:
    monkeypatch.setenv("FPGAPOOL_REQUIRE_TLS", text)
    with pytest.raises(client.InvalidRequest):
        client.acc_open("copy", 1, front_door="x", require_tls=argument)


def test_the_command_insists(monkeypatch) -> None:
    asked = []

    def run_file(*_: object, require_tls: bool | None, **__: object) -> None:
        asked.append(require_tls)
        raise client.Cancelled

    monkeypatch.setattr(client, "run_file", run_file)
    arguments = ["copy", "--in", "/dev/null", "--out", "b"]
    assert run.main([*arguments, "--require-tls"]) == 130
    # The environment may.
    assert run.main(arguments) == 130
    assert asked == [True, None]
