# SPDX-License-Identifier: Apache-2.0

"""Workers that ask for the next stage again and again, and read nothing."""

from __future__ import annotations

import os
import socket

import pytest

from fpgapool.agent.supervision import assigned
from fpgapool.protocol import messages
from tests.unit.agent import test_workers

pytestmark = pytest.mark.security


class Site(test_workers.Site):
    """A worker whose next stage is always there, and an agent's clock."""

    def __init__(self, directory) -> None:
        super().__init__(directory)
        self.now = 0.0
        self.supervisor._loop.now = lambda: self.now
        self.dialed: list[str] = []
        self.supervisor._dial_next = self._dial
        self.child.assigned = assigned.Assigned(7, "session", "project")

    def _dial(self, _project_id, session_id, _generation, answer) -> None:
        self.dialed.append(session_id)
        here, there = socket.socketpair()
        there.close()
        answer(here)

    def want(self, number: int, **changes: object) -> None:
        """Have the worker ask, later than it may ask again."""
        self.now += 1.0
        members = {
            "number": number,
            "generation": 7,
            "session_id": f"next-{number}",
            "next_generation": 9,
        }
        event = messages.notification("next_wanted", **members | changes)
        self.send(messages.encode(event))
        self.receive()

    def answer(self) -> list[dict]:
        """Have the worker read and answer all; return the requests."""
        requests, fds = self.take()
        for fd in fds:
            os.close(fd)
        for one in requests:
            self.send(messages.encode(messages.reply(one["id"])))
        self.receive()
        return requests


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.supervisor.close(0.0)
    made.close()


def test_an_agent_keeps_one_answer_for_each_worker(site):
    before = len(os.listdir("/proc/self/fd"))
    for number in range(500):
        site.want(number)
    assert site.dialed == ["next-0"]
    assert len(site.child.link.requests) == 1
    assert not site.child.link._unsent
    # The one is in the socket.
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_newest_question_is_answered_later(site):
    for number in range(9):
        site.want(number)
    (first,) = site.answer()
    (last,) = site.answer()
    assert [first["number"], last["number"]] == [0, 8]
    assert (first["connected"], last["connected"]) == (True, True)
    assert site.dialed == ["next-0", "next-8"]
    assert site.answer() == []
    site.want(9)
    assert site.answer()[0]["connected"]


def test_a_question_of_a_worker_that_is_gone_is_forgotten(site):
    site.want(0)
    site.want(1)
    site.worker_end.close()
    site.receive()
    assert site.child.ask_next is None


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "x" * 65},
        {"session_id": "../x"},
        {"next_generation": 2**63},
        {"number": -1},
    ],
)
def test_what_no_worker_asks_ends_it(site, changes):
    site.want(**{"number": 0, **changes})
    assert site.child.ended_for is not None
    assert site.dialed == []
