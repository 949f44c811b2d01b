# SPDX-License-Identifier: Apache-2.0

"""A pool that cannot tell for a while how a session stands."""

from __future__ import annotations

import random
import socket
import time
import types
from collections.abc import Callable

import pytest

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes

# Not the one that lets everybody in.
DIALER = connections.Dialer
LOST = types.SimpleNamespace(session_id="s1", generation=1)


def event(state: str, generation: int, revision: int) -> dict[str, object]:
    members = {
        "session_id": "s1",
        "generation": generation,
        "revision": revision,
        "state": state,
        "secret": "secret",
        "endpoints": [],
    }
    return {"event": "session", "session": members}


QUEUED = event("QUEUED", 0, 1)
READY = event("READY", 2, 2)


def outage(code: str = codes.DATABASE_UNAVAILABLE) -> errors.RequestRejected:
    return errors.RequestRejected(code, "come again")


def untold(
    state: str, revision: int, code: str = codes.CONDUCTOR_UNAVAILABLE
) -> dict[str, object]:
    """What an agent says that was not answered.

    One that was started meanwhile knows nothing of the session.
    """
    told = event(state, 0, revision)
    told["session"] |= {"reason": code, "message": "no answer"}
    if state == "REJECTED":
        told["session"]["session_id"] = ""
    return told


Step = dict[str, object] | Exception | None


def played(script: list[Step]) -> dict[str, object]:
    """Do the next step of a script; the last one is repeated."""
    step = script.pop(0) if len(script) > 1 else script[0]
    if isinstance(step, Exception):
        raise step
    return step or {}


