# SPDX-License-Identifier: Apache-2.0

"""A front door of the own host that hangs, or is not wanted any more."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from concurrent import futures

import pytest

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import view as views
from fpgapool.client.links import waiting
from fpgapool.common.channels import channel
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from tests.harness import listener as listeners

TIMEOUT_S = 30.0
LOST = views.SessionView.from_message(
    {"session_id": "s", "state": "READY", "generation": 5}
)


@pytest.fixture
def listener(tmp_path) -> Iterator[listeners.Listener]:
    with listeners.listening(str(tmp_path / "door")) as listener:
        yield listener


@pytest.fixture
def waits(monkeypatch) -> threading.Event:
    """Give an event that is set when somebody waits for room."""
    waits = threading.Event()
    pause = frontdoor.FrontDoor._pause

    def told(self: frontdoor.FrontDoor, seconds: float) -> None:
        waits.set()
        # Nobody wakes by himself.
        pause(self, 100 * TIMEOUT_S)

    monkeypatch.setattr(frontdoor.FrontDoor, "_pause", told)
    return waits


def test_a_seeker_that_waits_for_room_can_be_stopped(listener, waits) -> None:
    token = cancel.CancelToken()
    door = frontdoor.FrontDoor(listener.path, token)
    listener.accept().close()
    listener.fill()
    seeker = waiting.SlotSeeker(door, {}, token, None)
    outcome: futures.Future[bool] = futures.Future()

    def seek() -> None:
        try:
            seeker.reopen(LOST, 0, 0, None)
        except waiting.Stopped:
            outcome.set_result(True)

    threading.Thread(target=seek, daemon=True).start()
    assert waits.wait(TIMEOUT_S)
    seeker.stop()
    assert outcome.result(TIMEOUT_S)
    door.close()


def test_a_program_that_waits_for_room_can_be_cancelled(
    listener, waits
) -> None:
    token = cancel.CancelToken()
    listener.fill()
    outcome: futures.Future[bool] = futures.Future()

    def enter() -> None:
        try:
            frontdoor.FrontDoor(listener.path, token)
        except errors.Cancelled:
            outcome.set_result(True)

    threading.Thread(target=enter, daemon=True).start()
    assert waits.wait(TIMEOUT_S)
    token.cancel()
    assert outcome.result(TIMEOUT_S)


def test_what_nobody_wants_is_not_connected_again(listener) -> None:
    """Whoever shut it down may have known the connection before only."""
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    listener.accept()
    door.shutdown()
    with pytest.raises(errors.FrontDoorUnavailable):
        door.reconnect()
    # What was made meanwhile is closed.
    assert listener.accept().recv(1) == b""
    door.close()


TURNED_AWAY = messages.encode(
    messages.error_reply(None, codes.TOO_MANY_CONNECTIONS, "no room")
)


def test_whoever_gives_up_tries_a_full_front_door_again(listener) -> None:
    """Its request may have been taken in, and it has no connection."""
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    listener.accept()
    cancelled: futures.Future[messages.Message] = futures.Future()

    def serve() -> None:
        for _ in range(2):
            with listener.accept() as one:
                one.sendall(TURNED_AWAY)
        with listener.accept() as one:
            (message,) = messages.MessageDecoder().feed(one.recv(65536))
            one.sendall(messages.encode(messages.reply(message["id"])))
            cancelled.set_result(message)

    threading.Thread(target=serve, daemon=True).start()
    door.give_up(request_id="r1")
    message = cancelled.result(TIMEOUT_S)
    assert (message["op"], message["request_id"]) == ("cancel", "r1")
    door.close()


def test_whoever_gives_up_does_not_take_the_room_for_it(listener) -> None:
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    first = listener.accept()
    cancelled: futures.Future[bytes] = futures.Future()

    def serve() -> None:
        with listener.accept() as one:
            one.sendall(TURNED_AWAY)
        with listener.accept():
            try:
                cancelled.set_result(first.recv(1, socket.MSG_DONTWAIT))
            except BlockingIOError as exc:
                cancelled.set_exception(exc)

    threading.Thread(target=serve, daemon=True).start()
    door.give_up(request_id="r1")
    # The first connection had ended when there was a third one.
    assert cancelled.result(TIMEOUT_S) == b""
    door.close()


def test_whoever_gives_up_where_there_is_room_stays_until_it_is_told(
    listener,
) -> None:
    """Else the pool would hear of a program that is gone first."""
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    first = listener.accept()
    connected: futures.Future[bool] = futures.Future()

    def serve() -> None:
        with listener.accept() as one:
            (message,) = messages.MessageDecoder().feed(one.recv(65536))
            one.sendall(messages.encode(messages.reply(message["id"])))
            connected.set_result(True)

    threading.Thread(target=serve, daemon=True).start()
    door.give_up(request_id="r1")
    assert connected.result(TIMEOUT_S)
    with pytest.raises(BlockingIOError):
        first.recv(1, socket.MSG_DONTWAIT)
    door.close()


def test_a_system_without_memory_is_no_front_door_that_went(
    listener, monkeypatch
) -> None:
    """There would never be an answer to what was not sent."""
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    listener.accept()

    def send(*_: object, **__: object) -> None:
        cause = OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        raise channel.ChannelClosed("sending failed") from cause

    monkeypatch.setattr(door._channel, "send", send)
    with pytest.raises(doors.ConnectionLost):
        door.request("hello", channel.deadline_after(1.0))
    door.close()


def _news(one: socket.socket, generation: int) -> socket.socket:
    """Send the news of a slot, and a connection with it."""
    ours, workers = socket.socketpair()
    session = {"session_id": "s", "state": "READY", "generation": generation}
    data = messages.encode(
        messages.notification("session", session=session, connection=True)
    )
    with ours:
        socket.send_fds(one, [data], [ours.fileno()])
    return workers


def test_a_connection_that_came_with_the_news_is_used_once(listener) -> None:
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    one = listener.accept()
    deadline_s = channel.deadline_after(TIMEOUT_S)
    replaced, workers = _news(one, 1), _news(one, 2)
    for generation in (1, 2):
        event = door.next_event(deadline_s)
        assert event["session"]["generation"] == generation
    # The newer one has taken its place.
    assert replaced.recv(1) == b""
    with door.request_connection("s", 2, deadline_s) as connection:
        connection.sendall(b"x")
        assert workers.recv(1) == b"x"
    # The next is asked for, and that of another slot is not used.
    stale = _news(one, 3)
    door.next_event(deadline_s)
    asked, other_end = socket.socketpair()
    with asked:
        reply = messages.encode(messages.reply(1))
        socket.send_fds(one, [reply], [asked.fileno()])
    with door.request_connection("s", 4, deadline_s) as connection:
        connection.sendall(b"y")
        assert other_end.recv(1) == b"y"
    assert stale.recv(1) == b""
    # What was not used ends with the front door's connection.
    unused = _news(one, 5)
    door.next_event(deadline_s)
    door.close()
    assert unused.recv(1) == b""
    for end in (replaced, workers, stale, other_end, unused):
        end.close()


@pytest.mark.parametrize("session", [None, 7, {"session_id": ["s"]}])
def test_news_without_the_connection_that_they_tell_of(
    listener, session: object
) -> None:
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    listener.accept().sendall(
        messages.encode(
            messages.notification("session", session=session, connection=True)
        )
    )
    with pytest.raises(doors.ConnectionLost, match="no connection"):
        door.next_event(channel.deadline_after(TIMEOUT_S))
    door.close()


def read(sock: socket.socket) -> messages.Message:
    (message,) = messages.MessageDecoder().feed(sock.recv(65536))
    return message


def closed(*, confirmed: bool) -> doors.Closed:
    return {
        "session_id": "s1",
        "generation": 3,
        "input_bytes": 700,
        "output_bytes": 1400,
        "confirmed": confirmed,
    }


def test_a_confirmed_close_waits_for_no_reply(listener) -> None:
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    first = listener.accept()
    door.report_close(
        closed(confirmed=True), channel.deadline_after(TIMEOUT_S)
    )
    door.close()
    message = read(first)
    assert message.pop("id") is not None
    assert message.pop("request_id").startswith("req-")
    assert message == {"op": "close", **closed(confirmed=True)}


def test_a_confirmed_close_does_not_wait_for_an_agent(
    tmp_path, monkeypatch
) -> None:
    with listeners.listening(str(tmp_path / "door")) as listener:
        door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
        listener.accept().close()
    monkeypatch.delattr(frontdoor.waits, "pause")
    door.report_close(
        closed(confirmed=True), channel.deadline_after(TIMEOUT_S)
    )
    door.close()


def test_a_close_that_no_worker_confirmed_waits_for_the_next_agent(
    listener,
) -> None:
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    listener.accept().close()
    told: futures.Future[messages.Message] = futures.Future()

    def serve() -> None:
        # An agent that dies before it answers, and the next one.
        listener.accept().close()
        with listener.accept() as one:
            message = read(one)
            one.sendall(messages.encode(messages.reply(message["id"])))
            told.set_result(message)

    threading.Thread(target=serve, daemon=True).start()
    door.report_close(
        closed(confirmed=False), channel.deadline_after(TIMEOUT_S)
    )
    message = told.result(TIMEOUT_S)
    assert message.pop("id") is not None
    assert message.pop("request_id").startswith("req-")
    assert message == {"op": "close", **closed(confirmed=False)}
    door.close()
