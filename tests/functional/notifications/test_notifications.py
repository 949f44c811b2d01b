# SPDX-License-Identifier: Apache-2.0

"""Notifications on a real bus, of a pool of real processes."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool import objects
from tests.functional.system.conftest import make_cloud
from tests.functional.system.conftest import pytest_runtest_makereport
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting

__all__ = ["make_cloud", "pytest_runtest_makereport"]

LIMIT_S = 30
SIZE_BYTES = 50_000


class Listener:
    """Collects what is told, in order."""

    def __init__(self, transport_url: str) -> None:
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        self.messages: queue.Queue[tuple[str, str, dict]] = queue.Queue()
        self._transport = messaging.get_notification_transport(
            conf, transport_url
        )
        self._server = messaging.get_notification_listener(
            self._transport,
            [messaging.Target(topic="notifications", exchange="fpgapool")],
            [self],
            executor="threading",
        )
        self._server.start()

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        assert not ctxt.get("auth_token")
        self.messages.put((publisher_id, event_type, payload))

    error = info

    def until(self, event_type: str) -> list[tuple[str, dict]]:
        """Return what is told, up to an event."""
        found = []
        while not found or found[-1][0] != event_type:
            _, told, payload = self.messages.get(timeout=LIMIT_S)
            found.append((told, payload["fpgapool_object.data"]))
        return found

    def close(self) -> None:
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    """Give a pool whose conductor notifies."""
    return make_cloud(
        clouds.HostPlan("board", slots=2),
        # If most hosts were silent, the bus would be suspected.
        clouds.HostPlan("plain", slots=0),
        clouds.HostPlan("spare", slots=0),
        options={"oslo_messaging_notifications": {"driver": "messagingv2"}},
    )


@pytest.fixture
def listener(cloud: clouds.Cloud) -> Iterator[Listener]:
    """Give somebody who listens, and has heard of what was before."""
    listening = Listener(cloud.transport_url)
    yield listening
    listening.close()


def _use(door: doors.Door, data: bytes) -> str:
    session = door.open_ready(size_bytes=len(data))
    client = door.attach(session)
    assert client.run(data) == data
    client.close_session()
    return str(session["session_id"])


def _of(told: list[tuple[str, dict]], session_id: str) -> list[str]:
    return [
        event
        for event, payload in told
        if payload.get("session_id") == session_id
    ]


def test_a_sessions_life_in_order(
    cloud: clouds.Cloud, listener: Listener
) -> None:
    with cloud.hosts["board"].door() as door:
        session_id = _use(door, bytes(SIZE_BYTES))
    told = listener.until("session.end")
    events = _of(told, session_id)
    steps = [
        "session.queued",
        "session.preparing",
        "session.ready",
        "session.active",
        "session.end",
    ]
    # Steps that are committed together may leave out some between.
    assert events == [step for step in steps if step in events]
    assert {"session.queued", "session.end"} <= set(events)
    end = told[-1][1]
    assert (end["state"], end["reason"]) == ("CLOSED", "OK")
    assert end["input_bytes"] == end["output_bytes"] == SIZE_BYTES
    assert end["place"]["fpgapool_object.data"]["host_name"] == "board"


@pytest.mark.long
def test_hardware_is_told_of_and_by_whom(
    cloud: clouds.Cloud, listener: Listener
) -> None:
    with cloud.hosts["board"].door() as door:
        _use(door, bytes(SIZE_BYTES))
    told = iter(lambda: listener.messages.get(timeout=LIMIT_S), None)
    # What the start of the pool has changed may be told before.
    publisher, payload = next(
        (publisher, payload)
        for publisher, event, payload in told
        if event.startswith("session.")
    )
    assert publisher == f"fpgapool-conductor:{cloud.conductor.name}"
    assert payload["fpgapool_object.namespace"] == "fpgapool"
    made = objects.SessionPayload
    assert payload["fpgapool_object.name"] == made.__name__
    assert payload["fpgapool_object.version"] == made.VERSION
    listener.until("session.end")
    cloud.hosts["plain"].agent.kill()
    try:
        down = listener.until("host.down")[-1][1]
        assert down["host_name"] == "plain"
        assert not down["up"]
    finally:
        cloud.hosts["plain"].agent.start()
    while not listener.until("host.update")[-1][1]["up"]:
        # What has changed, before the report counts.
        pass
    cloud.wait_ready()


@pytest.mark.long
def test_the_conductor_goes_on_without_a_bus_for_them(
    make_cloud, rabbitmq
) -> None:
    # Only the notifications' bus is away.
    free = "rabbit://guest:guest@127.0.0.1:9/"
    cloud = make_cloud(
        clouds.HostPlan("lonely", slots=1),
        options={
            "oslo_messaging_notifications": {
                "driver": "messagingv2",
                "transport_url": free,
            },
            "notifications": {"max_queued": 1},
        },
    )
    with cloud.hosts["lonely"].door() as door:
        for _ in range(3):
            _use(door, bytes(SIZE_BYTES))
    waiting.wait_until(
        lambda: "notifications dropped" in cloud.conductor.log(),
        "what cannot be told is dropped",
    )
    cloud.check_consistent()
