# SPDX-License-Identifier: Apache-2.0

"""How long an opening with a fallback waits in all."""

from __future__ import annotations

import pytest

from fpgapool import client
from fpgapool.client import errors
from fpgapool.client.doors import frontdoor
from fpgapool.client.sessions import opening
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names


class Door:
    """A front door that hangs, and tells how long it was to be waited for."""

    connections = 1

    def __init__(self, limits_s: list[float | None]) -> None:
        self._limits_s = limits_s

    def request_all(self, _requests: object, limit_s: float | None) -> None:
        self._limits_s.append(limit_s)
        raise errors.OperationTimeout("no answer")

    def close(self) -> None:
        pass


class FullDoor(Door):
    """A front door to which a project's own accelerator is known.

    :param name: of the accelerator that is known as ``copy``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def request_all(self, requests: list, limit_s: float | None) -> list:
        return [{}, {"profile": {"name": self._name, "core": "copy"}}]

    def request(self, operation: str, *_args: object, **_members: object):
        raise errors.RequestRejected(codes.QUEUE_FULL, "no room")

    def give_up(self, **_session: str) -> None:
        pass


class KnownDoor(Door):
    """A front door with a path, and one accelerator, that refuses requests."""

    def __init__(self, path: str, schema: dict[str, object]) -> None:
        self.path = path
        self.schema = schema
        #: The operations, by message.
        self.asked: list[list[str]] = []

    def request_all(self, requests: list, limit_s: float | None) -> list:
        self.asked.append([operation for operation, _members in requests])
        if "open" in self.asked[-1]:
            raise errors.RequestRejected(codes.QUEUE_FULL, "no room")
        profile = {"name": "copy", "params_schema": self.schema}
        return [{"chunk_bytes": 4}, {"profile": profile}]

    def request(self, operation: str, *_args: object, **_members: object):
        self.request_all([(operation, {})], None)

    def give_up(self, **_session: str) -> None:
        pass


BOTH, ASKS, FIRST = ["hello", "open"], ["hello", "accelerator"], ["open"]


def test_what_is_known_of_an_accelerator_is_not_asked_again(
    monkeypatch,
) -> None:
    schema = {"type": "object", "additionalProperties": False}
    door = KnownDoor("known", schema)
    monkeypatch.setattr(frontdoor, "FrontDoor", lambda *_args: door)
    now_s = 1000.0
    monkeypatch.setattr(opening.time, "monotonic", lambda: now_s)

    def ask(**params: int) -> list[list[str]]:
        door.asked.clear()
        with pytest.raises(errors.RequestRejected) as caught:
            client.acc_open("copy", 1, params=params, front_door="known")
        assert caught.value.code == codes.QUEUE_FULL
        return door.asked

    monkeypatch.setattr(opening, "_profiles", {})
    assert ask() == [ASKS, FIRST]
    assert ask() == [BOTH]
    # A new version of the accelerator may take what the known one refuses.
    with pytest.raises(client.InvalidParams):
        ask(level=1)
    assert door.asked == [ASKS]
    door.schema = {"type": "object"}
    assert ask(level=1) == [ASKS, FIRST]
    assert ask(level=1) == [BOTH]
    now_s += 11.0
    assert ask() == [ASKS, FIRST]
    # An API, which has no path, is always asked.
    del door.path
    assert ask() == ask() == [ASKS, FIRST]


def test_the_cpu_does_not_stand_in_for_a_projects_own(monkeypatch) -> None:
    doors = {
        "public": FullDoor("copy"),
        "own": FullDoor(f"copy{names.SEPARATOR}project-a"),
    }
    monkeypatch.setattr(
        frontdoor, "FrontDoor", lambda path, *_args: doors[path]
    )
    options = {"fallback": "cpu"}
    with client.acc_open("copy", 1, front_door="public", **options) as session:
        assert session.fallback_reason == codes.QUEUE_FULL
    with pytest.raises(client.InvalidRequest) as caught:
        client.acc_open("copy", 1, front_door="own", **options)
    assert caught.value.code == codes.CORE_UNAVAILABLE
    assert "a project's bitstream" in caught.value.message


@pytest.mark.parametrize("wait_timeout_s", [None, 1.0])
def test_connecting_and_asking_have_one_limit(
    monkeypatch, wait_timeout_s: float | None
) -> None:
    limits_s: list[float | None] = []

    def connect(
        _path: str, _token: object, limit_s: float | None, _origin: object
    ) -> Door:
        limits_s.append(limit_s)
        return Door(limits_s)

    monkeypatch.setattr(frontdoor, "FrontDoor", connect)
    with pytest.raises(errors.OperationTimeout):
        client.acc_open(
            "copy",
            1,
            front_door="somewhere",
            fallback="cpu",
            wait_timeout_s=wait_timeout_s,
        )
    connecting_s, asking_s = limits_s
    assert connecting_s is not None
    assert connecting_s == asking_s