class Door:
    """A front door whose every answer is in a script."""

    connections = 1

    def __init__(
        self,
        news: list[Step],
        replies: list[Step] | None = None,
        reconnections: list[Step] | None = None,
    ) -> None:
        self.news = news
        self.replies = replies or [None]
        self.reconnections = reconnections or [None]
        self.asked = 0
        self.deadlines_s: list[float | None] = []

    def ask(self, _limit_s: float | None) -> None:
        self.asked += 1
        played(self.replies)

    def request(self, _operation: str, limit_s: float | None, **_: object):
        self.ask(limit_s)

    def discard_events(self) -> None:
        pass

    def reconnect(self, _limit_s: float | None) -> None:
        played(self.reconnections)

    def next_event(self, deadline_s: float | None) -> dict[str, object]:
        self.deadlines_s.append(deadline_s)
        return played(self.news)


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every worker let everybody in."""

    class Dialer:
        def __init__(self, view: views.SessionView, *_: object) -> None:
            self.view = view

        def open(self, *_: object) -> connections.Connection:
            return object.__new__(connections.Connection)

    monkeypatch.setattr(connections, "Dialer", Dialer)


@pytest.fixture
def seek() -> Callable[[Door], waiting.SlotSeeker]:
    return lambda door: waiting.SlotSeeker(
        door,  # type: ignore[arg-type]
        {},
        cancel.CancelToken(),
        None,
    )


@pytest.mark.parametrize(
    "trouble",
    [
        outage(codes.DATABASE_UNAVAILABLE),
        outage(codes.CONDUCTOR_UNAVAILABLE),
        outage(codes.RATE_LIMITED),
        # As Keystone that answers 503, by the REST API.
        errors.FrontDoorUnavailable("no token"),
    ],
    ids=repr,
)
def test_a_request_that_waits_goes_on(seek, trouble: Exception) -> None:
    door = Door([QUEUED, trouble, READY], [None, trouble, None])
    dialer, _connection = seek(door).open(door.ask, None)
    assert dialer.view.generation == 2
    assert door.asked == 3


def test_so_it_does_when_the_connection_is_lost_as_well(seek) -> None:
    door = Door(
        [QUEUED, doors.ConnectionLost("gone"), READY],
        reconnections=[
            errors.FrontDoorUnavailable("gone"),
            outage(),
            None,
        ],
    )
    dialer, _connection = seek(door).open(door.ask, None)
    assert dialer.view.generation == 2


FULL = doors.TurnedAway(
    errors.RequestRejected(codes.TOO_MANY_CONNECTIONS, "no room")
)


def test_a_front_door_without_room_is_waited_for(seek, monkeypatch) -> None:
    """By who was taken in before its agent was restarted."""
    monkeypatch.setattr(waiting, "_TURNED_AWAY_PATIENCE_S", 0.0)
    door = Door(
        [QUEUED, doors.ConnectionLost("gone"), READY],
        [None, FULL, FULL, None],
    )
    dialer, _connection = seek(door).open(door.ask, None)
    assert dialer.view.generation == 2


def test_a_front_door_without_room_is_told_to_others(
    seek, monkeypatch
) -> None:
    monkeypatch.setattr(waiting, "_TURNED_AWAY_PATIENCE_S", 0.0)
    door = Door([QUEUED], [FULL])
    with pytest.raises(errors.RequestRejected) as caught:
        seek(door).open(door.ask, None)
    assert caught.value.code == codes.TOO_MANY_CONNECTIONS


@pytest.mark.parametrize(
    "trouble", [outage(), errors.FrontDoorUnavailable("no token")], ids=repr
)
def test_what_was_not_taken_in_is_refused(
    seek, trouble: errors.FpgapoolError
) -> None:
    door = Door([QUEUED], [trouble])
    with pytest.raises(type(trouble)) as caught:
        seek(door).open(door.ask, None)
    assert caught.value.code == trouble.code
    assert door.asked == 1


def test_another_refusal_is_one(seek) -> None:
    door = Door([QUEUED, outage(codes.QUOTA_EXCEEDED)])
    with pytest.raises(errors.RequestRejected) as caught:
        seek(door).open(door.ask, None)
    assert caught.value.code == codes.QUOTA_EXCEEDED


def test_time_limits_hold_during_an_outage(seek, monkeypatch) -> None:
    monkeypatch.setattr(waiting, "_LONGEST_BACKOFF_S", 0.01)
    door = Door([QUEUED, outage()])
    seeker = seek(door)
    passed = iter([False] * 5)
    monkeypatch.setattr(
        waiting.channel,
        "remaining_s",
        lambda deadline_s: (
            None if deadline_s is None or next(passed, True) is False else 0
        ),
    )
    with pytest.raises(errors.OperationTimeout):
        seeker.open(door.ask, 1.0)


def test_a_lost_slot_is_replaced_after_an_outage(seek) -> None:
    door = Door([READY], [outage(), outage(), None])
    dialer, _connection = seek(door).reopen(LOST, 0, 0, None)
    assert dialer.view.generation == 2
    assert door.asked == 3


def test_a_running_session_does_not_wait_for_ever(seek, monkeypatch) -> None:
    monkeypatch.setattr(waiting, "_REOPEN_PATIENCE_S", 0.0)
    door = Door([READY], [outage()])
    with pytest.raises(errors.RequestRejected):
        seek(door).reopen(LOST, 0, 0, None)


def test_a_request_that_was_taken_in_outlives_agent_and_conductor(
    seek,
) -> None:
    door = Door(
        [
            {**QUEUED, "session": {**QUEUED["session"], "revision": 7}},
            doors.ConnectionLost("the agent was restarted"),
            untold("REJECTED", 0),
            untold("REJECTED", 0),
            event("READY", 2, 9),
        ]
    )
    dialer, _connection = seek(door).open(door.ask, None)
    assert dialer.view.generation == 2
    assert door.asked == 4


@pytest.mark.parametrize("state", ["CANCELLED", "REJECTED"])
def test_what_ended_by_an_outage_is_not_asked_for_again(
    seek, state: str
) -> None:
    ended = untold(state, 2)
    ended["session"]["session_id"] = "s1"
    door = Door([QUEUED, ended])
    with pytest.raises(waiting.Ended):
        seek(door).open(door.ask, None)
    assert door.asked == 1


def test_a_request_that_nobody_answers_is_refused(seek) -> None:
    door = Door([untold("REJECTED", 0)])
    with pytest.raises(waiting.Ended):
        seek(door).open(door.ask, None)
    assert door.asked == 1


def test_a_session_that_waits_again_outlives_agent_and_conductor(
    seek,
) -> None:
    door = Door(
        [
            event("QUEUED", 1, 57),
            doors.ConnectionLost("the agent was restarted"),
            untold("LOST", 1),
            event("READY", 2, 59),
        ]
    )
    dialer, _connection = seek(door).reopen(LOST, 0, 0, None)
    assert dialer.view.generation == 2
    assert door.asked == 3


def test_nor_does_it_wait_for_an_answer_for_ever(seek, monkeypatch) -> None:
    monkeypatch.setattr(waiting, "_REOPEN_PATIENCE_S", 0.0)
    door = Door([untold("LOST", 1)])
    with pytest.raises(errors.RequestRejected) as caught:
        seek(door).reopen(LOST, 0, 0, None)
    assert caught.value.code == codes.CONDUCTOR_UNAVAILABLE


def test_a_front_door_that_answers_and_falls_is_away(
    seek, monkeypatch
) -> None:
    """As one that is started and dies, over and over."""
    monkeypatch.setattr(waiting, "_REOPEN_PATIENCE_S", 0.1)
    monkeypatch.setattr(waiting, "_LONGEST_BACKOFF_S", 0.01)
    door = Door([doors.ConnectionLost("gone")])
    seeker = seek(door)
    steps = iter(range(200))

    def ask(_limit_s: float | None) -> None:
        next(steps)

    monkeypatch.setattr(door, "ask", ask)
    with pytest.raises(errors.FrontDoorUnavailable):
        seeker.reopen(LOST, 0, 0, None)


def test_a_second_outage_is_another_one(seek, monkeypatch) -> None:
    """The first one has not made anybody impatient, or slow."""
    pauses: list[float] = []

    class Token(cancel.CancelToken):
        def wait(self, timeout_s: float) -> None:
            pauses.append(timeout_s)

    door = Door([QUEUED, *[outage()] * 3, QUEUED, outage(), READY])
    seeker = seek(door)
    monkeypatch.setattr(waiting, "random", random.Random(1))
    monkeypatch.setattr(seeker, "token", Token())
    seeker.open(door.ask, None)
    assert pauses[2] > pauses[1] > pauses[0]
    assert pauses[3] < pauses[1]


def test_the_pool_keeps_the_time_in_the_queue_as_long_as_it_can(seek) -> None:
    hour_s = channel.deadline_after(3600.0)
    gone = doors.ConnectionLost("gone")
    door = Door([QUEUED, QUEUED, gone, QUEUED, READY])
    seek(door).open(door.ask, None, queue_deadline_s=hour_s)
    assert door.deadlines_s == [None, None, None, hour_s, None]


class Hanging(Door):
    """Takes connections, and does not say a word."""

    def ask(self, limit_s: float | None) -> None:
        assert limit_s is not None, "it would hang for ever"
        raise errors.OperationTimeout("no answer")

    def reconnect(self, limit_s: float | None) -> None:
        self.ask(limit_s)


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"patience_s": 0.0}, errors.FrontDoorUnavailable),
        (
            {"patience_s": 3600.0, "queue_deadline_s": 0.0},
            errors.WaitTimeout,
        ),
    ],
)
def test_a_front_door_that_hangs_is_waited_for_with_patience(
    seek, limits: dict[str, float], error: type[Exception]
) -> None:
    door = Hanging([QUEUED])
    with pytest.raises(error):
        seek(door).open(door.ask, None, **limits)


def test_one_that_hangs_while_it_is_connected_again_is_so_too(
    seek, monkeypatch
) -> None:
    door = Hanging([QUEUED, doors.ConnectionLost("gone")])
    monkeypatch.setattr(waiting, "_FIRST_BACKOFF_S", 0.2)
    with pytest.raises(errors.FrontDoorUnavailable):
        seek(door).open(lambda _limit_s: None, None, patience_s=0.05)


class HangingLater(Door):
    """Says that there is a slot, and does not hand over the way there."""

    passed_s = 0.0
    attempts = 0

    def request_connection(self, *_: object) -> socket.socket:
        self.attempts += 1
        assert self.attempts < 10, "it would be tried for ever"
        self.passed_s += 10.0
        raise errors.OperationTimeout("no answer")

    def next_event(self, deadline_s: float | None) -> dict[str, object]:
        if self.deadlines_s:
            raise errors.OperationTimeout("no news")
        return super().next_event(deadline_s)


def test_so_is_one_that_hangs_while_it_hands_over_a_connection(
    seek, monkeypatch
) -> None:
    local = {"network": views.LOCAL_NETWORK, "address": "", "port": 0}
    other = {"network": "a", "address": "127.0.0.1", "port": 1}
    ready = event("READY", 2, 2)
    ready["session"]["endpoints"] = [local, other]
    door = HangingLater([ready])
    clock = types.SimpleNamespace(
        monotonic=lambda: time.monotonic() + door.passed_s
    )
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(connections, "Dialer", DIALER)
    with pytest.raises(errors.FrontDoorUnavailable):
        seek(door).open(door.ask, None, patience_s=15.0)
    assert door.attempts == 2


class Silent(Door):
    """Takes a request in, and does not say what becomes of it."""

    def next_event(self, deadline_s: float | None) -> dict[str, object]:
        assert deadline_s is not None, "it would hang for ever"
        raise errors.OperationTimeout("no news")


def test_so_is_one_that_hangs_after_it_has_taken_a_request_in(seek) -> None:
    door = Silent([QUEUED])
    with pytest.raises(errors.FrontDoorUnavailable):
        seek(door).open(door.ask, None, patience_s=0.0)


def test_patience_is_not_for_the_time_in_the_queue(seek) -> None:
    door = Door([QUEUED, READY])
    seek(door).open(door.ask, None, patience_s=3600.0)
    first_s, second_s = door.deadlines_s
    assert first_s is not None
    assert second_s is None


def away_seeker(
    door: Door, told: list[tuple[str, float | None]]
) -> waiting.SlotSeeker:
    return waiting.SlotSeeker(
        door,  # type: ignore[arg-type]
        {},
        cancel.CancelToken(),
        None,
        away_timeout_s=15.0,
        on_away=lambda *told_: told.append(told_),
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the time; only the pauses of the library let it pass."""
    now_s = [1000.0]

    def wait(_token: object, pause_s: float) -> None:
        now_s[0] += pause_s

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(cancel.CancelToken, "wait", wait)
    return now_s


