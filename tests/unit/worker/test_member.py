# SPDX-License-Identifier: Apache-2.0

"""A member of a group, whose connections to its desk come from its agent."""

import os
import queue
import socket

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker import tasks
from fpgapool.agent.worker.data import blocks
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.protocol import records

GENERATION = 7
LIMIT_S = 60.0
PROFILE = accelerators.load_profile("copy")


class Driver:
    """Has nothing to clear."""

    def clear_task(self, device, slot):
        return


class Site:
    """A member, and its agent's end."""

    def __init__(self):
        self.asked = queue.SimpleQueue()
        self.events = queue.SimpleQueue()
        settings = worker_settings.WorkerSettings(
            control_socket="",
            data_socket="",
            worker_id="board0.0",
            device="board0",
            slot=0,
            state_dir="",
            driver="",
        )
        self.member = tasks.Member(
            settings,
            Driver(),
            self.events.put,
            blocks.BlockCache(0),
            lambda: self.asked.put(self.member.wanted),
        )
        self.desks = []

    def join(self, generation=GENERATION):
        order = state.Order(
            "group",
            generation,
            "project",
            "copy",
            "builtin:copy",
            connect_timeout_s=LIMIT_S,
            resume_grace_s=LIMIT_S,
            group_id="group",
        )
        self.member.arm(order, PROFILE)
        self.member.join(order)

    def leave(self):
        self.member.clear("DRAINED", "")

    def await_question(self):
        """Return the generation for which the agent is asked."""
        return self.asked.get(timeout=LIMIT_S)

    def await_event(self):
        return self.events.get(timeout=LIMIT_S)

    def connect(self, generation=GENERATION):
        """Pass a connection to a new desk, and return the desk."""
        desk = Desk()
        self.desks.append(desk)
        self.member.take_desk(generation, desk.member_end.detach())
        return desk


class Desk:
    """The desk's end of a connection."""

    def __init__(self):
        ours, self.member_end = socket.socketpair()
        self._sock = channels.PlainChannel(ours)
        self._rings = rings.Channel.create(4096)

    def greet(self):
        """Give the member its rings, and return the kind of its answer."""
        self._sock.send_with_fds(b"\0", self._rings.fds)
        self._rings.forget_fds()
        assert self._rings.wait(LIMIT_S)
        return records.split(self._rings.get()).kind

    def is_left(self):
        """Wait until the member has closed its end."""
        with pytest.raises(channels.ChannelClosed):
            self._sock.recv_some_into(
                memoryview(bytearray(1)), channels.deadline_after(LIMIT_S)
            )
        return True

    def die(self):
        self._sock.close()
        self._rings.close()


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(tasks, "_FIRST_PAUSE_S", 0.0)
    before = len(os.listdir("/proc/self/fd"))
    made = Site()
    yield made
    made.leave()
    for desk in made.desks:
        desk.die()
    assert len(os.listdir("/proc/self/fd")) == before


def is_attached(event):
    return isinstance(event, state.Attached)


def test_a_member_joins_over_the_connection_of_its_agent(site):
    site.join()
    assert site.await_question() == GENERATION
    assert site.connect().greet() == records.READY
    assert is_attached(site.await_event())
    assert site.member.wanted is None
    assert site.asked.empty()


def test_a_member_asks_again_until_its_desk_is_there(site):
    site.join()
    for _ in range(5):
        assert site.await_question() == GENERATION
        site.member.take_desk(GENERATION, None)
    assert site.await_question() == GENERATION
    assert site.connect().greet() == records.READY


def test_a_member_asks_again_when_its_desk_dies(site):
    site.join()
    for _ in range(3):
        assert site.await_question() == GENERATION
        desk = site.connect()
        assert desk.greet() == records.READY
        assert is_attached(site.await_event())
        desk.die()
        assert site.await_event() == state.Detached(GENERATION)


def test_a_member_asks_again_when_its_desk_dies_before_it_answers(site):
    site.join()
    site.await_question()
    site.connect().die()
    assert site.await_event() == state.Detached(GENERATION)
    assert site.await_question() == GENERATION


def test_what_a_member_wants_stays_until_it_is_answered(site):
    """An agent that comes instead of the one that was asked, sees it."""
    site.join()
    site.await_question()
    assert site.member.wanted == GENERATION
    assert site.connect().greet() == records.READY
    assert site.member.wanted is None


@pytest.mark.parametrize("generation", [GENERATION - 1, GENERATION + 1, None])
def test_connections_for_other_generations_are_closed(site, generation):
    site.join()
    site.await_question()
    site.member.take_desk(generation, None)
    assert site.connect(generation).is_left()
    assert site.member.wanted == GENERATION
    assert site.connect().greet() == records.READY
    assert site.asked.empty()


def test_a_second_connection_is_closed(site):
    site.join()
    site.await_question()
    first, second = site.connect(), site.connect()
    assert second.is_left()
    assert first.greet() == records.READY


def test_a_member_may_leave_while_it_waits(site):
    site.join()
    site.await_question()
    site.leave()
    assert site.connect().is_left()
    # The next assignment's first answer is its own.
    site.join(GENERATION + 1)
    assert site.await_question() == GENERATION + 1
    assert site.connect(GENERATION).is_left()
    assert site.connect(GENERATION + 1).greet() == records.READY


def test_a_slot_that_is_no_member_takes_no_connection(site):
    assert site.connect(None).is_left()
    assert site.connect().is_left()
