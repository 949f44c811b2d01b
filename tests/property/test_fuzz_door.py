# SPDX-License-Identifier: Apache-2.0

"""The front door, with programs that talk nonsense to it.

Whoever may open its socket acts for a project, and may be anything. It loses
its own connection at most: others of the project are served as ever, what
reaches the conductor is sound, and no descriptor stays behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.conductor.decisions import limits
from fpgapool.protocol import messages
from tests.functional.agent import harness
from tests.harness import waiting
from tests.property import fuzzing
from tests.property import nonsense


class Door:
    """An agent without boards, and a program that behaves."""

    def __init__(self, host: harness.Host) -> None:
        self.host = host
        self.agent = host.start()
        self.witness = harness.Client(host.front_door)
        assert self.witness.open("the-witness")["ok"]
        self.told = 0

    def check(self) -> None:
        """The witness is served, and hears what it is waiting for."""
        assert self.witness.request("hello")["ok"]
        self.told += 1
        harness.tell(
            self.agent, harness.view("the-witness", "QUEUED", self.told)
        )
        assert self.witness.event()["revision"] == self.told


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    """Give a front door that all examples share."""
    with (
        tempfile.TemporaryDirectory() as name,
        harness.running_host(
            pathlib.Path(name),
            driver_name="noop",
            driver_path="fpgapool.drivers.noop:NoopDriver",
            # What was asked for once is not asked for again meanwhile.
            open_timeout_s=3600.0,
            session_poll_interval_s=3600.0,
        ) as host,
    ):
        made = Door(host)
        before = len(os.listdir("/proc/self/fd"))
        yield made
        waiting.wait_until(
            lambda: len(os.listdir("/proc/self/fd")) <= before,
            "all descriptors are closed",
        )
        made.witness.sock.close()


def _talk(path: str, data: bytes) -> list[messages.Message]:
    """Say something; :returns: all answers, once the door has hung up."""
    answers: list[messages.Message] = []
    decoder = messages.MessageDecoder()
    with harness.Client(path) as hostile:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            hostile.sock.sendall(data)
            hostile.sock.shutdown(socket.SHUT_WR)
            while received := hostile.sock.recv(65536):
                answers += decoder.feed(received)
    return answers


@fuzzing.examples(200)
@given(st.binary(max_size=200) | nonsense.DOOR_STREAMS)
def test_nonsense(door: Door, data: bytes) -> None:
    """One connection's nonsense is answered, or ends that connection."""
    with fuzzing.no_errors_logged():
        for answer in _talk(door.host.front_door, data):
            assert "event" in answer or isinstance(answer["ok"], bool)
        door.check()
    sent = door.host.conductor.named("submit_sessions")
    for request in sent:
        limits.check(request)
        told = json.loads(json.dumps(request.to_primitive()))
        assert objects.OpenRequest.from_primitive(told) == request
    door.host.conductor.calls.clear()


@pytest.mark.parametrize(
    "number", nonsense.NUMBERS, ids=lambda one: repr(one)[:9]
)
def test_every_request_is_answered(door: Door, number: object) -> None:
    """An id that no answer can repeat does not swallow what follows."""
    data = fuzzing.message({"op": "hello", "id": number})
    data += fuzzing.message({"op": "hello", "id": "next"})
    with fuzzing.no_errors_logged():
        first, second = _talk(door.host.front_door, data)
    assert first["ok"]
    assert (second["id"], second["ok"]) == ("next", True)
