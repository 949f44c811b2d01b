# SPDX-License-Identifier: Apache-2.0

"""A slot that is taken back while its client is on the way there."""

from __future__ import annotations

import socket

import pytest

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import flow as flows
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes


def view(
    generation: int, state: str = "READY", reason: str = ""
) -> dict[str, object]:
    members = {
        "session_id": "s1",
        "generation": generation,
        "revision": generation,
        "state": state,
        "reason": reason,
        "secret": f"secret {generation}",
        "endpoints": [],
    }
    return {"event": "session", "session": members}


class Door:
    """A front door that tells of one slot after the other."""

    connections = 1

    def __init__(self) -> None:
        self.news = [view(1), view(2)]
        self.reopened: list[object] = []

    def request(self, operation, _limit_s, *, session_id, generation) -> None:
        self.reopened.append((operation, session_id, generation))

    def discard_events(self) -> None:
        """Nothing has come that is not asked for."""

    def next_event(self, _deadline_s: float | None) -> dict[str, object]:
        return self.news.pop(0)


@pytest.fixture
def seeker() -> waiting.SlotSeeker:
    return waiting.SlotSeeker(Door(), {}, cancel.CancelToken(), None)


def answer_first(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have the worker of the first slot refuse, and the second let in."""

    class Dialer:
        def __init__(self, view, *_arguments: object) -> None:
            self.generation = view.generation

        def open(self, *_arguments: object) -> connections.Connection:
            if self.generation == 1:
                raise connections.WorkerError(code, "refused")
            return object.__new__(connections.Connection)

    monkeypatch.setattr(connections, "Dialer", Dialer)


@pytest.mark.parametrize(
    "code", [codes.SUPERSEDED, codes.UNAUTHORIZED, codes.WORKER_DIED]
)
def test_the_client_goes_to_the_next_slot(seeker, monkeypatch, code) -> None:
    answer_first(monkeypatch, code)
    dialer, _connection = seeker.open(lambda _limit_s: None, None)
    assert dialer.generation == 2


def test_a_refusal_of_the_client_itself_is_final(seeker, monkeypatch) -> None:
    answer_first(monkeypatch, codes.INVALID_PARAMS)
    with pytest.raises(errors.InvalidParams):
        seeker.open(lambda _limit_s: None, None)


@pytest.mark.parametrize("code", [codes.CONNECTION_LOST, codes.RESUME_TIMEOUT])
@pytest.mark.parametrize("lost", [-1, 0])
def test_a_connection_that_breaks_before_it_is_opened_costs_no_session(
    seeker, monkeypatch, code, lost
) -> None:
    answer_first(monkeypatch, codes.UNAUTHORIZED)
    seeker.door.news.insert(1, view(1, "EXPIRED", code))
    if lost < 0:
        dialer, _ = seeker.open(lambda _limit_s: None, None)
        before = []
    else:
        known = views.SessionView.from_message(view(lost)["session"])
        dialer, _ = seeker.reopen(known, 64, 32, None)
        before = [("reopen", "s1", lost)]
    assert dialer.generation == 2
    assert seeker.door.reopened == [*before, ("reopen", "s1", 1)]


def test_a_session_that_cannot_move_has_ended(seeker, monkeypatch) -> None:
    answer_first(monkeypatch, codes.UNAUTHORIZED)
    end = view(1, "EXPIRED", codes.RESUME_TIMEOUT)
    seeker.door.news = [view(1), end, end]
    with pytest.raises(waiting.Ended) as caught:
        seeker.open(lambda _limit_s: None, None)
    assert caught.value.view.reason == codes.RESUME_TIMEOUT
    assert len(seeker.door.reopened) == 1


class Knowing:
    """A front door that knows what has become of a session."""

    def __init__(self, document: dict[str, object]) -> None:
        self._document = document

    def request(self, *_arguments: object, **_members: object) -> object:
        return self._document


@pytest.mark.parametrize(
    ("newest", "is_lost"),
    [
        (view(3, "ACTIVE"), False),
        (view(3, "READY"), False),
        # From before it had this slot.
        (view(2, "QUEUED"), False),
        (view(3, "QUEUED", codes.PREEMPTED), True),
        (view(4, "PREPARING"), True),
        (view(3, "FAILED", codes.WORKER_LOST), True),
    ],
)
def test_a_client_stops_resuming_when_its_slot_is_lost(
    newest, is_lost
) -> None:
    dialer = connections.Dialer(
        views.SessionView.from_message(view(3)["session"]),
        Knowing(newest),
        cancel.CancelToken(),
    )
    found = dialer.outcome(None)
    assert (found is not None) == is_lost


def test_a_session_that_waits_again_goes_on_elsewhere() -> None:
    flow = object.__new__(flows.Flow)
    waits = views.SessionView.from_message(
        view(3, "QUEUED", codes.PREEMPTED)["session"]
    )
    lost = flow._end_of(waits)
    assert isinstance(lost, flows._SlotLost)
    assert lost.code == codes.PREEMPTED
    moved = views.SessionView.from_message(view(4, "PREPARING")["session"])
    assert flow._end_of(moved).code == codes.SESSION_LOST


def test_what_a_worker_has_said_before_it_went_is_heard(monkeypatch) -> None:
    mine, worker = socket.socketpair()
    opened = connections.Opened.from_document(
        {
            "resume_secret": "secret",
            "chunk_bytes": 4096,
            "window_bytes": 4096,
            "input_offset": 0,
            "output_offset": 0,
        }
    )
    dialer = connections.Dialer(
        views.SessionView.from_message(view(1)["session"]),
        Door(),
        cancel.CancelToken(),
    )
    flow = flows.Flow(
        dialer,
        connections.Connection(channel.PlainChannel(mine), opened, None),
        waiting.SlotSeeker(Door(), {}, cancel.CancelToken(), None),
    )
    with worker:
        output = bytes(2048)
        head = frames.pack_header(
            frames.OUTPUT, payload_length_bytes=len(output), task_id=1
        )
        worker.sendall(head + output)
        worker.sendall(frames.error_frame(codes.PREEMPTED, "left", 2048))
    place = memoryview(bytearray(4096))
    with mine:
        assert flow.receive(place, None).data == output
        troubles = []

        def recover(_deadline_s: float | None, trouble: Exception) -> None:
            troubles.append(trouble)
            raise waiting.Stopped

        monkeypatch.setattr(flow, "_recover", recover)
        # It acknowledges, which nothing hears any more.
        with pytest.raises(waiting.Stopped):
            flow.receive(place, None)
    assert [one.code for one in troubles] == [codes.PREEMPTED]