GONE = errors.FrontDoorUnavailable("gone")


def test_a_pool_that_stays_away_is_given_up(clock: list[float]) -> None:
    told: list[tuple[str, float | None]] = []
    door = Door([QUEUED, doors.ConnectionLost("gone")], reconnections=[GONE])
    with pytest.raises(errors.FrontDoorUnavailable) as caught:
        away_seeker(door, told).open(door.ask, None)
    said = caught.value.message
    assert said.startswith("the pool was unavailable for 15 s: ")
    assert codes.FRONT_DOOR_UNAVAILABLE not in said
    assert clock == [1015.0]
    assert told == [("the pool's front door", 15.0)]


def test_the_time_limit_is_shorter(clock: list[float]) -> None:
    told: list[tuple[str, float | None]] = []
    door = Door([QUEUED, doors.ConnectionLost("gone")], reconnections=[GONE])
    with pytest.raises(errors.OperationTimeout):
        away_seeker(door, told).open(door.ask, 1005.0)
    assert clock == [1005.0]
    assert told == [("the pool's front door", 5.0)]


def test_a_lost_worker_counts_too(clock: list[float]) -> None:
    """The time in which the slot's worker did not answer is over already."""
    told: list[tuple[str, float | None]] = []
    door = Door([], [doors.ConnectionLost("gone")], [GONE])
    seeker = away_seeker(door, told)
    seeker.worker_lost(1010.0)
    clock[0] = 1010.0
    seeker.worker_lost(1010.0)
    with pytest.raises(errors.FrontDoorUnavailable):
        seeker.reopen(LOST, 0, 0, None)
    assert clock == [1015.0]
    assert told == [
        ("the slot's worker", 10.0),
        ("the pool's front door", 5.0),
    ]


def test_a_conductor_that_is_away_does_not_count(clock: list[float]) -> None:
    told: list[tuple[str, float | None]] = []
    door = Door([QUEUED, *[outage()] * 30, READY])
    dialer, _connection = away_seeker(door, told).open(door.ask, None)
    assert dialer.view.generation == 2
    assert clock[0] > 1015.0
    assert told == []
