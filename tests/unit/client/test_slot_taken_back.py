# SPDX-License-Identifier: Apache-2.0

"""A slot that is taken back while its client is on the way there."""

from __future__ import annotations

import pytest

from fpgapool.client import cancel
from fpgapool.client import connection as connections
from fpgapool.client import errors
from fpgapool.client import waiting
from fpgapool.vocabulary import codes


def view(generation: int) -> dict[str, object]:
    members = {
        "session_id": "s1",
        "generation": generation,
        "revision": generation,
        "state": "READY",
        "secret": f"secret {generation}",
        "endpoints": [],
    }
    return {"event": "session", "session": members}


class Door:
    """A front door that tells of one slot after the other."""

    connections = 1

    def __init__(self) -> None:
        self.news = [view(1), view(2)]

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
