#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Requests are looked up together, and never wait for a dead database."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Iterator

import pytest

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor import inputs
from fpgapool.conductor import lookup
from fpgapool.db import api as db_api

WAIT_S = 10.0

REQUEST = objects.OpenRequest(
    request_id="r1",
    project_id="p",
    user_id="u",
    host_uuid="a",
    accelerator="copy",
    claimed_bytes=1,
    expires_at=1.0,
)
RECORD = db_api.SessionRecord(
    id=1,
    session_id="s",
    request_id="r1",
    project_id="p",
    user_id="u",
    host_id=None,
    accelerator="copy",
    claimed_bytes=1,
    state="CLOSED",
    connect_timeout_s=1.0,
    resume_grace_s=1.0,
    queued_at=1.0,
)


class FakeDatabase:
    """Knows some sessions; answers when it may, or fails."""

    def __init__(self) -> None:
        self.failing = False
        self.error: Exception | None = None
        self.records: list[db_api.SessionRecord] = []
        self.questions: queue.SimpleQueue[list[tuple[str, str]]] = (
            queue.SimpleQueue()
        )
        self.may_answer = threading.Event()
        self.may_answer.set()

    def find_sessions(self, names) -> list[db_api.SessionRecord]:
        self.questions.put(list(names))
        assert self.may_answer.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        return self.records


class World:
    """A lookup, its database and what it passes on."""

    def __init__(self) -> None:
        self.database = FakeDatabase()
        self.taken: queue.SimpleQueue[inputs.Input] = queue.SimpleQueue()
        self.failed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.lookup = lookup.Lookup(
            self.database, self.taken.put, self.failed.put
        )


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.lookup.start()
    yield made
    made.database.may_answer.set()
    made.lookup.stop()


def named(request_id: str) -> objects.OpenRequest:
    return dataclasses.replace(REQUEST, request_id=request_id)


def test_what_a_request_became_goes_with_it(world) -> None:
    world.database.records = [RECORD]
    world.lookup.open(REQUEST)
    assert world.taken.get(timeout=WAIT_S) == inputs.Open(
        REQUEST, ended=RECORD
    )
    world.lookup.open(named("r2"))
    assert world.taken.get(timeout=WAIT_S) == inputs.Open(named("r2"))


def test_what_lives_is_the_engine_s_own_business(world) -> None:
    world.database.records = [dataclasses.replace(RECORD, state="ACTIVE")]
    world.lookup.open(REQUEST)
    assert world.taken.get(timeout=WAIT_S) == inputs.Open(REQUEST)


def test_what_comes_meanwhile_is_one_question_in_order(world) -> None:
    world.database.may_answer.clear()
    world.lookup.open(named("r0"))
    assert world.database.questions.get(timeout=WAIT_S) == [("p", "r0")]
    names = [f"r{number}" for number in range(1, 100)]
    for name in names:
        world.lookup.open(named(name))
    world.database.may_answer.set()
    asked = world.database.questions.get(timeout=WAIT_S)
    assert asked == [("p", name) for name in names]
    taken = [world.taken.get(timeout=WAIT_S) for _ in range(100)]
    assert taken == [inputs.Open(named(name)) for name in ["r0", *names]]


def test_a_question_is_not_about_too_many(world) -> None:
    world.database.may_answer.clear()
    names = [f"r{number}" for number in range(1202)]
    for name in names:
        world.lookup.open(named(name))
    world.database.may_answer.set()
    taken = [world.taken.get(timeout=WAIT_S) for _ in names]
    assert taken == [inputs.Open(named(name)) for name in names]
    asked = []
    while len(asked) < len(names):
        question = world.database.questions.get(timeout=WAIT_S)
        assert len(question) <= 500
        asked += question
    assert asked == [("p", name) for name in names]


@pytest.mark.parametrize(
    "error", [exception.DatabaseUnavailable, exception.DatabaseError]
)
def test_a_request_during_an_outage_is_marked(world, error) -> None:
    world.database.error = error(reason="gone")
    world.lookup.open(REQUEST)
    assert world.taken.get(timeout=WAIT_S) == inputs.Open(
        REQUEST, database_failing=True
    )
    world.database.error = None
    world.lookup.open(REQUEST)
    assert world.taken.get(timeout=WAIT_S) == inputs.Open(REQUEST)


def test_a_database_that_fails_is_not_asked_again(world) -> None:
    world.database.may_answer.clear()
    world.lookup.open(named("r0"))
    assert world.database.questions.get(timeout=WAIT_S) == [("p", "r0")]
    world.database.failing = True
    # The first one still waits.
    world.lookup.open(REQUEST)
    assert world.taken.get(timeout=WAIT_S) == inputs.Open(
        REQUEST, database_failing=True
    )
    assert world.database.questions.empty()


def test_what_is_queued_is_handed_on_at_the_end() -> None:
    world = World()
    world.lookup.open(REQUEST)
    world.lookup.start()
    world.lookup.stop()
    assert world.taken.get_nowait() == inputs.Open(REQUEST)


def test_its_end_is_noticed(world) -> None:
    world.database.error = RuntimeError("a bug")
    world.lookup.open(REQUEST)
    assert world.failed.get(timeout=WAIT_S) == "lookup"
