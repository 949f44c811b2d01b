# SPDX-License-Identifier: Apache-2.0

"""Reopening by a real front door, with a conductor made for it."""

import contextlib
import socket
import threading

import pytest

from fpgapool import client
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import view as views
from fpgapool.client.links import waiting
from tests.functional.agent import harness


class Conductor(harness.FakeConductor):
    """Knows of reopening, too."""

    def reopen_session(
        self, project_id, *, session_id, generation, host_uuid
    ) -> None:
        self._record(
            "reopen_session", (project_id, session_id, generation, host_uuid)
        )


@pytest.fixture
def host(directory):
    with harness.running_host(
        directory,
        driver_name="noop",
        driver_path="fpgapool.drivers.noop:NoopDriver",
        open_timeout_s=3.0,
    ) as running:
        running.conductor = Conductor()
        running.start()
        yield running


@pytest.fixture
def door(host):
    with harness.Client(host.front_door) as connected:
        yield connected


def _reopen(door, session_id="session-of-r1", generation=5):
    return door.request("reopen", session_id=session_id, generation=generation)


def test_reopening_reaches_the_conductor_until_it_is_heard(host, door):
    assert _reopen(door) == {"id": 1, "ok": True}
    expected = (harness.PROJECT, "session-of-r1", 5, harness.HOST)
    wait_for = host.conductor.wait_for
    assert wait_for("reopen_session", lambda one: True) == expected
    host.conductor.calls.clear()
    assert wait_for("reopen_session", lambda one: True) == expected
    (agent,) = host.agents
    for view in (
        harness.view("r1", "QUEUED", 7, generation=5),
        harness.view("r1", "READY", 8, generation=6, secret="ab"),
    ):
        harness.tell(agent, view)
        event = door.event()
        assert (event["state"], event["generation"]) == (
            view.state,
            view.generation,
        )
    assert event["secret"] == "ab"


def test_client_that_goes_takes_the_waiting_session_along(host):
    with harness.Client(host.front_door) as door:
        _reopen(door)
    cancelled = host.conductor.wait_for("cancel_session", lambda one: True)
    assert cancelled == (harness.PROJECT, "session-of-r1", "CLIENT_GONE")


def test_conductor_that_does_not_answer(door):
    _reopen(door)
    event = door.event()
    assert (event["session_id"], event["state"], event["reason"]) == (
        "session-of-r1",
        "LOST",
        "CONDUCTOR_UNAVAILABLE",
    )


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"session_id": None}, "SESSION_NOT_FOUND"),
        ({"session_id": "../x"}, "SESSION_NOT_FOUND"),
        ({"generation": "5"}, "INVALID_REQUEST"),
        ({"generation": -1}, "INVALID_REQUEST"),
        ({"generation": True}, "INVALID_REQUEST"),
    ],
)
def test_wrong_members(host, door, members, code):
    reply = _reopen(door, **members)
    assert (reply["ok"], reply["error"]["code"]) == (False, code)
    assert not host.conductor.named("reopen_session")


@pytest.fixture
def full_host(directory):
    """Give a front door that has room for one program."""
    with harness.running_host(
        directory,
        driver_name="noop",
        driver_path="fpgapool.drivers.noop:NoopDriver",
        max_front_door_connections=1,
    ) as running:
        running.start()
        yield running


def _turned_away(host, monkeypatch, **arguments):
    """Return what comes of a program while another one is connected."""
    monkeypatch.setattr(waiting, "_TURNED_AWAY_PATIENCE_S", 0.3)
    give_up = client.CancelToken()
    # Only where nothing comes of it at all.
    late = threading.Timer(harness.TIMEOUT_S, give_up.cancel)
    late.start()
    try:
        with harness.Client(host.front_door) as first:
            assert first.request("hello")["ok"]
            return client.acc_open(
                "copy",
                5,
                front_door=host.front_door,
                cancel=give_up,
                **arguments,
            )
    finally:
        late.cancel()


def test_a_full_front_door_says_so_and_is_not_asked_for_ever(
    full_host, monkeypatch
):
    with pytest.raises(client.RequestRejected) as caught:
        _turned_away(full_host, monkeypatch)
    assert caught.value.code == "TOO_MANY_CONNECTIONS"


def test_a_program_that_can_compute_needs_no_full_front_door(
    full_host, monkeypatch
):
    be_patient = waiting.SlotSeeker._be_patient

    def be_impatient(self, reason):
        # A limit in seconds may pass when the front door was asked, but did
        # not answer yet: that is another reason.
        if isinstance(reason, doors.TurnedAway):
            self._patience_s = 0.0
        be_patient(self, reason)

    monkeypatch.setattr(waiting.SlotSeeker, "_be_patient", be_impatient)
    with _turned_away(full_host, monkeypatch, fallback="cpu") as session:
        assert session.fallback_reason == "TOO_MANY_CONNECTIONS"


def test_a_front_door_that_has_room_again_is_used(full_host, monkeypatch):
    door = full_host.front_door
    turned_away = threading.Event()
    failed = []

    def pause(self, reason):
        turned_away.set()
        return before(self, reason)

    before = waiting.SlotSeeker._pause
    monkeypatch.setattr(waiting.SlotSeeker, "_pause", pause)
    cancel = client.CancelToken()

    def program():
        try:
            client.acc_open(
                "copy", 5, front_door=door, cancel=cancel, verify=False
            )
        except client.Cancelled as error:
            failed.append(error)

    with harness.Client(door) as first:
        assert first.request("hello")["ok"]
        thread = threading.Thread(target=program)
        thread.start()
        assert turned_away.wait(harness.TIMEOUT_S)
    full_host.conductor.wait_for("submit_sessions", lambda one: True)
    cancel.cancel()
    thread.join(harness.TIMEOUT_S)
    assert failed


def test_a_front_door_that_drops_who_comes_is_away(directory, monkeypatch):
    """Also where it can be connected: a running session does not wait."""
    monkeypatch.setattr(waiting, "_REOPEN_PATIENCE_S", 0.3)
    path = str(directory / "door.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def drop():
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=drop)
        thread.start()
        token = client.CancelToken()
        door = frontdoor.FrontDoor(path, token)
        late = threading.Timer(harness.TIMEOUT_S, token.cancel)
        late.start()
        seeker = waiting.SlotSeeker(door, {}, token, None)
        lost = views.SessionView.from_message(
            {"session_id": "s", "state": "READY", "generation": 5}
        )
        with pytest.raises(client.FrontDoorUnavailable):
            seeker.reopen(lost, 0, 0, None)
        late.cancel()
        door.close()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(harness.TIMEOUT_S)
