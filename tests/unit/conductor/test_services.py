# SPDX-License-Identifier: Apache-2.0

"""Signs of life of conductors and of the API's processes."""

from __future__ import annotations

import os
import queue
import socket
from typing import Any

import oslo_messaging as messaging
import pytest

from fpgapool import version
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.calls import services
from fpgapool.objects import bounds
from fpgapool.rpcapi import pulse
from fpgapool.vocabulary import inventory
from tests.harness import waiting
from tests.unit.conductor import pumps


class Pump(pumps.FakePump):
    """Has a clock that can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.time_s = pumps.NOW

    def now(self) -> float:
        return self.time_s


@pytest.fixture
def pump() -> Pump:
    return Pump()


@pytest.fixture
def endpoint(pump: Pump) -> conductor_rpc.ConductorManager:
    return conductor_rpc.ConductorManager(pump, pumps.FakeDatabase(), 40)


def _sign(name: str = "h:1", **changed: Any) -> dict[str, Any]:
    sign = {
        "binary": inventory.API,
        "name": name,
        "host": "h",
        "version": "1.1.0",
        "lives": True,
    }
    return {**sign, **changed}


def _known(endpoint: conductor_rpc.ConductorManager) -> list[tuple[str, bool]]:
    """Return names, and who is up, the one that was heard last first."""
    found = endpoint.services_now(None)["services"]
    return [(one["name"], one["up"]) for one in found]


def test_a_sign_is_stamped_with_the_leaders_time(endpoint, pump) -> None:
    endpoint.note_service(None, **_sign())
    pump.time_s += 5
    endpoint.note_service(None, **_sign())
    assert endpoint.services_now(None) == {
        "version": version.version_string(),
        "services": [
            {
                "binary": inventory.API,
                "name": "h:1",
                "host": "h",
                "version": "1.1.0",
                "last_report_at": pumps.NOW + 5,
                "up": True,
            }
        ],
    }


def test_who_is_silent_is_down_and_after_a_day_forgotten(
    endpoint, pump
) -> None:
    endpoint.note_service(None, **_sign())
    for silent_s, known in (
        (60.0, [("h:1", True)]),
        (61.0, [("h:1", False)]),
        (86400.0, [("h:1", False)]),
        (86401.0, []),
    ):
        pump.time_s = pumps.NOW + silent_s
        assert _known(endpoint) == known


def test_who_stops_is_forgotten(endpoint) -> None:
    for name in ("h:1", "h:2"):
        endpoint.note_service(None, **_sign(name))
    endpoint.note_service(None, **_sign(lives=False))
    endpoint.note_service(None, **_sign("h:3", lives=False))
    assert _known(endpoint) == [("h:2", True)]


def test_the_oldest_of_too_many_is_forgotten(endpoint) -> None:
    for number in range(services._MOST + 1):
        endpoint.note_service(None, **_sign(f"h:{number}"))
        # It always was the last one before.
        endpoint.note_service(None, **_sign("h:0"))
    names = [name for name, _up in _known(endpoint)]
    assert names[:2] == ["h:0", f"h:{services._MOST}"]
    assert len(names) == services._MOST
    assert "h:1" not in names


def test_an_answer_is_cut_where_names_are_long(endpoint) -> None:
    for number in range(services._MOST):
        long = f"{number:0255}"
        endpoint.note_service(None, **_sign(long, host=long, version=long))
    names = [name for name, _up in _known(endpoint)]
    assert 0 < len(names) < services._MOST
    assert names[0] == f"{services._MOST - 1:0255}"
    most_bytes = bounds.MAX_ANSWER_BYTES
    assert len(str(endpoint.services_now(None))) < most_bytes


@pytest.mark.parametrize(
    "sign",
    [
        {},
        _sign(binary="nova-compute"),
        _sign("n" * 256),
        _sign("two\nlines"),
        _sign(host=None),
        _sign(version=1.1),
        _sign(lives="yes"),
        _sign(more=1),
    ],
)
def test_malformed_signs_are_dropped(endpoint, sign) -> None:
    endpoint.note_service(None, **sign)
    assert _known(endpoint) == []


def test_hosts_may_not_speak_for_services() -> None:
    manager = conductor_rpc.ConductorManager
    assert not {"note_service", "services_now"} & manager.OF_HOSTS
    # Hosts may send these in one message.
    assert "note_service" not in manager.CASTS


# Those who tell that they live.


class Leader:
    """Hears signs; fails as it is told."""

    def __init__(self) -> None:
        self.heard: queue.Queue[dict[str, Any]] = queue.Queue()
        self.failures: list[Exception] = []

    def note_service(self, binary: str, name: str, **sign: Any) -> None:
        self.heard.put({"binary": binary, "name": name, **sign})
        if self.failures:
            raise self.failures.pop(0)

    def next(self) -> dict[str, Any]:
        return self.heard.get(timeout=waiting.LIMIT_S)


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    monkeypatch.setattr(pulse, "INTERVAL_S", 0.01)
    return Leader()


def test_a_process_of_the_api_lives_until_it_stops(leader: Leader) -> None:
    one = pulse.Pulse(leader, inventory.API)
    one.start()
    host = socket.gethostname()
    sign = {
        "binary": inventory.API,
        "name": f"{host}:{os.getpid()}",
        "host": host,
        "version": version.version_string(),
        "lives": True,
    }
    assert [leader.next(), leader.next()] == [sign, sign]
    one.stop()
    signs = list(leader.heard.queue)
    assert signs.pop() == {**sign, "lives": False}
    assert all(one["lives"] for one in signs)


def test_the_last_sign_of_a_conductor_stays(leader: Leader) -> None:
    one = pulse.Pulse(leader, inventory.CONDUCTOR, "c1")
    one.start()
    assert leader.next()["name"] == "c1"
    one.stop()
    assert all(one["lives"] for one in leader.heard.queue)


def test_who_never_started_can_stop(leader: Leader) -> None:
    pulse.Pulse(leader, inventory.API).stop()
    assert leader.heard.empty()


def test_a_broker_that_is_away_is_logged_once(leader: Leader, caplog) -> None:
    leader.failures = [
        messaging.MessageDeliveryFailure("away"),
        messaging.MessageDeliveryFailure("away"),
    ]
    one = pulse.Pulse(leader, inventory.API)
    one.start()
    for _ in range(3):
        leader.next()
    one.stop()
    assert caplog.text.count("Cannot tell the leader that it lives") == 1


def test_leaders_of_a_pinned_release_are_not_told(
    leader: Leader, caplog
) -> None:
    leader.failures = [messaging.RPCVersionCapError("1.1", "1.0")] * 3
    one = pulse.Pulse(leader, inventory.API)
    one.start()
    for _ in range(4):
        leader.next()
    one.stop()
    assert caplog.text == ""
