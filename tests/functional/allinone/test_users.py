# SPDX-License-Identifier: Apache-2.0

"""Users of one project share a pool of real processes."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness
from tests.functional.api import harness as api

PROJECT = "lab"
ANN, BOB = f"ann:{PROJECT}", f"bob:{PROJECT}"


class Door:
    """The REST API, as users of one project see it."""

    def __init__(self, site: harness.Site) -> None:
        self._address = site.url.partition("://")[2].strip("/")

    def ask(self, *arguments: typing.Any) -> typing.Any:
        answer = api.ask(self._address, *arguments)
        assert answer.status < 300, answer
        return answer.document

    def open(self, token: str) -> str:
        wanted = {"accelerator": "copy", "claimed_bytes": 10**9}
        body = {"session": wanted}
        found = self.ask("POST", "/v1/sessions", token, body)
        return str(found["session"]["id"])

    def show(self, session_id: str) -> typing.Any:
        return self.ask("GET", f"/v1/sessions/{session_id}", ANN)["session"]

    def wait(self, session_id: str) -> None:
        """Wait until a session has its slot."""
        api.wait_for(
            lambda: self.show(session_id)["state"] == "READY", session_id
        )

    def close(self, session_id: str) -> None:
        self.ask("DELETE", f"/v1/sessions/{session_id}", ANN)

    def before(self, session_id: str) -> typing.Any:
        """Return what gets slots before a session."""
        path = f"/v1/share?session_id={session_id}"
        return self.ask("GET", path, ANN)["share"]["session"]

    def set_quota(self, **limits: int | None) -> None:
        path, body = f"/v1/quotas/{PROJECT}", {"quota": limits}
        found = self.ask("PUT", path, api.ADMIN_TOKEN, body)["quota"]
        for name, limit in limits.items():
            assert limit in (None, found[name]["limit"])


@pytest.fixture
def door(site: harness.Site) -> Iterator[Door]:
    door = Door(site)
    yield door
    door.set_quota(sessions_per_user=None, user_turns=None)
    for state in ("QUEUED", "PREPARING", "READY"):
        path = f"/v1/sessions?state={state}"
        for session in door.ask("GET", path, ANN)["sessions"]:
            door.close(session["id"])


def test_a_user_waits_at_its_limit_and_another_one_does_not(
    door: Door,
) -> None:
    door.set_quota(sessions_per_user=1)
    first, second, other = (door.open(user) for user in (ANN, ANN, BOB))
    door.wait(first)
    door.wait(other)
    waiting = door.show(second)
    assert waiting["state"] == "QUEUED"
    (reason,) = waiting["pending_reasons"]
    assert reason["code"] == "USER_SESSION_LIMIT"
    found = door.before(second)
    assert (found["user_slots"], found["user_limit"]) == (1, 1)
    door.close(first)
    door.wait(second)


def test_users_take_turns(door: Door) -> None:
    """Who has opened one session is before who has opened many."""
    door.set_quota(user_turns=1)
    held = [door.open(ANN) for _ in range(2)]
    for session_id in held:
        door.wait(session_id)
    flood = [door.open(ANN) for _ in range(2)]
    other = door.open(BOB)
    assert door.before(flood[0])["users_before"] == 1
    door.close(held[0])
    door.wait(other)
    assert {door.show(one)["state"] for one in flood} == {"QUEUED"}
