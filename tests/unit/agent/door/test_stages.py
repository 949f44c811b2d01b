# SPDX-License-Identifier: Apache-2.0

"""Connections from worker to worker: only within a project."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from unittest import mock

import pytest

from fpgapool.agent.door import slots
from fpgapool.agent.door import stages
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

pytestmark = pytest.mark.security

WANTED = "project", "session", 7


class Caller:
    """Makes calls at once."""

    def submit(self, call, on_result, on_error, *, limit_s, lane) -> None:
        assert lane == "project"
        try:
            result = call()
        except Exception as error:
            on_error(error)
        else:
            on_result(result)


class Site:
    """A host; nothing is on it at first."""

    def __init__(self) -> None:
        self.slots = mock.create_autospec(slots.HostSlots, instance=True)
        self.slots.connect.side_effect = _refusal(codes.SESSION_NOT_FOUND)
        self.conductor = mock.create_autospec(
            conductor_api.ConductorAPI, instance=True
        )
        self.conductor.stage_endpoints.return_value = []
        self.made = stages.NextStages(
            "host", self.slots, self.conductor, Caller()
        )

    def connect(self) -> socket.socket | None:
        answers: list[socket.socket | None] = []
        self.made.connect(*WANTED, answers.append)
        (answer,) = answers
        return answer


def _refusal(code: str) -> rules.RequestError:
    return rules.RequestError(code, "refused")


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_a_worker_of_this_host_is_connected_here(site) -> None:
    here, there = socket.socketpair()
    site.slots.connect.side_effect = [here]
    with here, there:
        assert site.connect() is here
    site.slots.connect.assert_called_once_with(*WANTED)
    site.conductor.stage_endpoints.assert_not_called()


@pytest.mark.parametrize(
    "code",
    [codes.STALE_GENERATION, codes.SESSION_NOT_READY, codes.WORKER_LOST],
)
def test_nobody_else_is_asked_for_a_session_of_this_host(site, code) -> None:
    site.slots.connect.side_effect = _refusal(code)
    assert site.connect() is None
    site.conductor.stage_endpoints.assert_not_called()


def test_the_conductor_says_where_another_host_is(site, listener) -> None:
    address, port = listener.getsockname()
    site.conductor.stage_endpoints.return_value = [
        {"address": address, "port": port}
    ]
    sock = site.connect()
    assert sock is not None
    with sock:
        # The worker gets the same open file description.
        assert sock.getblocking()
        assert sock.getpeername() == (address, port)
    site.conductor.stage_endpoints.assert_called_once_with("host", *WANTED)


def test_the_next_address_is_tried(site, listener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
    site.conductor.stage_endpoints.return_value = [
        {"address": address, "port": port}
        for address, port in (nobody, listener.getsockname())
    ]
    sock = site.connect()
    assert sock is not None
    sock.close()


@pytest.mark.parametrize("answer", [[], ConnectionError("no conductor")])
def test_without_an_address_there_is_no_connection(site, answer) -> None:
    site.conductor.stage_endpoints.side_effect = [answer]
    assert site.connect() is None
